/* SPDX-License-Identifier: MIT */
/* src/page/remote.c: the word that says who owns a page and what others have freed into it. */
#include "fixture.h"
#include "page/remote.h"
#include <pthread.h>

static uint64_t word_of(const struct mi_page *page) { return mi__load(&page->xremote, relaxed); }
static uint32_t number_in(const struct mi_page *page) {
  return mi__remote_number(word_of(page));
}
static struct mi_block *list_in(const struct mi_page *page) {
  return (struct mi_block *)(uintptr_t)(word_of(page) & MI_REMOTE_LIST);
}
static enum mi__push_result push(struct mi_page *page, struct mi_block *block, bool want) {
  struct mi__run run = {page, block, block, 1};
  return mi__remote_push(&run, want);
}
/* All blocks of the page are used. */
static struct mi_page *used_page(size_t size) {
  struct mi_page *page = page_of_size(size);
  (void)take_all(page);
  return page;
}
static struct mi_page *abandoned_page(size_t size, bool pooled) {
  struct mi_page *page = used_page(size);
  ck_assert(mi__remote_disown(page, pooled, false));
  return page;
}

/* ---- owned ---- */

START_TEST(the_owner_takes_what_was_pushed) {
  struct mi_page *page = used_page(64);
  uint32_t n = 7;
  ck_assert(mi__remote_is_empty(page));
  ck_assert_ptr_null(mi__remote_take(page, &n));
  ck_assert_uint_eq(n, 0);
  for (uint32_t i = 0; i < 5; i++) {
    ck_assert_int_eq(push(page, block_at(page, i), true), MI_PUSHED);
  }
  ck_assert(!mi__remote_is_empty(page));
  ck_assert_uint_eq(number_in(page), 5);
  struct mi_block *list = mi__remote_take(page, &n);
  ck_assert_uint_eq(n, 5);
  for (uint32_t i = 5; i-- > 0; list = list->next) ck_assert_ptr_eq(list, block_at(page, i));
  ck_assert_ptr_null(list);
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks); /* they still count as used */
}
END_TEST

START_TEST(a_run_is_one_push) {
  struct mi_page *page = used_page(64);
  struct mi_block *a = block_at(page, 3), *b = block_at(page, 1), *c = block_at(page, 2);
  push(page, block_at(page, 0), false);
  a->next = b;
  b->next = c;
  struct mi__run run = {page, a, c, 3};
  ck_assert_int_eq(mi__remote_push(&run, false), MI_PUSHED);
  ck_assert_uint_eq(number_in(page), 4);
  ck_assert_ptr_eq(list_in(page), a);
  ck_assert_ptr_eq(c->next, block_at(page, 0));
}
END_TEST

START_TEST(refuses_more_than_there_are) {
  struct mi_page *page = used_page(8 * MI_KIB); /* 8 blocks */
  struct mi_block *a = block_at(page, 0);
  for (uint32_t i = 0; i < 8; i++) {
    ck_assert_int_eq(push(page, block_at(page, i), false), MI_PUSHED);
  }
  uint64_t before = word_of(page);
  ck_assert_int_eq(push(page, a, false), MI_REFUSED);
  ck_assert_uint_eq(word_of(page), before);
  ck_assert_uint_eq(number_in(page), 8);
}
END_TEST

START_TEST(collect_puts_them_on_the_free_list) {
  struct mi_page *page = used_page(64);
  mi__remote_collect(page);
  ck_assert_ptr_null(page->free);
  for (uint32_t i = 0; i < 3; i++) push(page, block_at(page, i), false);
  mi__remote_collect(page);
  ck_assert_uint_eq(length_of(page->free), 3);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - 3);
  ck_assert(!mi__page_flag(page, MI_PAGE_BROKEN));
}
END_TEST

START_TEST(collect_finds_damage) {
  struct mi_page *page = used_page(64);
  for (uint32_t i = 0; i < 3; i++) push(page, block_at(page, i), false);
  block_at(page, 2)->next = (struct mi_block *)(void *)((char *)block_at(page, 1) + 8);
  mi__remote_collect(page);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));

  page = used_page(64); /* too short: the number does not add up */
  for (uint32_t i = 0; i < 3; i++) push(page, block_at(page, i), false);
  block_at(page, 2)->next = NULL;
  mi__remote_collect(page);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));

  page = used_page(64); /* the same block twice */
  push(page, block_at(page, 0), false);
  push(page, block_at(page, 0), false);
  mi__remote_collect(page);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));
  ck_assert_uint_le(page->n_blocks - mi__page_used(page), 2);
}
END_TEST

