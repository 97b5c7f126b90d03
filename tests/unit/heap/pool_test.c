/* SPDX-License-Identifier: MIT */
/* src/heap/pool.c: the list of abandoned pages. */
#include "../page/fixture.h"
#include "heap/heap.h"
#include "heap/pool.h"
#include "page/remote.h"
#include <pthread.h>


#define BIN mi__bin_of(64)
#define POOL mi__heap_main.pools[BIN]

/* All its blocks are taken but for one. */
static struct mi_page *with_room(void) {
  struct mi_page *page = page_of_size(64);
  mi__store(&page->heap, &mi__heap_main, relaxed);
  struct mi_block *list = take_all(page);
  uint32_t n;
  struct mi_block *first = list;
  first->next = NULL;
  ck_assert_int_eq(mi__page_put_back(page, first, 1, MI_FAULT_READY, &n), MI_FAULT_NONE);
  return page;
}
static struct mi_page *abandoned(void) {
  struct mi_page *page = with_room();
  mi__pool_put(page);
  ck_assert(mi__remote_disown(page, true, false));
  return page;
}
static uint32_t n_linked(void) { return mi__load(&POOL.n, relaxed); }
static void push(struct mi_page *page, uint32_t index) {
  struct mi__run run = {page, block_at(page, index), block_at(page, index), 1};
  ck_assert_int_eq(mi__remote_push(&run, false), MI_LEFT);
}

START_TEST(gives_the_oldest_first) {
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN));
  struct mi_page *a = abandoned(), *b = abandoned(), *c = abandoned();
  ck_assert_uint_eq(n_linked(), 3);
  ck_assert_int_eq(a->list, MI_LIST_POOL);
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), a);
  ck_assert_int_eq(a->list, MI_LIST_NONE);
  ck_assert_ptr_null(a->next);
  ck_assert_uint_eq(mi__load(&a->xremote, relaxed), MI_REMOTE_OWNED);
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), b);
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), c);
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN));
  ck_assert_uint_eq(n_linked(), 0);
}
END_TEST

START_TEST(passes_by_what_somebody_owns) {
  struct mi_page *a = with_room();
  mi__pool_put(a); /* linked, and not given up yet */
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN));
  struct mi_page *b = abandoned();
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), b);
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN));
  ck_assert_uint_eq(n_linked(), 1);
  ck_assert(mi__remote_disown(a, true, false));
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), a);
}
END_TEST

START_TEST(settles_what_was_freed) {
  struct mi_page *page = abandoned();
  push(page, 3);
  push(page, 4);
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), page);
  ck_assert_uint_eq(length_of(page->free), 3);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - 3);
}
END_TEST

START_TEST(removes_from_anywhere) {
  struct mi_page *pages[4];
  for (int first = 0; first < 4; first++) {
    for (int i = 0; i < 4; i++) {
      pages[i] = with_room();
      mi__pool_put(pages[i]);
    }
    mi__pool_remove(pages[first]);
    ck_assert_int_eq(pages[first]->list, MI_LIST_NONE);
    ck_assert_uint_eq(n_linked(), 3);
    for (int i = 0; i < 4; i++) {
      if (i != first) ck_assert(mi__remote_disown(pages[i], true, false));
    }
    for (int i = 0; i < 4; i++) {
      if (i != first) ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), pages[i]);
    }
    ck_assert_ptr_null(POOL.head);
    ck_assert_ptr_null(POOL.tail);
  }
}
END_TEST

/* Threads pass pages round; each page has one owner at a time, who writes its mark into it. */
enum { N_THREADS = 4, N_PAGES = 8, N_ROUNDS = 3000 };
static struct mi_page *pages[N_PAGES];
static _Atomic(int) owners[N_PAGES];

static void *pass_round(void *arg) {
  (void)arg;
  for (int i = 0; i < N_ROUNDS; i++) {
    struct mi_page *page = mi__pool_take(&mi__heap_main, BIN);
    if (page == NULL) continue;
    for (int k = 0; k < N_PAGES; k++) {
      if (pages[k] != page) continue;
      if (mi__fetch_add(&owners[k], 1, relaxed) != 0) return page;
      mi__fetch_sub(&owners[k], 1, relaxed);
    }
    mi__pool_put(page);
    if (!mi__remote_disown(page, true, false)) return page;
  }
  return NULL;
}

