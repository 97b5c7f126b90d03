/* SPDX-License-Identifier: MIT */
/* Arenas that the program asks for: what of the memory is used, who it serves, what the commit
 * function sees, huge OS pages (by the seam), NUMA. */
#include "fixture.h"
#include "../suite.h"
#include "arena/policy.h"
#include "page/page.h"
#include "rt/message.h"

#define KIB 1024

static int n_errors, last_error;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
}
static char said[4000];
static void hear(const char *text, void *arg) {
  (void)arg;
  if (strlen(said) + strlen(text) < sizeof said) strcat(said, text);
}
static void set_up(void) {
  script_os();
  ck_assert(mi__option_set(mi_option_show_errors, 1));
  mi__message_register_output(hear, NULL);
  mi__message_register_error(count_error, NULL);
}

static char *reserve(size_t size) { /* of the test's own, at a multiple of 4 MiB */
  char *p = mmap(NULL, size + 4 * MI_MIB, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert_ptr_ne(p, MAP_FAILED);
  return mi__ptr_align_up(p, 4 * MI_MIB);
}
static struct mi__area area_of(void *start, size_t size) {
  return (struct mi__area){.start = start,
                           .size = size,
                           .is_committed = true,
                           .is_zero = true,
                           .exclusive = true,
                           .numa_node = -1};
}
static struct mi__arena *manage(const struct mi__area *area) {
  struct mi__arena *arena;
  ck_assert(mi__area_manage(SET, area, &arena));
  ck_assert_ptr_nonnull(arena);
  return arena;
}
static struct mi__span_request request_in(struct mi__arena *arena, size_t n) {
  struct mi__span_request request = span_request(n);
  request.only = arena;
  return request;
}
static bool alloc_in(struct mi__arena *arena, size_t n, struct mi__span *out) {
  struct mi__span_request request = request_in(arena, n);
  return mi__span_alloc(SET, &request, out);
}
static bool is_within(struct mi__span span, const char *start, size_t size) {
  return span.start >= start && span.start + span.n_slices * MI_SLICE_SIZE <= start + size;
}

/* ---- what is used ---- */

START_TEST(whole_slices_of_any_base) {
  static const size_t bases[] = {0, 1, 16, 4095, 4096, 65535, 65536, 1000000, 4 * 1024 * 1024 - 1};
  static const size_t sizes[] = {4096 * KIB, 4096 * KIB + 1, 5000001, 9 * 1024 * KIB, 300000000};
  set_up();
  for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      char *start = reserve(sizes[s] + bases[b] + KIB) + bases[b];
      struct mi__area area = area_of(start, sizes[s]);
      struct mi__arena *arena = manage(&area);
      size_t from = mi__align_up((uintptr_t)start, MI_SLICE_SIZE);
      size_t slices = (mi__align_down((uintptr_t)start + sizes[s], MI_SLICE_SIZE) - from) /
                      MI_SLICE_SIZE;
      size_t size;
      ck_assert_ptr_eq(mi__arena_range(arena, &size), (char *)from);
      ck_assert_uint_eq(size, slices * MI_SLICE_SIZE);
      ck_assert_ptr_eq(mi__arena_of_id(arena), arena);
      struct mi__span span;
      size_t n = 0;
      for (; alloc_in(arena, 1, &span); n++) {
        ck_assert(is_within(span, start, sizes[s]));
        ck_assert(span.zero);
        *span.start = 1;
      }
      ck_assert_uint_eq(n, slices);
    }
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(refused_memory) {
  set_up();
  char *start = reserve(64 * MI_MIB);
  struct mi__arena *arena;
  struct mi__area area = area_of(NULL, 64 * MI_MIB);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  ck_assert_ptr_null(arena);
  area = area_of(start, MI_ARENA_MIN_SIZE - 1);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  ck_assert_ptr_nonnull(strstr(said, "of 4194303 bytes cannot be managed: it is too small\n"));
  area = area_of((void *)(uintptr_t)(MI_ADDRESS_LIMIT - MI_MIB), 64 * MI_MIB);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  area = area_of(start, SIZE_MAX - 100);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  ck_assert_int_eq(n_errors, 4);
  ck_assert_int_eq(last_error, EINVAL);
  ck_assert_uint_eq(mi__load(&mi__arena_count, relaxed), 0);
  area = area_of(start, 16 * MI_MIB);
  (void)manage(&area);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  area = area_of(start + 12 * MI_MIB, 16 * MI_MIB);
  ck_assert(!mi__area_manage(SET, &area, &arena));
  ck_assert_ptr_nonnull(strstr(said, "it belongs to an arena"));
  area = area_of(start + 16 * MI_MIB, 16 * MI_MIB);
  (void)manage(&area);
  ck_assert_int_eq(n_errors, 6);
  ck_assert_ptr_null(mi__arena_of_id(start));
  ck_assert_ptr_null(mi__arena_of_id(NULL));
}
END_TEST

/* A block of the library that its owner hands over: all but the slice with its record. */
START_TEST(inside_of_a_block) {
  set_up();
  struct mi__span block = span_alloc(320);
  struct mi_page *page = mi__page_new_huge(&block, NULL);
  struct mi__area area = area_of(block.start, 20 * MI_MIB);
  struct mi__arena *arena = manage(&area);
  struct mi__span span;
  size_t n = 0;
  for (; alloc_in(arena, 1, &span); n++) ck_assert_ptr_ne(span.start, block.start);
  ck_assert_uint_eq(n, 319);
  ck_assert_int_eq(page->kind, MI_PAGE_HUGE);
  mi__page_forget_huge(page);
}
END_TEST

START_TEST(no_memory_for_records) {
  set_up();
  char *start = reserve(20 * MI_GRANULE_SIZE);
  struct mi__area area = area_of(start, 20 * MI_GRANULE_SIZE);
  struct mi__arena *arena;
  script_fail_map = -1;
  ck_assert(!mi__area_manage(SET, &area, &arena));
  ck_assert_int_eq(last_error, ENOMEM);
  script_fail_map = 0;
  (void)manage(&area);
}
END_TEST

/* Blocks of every size up to a tenth of the area: at least 80 % of it can be had, counted in block
 * sizes. The first page must not take it all. */
static size_t fill_with_pages(struct mi__arena *arena, size_t size, size_t *first) {
  unsigned bin = mi__bin_of(size);
  enum mi__page_kind kind = mi__page_kind_of_bin(bin);
  struct mi__span_request request = request_in(arena, mi__page_slices(kind));
  request.min_slices = mi__div_up(mi__bin_size(bin), MI_SLICE_SIZE);
  request.side = kind == MI_PAGE_SMALL ? MI_SIDE_LOW : MI_SIDE_HIGH;
  static struct mi__span spans[8000];
  size_t n = 0, blocks = 0;
  for (; mi__span_alloc(SET, &request, &spans[n]); n++)
    blocks += spans[n].n_slices * MI_SLICE_SIZE / mi__bin_size(bin);
  *first = n > 0 ? spans[0].n_slices : 0;
  for (size_t i = 0; i < n; i++) span_free(spans[i]);
  return blocks * mi__bin_size(bin);
}
static size_t fill_with_huge(struct mi__arena *arena, size_t size) {
  static struct mi__span spans[8000];
  size_t n = 0;
  while (alloc_in(arena, mi__div_up(size, MI_SLICE_SIZE), &spans[n])) n++;
  for (size_t i = 0; i < n; i++) span_free(spans[i]);
  return n * mi__div_up(size, MI_SLICE_SIZE) * MI_SLICE_SIZE;
}
START_TEST(four_fifths_are_usable) {
  static const size_t sizes[] = {4096, 4097, 4500, 5000, 6000, 7000, 8191, 10000, 12345, 16384,
                                 20000, 40000, 70000, 262144, 300000};
  size_t size = sizes[_i] * KIB;
  set_up();
  for (size_t base = 0; base < 4 * MI_MIB; base += 700001) {
    struct mi__area area = area_of(reserve(size + 4 * MI_MIB) + base, size);
    struct mi__arena *arena = manage(&area);
    for (unsigned bin = 1; bin < MI_BINS; bin++) {
      size_t block = mi__bin_size(bin), first;
      if (block == 0 || block > size / 10) continue;
      size_t usable = fill_with_pages(arena, block, &first);
      ck_assert_msg(usable >= size / 10 * 8, "%zu KiB at %zu: %zu of %zu bytes in blocks of %zu",
                    sizes[_i], base, usable, size, block);
      ck_assert_uint_le(first, size / MI_SLICE_SIZE / 4);
    }
    for (size_t block = 513 * KIB; block <= size / 10; block += block / 7) {
      size_t usable = fill_with_huge(arena, block);
      ck_assert_msg(usable >= size / 10 * 8, "%zu KiB at %zu: %zu of %zu bytes in blocks of %zu",
                    sizes[_i], base, usable, size, block);
    }
  }
}
END_TEST

/* ---- who it serves ---- */

START_TEST(exclusive_serves_those_only_who_name_it) {
  set_up();
  char *start = reserve(64 * MI_MIB) + 12345;
  struct mi__area area = area_of(start, 64 * MI_MIB);
  struct mi__arena *arena = manage(&area);
  for (size_t n = 1; n < 900; n = n * 3 + 1) {
    struct mi__span other = span_alloc(n), span;
    ck_assert_ptr_ne(span_arena(other), arena);
    ck_assert(alloc_in(arena, n, &span));
    ck_assert(is_within(span, start, 64 * MI_MIB));
    span_free(span);
  }
  struct mi__span span;
  /* Larger than arena_max_object_size, with arenas off, and with the OS off. */
  ck_assert(mi__option_set(mi_option_arena_max_object_size, 1024));
  ck_assert(mi__option_set(mi_option_disallow_arena_alloc, 1));
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  ck_assert(alloc_in(arena, 1000, &span));
  ck_assert(is_within(span, start, 64 * MI_MIB));
  for (size_t n = 1; n < 2000; n *= 2) {
    struct mi__span more;
    if (alloc_in(arena, n, &more)) ck_assert(is_within(more, start, 64 * MI_MIB));
  }
  while (alloc_in(arena, 1, &span)) ck_assert(is_within(span, start, 64 * MI_MIB));
  ck_assert(!alloc_in(arena, 1, &span));
}
END_TEST

START_TEST(alignments_in_an_exclusive_arena) {
  set_up();
  char *start = reserve(68 * MI_MIB) + 2 * MI_MIB;
  struct mi__area area = area_of(start, 64 * MI_MIB);
  struct mi__arena *arena = manage(&area);
  for (size_t align = 1; align < (size_t)1 << 32; align *= 2) {
    struct mi__span_request request = request_in(arena, 3);
    request.align_slices = align;
    struct mi__span span;
    bool fits = align <= 512; /* 32 MiB: there are two such places */
    bool got = mi__span_alloc(SET, &request, &span);
    if (fits) ck_assert(got);
    if (!got) continue;
    ck_assert(is_within(span, start, 64 * MI_MIB));
    ck_assert_uint_eq((uintptr_t)span.start % (align * MI_SLICE_SIZE), 0);
    span_free(span);
  }
  ck_assert_uint_eq(mi__load(&mi__arena_count, relaxed), 1);
}
END_TEST

/* disallow_os_alloc: what is larger than arena_max_object_size comes from the arena. */
START_TEST(nothing_from_the_os) {
  set_up();
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  ck_assert(mi__option_set(mi_option_arena_max_object_size, 1024));
  char *start = reserve(64 * MI_MIB);
  struct mi__area area = area_of(start, 64 * MI_MIB);
  area.exclusive = false;
  (void)manage(&area);
  ck_assert(is_within(span_alloc(500), start, 64 * MI_MIB));
  struct mi__span_request request = span_request(600);
  struct mi__span span;
  ck_assert(!mi__span_alloc(SET, &request, &span));
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 0));
  struct mi__span direct = span_alloc(600);
  ck_assert_uint_eq(direct.arena, 0);
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  bool zero;
  ck_assert(!mi__span_grow(SET, direct.start, 600, 601, 0, &zero));
  ck_assert_ptr_null(mi__span_remap(direct.start, 600, 6000, 1));
  span_free(direct);
}
END_TEST

