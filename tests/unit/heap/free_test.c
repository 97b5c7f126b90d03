/* SPDX-License-Identifier: MIT */
/* src/heap/free.c: frees that are not the simple case. */
#include "fixture.h"

enum { BLOCK = 8 * 1024, PER_PAGE = 8 };

static uint32_t n_remote(const struct mi_page *page) {
  return mi__remote_number(mi__load(&page->xremote, relaxed));
}

/* ---- no block at all ---- */

START_TEST(nothing_is_freed_at_null) {
  errno = 4711;
  mi_free(NULL);
  ck_assert_int_eq(errno, 4711);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(foreign_pointers_are_ignored_and_reported) {
  static char mine[64] mi__aligned(64);
  char *on_stack = (char *)__builtin_frame_address(0);
  void *const foreign[] = {mine, mine + 1, on_stack, (void *)(uintptr_t)16,
                           (void *)(uintptr_t)0x12345670};
  alloc(16);
  errno = 4711;
  for (int i = 0; i < 5; i++) {
    mi_free(foreign[i]);
    ck_assert_int_eq(n_errors, i + 1);
    ck_assert_int_eq(last_error, EINVAL);
    ck_assert_int_eq(errno, 4711);
  }
  mi__thread_end(true); /* also by a thread that has nothing */
  mi_free(mine);
  ck_assert_int_eq(n_errors, 6);
}
END_TEST

START_TEST(a_pointer_inside_is_reported_by_other_threads) {
  char *small = alloc(64), *medium = alloc(20000);
  free_elsewhere(small + 8);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EINVAL);
  free_elsewhere(medium + 16);
  ck_assert_int_eq(n_errors, 2);
  struct mi_page *page = page_at(medium);
  free_elsewhere(page->start + (size_t)page->n_blocks * page->block_size); /* the tail */
  ck_assert_int_eq(n_errors, 3);
  ck_assert(mi__remote_is_empty(page_at(small)) && mi__remote_is_empty(page));
}
END_TEST

START_TEST(a_pointer_into_a_huge_block_is_reported) {
  char *huge = alloc(3 * MI_MIB);
  mi_free(huge + 16);
  ck_assert_int_eq(n_errors, 1);
  mi_free(huge + MI_MIB);
  ck_assert_int_eq(n_errors, 2);
  ck_assert_int_eq(last_error, EINVAL);
  memset(huge, 1, 3 * MI_MIB); /* still there */
  mi_free(huge);
  ck_assert_int_eq(n_errors, 2);
  mi_free(huge);
  ck_assert_int_eq(n_errors, 3);
}
END_TEST

/* ---- inner slices ---- */

