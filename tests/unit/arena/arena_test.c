/* SPDX-License-Identifier: MIT */
/* Spans: where they come from, what they hold, how they grow, and what happens when there is no
 * memory. */
#include "common.h"
#include "fixture.h"
#include "../suite.h"
#include <stdio.h>
#include <sys/resource.h>

/* The sanitizers map terabytes for themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS_WORK false
#elif defined(__has_feature)
#define LIMITS_WORK (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define LIMITS_WORK true
#endif

static size_t n_arenas(void) { return mi__load(&mi__arena_count, relaxed); }
static char *address_in(struct mi__span span, size_t slice) {
  return span.start + slice * MI_SLICE_SIZE;
}

static void check_hints(void) { /* BITMAP-3, at a quiet moment */
  for (size_t a = 0; a < n_arenas(); a++) {
    struct mi__bitmap *map = &mi__arena_table[a]->slices;
    for (uint32_t c = 0; c < map->n_chunks; c++) {
      uint64_t used = mi__load(&map->chunks[c].xused, relaxed);
      if (c < mi__load(&map->xlow, relaxed)) ck_assert_uint_eq(used, MI_CHUNK_FULL);
      if (c >= mi__load(&map->xhigh64, relaxed)) ck_assert_uint_ne(used, 0);
    }
  }
}

START_TEST(spans_of_all_sizes) {
  static const size_t sizes[] = {1, 8, 64, 1, 3, 17, 100, 1, 700, 2};
  static struct mi__span spans[300];
  int n = (int)mi_test_scale(100, 300);
  script_os();
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < n; i++) {
      spans[i] = span_alloc(sizes[i % 10]);
      if (round == 0) ck_assert(spans[i].zero);
      if (spans[i].zero && !span_reads(spans[i], 0)) ck_abort_msg("span %d is not zero", i);
      if (!mi__arenas_contain(address_in(spans[i], 0) + 5)) ck_abort_msg("span %d", i);
      span_fill(spans[i], i % 100 + 1);
    }
    for (int i = 0; i < n; i++) {
      if (!span_reads(spans[i], i % 100 + 1)) ck_abort_msg("span %d was overwritten", i);
    }
    for (int i = 0; i < n; i++) span_free(spans[i]);
    check_hints();
    ck_assert_uint_gt(mi__arenas_waiting(SET), 0);
    if (round == 1) ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
    if (round == 1) ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  }
  ck_assert(!mi__arenas_contain(&spans));
  ck_assert(!mi__arenas_contain(NULL));
}
END_TEST

START_TEST(small_from_below_others_from_above) {
  struct mi__span small = span_alloc(1), medium = span_alloc(8), large = span_alloc(64);
  ck_assert(small.start < medium.start);
  ck_assert(small.start < large.start);
  ck_assert_ptr_eq(span_alloc(1).start, small.start + MI_SLICE_SIZE);
  span_free(small);
  struct mi__span again = span_alloc(1);
  ck_assert_ptr_eq(again.start, small.start);
  ck_assert(!again.zero);
}
END_TEST

START_TEST(a_page_stays_in_its_granule) {
  for (int i = 0; i < 1000; i++) {
    struct mi__span_request request = span_request((size_t)i % 500 + 2);
    request.cross_granules = false;
    struct mi__span span;
    if (!mi__span_alloc(SET, &request, &span)) ck_abort();
    uintptr_t first = (uintptr_t)span.start, last = (uintptr_t)address_in(span, span.n_slices) - 1;
    if (first >> MI_GRANULE_SHIFT != last >> MI_GRANULE_SHIFT) ck_abort_msg("span %d", i);
  }
}
END_TEST

START_TEST(aligned_spans) { /* B05, the part of the arenas */
  for (size_t align = 1; align <= 1024; align *= 2) {
    for (size_t n = 1; n < 100; n += 24) {
      struct mi__span_request request = span_request(n);
      request.align_slices = align;
      struct mi__span span;
      ck_assert(mi__span_alloc(SET, &request, &span));
      ck_assert_uint_eq((uintptr_t)span.start % (align * MI_SLICE_SIZE), 0);
      span_fill(span, 1);
    }
  }
  struct mi__span_request request = span_request(1);
  struct mi__span span;
  for (unsigned bits = 40; bits < 64; bits++) {
    request.align_slices = (size_t)1 << (bits - MI_SLICE_SHIFT);
    ck_assert(!mi__span_alloc(SET, &request, &span));
  }
  request.align_slices = (size_t)1 << 47; /* 2^63 bytes */
  request.n_slices = request.min_slices = SIZE_MAX / MI_SLICE_SIZE;
  ck_assert(!mi__span_alloc(SET, &request, &span));
}
END_TEST