/* ---- contents ---- */

START_TEST(zeros_are_believed) {
  set_up();
  char *start = reserve(16 * MI_MIB);
  memset(start, 0x77, 16 * MI_MIB);
  struct mi__area area = area_of(start, 16 * MI_MIB);
  area.is_zero = false;
  struct mi__arena *arena = manage(&area);
  struct mi__span span;
  ck_assert(alloc_in(arena, 5, &span));
  ck_assert(!span.zero);
  span_free(span);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_gt(counter_purged(), 0);
  ck_assert(alloc_in(arena, 256, &span));
  ck_assert(!span.zero); /* a file may be behind it */
}
END_TEST

START_TEST(pinned_memory_stays) {
  set_up();
  char *start = reserve(16 * MI_MIB);
  struct mi__area area = area_of(start, 16 * MI_MIB);
  area.is_pinned = true;
  struct mi__arena *arena = manage(&area);
  struct mi__span span;
  ck_assert(alloc_in(arena, 256, &span));
  ck_assert(span.pinned);
  span_fill(span, 5);
  span_free(span);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(counter_purged(), 0);
  ck_assert_int_eq(script_n_advice, 0);
  ck_assert(span_reads(span, 5));
}
END_TEST

/* Reserved without access by the program, and committed by us. */
START_TEST(committed_by_the_library) {
  set_up();
  char *start = reserve(64 * MI_MIB) + 777;
  mprotect(start - 777, 64 * MI_MIB + MI_SLICE_SIZE, PROT_NONE);
  struct mi__area area = area_of(start, 64 * MI_MIB);
  area.is_committed = false;
  mi__os_facts.overcommits = _i != 0;
  struct mi__arena *arena = manage(&area);
  struct mi__span spans[500];
  int n = 0;
  for (; alloc_in(arena, 8, &spans[n]); n++) {
    ck_assert(span_reads(spans[n], 0));
    span_fill(spans[n], 1);
  }
  ck_assert_int_ge(n, 127);
  for (int i = 0; i < n; i++) span_free(spans[i]);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  struct mi__span span;
  ck_assert(alloc_in(arena, 1000, &span));
  span_fill(span, 2);
}
END_TEST