START_TEST(blocks_in_inner_slices_find_their_page) {
  char *blocks[8];
  for (int i = 0; i < 8; i++) blocks[i] = alloc(64 * MI_KIB);
  struct mi_page *page = page_at(blocks[0]);
  for (int i = 7; i >= 0; i--) {
    mi_free(blocks[i]);
    ck_assert_ptr_eq(my_theap()->ready[page->bin], (void *)blocks[i]);
  }
  free_elsewhere(alloc(64 * MI_KIB));
  ck_assert_uint_eq(n_remote(page), 1);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* ---- runs ---- */

static struct mi_page *the_page, *other_page;
static void **blocks_of; /* what the other thread frees */

static void free_in_runs(void *arg) {
  (void)arg;
  mi_free(alloc(16)); /* begins the thread */
  uint32_t before = n_remote(the_page);
  for (int i = 0; i < 15; i++) mi_free(blocks_of[i]);
  ck_assert_uint_eq(n_remote(the_page), before);
  ck_assert_uint_eq(mi__thread_self(false)->run.n, 15);
  mi_free(blocks_of[15]); /* the sixteenth sends it off */
  ck_assert_uint_eq(n_remote(the_page), before + 16);
  ck_assert_ptr_null(mi__thread_self(false)->run.page);

  mi_free(blocks_of[16]);
  mi_free(blocks_of[17]);
  mi_free(blocks_of[100]); /* of another page */
  ck_assert_uint_eq(n_remote(the_page), before + 18);
  ck_assert_uint_eq(n_remote(other_page), 0);
  mi_free(alloc(3000)); /* a refill */
  ck_assert_uint_eq(n_remote(other_page), 1);

  mi_free(blocks_of[101]);
  mi_collect(false);
  ck_assert_uint_eq(n_remote(other_page), 2);
  mi_free(blocks_of[102]); /* the end of the thread */
}

START_TEST(runs_are_pushed_as_one) {
  void *blocks[103];
  blocks_of = blocks;
  for (int i = 0; i < 100; i++) blocks[i] = alloc(64);
  for (int i = 100; i < 103; i++) blocks[i] = alloc(128);
  the_page = page_at(blocks[0]);
  other_page = page_at(blocks[100]);
  in_thread(free_in_runs, NULL);
  ck_assert_uint_eq(n_remote(other_page), 3);
  ck_assert_uint_eq(n_remote(the_page), 18);
  uint32_t n;
  struct mi_block *list = mi__remote_take(the_page, &n);
  ck_assert_uint_eq(n, 18);
  for (int i = 17; i >= 0; i--, list = list->next) ck_assert_ptr_eq(list, blocks[i]);
}
END_TEST

static void free_medium(void *p) {
  alloc(16);
  mi_free(p);
  ck_assert_uint_eq(n_remote(page_at(p)), 1);
}

START_TEST(medium_pages_get_each_block_at_once) {
  in_thread(free_medium, alloc(20000));
}
END_TEST

/* ---- double frees ---- */

static void free_twice(void *p) {
  mi_free(p);
  mi_free(p);
}

START_TEST(twice_in_a_row_by_another_thread) {
  void *p = alloc(64);
  in_thread(free_twice, p);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  ck_assert_uint_eq(n_remote(page_at(p)), 1);
}
END_TEST

static void free_nine(void *arg) {
  void **blocks = arg;
  for (int i = 0; i < PER_PAGE; i++) mi_free(blocks[i]);
  mi_free(blocks[0]);
}

START_TEST(more_often_than_there_are_blocks) {
  void *a[PER_PAGE];
  struct mi_page *page = fill_page(BLOCK, a);
  in_thread(free_nine, a);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  ck_assert(n_remote(page) <= PER_PAGE);
}
END_TEST

/* The one live block of an abandoned page is not taken away by a block that is freed twice. */
static void leave_two(void *arg) {
  void **blocks = arg;
  blocks[0] = alloc(64);
  blocks[1] = alloc(64);
  memset(blocks[1], 7, 64);
}

START_TEST(twice_into_an_abandoned_page) {
  void *blocks[2];
  in_thread(leave_two, blocks);
  struct mi_page *page = page_at(blocks[0]);
  free_elsewhere(blocks[0]);
  free_elsewhere(blocks[0]);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  ck_assert_ptr_eq(page_at(blocks[1]), page);
  for (int i = 0; i < 3000; i++) ck_assert_ptr_ne(mi_malloc(64), blocks[1]);
  for (int i = 0; i < 64; i++) ck_assert_int_eq(((char *)blocks[1])[i], 7);
}
END_TEST

/* Always in the debug build; else where free leaves the fast path: a page with pointers inside. */
START_TEST(twice_by_the_owner) {
  void *p = mi_malloc_aligned_at(200, 64, 16), *q = alloc(64);
  ck_assert(mi__page_flag(page_at(p), MI_PAGE_INTERIOR));
  mi_free(p);
  mi_free(p);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  mi_collect(false);
  mi_free(p); /* on the page's own list now */
  ck_assert_int_eq(n_errors, 2);
  if (!MI_DEBUG) return;
  mi_free(q);
  mi_free(q);
  ck_assert_int_eq(n_errors, 3);
}
END_TEST

/* ---- a free takes an abandoned page over ---- */

/* Blocks of a page that its thread left behind: full, so that the first free finds it. */
static void leave_full(void *arg) { fill_page(BLOCK, arg); }
static void leave_full_page(void **blocks) {
  in_thread(leave_full, blocks);
  ck_assert_uint_eq(mi__load(&page_at(blocks[0])->owner, relaxed), MI_OWNER_NONE);
}
static bool is_mine(const struct mi_page *page) {
  return mi__load(&page->owner, relaxed) == (uintptr_t)mi__thread_self(false);
}
/* Free one, and let go of the run. */
static void free_and_flush(void *p) {
  mi_free(p);
  mi__run_flush(mi__thread_self(true));
}

START_TEST(one_of_another_thread_only_where_allowed) {
  void *a[PER_PAGE], *b[PER_PAGE];
  alloc(16); /* this thread has data of its own: it does not get that of the ended one */
  leave_full_page(a);
  leave_full_page(b);
  struct mi_page *first = page_at(a[0]), *second = page_at(b[0]);
  free_and_flush(a[0]);
  ck_assert(!is_mine(first));
  ck_assert_int_eq(first->list, MI_LIST_POOL);
  mi__option_set(mi_option_page_reclaim_on_free, 1);
  int64_t before = HEAP_COUNT(pages_reclaim_on_free);
  free_and_flush(b[0]);
  ck_assert(is_mine(second));
  merge_counters();
  ck_assert_int_eq(HEAP_COUNT(pages_reclaim_on_free), before + 1);
  ck_assert_ptr_eq(mi_malloc(BLOCK), b[0]);
}
END_TEST

/* The second of two frees: the page is in the pool by then. */
START_TEST(one_in_the_pool_too) {
  void *left[2];
  alloc(16);
  in_thread(leave_two, left);
  struct mi_page *page = page_at(left[0]);
  ck_assert_int_eq(page->list, MI_LIST_POOL);
  mi__option_set(mi_option_page_reclaim_on_free, 1);
  free_and_flush(left[0]);
  ck_assert(is_mine(page));
  ck_assert_uint_eq(mi__load(&pool_for(64)->n, relaxed), 0);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
}
END_TEST

START_TEST(not_in_a_thread_pool) {
  void *a[PER_PAGE];
  alloc(16);
  leave_full_page(a);
  mi__option_set(mi_option_page_reclaim_on_free, 1);
  mi_thread_set_in_threadpool();
  free_and_flush(a[0]);
  ck_assert(!is_mine(page_at(a[1])));
}
END_TEST

START_TEST(not_more_of_another_thread_than_allowed) {
  void *a[PER_PAGE], *b[PER_PAGE];
  alloc(16);
  leave_full_page(a);
  leave_full_page(b);
  mi__option_set(mi_option_page_reclaim_on_free, 1);
  mi__option_set(mi_option_page_cross_thread_max_reclaim, 1);
  free_and_flush(a[0]);
  ck_assert(is_mine(page_at(a[1])));
  free_and_flush(b[0]);
  ck_assert(!is_mine(page_at(b[1])));
}
END_TEST

/* A page of our own that was given up because it was full. */
static struct mi_page *give_up_full_page(void **blocks) {
  struct mi_page *page = fill_page(BLOCK, blocks);
  mi__option_set(mi_option_page_full_retain, 0);
  alloc(BLOCK);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), MI_OWNER_NONE);
  return page;
}

