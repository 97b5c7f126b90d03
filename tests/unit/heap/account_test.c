/* SPDX-License-Identifier: MIT */
/* src/heap/account.c, and how theaps merge what they counted: what is counted when, and that it adds
 * up whoever frees, in whatever order counts arrive. */
#include "fixture.h"
#include "heap/account.h"
#include "heap/registry.h"

enum { BLOCK = 8 * 1024, PER_PAGE = 8 };

static struct mi__heap_counters *main_counters(void) { return &mi__heap_main.counters; }
static struct mi__gauge_values blocks_of(size_t size) {
  return mi__gauge_read(&main_counters()->bins[mi__bin_of(size)].blocks);
}
static int64_t live(size_t size) { return blocks_of(size).current; }
static int64_t bytes(void) { return mi__gauge_read(&main_counters()->blocks).current; }
static void merge(void) { mi__thread_merge_counters(mi__thread_self(false)); }

/* ---- single functions ---- */

START_TEST(pages_come_and_go) {
  struct mi_page page = {.bin = 12, .kind = MI_PAGE_SMALL, .block_size = 128};
  mi__account_page(&mi__heap_main, &page, 1);
  mi__account_page(&mi__heap_main, &page, 1);
  mi__account_page(&mi__heap_main, &page, -1);
  struct mi__gauge_values v = mi__gauge_read(&main_counters()->bins[12].pages);
  ck_assert_int_eq(v.current, 1);
  ck_assert_int_eq(v.total, 2);
  ck_assert_int_eq(HEAP_CURRENT(pages), 1);
  ck_assert_int_eq(HEAP_CURRENT(huge), 0);
  ck_assert(mi__load(&main_counters()->used_bins[0], relaxed) >> 12 & 1);
  struct mi_page huge = {.bin = 73, .kind = MI_PAGE_HUGE, .block_size = 8 * MI_MIB};
  mi__account_page(&mi__heap_main, &huge, 1);
  ck_assert_int_eq(HEAP_CURRENT(huge), 8 * (int64_t)MI_MIB);
  ck_assert_int_eq(HEAP_COUNT(n_huge), 1);
  ck_assert_int_eq(mi__gauge_read(&main_counters()->bins[73].blocks).current, 1);
  mi__account_page(&mi__heap_main, &huge, -1);
  ck_assert_int_eq(HEAP_CURRENT(huge), 0);
  ck_assert_int_eq(HEAP_COUNT(n_huge), 1);
  ck_assert(mi__load(&main_counters()->used_bins[1], relaxed) >> (73 - 64) & 1);
}
END_TEST

START_TEST(a_page_without_owner) {
  struct mi_page page = {.bin = 12, .kind = MI_PAGE_SMALL, .block_size = 128};
  mi__account_unowned(&mi__heap_main, &page, 10);
  ck_assert_int_eq(live(128), 10);
  ck_assert_int_eq(bytes(), 1280);
  mi__account_left(&mi__heap_main, 12, 128, 3);
  ck_assert_int_eq(live(128), 7);
  mi__store(&page.n_counted, 7, relaxed);
  mi__account_unowned(&mi__heap_main, &page, 2);
  ck_assert_int_eq(live(128), 2);
  ck_assert_int_eq(bytes(), 256);
  ck_assert_int_eq(blocks_of(128).peak, 10);
  ck_assert_int_eq(blocks_of(128).total, 0); /* malloc's, not ours */
}
END_TEST

START_TEST(totals_stay_when_pages_move) {
  struct mi_heap_s *heap = mi__heap_new(&mi__subproc_main, NULL);
  struct mi_page page = {.bin = 12, .kind = MI_PAGE_SMALL, .block_size = 128};
  mi__account_page(heap, &page, 1);
  mi__account_unowned(heap, &page, 10);
  mi__account_move(heap, &mi__heap_main, &page);
  ck_assert_int_eq(live(128), 10);
  ck_assert_int_eq(bytes(), 1280);
  ck_assert_int_eq(HEAP_CURRENT(pages), 1);
  ck_assert_int_eq(HEAP_COUNT(pages.total), 0);
  ck_assert_int_eq(mi__gauge_read(&heap->counters.blocks).current, 0);
  ck_assert_int_eq(mi__gauge_read(&heap->counters.pages).current, 0);
  ck_assert_int_eq(mi__gauge_read(&heap->counters.pages).total, 1);
  struct mi_page huge = {.bin = 73, .kind = MI_PAGE_HUGE, .block_size = 8 * MI_MIB};
  mi__account_page(heap, &huge, 1);
  mi__account_move(heap, &mi__heap_main, &huge);
  ck_assert_int_eq(HEAP_CURRENT(huge), 8 * (int64_t)MI_MIB);
  ck_assert_int_eq(HEAP_COUNT(n_huge), 0);
  ck_assert_int_eq(mi__gauge_read(&main_counters()->bins[73].blocks).current, 1);
  ck_assert_int_eq(mi__load(&heap->counters.n_huge, relaxed), 1);
}
END_TEST

/* ---- theaps ---- */