/* ---- the commit function ---- */

#define FUN_SLICES 256 /* 16 MiB */
static char *fun_start;
static bool fun_usable[FUN_SLICES];
static int fun_commits, fun_decommits, fun_refuse;
static int fun_fail; /* the n-th commit from now; -1: all */
static bool fun_zero;
static bool commit_fun(bool commit, void *start, size_t size, bool *is_zero, void *arg) {
  ck_assert_ptr_eq(arg, &fun_start);
  size_t at = (size_t)((char *)start - fun_start);
  ck_assert_uint_eq(at % MI_SLICE_SIZE, 0);
  ck_assert_uint_eq(size % MI_SLICE_SIZE, 0);
  ck_assert_uint_gt(size, 0);
  ck_assert_uint_le(at + size, FUN_SLICES * MI_SLICE_SIZE);
  errno = 4321;
  if (commit && (fun_fail < 0 || (fun_fail > 0 && --fun_fail == 0))) return false;
  if (!commit && fun_refuse > 0) return false;
  *(commit ? &fun_commits : &fun_decommits) += 1;
  for (size_t i = at / MI_SLICE_SIZE; i < (at + size) / MI_SLICE_SIZE; i++) {
    ck_assert(fun_usable[i] != commit); /* nothing twice */
    fun_usable[i] = commit;
  }
  mprotect(start, size, commit ? PROT_READ | PROT_WRITE : PROT_NONE);
  if (commit && fun_zero) {
    *is_zero = true;
    memset(start, 0, size);
  }
  return true;
}
static struct mi__arena *manage_by_fun(bool is_committed, bool is_zero) {
  set_up();
  fun_start = reserve(FUN_SLICES * MI_SLICE_SIZE);
  for (size_t i = 0; i < FUN_SLICES; i++) fun_usable[i] = is_committed;
  if (!is_committed) mprotect(fun_start, FUN_SLICES * MI_SLICE_SIZE, PROT_NONE);
  struct mi__area area = area_of(fun_start, FUN_SLICES * MI_SLICE_SIZE);
  area.is_committed = is_committed;
  area.is_zero = is_zero;
  area.commit_fun = commit_fun;
  area.commit_arg = &fun_start;
  struct mi__arena *arena = manage(&area);
  ck_assert_int_eq(fun_commits, 0);
  errno = 77;
  return arena;
}

