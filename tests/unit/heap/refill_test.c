/* SPDX-License-Identifier: MIT */
/* src/heap/refill.c: where a ready list gets its blocks from, in which order; what is given up. */
#include "fixture.h"
#include "heap/account.h"

enum { BLOCK = 8 * 1024, PER_PAGE = 8 };

static void *all[64][PER_PAGE];
static struct mi_page *pages[64];
static void fill_pages(int n) {
  for (int i = 0; i < n; i++) pages[i] = fill_page(BLOCK, all[i]);
}
static void free_some(void *arg) {
  void **blocks = arg;
  for (int i = 0; i < 2; i++) mi_free(blocks[i]);
}
/* Two blocks of the page, freed by another thread. */
static void free_two_elsewhere(int page) { in_thread(free_some, all[page]); }

/* ---- order ---- */

START_TEST(first_what_others_freed_into_the_current_page) {
  void *p = alloc(BLOCK), *q = alloc(BLOCK);
  free_elsewhere(p);
  free_elsewhere(q);
  ck_assert_ptr_eq(mi_malloc(BLOCK), q); /* rather than a block that was never formed */
  ck_assert_ptr_eq(mi_malloc(BLOCK), p);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 1);
  ck_assert(mi__remote_is_empty(bin_for(BLOCK)->current));
}
END_TEST

START_TEST(then_blocks_that_were_never_formed) {
  char *p = alloc(64);
  struct mi_page *page = page_at(p);
  uint32_t formed = page->n_formed;
  ck_assert_uint_le(formed, 64); /* those of one OS page */
  for (uint32_t i = 1; i < formed; i++) alloc(64);
  ck_assert_uint_eq(page->n_formed, formed);
  alloc(64);
  ck_assert_ptr_eq(bin_for(64)->current, page);
  ck_assert_uint_ge(page->n_formed, formed + 1);
  uint32_t more = page->n_formed - formed;
  ck_assert(more == 64 || page->first + page->n_formed == page->n_blocks);
}
END_TEST

START_TEST(then_a_page_with_room) {
  fill_pages(2);
  void *last = alloc(BLOCK); /* the current page has room */
  mi_free(all[0][5]);
  for (int i = 0; i < PER_PAGE - 1; i++) alloc(BLOCK);
  ck_assert_ptr_eq(mi_malloc(BLOCK), all[0][5]);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[0]);
  mi_free(last);
}
END_TEST

START_TEST(the_fullest_of_the_first_few) {
  mi__option_set(mi_option_page_full_retain, 10);
  fill_pages(6);
  void *last = alloc(BLOCK);
  for (int i = 0; i < 6; i++) mi_free(all[i][0]); /* all six have room */
  mi_free(all[0][1]);
  mi_free(all[1][1]);
  mi_free(all[3][1]);
  mi_free(all[3][2]);
  mi_free(all[1][2]);
  for (int i = 0; i < PER_PAGE - 1; i++) alloc(BLOCK);
  /* used: 6 5 7 5 7 7; the first four are looked at */
  alloc(BLOCK);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[2]);
  mi__option_set(mi_option_page_max_candidates, 10);
  alloc(BLOCK); /* used: 6 5 - 5 7 7 */
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[4]);
  mi__option_set(mi_option_page_max_candidates, 1);
  alloc(BLOCK);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[0]);
  mi__option_set(mi_option_page_max_candidates, 0);
  alloc(BLOCK);
  alloc(BLOCK);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[1]);
  mi__theap_merge_counters(my_theap());
  ck_assert_int_eq(HEAP_COUNT(page_searches), 3 + 4);
  mi_free(last);
}
END_TEST

START_TEST(then_a_full_page_into_which_others_freed) {
  fill_pages(2);
  free_two_elsewhere(0);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 1);
  ck_assert_ptr_eq(mi_malloc(BLOCK), all[0][1]);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, pages[0]);
  ck_assert_ptr_eq(mi_malloc(BLOCK), all[0][0]);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 2);
}
END_TEST

/* Four at a time, and the next four the next time. */
START_TEST(a_long_row_of_full_pages_is_looked_at_in_steps) {
  mi__option_set(mi_option_page_full_retain, 100);
  fill_pages(9);
  free_two_elsewhere(6);
  void *p = alloc(BLOCK); /* looks at 0 to 3 */
  ck_assert_ptr_ne(page_at(p), pages[6]);
  for (int i = 1; i < PER_PAGE; i++) alloc(BLOCK);
  ck_assert_ptr_eq(page_at(alloc(BLOCK)), pages[6]); /* 4 to 7 */
}
END_TEST

static void leave_behind(void *out) {
  void **blocks = out;
  for (int i = 0; i < 3; i++) blocks[i] = alloc(BLOCK);
}

