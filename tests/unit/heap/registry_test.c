/* SPDX-License-Identifier: MIT */
/* src/heap/registry.c: heaps and theaps come and go; handles of those that are gone lead nowhere;
 * nothing that a heap counted is left behind in its record, or with a page that left meanwhile. */
#include "common.h"
#include "fixture.h"
#include "heap/registry.h"
#include "heap/subproc.h"
#include "heap/teardown.h"

static struct mi_heap_s *new_heap(void) {
  struct mi_heap_s *heap = mi__heap_new(&mi__subproc_main, NULL);
  ck_assert_ptr_nonnull(heap);
  return heap;
}
static void *alloc_in(struct mi_heap_s *heap, size_t size) {
  void *p = mi_heap_malloc(heap, size);
  ck_assert_ptr_nonnull(p);
  ck_assert_ptr_eq(mi__page_heap(page_at(p)), heap);
  return p;
}
static struct mi_thread *self(void) { return mi__thread_self(true); }

/* ---- records ---- */

START_TEST(a_heap_is_known_by_its_id) {
  struct mi_heap_s *a = new_heap(), *b = new_heap();
  ck_assert_uint_ne(a->id, b->id);
  ck_assert_uint_ne(a->key, b->key);
  ck_assert_uint_eq(mi__heap_seq(&mi__heap_main), 0);
  ck_assert_uint_gt(b->id, a->id);
  size_t id = a->id, key = a->key;
  mi__heap_end(a, true);
  ck_assert(!mi__heap_is_live(a));
  ck_assert_ptr_null(mi__heap_theap_slow(a));
  struct mi_heap_s *c = new_heap();
  ck_assert_ptr_eq(c, a); /* the record */
  ck_assert_uint_eq(c->key, key);
  ck_assert_uint_gt(c->id, id);
  ck_assert_ptr_null(c->theaps);
  ck_assert_ptr_null(c->only);
}
END_TEST

START_TEST(a_list_in_the_order_of_their_making) {
  struct mi_heap_s *heaps[5];
  for (int i = 0; i < 5; i++) heaps[i] = new_heap();
  mi__heap_end(heaps[1], true);
  mi__heap_end(heaps[4], true);
  heaps[1] = new_heap();
  struct mi_heap_s *expected[] = {&mi__heap_main, heaps[0], heaps[2], heaps[3], heaps[1], NULL};
  struct mi_heap_s *heap = mi__subproc_main.first;
  for (int i = 0; i < 6; i++) {
    ck_assert_ptr_eq(heap, expected[i]);
    if (heap != NULL) heap = heap->next;
  }
  ck_assert_ptr_eq(mi__subproc_main.last, heaps[1]);
}
END_TEST

static struct mi_heap_s *visited[8];
static int n_visited;
/* Ends what it sees and makes others, but those are not seen for ever. */
static bool end_and_make(struct mi_heap_s *heap, void *arg) {
  (void)arg;
  ck_assert_int_lt(n_visited, 8);
  visited[n_visited++] = heap;
  if (heap == &mi__heap_main) return true;
  mi__heap_end(heap, true);
  if (n_visited < 4) (void)new_heap();
  return n_visited < 7;
}
START_TEST(a_visit_sees_each_once) {
  for (int i = 0; i < 3; i++) (void)new_heap();
  ck_assert(mi__subproc_each_heap(&mi__subproc_main, end_and_make, NULL));
  ck_assert_int_eq(n_visited, 6); /* main, three, and the two that came meanwhile */
  ck_assert_ptr_eq(visited[0], &mi__heap_main);
  ck_assert_ptr_eq(mi__subproc_main.last, &mi__heap_main);
}
END_TEST

static pthread_barrier_t locked;
static void *hold_a_lock(void *arg) {
  struct mi_heap_s *heap = arg;
  struct mi__lock *lock = mi__pool_lock(heap, &heap->huge);
  mi__lock_acquire(lock);
  pthread_barrier_wait(&locked);
  pthread_barrier_wait(&locked);
  arg = mi__load(&lock->state, relaxed) == 0 ? lock : NULL;
  mi__lock_release(lock);
  return arg;
}
/* Who frees a block waits for the lock of its heap, and may find that the page has another by now. */
START_TEST(a_lock_stays_taken_when_its_heap_goes) {
  enum { N = 100 };
  static struct mi_heap_s *heaps[N];
  pthread_t holder;
  void *lost;
  for (int i = 0; i < N; i++) heaps[i] = new_heap();
  pthread_barrier_init(&locked, NULL, 2);
  pthread_create(&holder, NULL, hold_a_lock, heaps[0]);
  pthread_barrier_wait(&locked);
  for (int i = 0; i < N; i++) mi__heap_end(heaps[i], true); /* memory of records is given back */
  pthread_barrier_wait(&locked);
  ck_assert_int_eq(pthread_join(holder, &lost), 0);
  ck_assert_ptr_null(lost);
}
END_TEST