START_TEST(shorter_where_there_is_no_room) {
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384)); /* KiB: four chunks */
  struct mi__span first = span_alloc(1);
  for (int i = 0; i < 3; i++) span_alloc(64);
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  struct mi__span_request request = span_request(64);
  struct mi__span span;
  ck_assert(!mi__span_alloc(SET, &request, &span));
  request.min_slices = 8;
  ck_assert(mi__span_alloc(SET, &request, &span));
  ck_assert_uint_eq(span.n_slices, 63);
  ck_assert(!mi__span_alloc(SET, &request, &span));
  span_free(first);
}
END_TEST

START_TEST(arenas_follow_one_another) {
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384));
  char *seen[2000];
  for (int i = 0; i < 2000; i++) {
    struct mi__span span = span_alloc(8);
    ck_assert_uint_gt(span.arena, 0);
    seen[i] = span.start;
    *seen[i] = (char)i;
  }
  for (int i = 0; i < 2000; i++) ck_assert_int_eq(*seen[i], (char)i);
  ck_assert_uint_gt(n_arenas(), 4);
  ck_assert_uint_lt(n_arenas(), 30); /* 1000 MiB; each four are twice as large */
  check_hints();
}
END_TEST

START_TEST(grow_and_shrink_in_an_arena) {
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384));
  struct mi__span_request request = span_request(100);
  request.side = MI_SIDE_LOW;
  struct mi__span span;
  bool zero = false;
  ck_assert(mi__span_alloc(SET, &request, &span));
  ck_assert(mi__span_grow(SET, span.start, 100, 150, span.arena, &zero));
  ck_assert(zero);
  span.n_slices = 150;
  span_fill(span, 3);
  ck_assert(mi__span_shrink(SET, span.start, 150, 90, span.arena));
  ck_assert(mi__span_grow(SET, span.start, 90, 92, span.arena, &zero));
  ck_assert(!zero);
  request = span_request(10);
  request.side = MI_SIDE_LOW;
  struct mi__span next;
  ck_assert(mi__span_alloc(SET, &request, &next));
  ck_assert_ptr_eq(next.start, address_in(span, 92));
  ck_assert(!mi__span_grow(SET, span.start, 92, 93, span.arena, &zero));
  ck_assert(!mi__span_grow(SET, span.start, 92, 100000, span.arena, &zero));
  ck_assert(!mi__span_grow(SET, span.start, 92, SIZE_MAX, span.arena, &zero));
  span.n_slices = 92;
  ck_assert(span_reads(span, 3));
  span_free(next);
  ck_assert(mi__span_grow(SET, span.start, 92, 256, span.arena, &zero)); /* all there is */
  ck_assert(!mi__span_grow(SET, span.start, 256, 257, span.arena, &zero));
  mi__span_free(SET, span.start, 256, span.arena);
  ck_assert_ptr_eq(span_alloc(1).start, span.start);
}
END_TEST

START_TEST(straight_from_the_os) {
  ck_assert(mi__option_set(mi_option_arena_max_object_size, 1024)); /* KiB */
  ck_assert_uint_gt(span_alloc(16).arena, 0);
  struct mi__span span = span_alloc(17);
  ck_assert_uint_eq(span.arena, 0);
  ck_assert(span.zero);
  span_fill(span, 7);
  ck_assert(mi__arenas_contain(address_in(span, 16)));
  ck_assert(!mi__arenas_contain(address_in(span, 17)));
  char *moved = mi__span_remap(span.start, 17, 5000, 64);
  ck_assert_ptr_nonnull(moved);
  ck_assert(moved == span.start || !mi__arenas_contain(span.start));
  span.start = moved;
  ck_assert(span_reads(span, 7));
  span.n_slices = 5000;
  ck_assert(mi__arenas_contain(address_in(span, 4999)));
  ck_assert_int_eq(*address_in(span, 4999), 0);
  size_t granule = (uintptr_t)address_in(span, 4999) >> MI_GRANULE_SHIFT;
  ck_assert(mi__load(&mi__pagemap.directory[granule], relaxed) != 0); /* it has a record */
  ck_assert_ptr_eq(mi__span_remap(span.start, 5000, 17, 1), span.start);
  ck_assert(mi__span_shrink(SET, span.start, 17, 2, 0));
  ck_assert(!mi__arenas_contain(address_in(span, 2)));
  span.n_slices = 2;
  ck_assert(span_reads(span, 7));
  span_free(span);
  ck_assert(!mi__arenas_contain(span.start));
  ck_assert(mi__option_set(mi_option_disallow_arena_alloc, 1));
  ck_assert_uint_eq(span_alloc(1).arena, 0);
  ck_assert_uint_eq(span_alloc(64).arena, 0);
}
END_TEST

