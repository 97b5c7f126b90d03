/* SPDX-License-Identifier: MIT */
/* F09 heap-in-arena-no-extra-mapping: heaps in an exclusive arena, in two threads: their blocks lie
 * there and nowhere else, nobody else's do; when it is full: NULL; the address space does not grow.
 * The process's own first arena (1 GiB of addresses, reserved at its first allocation, whoever makes
 * that) and the stacks of the two threads are there before the measurement. From then on the arena
 * and its records are mapped (64 MiB and 0.6 MiB), and for heaps, theaps and blocks nothing at all.
 * A heap that is deleted leaves its blocks there, and nothing is allocated beside them. */
#include "thread/heaps.h"

enum { SIZE = 64 << 20, MAX_BLOCKS = 200000 };
static mi_arena_id_t arena;
static char *area;
static size_t area_size;

static bool inside(const void *p) { return (uintptr_t)p - (uintptr_t)area < area_size; }

struct filler {
  mi_heap_t *heap;
  void *blocks[MAX_BLOCKS];
  size_t n, bytes, max; /* max: bytes after which it stops; 0: when the arena is full */
};
static struct filler fillers[2];

static const size_t sizes[] = {1000, 64, 8000, 40000, 300000, 24, 1 << 20, 5000};
static void *fill(void *arg) {
  struct filler *f = arg;
  f->heap = mi_heap_new_in_arena(arena);
  CHECK(f->heap != NULL);
  size_t failed = 0;
  for (size_t i = 0; f->n < MAX_BLOCKS && failed < 8 && (f->max == 0 || f->bytes < f->max); i++) {
    size_t size = sizes[i % 8];
    errno = 0;
    char *p = i % 5 == 0 ? mi_heap_malloc_aligned(f->heap, size, 256) : mi_heap_malloc(f->heap, size);
    if (p == NULL) {
      CHECK(errno == ENOMEM);
      failed++;
      continue;
    }
    failed = 0;
    if (!inside(p) || !inside(p + size - 1) || mi_heap_of(p) != f->heap) FAIL("block %p of %zu bytes", (void *)p, size);
    p[0] = p[size - 1] = 3;
    f->blocks[f->n++] = p;
    f->bytes += size;
  }
  if (f->max > 0) return NULL;
  CHECK(failed == 8 && mi_heap_malloc_aligned(f->heap, 100, 64 << 20) == NULL);
  CHECK(mi_heap_malloc(f->heap, 100 << 20) == NULL);
  return NULL;
}
static void check_nobody_else(void) {
  static const size_t others[] = {16, 64, 1000, 5000, 40000, 300000, 1 << 20};
  void *p[7 * 20];
  mi_heap_t *heap = mi_heap_new();
  for (size_t i = 0; i < 7 * 20; i++) {
    p[i] = i % 2 ? malloc(others[i % 7]) : mi_heap_malloc(heap, others[i % 7]);
    if (p[i] == NULL || inside(p[i])) FAIL("block %p of another heap", p[i]);
  }
  for (size_t i = 0; i < 7 * 20; i++) free(p[i]);
  mi_heap_destroy(heap);
}

/* So many of each size that pages with room would be looked for everywhere. */
static void check_main_takes_none(void) {
  enum { MAX = 4000 };
  static void *p[MAX];
  for (int s = 0; s < 8; s++) {
    size_t n = (4 << 20) / sizes[s] + 8;
    if (n > MAX) n = MAX;
    for (size_t i = 0; i < n; i++) {
      p[i] = malloc(sizes[s]);
      if (p[i] == NULL || inside(p[i])) FAIL("block %p of %zu bytes of the main heap", p[i], sizes[s]);
    }
    for (size_t i = 0; i < n; i++) free(p[i]);
  }
}

static void *free_blocks(void *arg) {
  struct filler *f = arg;
  for (size_t i = 1; i < f->n; i += 2) free(f->blocks[i]);
  return NULL;
}