/* ---- from a heap to the theap of the thread ---- */

START_TEST(the_theap_is_found_quickly) {
  struct mi_heap_s *a = new_heap(), *b = new_heap();
  ck_assert_ptr_null(mi__heap_theap_quick(a));
  ck_assert_ptr_null(mi__heap_theap_quick(NULL));
  struct mi_theap_s *of_a = mi__heap_theap_slow(a), *of_b = mi__heap_theap_slow(b);
  ck_assert_ptr_nonnull(of_a);
  ck_assert_ptr_ne(of_a, of_b);
  for (int i = 0; i < 3; i++) {
    ck_assert_ptr_eq(mi__heap_theap_quick(a), of_a);
    ck_assert_ptr_eq(mi__heap_theap_quick(b), of_b);
    ck_assert_ptr_eq(mi__heap_find_theap(a, self()), of_a);
  }
  ck_assert_ptr_eq(mi__theap_heap(of_a), a);
  ck_assert_ptr_eq(mi__theap_thread(of_a), self());
  ck_assert_ptr_eq(mi__heap_theap_slow(&mi__heap_main), &self()->main);
}
END_TEST

START_TEST(an_old_handle_leads_nowhere) {
  for (int again = 0; again < 2; again++) {
    struct mi_heap_s *a = new_heap();
    ck_assert_ptr_nonnull(mi__heap_theap_slow(a));
    mi__heap_end(a, true);
    ck_assert_ptr_null(mi__heap_theap_quick(a)); /* ended */
    struct mi_heap_s *b = new_heap();
    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_null(mi__heap_theap_quick(b)); /* another one at the same place */
    ck_assert_ptr_null(mi__heap_find_theap(b, self()));
    mi__heap_end(b, true);
  }
}
END_TEST

static void find_nothing(void *heap) {
  ck_assert_ptr_null(mi__heap_theap_quick(heap)); /* not even begun */
  ck_assert_ptr_nonnull(mi__thread_self(true));
  ck_assert_ptr_null(mi__heap_theap_quick(heap));
}
START_TEST(an_ended_heap_has_no_theap_for_anybody) {
  struct mi_heap_s *a = new_heap();
  in_thread(find_nothing, a);
  mi__heap_end(a, true);
  in_thread(find_nothing, a);
  find_nothing(a);
}
END_TEST

enum { MANY = 100 };
START_TEST(many_heaps_of_one_thread) {
  static struct mi_heap_s *heaps[MANY];
  static struct mi_theap_s *theaps[MANY];
  for (int i = 0; i < MANY; i++) {
    heaps[i] = new_heap();
    theaps[i] = mi__heap_theap_slow(heaps[i]);
    ck_assert_ptr_nonnull(theaps[i]);
  }
  ck_assert_uint_gt(self()->table_mask, MANY);
  for (int i = 0; i < MANY; i++) ck_assert_ptr_eq(mi__heap_theap_quick(heaps[i]), theaps[i]);
  for (int i = 0; i < MANY; i += 2) mi__heap_end(heaps[i], true);
  for (int i = 0; i < MANY; i++) {
    ck_assert_ptr_eq(mi__heap_theap_quick(heaps[i]), i % 2 == 0 ? NULL : theaps[i]);
  }
}
END_TEST

/* Records whose memory was given back keep their keys, or the tables would grow without end. */
START_TEST(keys_are_used_again) {
  enum { N = 300 };
  static struct mi_heap_s *heaps[N];
  for (int round = 0; round < 5; round++) {
    uint64_t seen[N / 64 + 1] = {0};
    for (int i = 0; i < N; i++) {
      heaps[i] = new_heap();
      size_t key = heaps[i]->key;
      ck_assert_uint_ge(key, 1);
      ck_assert_uint_le(key, N);
      ck_assert_uint_eq(seen[key / 64] >> key % 64 & 1, 0); /* each has its own */
      seen[key / 64] |= (uint64_t)1 << key % 64;
      ck_assert_ptr_nonnull(mi__heap_theap_slow(heaps[i]));
    }
    for (int i = 0; i < N; i++) mi__heap_end(heaps[i], true);
  }
  ck_assert_uint_le(self()->table_mask, 511);
}
END_TEST