/* Where the next mapping goes, as the kernel might choose. */
static uintptr_t next_place;
static void *map_at_place(void *hint, size_t size, int prot, int flags) {
  if (next_place != 0 && size == 17 * MI_SLICE_SIZE) hint = (void *)next_place;
  return mmap(hint, size, prot, flags, -1, 0);
}
START_TEST(grown_over_the_end_of_a_granule) {
  if (mi_test_under_sanitizer("address")) return; /* its shadow lies there */
  script_os();
  ck_assert(mi__option_set(mi_option_disallow_arena_alloc, 1));
  mi__os_calls.map = map_at_place;
  next_place = 32 * MI_GRANULE_SIZE - 32 * MI_SLICE_SIZE;
  struct mi__span span = span_alloc(17);
  ck_assert_uint_eq((uintptr_t)span.start, next_place);
  bool zero;
  ck_assert(mi__span_grow(SET, span.start, 17, 5000, 0, &zero));
  span.n_slices = 5000;
  span_fill(span, 1);
  ck_assert(mi__load(&mi__pagemap.directory[32], relaxed) != 0);
  ck_assert(mi__load(&mi__pagemap.directory[33], relaxed) != 0);
  ck_assert(mi__arenas_contain(address_in(span, 4999)));
  span_free(span);
}
END_TEST

START_TEST(nothing_new_where_disallowed) {
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  struct mi__span_request request = span_request(1);
  struct mi__span span;
  errno = 77;
  ck_assert(!mi__span_alloc(SET, &request, &span));
  ck_assert_int_eq(errno, 77);
  ck_assert_uint_eq(n_arenas(), 0);
}
END_TEST

START_TEST(reserved_at_start) {
  mi__option_init();
  ck_assert(mi__option_set(mi_option_reserve_os_memory, 40 * 1024));
  mi__arenas_init();
  ck_assert_uint_eq(n_arenas(), 1);
  ck_assert_uint_eq(mi__arena_table[0]->map_size, 40 * MI_MIB);
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  for (int i = 0; i < 640; i++) span_fill(span_alloc(1), 1);
  struct mi__span_request request = span_request(1);
  struct mi__span span;
  ck_assert(!mi__span_alloc(SET, &request, &span));
}
END_TEST

/* ---- no memory ---- */

START_TEST(the_nth_mapping_fails) { /* E04, the part of the arenas */
  script_os();
  script_fail_map = _i;
  errno = 77;
  struct mi__span_request request = span_request(64);
  struct mi__span span;
  if (mi__span_alloc(SET, &request, &span)) span_fill(span, 1);
  ck_assert_int_eq(errno, 77);
  script_fail_map = 0;
  span_fill(span_alloc(64), 1);
}
END_TEST

START_TEST(no_mapping_at_all) {
  script_os();
  struct mi__span_request request = span_request(1);
  struct mi__span span;
  script_fail_map = -1;
  errno = 77;
  for (int i = 0; i < 3; i++) ck_assert(!mi__span_alloc(SET, &request, &span));
  ck_assert_int_eq(errno, 77);
  ck_assert_uint_eq(n_arenas(), 0);
  ck_assert_int_eq(mi__load(&mi__counters.reserved.current, relaxed), 0);
  ck_assert_int_eq(committed_now(), 0);
  script_fail_map = 0;
  span_fill(span_alloc(1), 1);
}
END_TEST

static size_t map_at_most;
static void *map_small(void *hint, size_t size, int prot, int flags) {
  if (size <= map_at_most) return mmap(hint, size, prot, flags, -1, 0);
  errno = ENOMEM;
  return MAP_FAILED;
}
START_TEST(halved_until_it_fits) {
  script_os();
  mi__os_calls.map = map_small;
  map_at_most = 100 * MI_MIB;
  struct mi__span span = span_alloc(64);
  ck_assert_uint_eq(span_arena(span)->map_size, 64 * MI_MIB);
  span_fill(span, 1);
  map_at_most = 3 * MI_MIB;                    /* less than the least arena */
  ck_assert_uint_gt(span_alloc(900).arena, 0); /* there is still room in the first */
  for (int i = 0; i < 60; i++) span_alloc(1);
  ck_assert_uint_eq(span_alloc(2).arena, 0);
}
END_TEST