START_TEST(commit_and_decommit) {
  struct mi__arena *arena = manage_by_fun(false, true);
  struct mi__span a, b, c;
  ck_assert(alloc_in(arena, 8, &a) && alloc_in(arena, 64, &b) && alloc_in(arena, 100, &c));
  ck_assert(a.has_commit_fun && a.zero && b.zero && c.zero);
  ck_assert_int_eq(fun_commits, 3);
  span_fill(a, 1);
  span_fill(b, 2);
  span_fill(c, 3);
  ck_assert_int_eq(committed_now(), 172 * (int64_t)MI_SLICE_SIZE);
  span_free(b);
  ck_assert_int_eq(fun_decommits, 0);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_gt(fun_decommits, 0);
  ck_assert_int_eq(committed_now(), 108 * (int64_t)MI_SLICE_SIZE);
  ck_assert_int_eq(counter_purged(), 64 * (int64_t)MI_SLICE_SIZE);
  ck_assert_int_eq(script_n_advice, 0); /* no call of the OS's behind its back */
  ck_assert(alloc_in(arena, 64, &b));
  ck_assert(!b.zero); /* it did not say so */
  span_free(b);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  fun_zero = true;
  ck_assert(alloc_in(arena, 64, &b));
  ck_assert(b.zero);
  ck_assert(span_reads(b, 0));
  ck_assert(span_reads(a, 1) && span_reads(c, 3));
  span_free(a);
  span_free(b);
  span_free(c);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 0);
  ck_assert_int_eq(errno, 77);
  for (size_t i = 0; i < FUN_SLICES; i++) ck_assert(!fun_usable[i]);
}
END_TEST