START_TEST(then_an_abandoned_page) {
  void *left[3];
  in_thread(leave_behind, left);
  struct mi_page *page = page_at(left[0]);
  ck_assert_uint_eq(mi__load(&pool_for(BLOCK)->n, relaxed), 1);
  free_elsewhere(left[1]);
  int64_t taken = HEAP_COUNT(pages_reclaim_on_alloc);
  void *p = alloc(BLOCK);
  ck_assert_ptr_eq(page_at(p), page);
  ck_assert_ptr_eq(p, left[1]);
  ck_assert_int_eq(HEAP_COUNT(pages_reclaim_on_alloc), taken + 1);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), (uintptr_t)mi__thread_self(false));
  ck_assert_ptr_eq(mi__load(&page->theap, relaxed), my_theap());
  ck_assert_uint_eq(mi__load(&pool_for(BLOCK)->n, relaxed), 0);
  merge_counters();
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

START_TEST(but_not_more_than_allowed) {
  void *left[3];
  in_thread(leave_behind, left);
  mi__option_set(mi_option_page_cross_thread_max_reclaim, 0);
  void *p = alloc(BLOCK);
  ck_assert_ptr_ne(page_at(p), page_at(left[0]));
  mi__option_set(mi_option_page_cross_thread_max_reclaim, 1); /* it has one */
  for (int i = 0; i < PER_PAGE; i++) ck_assert_ptr_ne(page_at(alloc(BLOCK)), page_at(left[0]));
  mi__option_set(mi_option_page_cross_thread_max_reclaim, 3);
  for (int i = 1; i < PER_PAGE; i++) alloc(BLOCK);
  ck_assert_ptr_eq(page_at(alloc(BLOCK)), page_at(left[0]));
}
END_TEST

START_TEST(then_the_slot) {
  fill_pages(2);
  void *last = alloc(BLOCK);
  for (int i = 0; i < PER_PAGE; i++) mi_free(all[0][i]);
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), pages[0]);
  for (int i = 0; i < PER_PAGE - 1; i++) alloc(BLOCK);
  ck_assert_ptr_eq(page_at(alloc(BLOCK)), pages[0]);
  ck_assert_ptr_null(mi__load(&bin_for(BLOCK)->slot, relaxed));
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 3);
  mi_free(last);
}
END_TEST

START_TEST(every_size_can_be_refilled) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    size_t size = mi__bin_size(bin);
    if (size == 0) continue;
    char *p = alloc(size), *q = alloc(size);
    p[0] = p[size - 1] = q[0] = q[size - 1] = 1;
    ck_assert(p + size <= q || q + size <= p);
    ck_assert_uint_eq(page_at(p)->bin, bin);
    mi_free(p);
    mi_free(q);
  }
  mi__theap_check(my_theap());
}
END_TEST

/* ---- what is given up ---- */

START_TEST(keeps_two_full_small_pages) {
  fill_pages(3);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 2); /* the third is the current one */
  int64_t before = HEAP_COUNT(pages_reabandon_full);
  alloc(BLOCK);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 2);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 3);
  merge_counters();
  ck_assert_int_eq(HEAP_COUNT(pages_reabandon_full), before + 1);
  ck_assert_uint_eq(mi__load(&pages[0]->owner, relaxed), MI_OWNER_NONE); /* the oldest */
  ck_assert_uint_eq(mi__load(&pages[0]->xremote, relaxed) & MI_REMOTE_OWNED, 0);
  ck_assert_uint_ne(mi__load(&pages[1]->owner, relaxed), MI_OWNER_NONE);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 1);
  /* A thread that empties it gives it back, while its first owner does nothing. */
  void *first = all[0][0];
  in_thread(free_some, &all[0][0]);
  in_thread(free_some, &all[0][2]);
  in_thread(free_some, &all[0][4]);
  ck_assert_ptr_nonnull(mi__page_of(first));
  in_thread(free_some, &all[0][6]);
  ck_assert_ptr_null(mi__page_of(first));
}
END_TEST

START_TEST(keeps_as_many_as_asked_for) {
  mi__option_set(mi_option_page_full_retain, 0);
  fill_pages(3);
  alloc(BLOCK);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 0);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 1);
  mi__option_set(mi_option_page_full_retain, 7);
  for (int i = 1; i < PER_PAGE; i++) alloc(BLOCK);
  fill_pages(10);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 7);
}
END_TEST

enum { EXTRA = 64, MANY = 80 };
static void *firsts[MANY];