START_TEST(opening_a_step_fails) {
  script_os();
  span_free(span_alloc(1));
  int64_t committed = committed_now();
  script_fail_protect = 1;
  struct mi__span span = span_alloc(64); /* from the next place */
  span_fill(span, 1);
  ck_assert_int_eq(committed_now(), committed + 64 * (int64_t)MI_SLICE_SIZE);
}
END_TEST

/* Fill address space to the limit with spans; how many bytes there were. */
static size_t fill_limited(size_t limit) {
  struct rlimit now;
  getrlimit(RLIMIT_AS, &now);
  now.rlim_cur = limit;
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &now), 0);
  struct mi__span span = span_alloc(1);
  span_fill(span, 1);
  ck_assert_uint_le(mi__arena_table[0]->map_size, limit / 4);
  void *others = mmap(NULL, limit / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert(others != MAP_FAILED); /* room for the rest of the program */
  munmap(others, limit / 2);
  static struct mi__span spans[20000];
  size_t n = 0, slices = 0;
  for (size_t size = 64; size > 0; size /= 8) {
    struct mi__span_request request = span_request(size);
    while (n < 20000 && mi__span_alloc(SET, &request, &spans[n])) slices += spans[n++].n_slices;
  }
  for (size_t i = 0; i < n; i++) span_free(spans[i]);
  span_fill(span_alloc(1), 2);
  return slices * MI_SLICE_SIZE;
}
START_TEST(limited_address_space) { /* E01, the part of the arenas: half of it can be used */
  size_t limit = (size_t)_i * 64 * MI_MIB;
  ck_assert_uint_ge(fill_limited(limit), limit / 2);
}
END_TEST

/* ---- commit ---- */

START_TEST(committed_span_by_span) {
  script_os();
  mi__os_facts.overcommits = false;
  struct mi__span a = span_alloc(8), b = span_alloc(64);
  ck_assert(span_arena(a)->needs_commit);
  span_fill(a, 1);
  span_fill(b, 2);
  ck_assert_int_eq(committed_now(), 72 * (int64_t)MI_SLICE_SIZE);
  script_fail_protect = 1;
  struct mi__span_request request = span_request(8);
  struct mi__span c;
  bool got = mi__span_alloc(SET, &request, &c);
  ck_assert_int_eq(committed_now(), (got ? 80 : 72) * (int64_t)MI_SLICE_SIZE);
  script_fail_protect = 0;
  if (got) span_free(c);
  span_free(b);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 8 * (int64_t)MI_SLICE_SIZE);
  struct mi__span again = span_alloc(64);
  ck_assert(again.zero);
  ck_assert(span_reads(again, 0));
  span_fill(again, 4);
  ck_assert(span_reads(a, 1));
}
END_TEST

static bool alloc_in_parts(struct mi__span *out) {
  struct mi__span_request request = span_request(64);
  request.min_slices = 2;
  request.in_parts = true;
  return mi__span_alloc(SET, &request, out);
}
START_TEST(committed_in_parts) {
  script_os();
  mi__os_facts.overcommits = false;
  struct mi__span span;
  ck_assert(alloc_in_parts(&span));
  ck_assert(!span.in_parts);
  span_free(span);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert(mi__option_set(mi_option_page_commit_on_demand, _i));
  ck_assert(alloc_in_parts(&span));
  ck_assert(span.in_parts && span.zero);
  ck_assert_uint_eq(span.n_slices, 64);
  ck_assert_int_eq(committed_now(), 2 * (int64_t)MI_SLICE_SIZE);
  memset(span.start, 1, 2 * MI_SLICE_SIZE);
  char *from = span.start + 100 * 1024, *to = from + 200 * 1024; /* touches slices 1 to 4 */
  script_fail_protect = 1;
  ck_assert(!mi__span_commit(span.arena, from, to));
  ck_assert_int_eq(committed_now(), 2 * (int64_t)MI_SLICE_SIZE);
  ck_assert(mi__span_commit(span.arena, from, to));
  ck_assert_int_eq(committed_now(), 5 * (int64_t)MI_SLICE_SIZE);
  ck_assert(mi__span_commit(span.arena, from, to));
  ck_assert_int_eq(committed_now(), 5 * (int64_t)MI_SLICE_SIZE);
  memset(from, 2, 200 * 1024);
  span_free(span);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 5 * MI_SLICE_SIZE);
  ck_assert(alloc_in_parts(&span)); /* some of it dirty */
  ck_assert(span.in_parts && !span.zero);
  ck_assert_int_eq(committed_now(), 5 * (int64_t)MI_SLICE_SIZE);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  span_free(span);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  ck_assert_int_eq(committed_now(), 0);
  ck_assert(alloc_in_parts(&span));
  ck_assert(span.zero);
  script_fail_protect = 1;
  struct mi__span other;
  if (alloc_in_parts(&other)) span_free(other);
  ck_assert(mi__span_commit(span.arena, span.start, span.start + 64 * MI_SLICE_SIZE));
  span_fill(span, 3);
}
END_TEST