START_TEST(commit_refused) {
  struct mi__arena *arena = manage_by_fun(false, true);
  struct mi__span a, b;
  ck_assert(alloc_in(arena, 8, &a));
  span_fill(a, 1);
  int64_t committed = committed_now();
  for (size_t n = 1; n < 200; n = n * 2 + 1) {
    struct mi__span_request request = request_in(arena, n);
    bool got = false; /* a search goes on elsewhere in the arena */
    fun_fail = -1;
    ck_assert(!mi__span_alloc(SET, &request, &b));
    ck_assert_int_eq(committed_now(), committed);
    for (int tries = 1; tries < 8 && !got; tries++) {
      fun_fail = tries;
      got = mi__span_alloc(SET, &request, &b);
      ck_assert_int_eq(committed_now(), committed + (got ? (int64_t)(n * MI_SLICE_SIZE) : 0));
      if (got) span_free(b);
      ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
      ck_assert_int_eq(committed_now(), committed);
    }
  }
  fun_fail = 0;
  ck_assert(alloc_in(arena, 248, &b));
  span_fill(b, 2);
  ck_assert(span_reads(a, 1));
  ck_assert_int_eq(errno, 77);
}
END_TEST

START_TEST(decommit_refused) {
  struct mi__arena *arena = manage_by_fun(false, true);
  struct mi__span a;
  ck_assert(alloc_in(arena, 8, &a));
  span_fill(a, 9);
  span_free(a);
  fun_refuse = 1;
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 8 * (int64_t)MI_SLICE_SIZE);
  ck_assert(alloc_in(arena, 8, &a));
  ck_assert_int_eq(fun_commits, 1); /* it still is */
  ck_assert(span_reads(a, 9));
  span_free(a);
  fun_refuse = 0;
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 0);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
}
END_TEST

START_TEST(committed_from_the_start) {
  struct mi__arena *arena = manage_by_fun(true, false);
  struct mi__span a, b;
  ck_assert(alloc_in(arena, 200, &a));
  ck_assert_int_eq(fun_commits, 0);
  ck_assert_int_eq(committed_now(), 200 * (int64_t)MI_SLICE_SIZE);
  ck_assert(!a.zero);
  span_fill(a, 1);
  span_free(a);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 0);
  int decommits = fun_decommits;
  ck_assert_int_gt(decommits, 0);
  ck_assert(alloc_in(arena, 256, &b)); /* 56 that never were away, 200 that are */
  ck_assert_int_gt(fun_commits, 0);
  ck_assert_int_eq(committed_now(), 256 * (int64_t)MI_SLICE_SIZE);
  span_fill(b, 2);
}
END_TEST