/* A row of pages, all given up but for the last ones; then a free into each. */
static void give_up_and_take_back(int n) {
  void *rest[PER_PAGE];
  for (int i = 0; i < n; i++) {
    fill_page(BLOCK, rest);
    firsts[i] = rest[0];
  }
  for (int i = 0; i < n; i++) mi_free(firsts[i]);
}
START_TEST(keeps_more_where_it_takes_pages_back) {
  give_up_and_take_back(9); /* 2 were kept, and 6 came back */
  ck_assert_uint_eq(my_theap()->extra_full, 6);
  ck_assert_uint_eq(my_theap()->n_extra_full[mi__bin_of(BLOCK)], 6);
  for (int i = 0; i < 9; i++) alloc(BLOCK);
  merge_counters();
  int64_t before = HEAP_COUNT(pages_reabandon_full);
  alloc(BLOCK);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 8);
  merge_counters();
  ck_assert_int_eq(HEAP_COUNT(pages_reabandon_full), before + 1);
  /* What it learned is about this size alone. */
  for (int i = 0; i < 5 * 16; i++) alloc(BLOCK / 2);
  ck_assert_uint_eq(bin_for(BLOCK / 2)->n_full, 2);
}
END_TEST

START_TEST(keeps_so_many_more_and_not_one_beyond) {
  give_up_and_take_back(MANY);
  ck_assert_uint_eq(my_theap()->extra_full, EXTRA);
  for (int i = 0; i < MANY + 1; i++) alloc(BLOCK);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, EXTRA + 2);
  ck_assert_uint_le(EXTRA * MI_SLICE_SIZE, 4 * MI_MIB); /* as the manual says */
  /* No other size gets any. */
  void *p = alloc(BLOCK / 2);
  for (int i = 1; i < 5 * 16; i++) alloc(BLOCK / 2);
  mi_free(p);
  ck_assert(mi__load(&page_at(p)->theap, relaxed) == my_theap());
  ck_assert_uint_eq(my_theap()->extra_full, EXTRA);
}
END_TEST

START_TEST(forgets_that_with_each_collection) {
  give_up_and_take_back(20);
  for (int i = 0; i < 20; i++) alloc(BLOCK);
  ck_assert_uint_gt(bin_for(BLOCK)->n_full, 10);
  mi_collect(false);
  ck_assert_uint_eq(my_theap()->extra_full, 0);
  ck_assert_uint_eq(my_theap()->n_extra_full[mi__bin_of(BLOCK)], 0);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 2);
  mi__theap_check(my_theap());
}
END_TEST

/* Neither the thread whose blocks others free, nor one that takes pages of others. */
static struct { uint32_t n_pages, learned; } taker;
static void take_over(void *arg) {
  (void)arg;
  for (int i = 0; i < 7; i++) mi_free(all[i][0]);
  mi__run_flush(mi__thread_self(false));
  taker.n_pages = bin_for(BLOCK)->n_pages;
  taker.learned = my_theap()->extra_full;
}
START_TEST(learns_from_frees_into_its_own_pages_only) {
  mi__option_set(mi_option_page_reclaim_on_free, 1);
  fill_pages(10);
  in_thread(take_over, NULL);
  ck_assert_uint_eq(taker.n_pages, 7);
  ck_assert_uint_eq(taker.learned, 0);
  for (int i = 0; i < 14; i++) alloc(BLOCK); /* the seven come back by refills */
  ck_assert_uint_eq(my_theap()->extra_full, 0);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 2);
}
END_TEST

START_TEST(tells_of_what_it_gave_up_in_time) {
  fill_pages(MI_ABANDONED_SLACK + 2);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
  fill_pages(1);
  alloc(BLOCK);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), MI_ABANDONED_SLACK);
  ck_assert_int_eq(HEAP_COUNT(pages_reabandon_full), MI_ABANDONED_SLACK);
}
END_TEST

START_TEST(keeps_none_where_none_are_asked_for) {
  mi__option_set(mi_option_page_full_retain, 0);
  give_up_and_take_back(9);
  ck_assert_uint_eq(my_theap()->extra_full, 0);
  for (int i = 0; i < 10; i++) alloc(BLOCK);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 0);
}
END_TEST

START_TEST(an_ended_theap_has_learned_nothing) {
  give_up_and_take_back(9);
  mi__theap_empty(my_theap(), MI_FATE_ABANDON);
  ck_assert_uint_eq(my_theap()->extra_full, 0);
  ck_assert_uint_eq(my_theap()->n_extra_full[mi__bin_of(BLOCK)], 0);
}
END_TEST

START_TEST(keeps_all_medium_and_large_pages) {
  for (int i = 0; i < 8 * 8 + 1; i++) alloc(64 * MI_KIB);
  ck_assert_uint_eq(bin_for(64 * MI_KIB)->n_full, 8);
  merge_counters();
  ck_assert_int_eq(HEAP_COUNT(pages_reabandon_full), 0);
}
END_TEST