/* ---- abandoned ---- */

START_TEST(disown_counts_what_is_live) {
  struct mi_page *page = used_page(64);
  push(page, block_at(page, 0), false);
  ck_assert(!mi__remote_disown(page, true, false)); /* blocks came in */
  ck_assert(word_of(page) & MI_REMOTE_OWNED);
  mi__remote_collect(page);
  ck_assert(mi__remote_disown(page, true, false));
  ck_assert_uint_eq(word_of(page) & (MI_REMOTE_OWNED | MI_REMOTE_POOLED), MI_REMOTE_POOLED);
  ck_assert_uint_eq(number_in(page), page->n_blocks - 1);
  ck_assert_ptr_null(list_in(page));
  page = abandoned_page(64, false);
  ck_assert_uint_eq(word_of(page) & (MI_REMOTE_OWNED | MI_REMOTE_POOLED), 0);
  ck_assert_uint_eq(number_in(page), page->n_blocks);
}
END_TEST

START_TEST(a_push_waits_in_a_pooled_page) {
  struct mi_page *page = abandoned_page(8 * MI_KIB, true);
  for (uint32_t i = 0; i < 7; i++) {
    ck_assert_int_eq(push(page, block_at(page, i), false), MI_LEFT);
    ck_assert_uint_eq(number_in(page), 7 - i);
    ck_assert(word_of(page) & MI_REMOTE_POOLED);
  }
  /* The last live block: whoever frees it looks after the page. */
  ck_assert_int_eq(push(page, block_at(page, 7), false), MI_CLAIMED);
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  ck_assert_uint_eq(mi__page_used(page), 0);
  ck_assert(mi__page_is_whole(page));
}
END_TEST

/* Its frees wait until an eighth of it is free: worth a place in the pool. */
START_TEST(a_push_claims_a_page_that_nobody_would_find) {
  struct mi_page *page = abandoned_page(64, false);
  uint32_t batch = page->n_blocks / 8;
  for (uint32_t i = 0; i < batch - 1; i++) {
    ck_assert_int_eq(push(page, block_at(page, i), false), MI_LEFT);
    ck_assert_uint_eq(number_in(page), page->n_blocks - 1 - i);
    ck_assert_uint_eq(word_of(page) & (MI_REMOTE_OWNED | MI_REMOTE_POOLED), 0);
  }
  ck_assert_int_eq(push(page, block_at(page, batch - 1), false), MI_CLAIMED);
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  ck_assert_ptr_eq(page->free, block_at(page, batch - 1));
  ck_assert_uint_eq(length_of(page->free), batch);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - batch);

  page = abandoned_page(512 * MI_KIB, false); /* of 8 blocks the first */
  ck_assert_int_eq(push(page, block_at(page, 3), false), MI_CLAIMED);
  page = abandoned_page(64, false);
  ck_assert_int_eq(push(page, block_at(page, 3), true), MI_CLAIMED); /* where it is wanted */
}
END_TEST

START_TEST(a_batch_is_an_eighth) {
  struct mi_page *page = used_page(64);
  for (uint32_t i = 0; i < page->n_blocks / 8; i++) {
    ck_assert(!mi__remote_has_batch(page));
    push(page, block_at(page, i), false);
  }
  ck_assert(mi__remote_has_batch(page));
}
END_TEST

START_TEST(a_push_claims_where_it_is_wanted) {
  struct mi_page *page = abandoned_page(64, true);
  ck_assert_int_eq(push(page, block_at(page, 4), false), MI_LEFT);
  ck_assert_int_eq(push(page, block_at(page, 5), true), MI_CLAIMED);
  ck_assert_uint_eq(length_of(page->free), 2);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - 2);
}
END_TEST

