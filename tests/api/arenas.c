/* SPDX-License-Identifier: MIT */
/* Memory that a program reserves or hands over, seen from outside: what of it is usable, which
 * answers bad input gets, what the functions tell. Each case is a run of its own with
 * disallow_os_alloc, so that all blocks come from the arenas of the case. */
#include "env/frame.h"
#include <errno.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

static struct env_run run;
static char area[40 * 1024 * 1024];

static bool is_in_area(const char *p, size_t size) {
  return p >= area && size <= sizeof(area) && p <= area + sizeof(area) - size;
}

/* ---- the second runs ---- */

/* "size base block": blocks until NULL; at least 80 % of the area, counted in block sizes. */
static int fill(const char *arg) {
  char *end;
  size_t size = strtoul(arg, &end, 10), base = strtoul(end, &end, 10);
  size_t block = strtoul(end, NULL, 10), sum = 0;
  CHECK(base + size <= sizeof(area));
  CHECK(mi_manage_os_memory(area + base, size, true, false, true, -1));
  char *first = mi_malloc(1); /* other sizes take their share, and get it */
  CHECK(first != NULL && is_in_area(first, 1));
  char *last = NULL, *p;
  for (; (p = mi_malloc(block)) != NULL; last = p) {
    CHECK(p >= area + base && p + block <= area + base + size);
    CHECK(mi_usable_size(p) >= block);
    memcpy(p, &last, block < sizeof(last) ? block : sizeof(last));
    if (block > sizeof(last)) p[block - 1] = 1;
    sum += mi_usable_size(p) + (mi_test_tracked() ? 32 : 0);
  }
  CHECK(errno == ENOMEM);
  /* With a trailer sizes are less even, and some fall into the next size class. */
  if (sum < size / 10 * (mi_test_tracked() ? 6 : 8)) {
    fprintf(stderr, "%s: %zu of %zu bytes\n", arg, sum, size);
    return 1;
  }
  if (block < 1000) return 0; /* a checking build walks long lists at each free */
  for (p = last; p != NULL; p = last) {
    memcpy(&last, p, sizeof(last));
    mi_free(p);
  }
  p = mi_malloc(block);
  CHECK(p != NULL && is_in_area(p, block));
  return 0;
}

/* Blocks of eleven sizes, from 3 bytes to 236 KiB, in the least area there is. */
static int mix(void) {
  CHECK(mi_manage_os_memory(area + 77, 4 * MIB, true, false, true, -1));
  for (size_t size = 3; size <= 4 * MIB / 10; size = size * 3 + 1) {
    char *p = mi_malloc(size);
    CHECK(p != NULL && is_in_area(p, size));
    memset(p, 1, size);
  }
  return 0;
}

/* Alignments: met inside of the area, or NULL. */
static int align(void) {
  CHECK(mi_manage_os_memory(area + 1, sizeof(area) - 1, true, false, true, -1));
  for (size_t a = 1; a <= (size_t)1 << 40; a *= 2)
    for (size_t size = 1; size <= 32 * MIB; size *= 8) {
      char *p = mi_malloc_aligned(size, a);
      char *q = mi_malloc_aligned_at(size + 40, a, 40);
      if (a <= 8 * MIB && size <= 8 * MIB) CHECK(p != NULL);
      CHECK(p == NULL || (is_in_area(p, size) && (uintptr_t)p % a == 0));
      CHECK(q == NULL || (is_in_area(q, size + 40) && (uintptr_t)(q + 40) % a == 0));
      if (p != NULL) p[0] = p[size - 1] = 1;
      if (q != NULL) q[0] = q[size + 39] = 1;
      mi_free(p);
      mi_free(q);
    }
  return 0;
}

/* Without an arena there is nothing; with one there is. */
static int reserve(void) {
  CHECK(mi_malloc(1) == NULL && errno == ENOMEM);
  errno = 77;
  mi_arena_id_t id, second;
  CHECK(mi_reserve_os_memory_ex(10 * MIB, false, false, false, &id) == 0 && id != NULL);
  size_t size = 0;
  char *start = mi_arena_area(id, &size);
  CHECK(start != NULL && size >= 10 * MIB && mi_arena_area(id, NULL) == start);
  CHECK(mi_arena_contains(id, start) && mi_arena_contains(id, start + size - 1));
  CHECK(!mi_arena_contains(id, start + size) && !mi_arena_contains(id, start - 1));
  CHECK(errno == 77);
  char *p = mi_calloc(9, MIB);
  CHECK(p != NULL && mi_arena_contains(id, p) && mi_arena_contains(id, p + 9 * MIB - 1));
  CHECK(mi_malloc(9 * MIB) == NULL);
  CHECK(mi_reserve_os_memory_ex(10 * MIB, true, true, true, &second) == 0); /* exclusive */
  CHECK(mi_malloc(9 * MIB) == NULL);
  CHECK(mi_reserve_os_memory(10 * MIB, true, true) == 0);
  p = mi_malloc(9 * MIB);
  CHECK(p != NULL && !mi_arena_contains(id, p) && !mi_arena_contains(second, p));
  mi_arenas_print();
  mi_debug_show_arenas();
  return 0;
}