/* Where the table cannot grow an entry pushes out another; the list of theaps still knows it. */
START_TEST(a_table_that_cannot_grow) {
  static struct mi_heap_s *heaps[MANY];
  static struct mi_theap_s *theaps[MANY];
  for (int i = 0; i < MANY; i++) {
    heaps[i] = new_heap();
    theaps[i] = mi__heap_theap_slow(heaps[i]);
  }
  for (int i = 0; i < MANY; i++) mi__heap_end(heaps[i], true); /* the records are there */
  for (int i = 0; i < MANY; i++) heaps[i] = new_heap();
  struct mi_thread *me = self();
  me->table_at = (char *)me->small_table - (char *)me;
  me->table_mask = MI_SMALL_TABLE - 1;
  mi__store(&no_maps, true, relaxed);
  while (mi__meta_alloc(1024, 64) != NULL) {}
  for (int i = 0; i < MANY; i++) theaps[i] = mi__heap_theap_slow(heaps[i]);
  ck_assert_uint_eq(me->table_mask, MI_SMALL_TABLE - 1);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < MANY; i++) {
      ck_assert_ptr_nonnull(theaps[i]);
      ck_assert_ptr_eq(mi__heap_find_theap(heaps[i], me), theaps[i]);
      ck_assert_ptr_eq(mi__heap_theap_slow(heaps[i]), theaps[i]);
      ck_assert_ptr_eq(mi__heap_theap_quick(heaps[i]), theaps[i]);
    }
    mi__store(&no_maps, false, relaxed); /* and once it has grown */
  }
}
END_TEST

/* ---- blocks of a heap that ends ---- */

static const size_t sizes[] = {16, 64, 1000, 8000, 40000, 300000, 700000};
enum { N_SIZES = 7, N_EACH = 24 };
static void *blocks[N_SIZES][N_EACH];
static void fill(void *heap) {
  for (int s = 0; s < N_SIZES; s++) {
    for (int i = 0; i < N_EACH; i++) blocks[s][i] = alloc_in(heap, sizes[s]);
  }
}
static void free_from(int from, int step) {
  for (int s = 0; s < N_SIZES; s++) {
    for (int i = from; i < N_EACH; i += step) mi_free(blocks[s][i]);
  }
}

/* Nothing is counted as live, or there, in this heap. */
static void ck_nothing_left(struct mi_heap_s *heap, const char *when) {
  struct mi__heap_counters *c = &heap->counters;
  for (unsigned bin = 0; bin < MI_BINS + 1; bin++) {
    int64_t n = count_of(&c->bins[bin].blocks.current);
    ck_assert_msg(n == 0, "%s: %ld blocks of bin %u", when, (long)n, bin);
    n = count_of(&c->bins[bin].pages.current);
    ck_assert_msg(n == 0, "%s: %ld pages of bin %u", when, (long)n, bin);
  }
  ck_assert_msg(count_of(&c->pages.current) == 0, "%s: %ld pages", when, (long)count_of(&c->pages.current));
  ck_assert_msg(count_of(&c->pages_abandoned.current) == 0, "%s: %ld pages abandoned", when,
                (long)count_of(&c->pages_abandoned.current));
  ck_assert_msg(count_of(&c->blocks.current) == 0, "%s: %ld bytes", when, (long)count_of(&c->blocks.current));
  ck_assert_msg(count_of(&c->huge.current) == 0, "%s: %ld bytes huge", when, (long)count_of(&c->huge.current));
}
/* The next heap has the same record. */
static void ck_clean_record(struct mi_heap_s *ended) {
  struct mi_heap_s *heap = new_heap();
  ck_assert_ptr_eq(heap, ended);
  ck_nothing_left(heap, "a new heap");
  mi__heap_end(heap, true);
}

START_TEST(destroy_leaves_nothing) {
  struct mi_heap_s *heap = new_heap();
  fill(heap);
  in_thread(fill, heap);
  mi__heap_end(heap, true);
  ck_nothing_left(&mi__heap_main, "destroyed");
  ck_clean_record(heap);
  ck_assert_ptr_null(self()->theaps);
}
END_TEST

static void free_even(void *arg) {
  (void)arg;
  free_from(0, 2);
}
START_TEST(delete_moves_all_to_the_main_heap) {
  for (int other = 0; other < 2; other++) {
    struct mi_heap_s *heap = new_heap();
    if (other) in_thread(fill, heap);
    else fill(heap);
    in_thread(free_even, NULL);
    mi__heap_end(heap, false);
    for (int s = 0; s < N_SIZES; s++) {
      for (int i = 1; i < N_EACH; i += 2) {
        ck_assert_ptr_eq(mi__page_heap(page_at(blocks[s][i])), &mi__heap_main);
      }
      unsigned bin = page_at(blocks[s][1])->bin;
      ck_assert_int_eq(HEAP_CURRENT(bins[bin].blocks), N_EACH / 2);
    }
    ck_clean_record(heap);
    free_from(1, 2);
    mi_collect(true);
    ck_nothing_left(&mi__heap_main, "all freed");
  }
}
END_TEST