START_TEST(refuses_more_than_is_live) {
  struct mi_page *page = used_page(64);
  mi__page_set_used(page, 1); /* one live block */
  ck_assert(mi__remote_disown(page, true, false));
  uint64_t before = word_of(page);
  block_at(page, 0)->next = block_at(page, 1);
  struct mi__run run = {page, block_at(page, 0), block_at(page, 1), 2};
  ck_assert_int_eq(mi__remote_push(&run, false), MI_REFUSED);
  ck_assert_int_eq(mi__remote_push(&run, true), MI_REFUSED);
  ck_assert_uint_eq(word_of(page), before);
}
END_TEST

START_TEST(no_page_takes_nothing) {
  struct mi_page *page = used_page(64);
  struct mi_block *list, *block = block_at(page, 0);
  uint32_t n;
  mi__store(&page->xremote, 0, relaxed);
  ck_assert_int_eq(push(page, block, false), MI_REFUSED);
  ck_assert_int_eq(push(page, block, true), MI_REFUSED);
  ck_assert(!mi__remote_claim(page, &list, &n));
  ck_assert_uint_eq(word_of(page), 0);
}
END_TEST

START_TEST(claim_wants_a_pooled_page_of_nobody) {
  struct mi_block *list = NULL;
  uint32_t n = 0;
  ck_assert(!mi__remote_claim(used_page(64), &list, &n));
  ck_assert(!mi__remote_claim(abandoned_page(64, false), &list, &n));
  struct mi_page *page = abandoned_page(64, true);
  push(page, block_at(page, 1), false);
  push(page, block_at(page, 2), false);
  ck_assert(mi__remote_claim(page, &list, &n));
  ck_assert_uint_eq(n, 2);
  ck_assert_ptr_eq(list, block_at(page, 2));
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks);
  ck_assert(!mi__remote_claim(page, &list, &n)); /* owned by now */
  mi__remote_settle(page, list, n);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - 2);
  ck_assert(!mi__page_flag(page, MI_PAGE_BROKEN));
}
END_TEST

/* ---- pins ---- */

START_TEST(a_pin_stays_through_all_that_happens) {
  struct mi_page *page = used_page(8 * MI_KIB);
  struct mi_block *list = NULL;
  uint32_t n;
  ck_assert(mi__remote_pin(page));
#define PINNED() ck_assert(word_of(page) & MI_REMOTE_PINNED)
  ck_assert_int_eq(push(page, block_at(page, 0), false), MI_PUSHED);
  PINNED();
  ck_assert_ptr_nonnull(mi__remote_take(page, &n));
  PINNED();
  mi__remote_settle(page, block_at(page, 0), 1);
  ck_assert(mi__remote_disown(page, true, true));
  PINNED();
  ck_assert_int_eq(push(page, block_at(page, 1), false), MI_LEFT_COUNTED);
  PINNED();
  ck_assert(mi__remote_claim(page, &list, &n));
  PINNED();
  ck_assert_uint_eq(n, 1);
  mi__remote_settle(page, list, n);
  ck_assert(mi__remote_disown(page, true, false));
  for (uint32_t i = 2; i < 7; i++) ck_assert_int_eq(push(page, block_at(page, i), false), MI_LEFT);
  ck_assert_int_eq(push(page, block_at(page, 7), false), MI_CLAIMED);
  PINNED();
  ck_assert(!mi__remote_unpin(page)); /* it lives: its owner goes on */
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  ck_assert(mi__remote_end(page));
  ck_assert_uint_eq(word_of(page), 0);
}
END_TEST

START_TEST(a_pinned_page_is_given_back_by_who_unpins) {
  struct mi_page *page = used_page(64);
  ck_assert(mi__remote_pin(page));
  ck_assert(!mi__remote_end(page));
  ck_assert_uint_eq(word_of(page), MI_REMOTE_DEAD);
  ck_assert(!mi__remote_pin(page)); /* too late */
  struct mi_block *list;
  uint32_t n;
  ck_assert(!mi__remote_claim(page, &list, &n));
  ck_assert(mi__remote_unpin(page));
  ck_assert(!mi__remote_pin(page)); /* no page, though it is just being given back */
  ck_assert_uint_eq(word_of(page), 0);
}
END_TEST