START_TEST(ready_blocks_are_not_allocated) {
  void *p[64];
  int n = 0;
  size_t size = mi__bin_size(mi__bin_of(100));
  /* How many are formed at a time depends on where the page is. */
  do p[n++] = alloc(100); while (my_theap()->ready[mi__bin_of(100)] == NULL);
  merge();
  ck_assert_int_eq(live(size), n);
  ck_assert_int_eq(blocks_of(size).total, n);
  ck_assert_int_eq(bytes(), n * (int64_t)size);
  mi_free(p[0]); /* on the ready list */
  merge();
  ck_assert_int_eq(live(size), n - 1);
  ck_assert_int_eq(blocks_of(size).total, n);
  p[0] = alloc(100);
  merge();
  merge();
  ck_assert_int_eq(live(size), n);
  ck_assert_int_eq(blocks_of(size).total, n + 1);
  ck_assert_int_eq(HEAP_COUNT(n_blocks), n + 1);
}
END_TEST

/* No event tells of a free into a page that is neither full nor current. */
START_TEST(frees_into_any_page_are_seen) {
  void *a[PER_PAGE], *b;
  fill_page(BLOCK, a);
  b = alloc(BLOCK);
  merge();
  ck_assert_int_eq(live(BLOCK), PER_PAGE + 1);
  for (int i = 0; i < 3; i++) mi_free(a[i]);
  merge();
  ck_assert_int_eq(live(BLOCK), PER_PAGE - 2);
  ck_assert_int_eq(bytes(), (PER_PAGE - 2) * BLOCK);
  mi_free(b);
  for (int i = 3; i < PER_PAGE; i++) mi_free(a[i]);
  merge();
  ck_assert_int_eq(live(BLOCK), 0);
  ck_assert_int_eq(blocks_of(BLOCK).total, PER_PAGE + 1);
}
END_TEST

/* In all three places: the full page, one with room, the current one. Then they are taken in, which
 * must not count them again. */
START_TEST(frees_of_others_are_seen_before_they_are_taken_in) {
  void *a[PER_PAGE], *b[PER_PAGE], *c;
  fill_page(BLOCK, a);
  fill_page(BLOCK, b);
  c = alloc(BLOCK);
  mi_free(b[0]);
  free_elsewhere(a[0]);
  free_elsewhere(b[1]);
  free_elsewhere(c);
  merge();
  ck_assert_int_eq(live(BLOCK), 2 * PER_PAGE - 3);
  merge();
  ck_assert_int_eq(live(BLOCK), 2 * PER_PAGE - 3);
  void *more[3 * PER_PAGE];
  for (int i = 0; i < 3 * PER_PAGE; i++) more[i] = alloc(BLOCK);
  merge();
  ck_assert_int_eq(live(BLOCK), 5 * PER_PAGE - 3);
  mi_collect(true);
  ck_assert_int_eq(live(BLOCK), 5 * PER_PAGE - 3);
  ck_assert_int_eq(blocks_of(BLOCK).total, 5 * PER_PAGE + 1);
  for (int i = 0; i < 3 * PER_PAGE; i++) mi_free(more[i]);
  mi_collect(true);
  ck_assert_int_eq(live(BLOCK), 2 * PER_PAGE - 3);
}
END_TEST

static void *kept[64 * 1024 / 64];
static void fill_and_leave(void *arg) {
  struct mi_page *page = fill_page(64, kept);
  *(uint32_t *)arg = page->n_blocks;
}

/* Blocks of this thread are freed, and counted so, in pages that were given up before it has told
 * anybody that there are any. */
START_TEST(the_order_of_arrival_does_not_matter) {
  mi__option_set(mi_option_page_full_retain, 0);
  void *a[PER_PAGE], *b = NULL;
  struct mi_page *page = fill_page(BLOCK, a);
  b = alloc(BLOCK); /* the first one is seen to be full */
  ck_assert(mi__load(&page->owner, relaxed) == MI_OWNER_NONE);
  ck_assert_int_eq(blocks_of(BLOCK).total, 0);
  for (int i = 1; i < PER_PAGE; i++) free_elsewhere(a[i]);
  ck_assert_int_eq(live(BLOCK), 0);
  merge();
  ck_assert_int_eq(live(BLOCK), 2);
  free_elsewhere(a[0]);
  free_elsewhere(b);
  merge();
  ck_assert_int_eq(live(BLOCK), 0);
  ck_assert_int_eq(bytes(), 0);
  ck_assert_int_eq(blocks_of(BLOCK).total, PER_PAGE + 1);
}
END_TEST

START_TEST(the_end_of_a_thread_tells_all) {
  uint32_t n = 0;
  in_thread(fill_and_leave, &n);
  ck_assert_int_eq(live(64), n);
  ck_assert_int_eq(blocks_of(64).total, n);
  for (uint32_t i = 0; i < n; i += 2) mi_free(kept[i]);
  mi_stats_merge();
  ck_assert_int_eq(live(64), n / 2);
  for (uint32_t i = 1; i < n; i += 2) mi_free(kept[i]);
  mi_collect(true);
  ck_assert_int_eq(live(64), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/account");
  TCase *single = new_case(suite, "single");
  tcase_add_test(single, pages_come_and_go);
  tcase_add_test(single, a_page_without_owner);
  tcase_add_test(single, totals_stay_when_pages_move);
  TCase *theaps = new_case(suite, "theaps");
  tcase_add_test(theaps, ready_blocks_are_not_allocated);
  tcase_add_test(theaps, frees_into_any_page_are_seen);
  tcase_add_test(theaps, frees_of_others_are_seen_before_they_are_taken_in);
  tcase_add_test(theaps, the_order_of_arrival_does_not_matter);
  tcase_add_test(theaps, the_end_of_a_thread_tells_all);
  return mi_test_run_suite(suite);
}