START_TEST(purged_at_the_free) { /* purge_delay 0 */
  struct mi__arena *arena = manage_by_fun(false, true);
  ck_assert(mi__option_set(mi_option_purge_delay, 0));
  struct mi__span a;
  ck_assert(alloc_in(arena, 8, &a));
  span_free(a);
  ck_assert_int_eq(fun_decommits, 1);
  ck_assert_int_eq(committed_now(), 0);
  ck_assert_int_eq(errno, 77);
}
END_TEST

/* A purge unit is larger than what is committed of it. */
START_TEST(purged_in_units) {
  struct mi__arena *arena = manage_by_fun(false, true);
  ck_assert(mi__option_set(mi_option_minimal_purge_size, 1024));
  struct mi__span a;
  ck_assert(alloc_in(arena, 8, &a));
  span_free(a);
  script_now += 1000;
  mi__arenas_tick(SET, 0);
  ck_assert_int_eq(fun_decommits, 1);
  ck_assert_int_eq(committed_now(), 0);
  ck_assert_int_eq(counter_purged(), 8 * (int64_t)MI_SLICE_SIZE);
}
END_TEST

/* ---- reserved ---- */

START_TEST(reserved_sizes) {
  set_up();
  struct mi__arena *arena;
  struct mi__span span;
  ck_assert_int_eq(mi__area_reserve(SET, 0, true, false, false, &arena), EINVAL);
  ck_assert_int_eq(mi__area_reserve(SET, SIZE_MAX, true, false, false, &arena), ENOMEM);
  ck_assert_int_eq(mi__area_reserve(SET, PTRDIFF_MAX, true, false, false, &arena), ENOMEM);
  ck_assert_ptr_null(arena);
  ck_assert_int_eq(mi__area_reserve(SET, 1, false, false, true, &arena), 0);
  ck_assert_uint_eq(arena->map_size, MI_ARENA_MIN_SIZE);
  ck_assert_int_eq(mi__area_reserve(SET, 5000000, true, false, true, &arena), 0);
  ck_assert_uint_eq(arena->map_size, 77 * MI_SLICE_SIZE);
  ck_assert(alloc_in(arena, 77, &span));
  span_fill(span, 1);
  ck_assert(mi__arenas_contain(span.start));
  script_fail_map = -1;
  ck_assert_int_eq(mi__area_reserve(SET, 5000000, true, false, true, &arena), ENOMEM);
  ck_assert_ptr_null(arena);
  script_fail_map = 0;
}
END_TEST

START_TEST(reserved_giants) {
  set_up();
  for (size_t gib = 16; gib <= 24; gib += 8) {
    struct mi__arena *arena;
    ck_assert_int_eq(mi__area_reserve(SET, gib * MI_GIB, false, false, true, &arena), 0);
    struct mi__span low, all;
    struct mi__span_request request = request_in(arena, 1);
    ck_assert(mi__span_alloc(SET, &request, &low));
    *low.start = 1;
    span_free(low);
    ck_assert(alloc_in(arena, gib * MI_GIB / MI_SLICE_SIZE, &all));
    all.start[gib * MI_GIB - 1] = 1;
    span_free(all);
  }
}
END_TEST

/* ---- huge and large OS pages, as a kernel would have them ---- */

static size_t huge_left; /* bytes of huge pages that can be had */
static int n_huge_maps;
static void *map_huge(void *hint, size_t size, int prot, int flags) {
  if ((flags & MAP_HUGETLB) == 0) return mmap(hint, size, prot, flags, -1, 0);
  n_huge_maps++;
  script_now += 100;
  if (size > huge_left) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  huge_left -= size;
  flags &= (1 << 26) - 1;
  char *p = mmap(NULL, size + MI_GIB, prot, (flags & ~MAP_HUGETLB) | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? p : mi__ptr_align_up(p, MI_GIB);
}
static void set_up_huge(size_t left) {
  set_up();
  mi__os_calls.map = map_huge;
  huge_left = left;
}

START_TEST(no_huge_pages) {
  set_up_huge(0);
  struct mi__arena *arena;
  errno = 77;
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 3, -1, 0, true, &arena), 0);
  ck_assert_ptr_null(arena);
  ck_assert_uint_eq(mi__area_reserve_huge(SET, SIZE_MAX, -1, 0, false, &arena), 0);
  ck_assert_uint_eq(mi__area_interleave_huge(SET, 5, 3, 0), 0);
  ck_assert_uint_eq(mi__area_interleave_huge(SET, 0, 0, 0), 0);
  ck_assert_int_eq(errno, 77);
  ck_assert_uint_eq(mi__load(&mi__arena_count, relaxed), 0);
  ck_assert_int_eq(mi__load(&mi__counters.reserved.current, relaxed), 0);
}
END_TEST