START_TEST(a_page_has_one_owner) {
  pthread_t threads[N_THREADS];
  void *bad;
  for (int i = 0; i < N_PAGES; i++) pages[i] = abandoned();
  for (int i = 0; i < N_THREADS; i++) pthread_create(&threads[i], NULL, pass_round, NULL);
  for (int i = 0; i < N_THREADS; i++) {
    ck_assert_int_eq(pthread_join(threads[i], &bad), 0);
    ck_assert_ptr_null(bad);
  }
  ck_assert_uint_eq(n_linked(), N_PAGES);
  for (int i = 0; i < N_PAGES; i++) ck_assert_ptr_nonnull(mi__pool_take(&mi__heap_main, BIN));
}
END_TEST

/* ---- a heap that ends ---- */

static struct mi_heap_s other, third; /* not in any list: that of their pools is enough */
static struct mi_page *in_heap(struct mi_heap_s *heap, struct mi_page *page) {
  mi__store(&page->heap, heap, relaxed);
  mi__pool_put(page);
  return page;
}
static struct mi_page *huge_page(void) {
  struct mi__span span = span_of(12);
  return mi__page_new_huge(&span, &other);
}

START_TEST(each_heap_has_pools_of_its_own) {
  struct mi_page *a = abandoned(), *b = in_heap(&other, with_room());
  ck_assert(mi__remote_disown(b, true, false));
  struct mi_page *huge = in_heap(&other, huge_page());
  ck_assert_uint_eq(mi__load(&other.pools[BIN].n, relaxed), 1);
  ck_assert_uint_eq(mi__load(&other.huge.n, relaxed), 1);
  ck_assert_ptr_eq(mi__pool_take(&other, BIN), b);
  ck_assert_ptr_null(mi__pool_take(&other, BIN));
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, BIN), a);
  mi__pool_remove(huge);
  ck_assert_uint_eq(mi__load(&other.huge.n, relaxed), 0);
}
END_TEST

START_TEST(evict_owns_what_nobody_owns) {
  enum mi__evicted how;
  ck_assert_ptr_null(mi__pool_evict(&other, &other.pools[BIN], &mi__heap_main, &how));
  struct mi_page *page = in_heap(&other, with_room());
  ck_assert(mi__remote_disown(page, true, false));
  push(page, 3);
  mi__store(&page->n_counted, page->n_blocks - 1, relaxed); /* the push is not counted yet */
  ck_assert_ptr_eq(mi__pool_evict(&other, &other.pools[BIN], &mi__heap_main, &how), page);
  ck_assert_int_eq(how, MI_EVICTED_MINE);
  ck_assert_int_eq(page->list, MI_LIST_NONE);
  ck_assert_ptr_eq(mi__page_heap(page), &mi__heap_main);
  ck_assert_uint_eq(length_of(page->free), 2);
  ck_assert_uint_eq(mi__load(&page->xremote, relaxed), MI_REMOTE_OWNED);
  ck_assert_int_eq(mi__load(&mi__heap_main.counters.bins[BIN].blocks.current, relaxed), page->n_blocks - 1);
  ck_assert_int_eq(mi__load(&mi__heap_main.counters.pages.current, relaxed), 1);
  ck_assert(!mi__page_flag(page, MI_PAGE_DRAINS));
  ck_assert_ptr_null(mi__pool_evict(&other, &other.pools[BIN], &mi__heap_main, &how));
}
END_TEST

/* Somebody has just freed its last block, and goes on with it in the new heap. */
START_TEST(evict_leaves_what_others_own) {
  enum mi__evicted how;
  struct mi_page *page = in_heap(&other, with_room()); /* owned */
  mi__store(&page->n_counted, 7, relaxed);
  ck_assert_ptr_eq(mi__pool_evict(&other, &other.pools[BIN], &mi__heap_main, &how), page);
  ck_assert_int_eq(how, MI_EVICTED_OTHERS);
  ck_assert_ptr_eq(mi__page_heap(page), &mi__heap_main);
  ck_assert_uint_eq(mi__load(&page->n_counted, relaxed), 1);
  ck_assert_int_eq(mi__load(&mi__heap_main.counters.bins[BIN].blocks.current, relaxed), 1);
  struct mi_heap_s *heap = mi__pool_hold(page);
  ck_assert_ptr_eq(heap, &mi__heap_main);
  ck_assert(mi__pool_leave(heap, page));
}
END_TEST