START_TEST(one_of_our_own_comes_back) {
  void *a[PER_PAGE];
  struct mi_page *page = give_up_full_page(a);
  mi_free(a[0]);
  ck_assert(is_mine(page));
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  merge_counters();
  ck_assert_int_eq(HEAP_COUNT(pages_reclaim_on_free), 1);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

START_TEST(unless_that_is_forbidden) {
  void *a[PER_PAGE];
  mi__option_set(mi_option_page_reclaim_on_free, -1);
  struct mi_page *page = give_up_full_page(a);
  free_and_flush(a[0]);
  ck_assert(!is_mine(page));
  ck_assert_int_eq(page->list, MI_LIST_POOL);
}
END_TEST

START_TEST(or_there_are_too_many) {
  void *a[PER_PAGE];
  struct mi_page *page = give_up_full_page(a);
  mi__option_set(mi_option_page_max_reclaim, 1); /* it has one: the current */
  free_and_flush(a[0]);
  ck_assert(!is_mine(page));
  mi__option_set(mi_option_page_max_reclaim, 2);
  free_and_flush(a[1]);
  ck_assert(is_mine(page));
}
END_TEST

START_TEST(the_last_free_gives_it_back) {
  void *a[PER_PAGE];
  alloc(16);
  leave_full_page(a);
  int64_t pages = HEAP_CURRENT(pages);
  for (int i = 0; i < PER_PAGE; i++) free_and_flush(a[i]);
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_int_eq(HEAP_CURRENT(pages), pages - 1);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/free");
  TCase *tcase = new_case(suite, "free");
  tcase_add_test(tcase, nothing_is_freed_at_null);
  tcase_add_test(tcase, foreign_pointers_are_ignored_and_reported);
  tcase_add_test(tcase, a_pointer_inside_is_reported_by_other_threads);
  tcase_add_test(tcase, a_pointer_into_a_huge_block_is_reported);
  tcase_add_test(tcase, blocks_in_inner_slices_find_their_page);
  tcase_add_test(tcase, runs_are_pushed_as_one);
  tcase_add_test(tcase, medium_pages_get_each_block_at_once);
  tcase_add_test(tcase, twice_in_a_row_by_another_thread);
  tcase_add_test(tcase, more_often_than_there_are_blocks);
  tcase_add_test(tcase, twice_into_an_abandoned_page);
  tcase_add_test(tcase, twice_by_the_owner);
  tcase = new_case(suite, "reclaim");
  tcase_add_test(tcase, one_of_another_thread_only_where_allowed);
  tcase_add_test(tcase, one_in_the_pool_too);
  tcase_add_test(tcase, not_in_a_thread_pool);
  tcase_add_test(tcase, not_more_of_another_thread_than_allowed);
  tcase_add_test(tcase, one_of_our_own_comes_back);
  tcase_add_test(tcase, unless_that_is_forbidden);
  tcase_add_test(tcase, or_there_are_too_many);
  tcase_add_test(tcase, the_last_free_gives_it_back);
  return mi_test_run_suite(suite);
}