/* ---- frees while it is deleted ---- */

static pthread_barrier_t barrier;
static void *free_part(void *arg) {
  pthread_barrier_wait(&barrier);
  free_from((int)(uintptr_t)arg, 3);
  return NULL;
}
static void race(struct mi_heap_s *heap) {
  pthread_t freers[3];
  in_thread(fill, heap);
  pthread_barrier_init(&barrier, NULL, 4);
  for (uintptr_t i = 0; i < 3; i++) pthread_create(&freers[i], NULL, free_part, (void *)i);
  pthread_barrier_wait(&barrier);
  mi__heap_end(heap, false);
  for (int i = 0; i < 3; i++) pthread_join(freers[i], NULL);
  pthread_barrier_destroy(&barrier);
}
START_TEST(frees_while_it_is_deleted_are_counted_once) {
  for (int i = 0; i < (int)mi_test_scale(200, 1500); i++) {
    struct mi_heap_s *heap = new_heap();
    race(heap);
    mi_collect(true);
    ck_nothing_left(&mi__heap_main, "all freed");
    ck_clean_record(heap);
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(the_same_in_a_sub_process) {
  struct mi_subproc *subproc = mi__subproc_new();
  for (int i = 0; i < (int)mi_test_scale(200, 1500); i++) {
    struct mi_heap_s *heap = mi__heap_new(subproc, NULL);
    race(heap);
    ck_nothing_left(subproc->main, "all freed");
    ck_assert_uint_eq(mi__load(&subproc->main->huge.n, relaxed), 0);
    ck_assert_ptr_null(subproc->main->huge.head);
  }
  mi__subproc_end(subproc);
  ck_nothing_left(&mi__heap_main, "ended");
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* ---- broken pages ---- */

static void *in_broken[2];
static void alloc_two(void *heap) {
  for (int i = 0; i < 2; i++) in_broken[i] = alloc_in(heap, 100);
}
/* A page that nobody owns, broken. by_free: that comes out when another thread frees into it; else
 * when somebody takes it for a refill. */
static struct mi_page *broken_page(struct mi_heap_s *heap, bool by_free) {
  in_thread(alloc_two, heap);
  struct mi_page *page = page_at(in_broken[0]);
  mi__page_set_flag(page, MI_PAGE_BROKEN, true);
  n_errors = 0;
  if (by_free) {
    mi_free(in_broken[0]);
    mi_free(in_broken[1]);
  } else {
    void *p = alloc_in(heap, 100);
    ck_assert_ptr_ne(page_at(p), page);
    mi_free(p);
    mi_heap_collect(heap, false);
  }
  ck_assert_int_eq(n_errors, 1);
  ck_assert_ptr_eq(mi__page_heap(page), heap);
  return page;
}

/* It is kept for its live blocks, and no other heap comes to it by the record of its own. */
START_TEST(a_broken_page_goes_where_the_others_go) {
  for (int by_free = 0; by_free < 2; by_free++) {
    struct mi_heap_s *heap = new_heap();
    struct mi_page *page = broken_page(heap, by_free != 0);
    mi__heap_end(heap, false);
    ck_assert_ptr_eq(mi__page_heap(page), &mi__heap_main);
    ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
    ck_assert_int_eq(n_errors, 1); /* reported once */
    struct mi_heap_s *next = new_heap();
    ck_assert_ptr_eq(next, heap);
    (void)alloc_in(next, 100);
    mi__heap_end(next, true);
    ck_assert_uint_eq(page->kind, MI_PAGE_SMALL);
  }
}
END_TEST

START_TEST(a_broken_page_is_destroyed) {
  for (int by_free = 0; by_free < 2; by_free++) {
    struct mi_heap_s *heap = new_heap();
    struct mi_page *page = broken_page(heap, by_free != 0);
    mi__heap_end(heap, true);
    ck_assert_uint_eq(page->kind, MI_PAGE_NONE);
    ck_nothing_left(&mi__heap_main, "destroyed");
    ck_clean_record(heap);
  }
}
END_TEST

/* ---- sub-processes ---- */

START_TEST(its_heaps_end_one_by_one) {
  struct mi_subproc *subproc = mi__subproc_new();
  struct mi_heap_s *heap = mi__heap_new(subproc, NULL);
  struct mi_page *broken = broken_page(heap, true);
  mi__heap_end(heap, false);
  ck_assert_ptr_eq(mi__page_heap(broken), subproc->main);
  heap = mi__heap_new(subproc, NULL);
  struct mi_page *huge = page_at(alloc_in(heap, 2 * MI_MIB));
  struct mi_page *direct = page_at(alloc_in(heap, 600 * MI_MIB));
  mi__heap_end(heap, true);
  ck_assert_uint_eq(huge->kind, MI_PAGE_NONE);
  ck_assert_uint_eq(direct->kind, MI_PAGE_NONE);
  ck_assert_int_eq(count_of(&subproc->main->counters.huge.current), 0);
  mi__subproc_end(subproc);
  ck_assert_uint_eq(broken->kind, MI_PAGE_NONE);
  ck_nothing_left(&mi__heap_main, "ended");
}
END_TEST

START_TEST(a_sub_process_takes_all_with_it) {
  struct mi_subproc *a = mi__subproc_new(), *b = mi__subproc_new();
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_ne(a->arenas, mi__arenas_main());
  ck_assert_ptr_ne(a->arenas, b->arenas);
  struct mi_heap_s *heap = mi__heap_new(a, NULL);
  ck_assert_ptr_eq(heap->arenas, a->arenas);
  fill(heap);
  fill(a->main);
  in_thread(fill, a->main);
  mi__subproc_end(a);
  ck_assert_ptr_null(self()->theaps);
  ck_nothing_left(&mi__heap_main, "ended");
  ck_assert_ptr_eq(mi__subproc_main.next, b);
  struct mi_subproc *c = mi__subproc_new();
  ck_assert_ptr_eq(c, a);
  ck_assert_ptr_eq(c->first, c->main);
  ck_assert_ptr_eq(c->last, c->main);
  mi__subproc_end(c);
  mi__subproc_end(b);
  ck_assert_ptr_null(mi__subproc_main.next);
}
END_TEST

START_TEST(no_memory) {
  static void *held[4096];
  size_t n = 0;
  mi__store(&no_maps, true, relaxed);
  struct mi_heap_s *heap = NULL;
  for (; n < 4096; n++) { /* until the library's own memory is used up */
    heap = mi_heap_new();
    if (heap == NULL) break;
    held[n] = heap;
  }
  ck_assert_ptr_null(heap);
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_ptr_null(mi__subproc_new());
  struct mi_heap_s *last = held[n - 1];
  mi_free(mi_heap_malloc(last, 100)); /* a theap, or none */
  for (size_t i = 0; i < n; i++) mi__heap_end(held[i], i % 2 == 0);
  mi__store(&no_maps, false, relaxed);
  heap = new_heap();
  (void)alloc_in(heap, 100);
  mi__heap_end(heap, true);
  ck_nothing_left(&mi__heap_main, "ended");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/registry");
  TCase *tcase = new_case(suite, "records");
  tcase_add_test(tcase, a_heap_is_known_by_its_id);
  tcase_add_test(tcase, a_list_in_the_order_of_their_making);
  tcase_add_test(tcase, a_visit_sees_each_once);
  tcase_add_test(tcase, a_lock_stays_taken_when_its_heap_goes);
  tcase = new_case(suite, "theaps");
  tcase_add_test(tcase, the_theap_is_found_quickly);
  tcase_add_test(tcase, an_old_handle_leads_nowhere);
  tcase_add_test(tcase, an_ended_heap_has_no_theap_for_anybody);
  tcase_add_test(tcase, many_heaps_of_one_thread);
  tcase_add_test(tcase, keys_are_used_again);
  tcase_add_test(tcase, a_table_that_cannot_grow);
  tcase = new_case(suite, "ends");
  tcase_set_timeout(tcase, 250);
  tcase_add_test(tcase, destroy_leaves_nothing);
  tcase_add_test(tcase, delete_moves_all_to_the_main_heap);
  tcase_add_test(tcase, frees_while_it_is_deleted_are_counted_once);
  tcase_add_test(tcase, the_same_in_a_sub_process);
  tcase = new_case(suite, "broken pages");
  tcase_add_test(tcase, a_broken_page_goes_where_the_others_go);
  tcase_add_test(tcase, a_broken_page_is_destroyed);
  tcase = new_case(suite, "sub-processes");
  tcase_add_test(tcase, its_heaps_end_one_by_one);
  tcase_add_test(tcase, a_sub_process_takes_all_with_it);
  if (!mi_test_under_shadow()) tcase_add_test(tcase, no_memory);
  return mi_test_run_suite(suite);
}