static pthread_barrier_t both;
static void *meet(void *arg) {
  pthread_barrier_wait(&both);
  return arg;
}
/* The C library keeps the stacks of threads that have ended. */
static void have_two_stacks(void) {
  pthread_t t[2];
  pthread_barrier_init(&both, NULL, 2);
  for (int k = 0; k < 2; k++) t[k] = start(meet, NULL);
  for (int k = 0; k < 2; k++) join(t[k]);
}
static void check_space(const char *when, size_t before, size_t wanted) {
  size_t now = behave_virtual();
  if (!BEHAVE_SANITIZED && now > before + wanted + 4 * BEHAVE_MiB)
    FAIL("%s: %zu KiB more are mapped, of which %zu are the arena", when, (now - before) / 1024, wanted / 1024);
}

static void fill_both(void) {
  pthread_t t[2];
  for (int k = 0; k < 2; k++) {
    fillers[k] = (struct filler){.max = 0};
    t[k] = start(fill, &fillers[k]);
  }
  for (int k = 0; k < 2; k++) join(t[k]);
}

int main(void) {
  mi_test_not_tracked();
  behave_limit(100);
  mi_option_set(mi_option_show_errors, 0);
  free(malloc(100));
  have_two_stacks();
  size_t at_first = behave_virtual();
  CHECK(mi_reserve_os_memory_ex(SIZE, true, false, true, &arena) == 0 && arena != NULL);
  area = mi_arena_area(arena, &area_size);
  CHECK(area != NULL && area_size >= SIZE);
  size_t space = behave_virtual();
  check_space("reserved", at_first, area_size);
  fill_both();
  check_space("filled by two threads", at_first, area_size);
  check_space("filled by two threads", space, 0);
  size_t bytes = fillers[0].bytes + fillers[1].bytes;
  printf("%zu of %zu bytes in blocks\n", bytes, area_size);
  CHECK(bytes >= area_size / 10 * 8);
  check_nobody_else();

  /* destroyed: all of it serves the next heap of the arena */
  for (int k = 0; k < 2; k++) mi_heap_destroy(fillers[k].heap);
  check_nobody_else();
  for (int k = 0; k < 2; k++) {
    fillers[k] = (struct filler){.max = k == 0 ? bytes / 2 : 0};
    in_thread(fill, &fillers[k]);
  }
  CHECK(fillers[0].bytes + fillers[1].bytes >= bytes / 10 * 9);

  /* deleted: blocks stay, and their pages only drain */
  mi_heap_delete(fillers[0].heap);
  for (size_t i = 0; i < fillers[0].n; i++) CHECK(mi_heap_of(fillers[0].blocks[i]) == mi_heap_main());
  for (size_t i = 0; i < fillers[0].n; i += 2) free(fillers[0].blocks[i]);
  check_nobody_else();
  check_main_takes_none();
  in_thread(free_blocks, &fillers[0]);
  check_nobody_else();
  /* of a thread that is there: pages go another way */
  struct filler *mine = &fillers[0];
  *mine = (struct filler){.max = bytes / 4};
  fill(mine);
  mi_heap_delete(mine->heap);
  for (size_t i = 0; i < mine->n; i += 2) free(mine->blocks[i]);
  check_main_takes_none();
  free_blocks(mine);
  mi_collect(true);

  /* what drained is the arena's again */
  struct filler *again = &fillers[0];
  *again = (struct filler){.max = 0};
  in_thread(fill, again);
  CHECK(again->bytes >= bytes / 10 * 4);
  mi_heap_destroy(again->heap);
  mi_heap_destroy(fillers[1].heap);

  /* not exclusive: it has its own blocks there all the same */
  mi_arena_id_t common = NULL;
  CHECK(mi_reserve_os_memory_ex(8 << 20, true, false, false, &common) == 0);
  mi_heap_t *heap = mi_heap_new_in_arena(common);
  CHECK(heap != NULL);
  for (int i = 0; i < 100; i++) CHECK(mi_arena_contains(common, mi_heap_malloc(heap, 10000)));
  CHECK(mi_heap_malloc(heap, 9 << 20) == NULL);
  mi_heap_destroy(heap);
  static char stranger[4096];
  errno = 0;
  CHECK(mi_heap_new_in_arena(stranger) == NULL && errno == EINVAL);
  errno = 0;
  CHECK(mi_heap_new_in_arena(NULL) == NULL && errno == EINVAL);
  return 0;
}