/* ---- zero ---- */

START_TEST(knows_which_blocks_are_zero) {
  bool zero = false;
  unsigned bin = mi__bin_of(4096);
  struct mi_theap_s *theap = my_theap();
  char *p = (char *)mi__theap_refill(theap, bin, &zero);
  ck_assert(zero);
  for (size_t i = sizeof(void *); i < 4096; i++) ck_assert_int_eq(p[i], 0);
  void *q = alloc(4096);
  memset(p, 7, 4096);
  free_elsewhere(p);
  ck_assert_ptr_eq(mi__theap_refill(theap, bin, &zero), p);
  ck_assert(!zero);
  mi_free(q);
}
END_TEST

/* ---- what cannot be ---- */

/* Somebody wrote to a free block of a page that is used again. */
START_TEST(does_not_follow_a_bad_head) {
  fill_pages(2);
  void *last = alloc(BLOCK);
  mi_free(all[0][0]);
  mi_free(all[0][1]);
  *(void **)all[0][1] = &last; /* the link to all[0][0] */
  for (int i = 1; i < PER_PAGE; i++) alloc(BLOCK);
  ck_assert_ptr_eq(mi_malloc(BLOCK), all[0][1]);
  mi_free(all[1][0]);
  pages[1]->free = (struct mi_block *)(void *)&last;
  my_theap()->ready[pages[0]->bin] = NULL;
  void *p = alloc(BLOCK);
  ck_assert_ptr_ne(page_at(p), pages[1]);
  ck_assert(mi__page_flag(pages[1], MI_PAGE_BROKEN));
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EFAULT);
}
END_TEST

START_TEST(without_memory_the_state_is_as_before) {
  mi__option_set(mi_option_arena_reserve, 4096); /* 4 MiB: 64 slices */
  alloc(16);
  mi__store(&no_maps, true, relaxed);
  while (mi_malloc(MI_MIB) != NULL) continue;
  ck_assert_int_eq(last_error, ENOMEM);
  void *small = alloc(100), *last = NULL; /* smaller ones are served */
  size_t n = 0;
  for (void *p; (p = mi_malloc(400 * MI_KIB)) != NULL; last = p) n++;
  ck_assert_uint_eq(n, 2); /* from a page of the 14 slices that were left */
  ck_assert_uint_eq(page_at(last)->n_slices, 14);
  mi__theap_check(my_theap());
  uint32_t n_pages = bin_for(400 * MI_KIB)->n_pages;
  ck_assert_ptr_null(mi_malloc(400 * MI_KIB));
  ck_assert_uint_eq(bin_for(400 * MI_KIB)->n_pages, n_pages);
  ck_assert_ptr_null(bin_for(400 * MI_KIB)->current);
  mi_free(last);
  ck_assert_ptr_eq(mi_malloc(400 * MI_KIB), last);
  ck_assert_ptr_nonnull(mi_malloc(100));
  mi_free(small);
  mi__theap_check(my_theap());
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/refill");
  TCase *tcase = new_case(suite, "refill");
  tcase_add_test(tcase, first_what_others_freed_into_the_current_page);
  tcase_add_test(tcase, then_blocks_that_were_never_formed);
  tcase_add_test(tcase, then_a_page_with_room);
  tcase_add_test(tcase, the_fullest_of_the_first_few);
  tcase_add_test(tcase, then_a_full_page_into_which_others_freed);
  tcase_add_test(tcase, a_long_row_of_full_pages_is_looked_at_in_steps);
  tcase_add_test(tcase, then_an_abandoned_page);
  tcase_add_test(tcase, but_not_more_than_allowed);
  tcase_add_test(tcase, then_the_slot);
  tcase_add_test(tcase, every_size_can_be_refilled);
  tcase_add_test(tcase, keeps_two_full_small_pages);
  tcase_add_test(tcase, keeps_as_many_as_asked_for);
  tcase_add_test(tcase, keeps_more_where_it_takes_pages_back);
  tcase_add_test(tcase, keeps_so_many_more_and_not_one_beyond);
  tcase_add_test(tcase, forgets_that_with_each_collection);
  tcase_add_test(tcase, learns_from_frees_into_its_own_pages_only);
  tcase_add_test(tcase, tells_of_what_it_gave_up_in_time);
  tcase_add_test(tcase, keeps_none_where_none_are_asked_for);
  tcase_add_test(tcase, an_ended_theap_has_learned_nothing);
  tcase_add_test(tcase, keeps_all_medium_and_large_pages);
  tcase_add_test(tcase, knows_which_blocks_are_zero);
  tcase_add_test(tcase, does_not_follow_a_bad_head);
  tcase_add_test(tcase, without_memory_the_state_is_as_before);
  return mi_test_run_suite(suite);
}