static int giants(void) {
  for (size_t gib = 16; gib <= 24; gib += 8) {
    mi_arena_id_t id;
    CHECK(mi_reserve_os_memory_ex(gib * GIB, false, false, false, &id) == 0);
    char *p = mi_malloc(gib * GIB - 2 * MIB), *q = mi_malloc(MIB);
    CHECK(p != NULL && mi_arena_contains(id, p) && mi_arena_contains(id, p + gib * GIB - 3 * MIB));
    CHECK(q != NULL);
    p[0] = p[gib * GIB - 2 * MIB - 1] = 1;
    memset(q, 1, MIB);
    CHECK(mi_malloc(2 * GIB) == NULL);
  }
  return 0;
}

/* ---- the first run ---- */

static void expect(const char *mode, const char *arg) {
  env_run(&run, ENV("MIMALLOC_DISALLOW_OS_ALLOC=1"), mode, arg);
  ENV_CHECK(&run, run.status == 0, "%s %s", mode, arg == NULL ? "" : arg);
}

static void check_fill(size_t size, size_t base) {
  static const size_t blocks[] = { 8, 40, 1000, 5 * 1024, 40 * 1024, 100 * 1024, 217 * 1024,
    400 * 1024, 700 * 1024, 3 * 1024 * 1024 };
  for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
    char text[100];
    if (blocks[i] > size / 10) break;
    snprintf(text, sizeof(text), "%zu %zu %zu", size, base, blocks[i]);
    expect("fill", text);
  }
}

static int n_errors, last_error;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
}

static void check_answers(void) {
  mi_arena_id_t id = area;
  size_t size = 77;
  CHECK(mi_arena_min_alignment() == 64 * KIB);
  CHECK(mi_arena_min_size() == 4 * MIB);
  CHECK(mi_arena_max_object_size() == mi_option_get_size(mi_option_arena_max_object_size));
  CHECK(mi_arena_area(NULL, &size) == NULL && size == 0);
  CHECK(mi_arena_area(area, NULL) == NULL && !mi_arena_contains(area, area));
  CHECK(!mi_arena_contains(NULL, area));
  mi_register_error(count_error, NULL);
  CHECK(!mi_manage_os_memory_ex(area, 4 * MIB - 1, true, false, true, -1, true, &id));
  CHECK(id == NULL && n_errors == 1 && last_error == EINVAL);
  CHECK(!mi_manage_os_memory(NULL, 4 * MIB, true, false, true, -1));
  CHECK(!mi_manage_memory(area, SIZE_MAX, true, false, true, -1, true, NULL, NULL, NULL));
  CHECK(n_errors == 3);
  CHECK(mi_reserve_os_memory(0, true, true) == EINVAL);
  CHECK(mi_reserve_os_memory(PTRDIFF_MAX, true, true) == ENOMEM);
  CHECK(mi_reserve_huge_os_pages_at(0, 0, 0) == 0);
  CHECK(mi_reserve_huge_os_pages_at(SIZE_MAX, 0, 1) == ENOMEM);
  CHECK(mi_reserve_huge_os_pages_interleave(SIZE_MAX, 0, 1) == ENOMEM);
  size_t pages = 77;
  CHECK(mi_reserve_huge_os_pages(SIZE_MAX, 0.001, &pages) == ENOMEM && pages == 0);
  CHECK(mi_reserve_huge_os_pages(0, -1.0, NULL) == 0);
  mi_register_error(NULL, NULL);
}

/* Few machines have huge pages to give; where there are some, all that is known is that the answer
 * fits what was given. */
static void check_huge_pages(void) {
  mi_arena_id_t id = area;
  size_t pages = 77, size = 0;
  int err = mi_reserve_huge_os_pages_at_ex(1, -1, 100, true, &id);
  CHECK(err == 0 ? id != NULL && mi_arena_area(id, &size) != NULL && size == GIB
                 : err == ENOMEM && id == NULL);
  err = mi_reserve_huge_os_pages(1, 0.1, &pages);
  CHECK(err == 0 ? pages == 1 : err == ENOMEM && pages == 0);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "fill") == 0) return fill(argv[2]);
  if (argc == 2 && strcmp(argv[1], "mix") == 0) return mix();
  if (argc == 2 && strcmp(argv[1], "align") == 0) return align();
  if (argc == 2 && strcmp(argv[1], "reserve") == 0) return reserve();
  if (argc == 2 && strcmp(argv[1], "giants") == 0) return giants();
  check_answers();
  check_fill(4 * MIB, 0);
  check_fill(4 * MIB, 12345);
  check_fill(4 * MIB + 5, 65535);
  check_fill(32 * MIB, 4 * MIB - 1);
  expect("mix", NULL);
  expect("align", NULL);
  expect("reserve", NULL);
  ENV_CHECK(&run, env_count(run.err, "arena 0: ") == 2, "two lists");
  ENV_CHECK(&run, env_count(run.err, ", exclusive\n") == 2, "of three arenas, one exclusive");
  if (sizeof(void *) < 8) return 0;
  check_huge_pages();
  if (!mi_test_under("thread") && !mi_test_under("address")) expect("giants", NULL);
  return 0;
}