static size_t count_maps(void) {
  FILE *f = fopen("/proc/self/maps", "r");
  size_t lines = 0;
  for (int c; (c = fgetc(f)) != EOF;) lines += c == '\n';
  fclose(f);
  return lines;
}
/* E02, the part of the arenas: each second span freed and purged, 20 times in a long run. */
START_TEST(few_mappings) {
  mi__os_init();
  span_free(span_alloc(1));
  size_t before = count_maps(), most = 0;
  static struct mi__span spans[4096];
  for (size_t round = 0; round < mi_test_scale(6, 20); round++) {
    for (int i = 0; i < 4096; i++) {
      if (round == 0 || i % 2 == 0) spans[i] = span_alloc(1);
      *spans[i].start = 1;
    }
    for (int i = 0; i < 4096; i += 2) span_free(spans[i]);
    ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
    if (count_maps() > most) most = count_maps();
  }
  ck_assert_uint_le(most, before + 20);
}
END_TEST

START_TEST(free_arenas_go_at_exit) {
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384));
  struct mi__span kept = span_alloc(64), others[10];
  for (int i = 0; i < 10; i++) others[i] = span_alloc(64);
  ck_assert_uint_ge(n_arenas(), 3);
  for (int i = 0; i < 10; i++) span_free(others[i]);
  span_fill(kept, 9);
  mi__arenas_destroy_free(SET);
  ck_assert(span_reads(kept, 9));
  ck_assert(mi__arenas_contain(kept.start));
  ck_assert(!mi__arenas_contain(others[9].start));
  ck_assert_int_eq(committed_now(), 64 * 4 * (int64_t)MI_SLICE_SIZE);
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  span_fill(span_alloc(64), 1); /* and still works */
  span_fill(span_alloc(300), 1);
}
END_TEST

static void add_line(void *text, const char *line) { strcat(text, line); }
START_TEST(printed_arenas) {
  char text[4000] = "";
  span_alloc(8);
  span_free(span_alloc(1));
  mi__arenas_print(add_line, text);
  ck_assert_msg(strstr(text, "8 used, 9 committed, 1 to be purged") != NULL, "%s", text);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("spans");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, spans_of_all_sizes);
  tcase_add_test(tcase, small_from_below_others_from_above);
  tcase_add_test(tcase, a_page_stays_in_its_granule);
  tcase_add_test(tcase, aligned_spans);
  tcase_add_test(tcase, shorter_where_there_is_no_room);
  tcase_add_test(tcase, arenas_follow_one_another);
  tcase_add_test(tcase, grow_and_shrink_in_an_arena);
  tcase_add_test(tcase, straight_from_the_os);
  tcase_add_test(tcase, grown_over_the_end_of_a_granule);
  tcase_add_test(tcase, nothing_new_where_disallowed);
  tcase_add_test(tcase, reserved_at_start);
  tcase_add_loop_test(tcase, the_nth_mapping_fails, 1, 12);
  tcase_add_test(tcase, no_mapping_at_all);
  tcase_add_test(tcase, halved_until_it_fits);
  tcase_add_test(tcase, opening_a_step_fails);
  if (LIMITS_WORK) tcase_add_loop_test(tcase, limited_address_space, 2, 9);
  tcase_add_test(tcase, committed_span_by_span);
  tcase_add_loop_test(tcase, committed_in_parts, 1, 3);
  tcase_add_test(tcase, few_mappings);
  tcase_add_test(tcase, free_arenas_go_at_exit);
  tcase_add_test(tcase, printed_arenas);
  return run_suite("arena/arena", tcase);
}