START_TEST(evicted_from_an_arena_it_only_drains) {
  enum mi__evicted how;
  other.only = (struct mi__arena *)(void *)&other; /* is not followed */
  struct mi_page *page = in_heap(&other, with_room());
  ck_assert(mi__remote_disown(page, true, false));
  ck_assert_ptr_eq(mi__pool_evict(&other, &other.pools[BIN], &mi__heap_main, &how), page);
  ck_assert(mi__page_flag(page, MI_PAGE_DRAINS));
  mi__pool_put(page);
  ck_assert(mi__remote_disown(page, true, false));
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN)); /* nobody allocates from it */
}
END_TEST

/* A huge page on its way to a heap that may end, too: freed meanwhile, or not. */
START_TEST(a_huge_page_is_moved_or_freed) {
  enum mi__evicted how;
  for (int freed = 0; freed < 2; freed++) {
    struct mi_page *page = in_heap(&other, huge_page());
    ck_assert_ptr_eq(mi__pool_evict(&other, &other.huge, &third, &how), page);
    ck_assert_int_eq(how, MI_EVICTED_HUGE);
    ck_assert_int_eq(page->list, MI_LIST_MOVING);
    if (freed) {
      struct mi_heap_s *heap = mi__pool_hold(page);
      ck_assert_ptr_eq(heap, &third);
      ck_assert(!mi__pool_leave(heap, page)); /* who moves it gives it back */
      ck_assert(!mi__pool_put_moved(page));
      ck_assert_uint_eq(mi__load(&third.huge.n, relaxed), 0);
    } else {
      ck_assert(mi__pool_put_moved(page));
      ck_assert_ptr_eq(third.huge.head, page);
      ck_assert(mi__pool_leave(mi__pool_hold(page), page));
      ck_assert_ptr_null(third.huge.head);
    }
  }
  struct mi_page *page = in_heap(&other, huge_page()); /* to the main heap: nothing more to do */
  ck_assert_ptr_eq(mi__pool_evict(&other, &other.huge, &mi__heap_main, &how), page);
  ck_assert_int_eq(page->list, MI_LIST_NONE);
}
END_TEST

START_TEST(a_page_that_leaves_holds_its_heap) {
  struct mi_page *page = in_heap(&other, with_room());
  struct mi_heap_s *heap = mi__pool_hold(page);
  ck_assert_ptr_eq(heap, &other);
  ck_assert_uint_ne(mi__load(&mi__pool_lock(&other, &other.huge)->state, relaxed), 0);
  ck_assert(mi__pool_leave(heap, page));
  ck_assert_uint_eq(mi__load(&other.pools[BIN].n, relaxed), 0);
  ck_assert_uint_eq(mi__load(&mi__pool_lock(&other, &other.huge)->state, relaxed), 0);
}
END_TEST

/* A page that a refill passes by stays linked for whoever owns it. */
START_TEST(passing_by_leaves_the_page_linked) {
  struct mi_page *a = with_room(), *b = with_room(), *c = with_room();
  mi__pool_put(a);
  mi__pool_put(b);
  mi__pool_put(c);
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, BIN));
  ck_assert_int_eq(a->list + b->list + c->list, 3 * MI_LIST_POOL);
  ck_assert_uint_eq(n_linked(), 3);
  for (int i = 0; i < 3; i++) {
    struct mi_page *page = POOL.head;
    ck_assert_ptr_null(page->prev);
    mi__pool_remove(page);
  }
  ck_assert_ptr_null(POOL.head);
  ck_assert_ptr_null(POOL.tail);
  ck_assert(a->next == NULL && b->next == NULL && c->next == NULL);
}
END_TEST

static void set_rank(void) {
  POOL.lock.rank = mi__heap_locks[0].rank = MI_LOCK_POOL;
}

int main(void) {
  Suite *suite = suite_create("heap/pool");
  TCase *tcase = tcase_create("pool");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_rank, NULL);
  tcase_add_test(tcase, gives_the_oldest_first);
  tcase_add_test(tcase, passes_by_what_somebody_owns);
  tcase_add_test(tcase, settles_what_was_freed);
  tcase_add_test(tcase, removes_from_anywhere);
  tcase_add_test(tcase, a_page_has_one_owner);
  tcase_add_test(tcase, passing_by_leaves_the_page_linked);
  tcase_add_test(tcase, each_heap_has_pools_of_its_own);
  tcase_add_test(tcase, evict_owns_what_nobody_owns);
  tcase_add_test(tcase, evict_leaves_what_others_own);
  tcase_add_test(tcase, evicted_from_an_arena_it_only_drains);
  tcase_add_test(tcase, a_huge_page_is_moved_or_freed);
  tcase_add_test(tcase, a_page_that_leaves_holds_its_heap);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