START_TEST(who_frees_is_told_to_count) {
  struct mi_page *page = used_page(64);
  uint32_t n = page->n_blocks;
  ck_assert(mi__remote_disown(page, true, true));
  ck_assert_uint_eq(number_in(page), n);
  ck_assert(word_of(page) & MI_REMOTE_COUNTED);
  for (uint32_t i = 0; i < n - 1; i++) {
    ck_assert_int_eq(push(page, block_at(page, i), false), MI_LEFT_COUNTED);
    ck_assert_uint_eq(number_in(page), n - 1 - i);
  }
  ck_assert(mi__remote_may_have_room(page));
  ck_assert_int_eq(push(page, block_at(page, n - 1), false), MI_CLAIMED);
  ck_assert_uint_eq(word_of(page), MI_REMOTE_OWNED);
  page = used_page(8); /* the most blocks that a page can have */
  n = page->n_blocks;
  ck_assert_uint_eq(n, 8192);
  mi__store(&page->n_counted, n, relaxed);
  ck_assert(mi__remote_disown(page, false, true));
  ck_assert_uint_eq(number_in(page), n);
  ck_assert(!mi__remote_may_have_room(page));
  ck_assert_int_eq(push(page, block_at(page, 0), false), MI_LEFT_COUNTED);
  ck_assert_uint_eq(mi__remote_count_freed(page), 1);
}
END_TEST

/* ---- races ---- */

enum { N_THREADS = 4 };
static struct mi_page *shared;
static pthread_barrier_t barrier;
static _Atomic(int) n_claims;

static void *push_share(void *arg) {
  uint32_t from = (uint32_t)(uintptr_t)arg;
  pthread_barrier_wait(&barrier);
  for (uint32_t i = from; i < shared->n_blocks; i += N_THREADS) {
    bool claimed = push(shared, block_at(shared, i), false) == MI_CLAIMED;
    if (claimed) mi__fetch_add(&n_claims, 1, relaxed);
  }
  return NULL;
}

static void run_pushers(void (*meanwhile)(void)) {
  pthread_t threads[N_THREADS];
  pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
  for (uintptr_t i = 0; i < N_THREADS; i++) {
    pthread_create(&threads[i], NULL, push_share, (void *)i);
  }
  pthread_barrier_wait(&barrier);
  meanwhile();
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
}

static void collect_all(void) {
  while (mi__page_used(shared) > 0 && !mi__page_flag(shared, MI_PAGE_BROKEN)) {
    mi__remote_collect(shared);
    sched_yield();
  }
}

START_TEST(pushes_race_with_the_owner) {
  for (int round = 0; round < 20; round++) {
    shared = used_page(16);
    run_pushers(collect_all);
    ck_assert(mi__page_is_whole(shared));
    mi__page_delete(mi__arenas_main(), shared);
  }
  ck_assert_int_eq(n_claims, 0);
}
END_TEST

static void nothing(void) {}

START_TEST(one_push_claims_the_emptied_page) {
  for (int round = 0; round < 20; round++) {
    shared = abandoned_page(16, true);
    run_pushers(nothing);
    ck_assert_int_eq(n_claims, round + 1);
    ck_assert_uint_eq(mi__page_used(shared), 0);
    ck_assert(mi__page_is_whole(shared));
    mi__page_delete(mi__arenas_main(), shared);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("page/remote");
  TCase *tcase = tcase_create("remote");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, the_owner_takes_what_was_pushed);
  tcase_add_test(tcase, a_run_is_one_push);
  tcase_add_test(tcase, refuses_more_than_there_are);
  tcase_add_test(tcase, collect_puts_them_on_the_free_list);
  tcase_add_test(tcase, collect_finds_damage);
  tcase_add_test(tcase, disown_counts_what_is_live);
  tcase_add_test(tcase, a_push_waits_in_a_pooled_page);
  tcase_add_test(tcase, a_push_claims_a_page_that_nobody_would_find);
  tcase_add_test(tcase, a_batch_is_an_eighth);
  tcase_add_test(tcase, a_push_claims_where_it_is_wanted);
  tcase_add_test(tcase, refuses_more_than_is_live);
  tcase_add_test(tcase, no_page_takes_nothing);
  tcase_add_test(tcase, claim_wants_a_pooled_page_of_nobody);
  tcase_add_test(tcase, a_pin_stays_through_all_that_happens);
  tcase_add_test(tcase, a_pinned_page_is_given_back_by_who_unpins);
  tcase_add_test(tcase, who_frees_is_told_to_count);
  tcase_add_test(tcase, pushes_race_with_the_owner);
  tcase_add_test(tcase, one_push_claims_the_emptied_page);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