START_TEST(huge_pages) {
  set_up_huge(3 * MI_GIB);
  struct mi__arena *arena;
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 2, -1, 0, true, &arena), 2);
  ck_assert_uint_eq(arena->map_size, 2 * MI_GIB);
  ck_assert(arena->pinned && arena->exclusive);
  ck_assert_uint_eq((uintptr_t)arena->map_start % MI_GIB, 0);
  struct mi__span span;
  ck_assert(alloc_in(arena, 100, &span));
  ck_assert(span.pinned);
  span_fill(span, 1);
  span_free(span);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert(span_reads(span, 1));
}
END_TEST

START_TEST(as_many_huge_pages_as_there_are) {
  set_up_huge(7 * MI_GIB);
  struct mi__arena *arena;
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 10, -1, 0, false, &arena), 7);
  ck_assert_uint_eq(arena->map_size, 5 * MI_GIB);
  huge_left = 7 * MI_GIB;
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 10, -1, 0, true, &arena), 5);
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 10, -1, 0, true, &arena), 2);
  /* A limit of 250 ms, at 100 ms each try: 100 fails, 50 fails, 25 fails, and so on. */
  huge_left = MI_GIB;
  n_huge_maps = 0;
  ck_assert_uint_eq(mi__area_reserve_huge(SET, 100, -1, 250, false, &arena), 0);
  ck_assert_int_eq(n_huge_maps, 3);
}
END_TEST

START_TEST(huge_pages_by_option) {
  set_up_huge(2 * MI_GIB);
  mi__message_register_output(hear, NULL);
  ck_assert(mi__option_set(mi_option_reserve_huge_os_pages, 3));
  ck_assert(mi__option_set(mi_option_reserve_huge_os_pages_at, _i == 0 ? -1 : 0));
  mi__arenas_init();
  ck_assert_ptr_nonnull(strstr(said, "only 2 of 3 huge OS pages could be reserved\n"));
  struct mi__span span = span_alloc(1);
  ck_assert(span.pinned);
}
END_TEST

START_TEST(large_pages) {
  set_up_huge(64 * MI_MIB);
  ck_assert(mi__option_set(mi_option_arena_reserve, 65536));
  ck_assert(mi__option_set(mi_option_allow_large_os_pages, 2));
  struct mi__span span = span_alloc(1);
  ck_assert(span.pinned);
  *span.start = 1;
  struct mi__arena *arena;
  ck_assert_ptr_null(strstr(said, "large OS pages"));
  ck_assert_int_eq(mi__area_reserve(SET, 8 * MI_MIB, true, true, true, &arena), 0);
  ck_assert(!arena->pinned);
  ck_assert_ptr_nonnull(strstr(said, "warning: no large OS pages for an arena"));
  *said = 0;
  huge_left = 10 * MI_MIB;
  ck_assert_int_eq(mi__area_reserve(SET, 9 * MI_MIB, true, false, true, &arena), 0);
  ck_assert(!arena->pinned);
  ck_assert_int_eq(mi__area_reserve(SET, 9 * MI_MIB, true, true, true, &arena), 0);
  ck_assert(arena->pinned);
  ck_assert_uint_eq(arena->map_size, 10 * MI_MIB);
  ck_assert_int_eq(*said, 0);
  /* An arena for lack of room: told by the next pass, when no lock is held. */
  for (int i = 0; i < 20; i++) span_alloc(64);
  ck_assert_int_eq(*said, 0);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_ptr_nonnull(strstr(said, "warning: no large OS pages for an arena"));
}
END_TEST

/* ---- NUMA ---- */

static int n_reads;
static size_t read_nodes(const char *path, char *buf, size_t size) {
  n_reads++;
  if (strstr(path, "node") == NULL || size < 5) return 0;
  memcpy(buf, "0-3\n", 4);
  return 4;
}

START_TEST(nodes_are_counted_when_asked_for) {
  set_up();
  mi__os_calls.read_file = read_nodes;
  n_reads = 0;
  span_alloc(1);
  ck_assert_int_eq(n_reads, 0);
  ck_assert_int_eq(mi__numa_node(2), 2);
  ck_assert_int_eq(mi__numa_node(5), 1);
  ck_assert_int_ge(mi__numa_node(-1), 0);
  ck_assert(mi__option_set(mi_option_use_numa_nodes, 2));
  ck_assert_int_eq(mi__numa_node(2), 0);
  ck_assert(mi__option_set(mi_option_use_numa_nodes, 1));
  ck_assert_int_eq(mi__numa_node(2), -1);
  ck_assert(mi__option_set(mi_option_use_numa_nodes, 9));
  ck_assert_uint_eq(mi__numa_nodes(), 4);
}
END_TEST

static struct mi__arena *node_arena[2];
static void manage_nodes(void) {
  set_up();
  mi__os_calls.read_file = read_nodes;
  for (int node = 0; node < 2; node++) {
    struct mi__area area = area_of(reserve(16 * MI_MIB), 16 * MI_MIB);
    area.numa_node = node;
    area.exclusive = false;
    node_arena[node] = manage(&area);
  }
}
static struct mi__arena *arena_for(int node) {
  struct mi__span_request request = span_request(8);
  request.numa_node = node;
  struct mi__span span;
  return mi__span_alloc(SET, &request, &span) ? span_arena(span) : NULL;
}

START_TEST(a_node_is_preferred) {
  manage_nodes();
  ck_assert_ptr_eq(arena_for(-1), node_arena[0]);
  for (int i = 0; i < 32; i++) ck_assert_ptr_eq(arena_for(1), node_arena[1]);
  ck_assert_ptr_eq(arena_for(1), node_arena[0]); /* the other one is full */
  ck_assert_ptr_eq(arena_for(2), node_arena[0]);
  ck_assert_uint_eq(mi__load(&mi__arena_count, relaxed), 2);
  mi__os_calls.read_file = NULL;
}
END_TEST

START_TEST(a_node_is_required) {
  manage_nodes();
  ck_assert(mi__option_set(mi_option_arena_is_numa_local, 1));
  ck_assert_ptr_eq(arena_for(1), node_arena[1]);
  struct mi__arena *own = arena_for(3);
  ck_assert_ptr_ne(own, node_arena[0]);
  ck_assert_ptr_ne(own, node_arena[1]);
  ck_assert_int_eq(own->numa_node, 3);
  struct mi__arena *here = arena_for(-1);
  ck_assert_int_eq(here->numa_node, mi__numa_node(-1));
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("areas");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, whole_slices_of_any_base);
  tcase_add_test(tcase, refused_memory);
  tcase_add_test(tcase, inside_of_a_block);
  tcase_add_test(tcase, no_memory_for_records);
  tcase_add_loop_test(tcase, four_fifths_are_usable, 0, 15);
  tcase_add_test(tcase, exclusive_serves_those_only_who_name_it);
  tcase_add_test(tcase, alignments_in_an_exclusive_arena);
  tcase_add_test(tcase, nothing_from_the_os);
  tcase_add_test(tcase, zeros_are_believed);
  tcase_add_test(tcase, pinned_memory_stays);
  tcase_add_loop_test(tcase, committed_by_the_library, 0, 2);
  tcase_add_test(tcase, commit_and_decommit);
  tcase_add_test(tcase, commit_refused);
  tcase_add_test(tcase, decommit_refused);
  tcase_add_test(tcase, committed_from_the_start);
  tcase_add_test(tcase, purged_at_the_free);
  tcase_add_test(tcase, purged_in_units);
  tcase_add_test(tcase, reserved_sizes);
  if (sizeof(void *) > 4) {
    if (!mi_test_under_shadow()) tcase_add_test(tcase, reserved_giants);
    tcase_add_test(tcase, no_huge_pages);
    tcase_add_test(tcase, huge_pages);
    tcase_add_test(tcase, as_many_huge_pages_as_there_are);
    tcase_add_loop_test(tcase, huge_pages_by_option, 0, 2);
  }
  tcase_add_test(tcase, large_pages);
  tcase_add_test(tcase, nodes_are_counted_when_asked_for);
  tcase_add_test(tcase, a_node_is_preferred);
  tcase_add_test(tcase, a_node_is_required);
  return run_suite("arena/area", tcase);
}
