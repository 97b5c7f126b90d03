/* SPDX-License-Identifier: MIT */
/* src/heap/teardown.c: the claim of a theap, and its end by thread or heap, whichever is first. */
#include "common.h"
#include "fixture.h"
#include "heap/park.h"
#include "heap/registry.h"
#include "heap/teardown.h"

static struct mi_heap_s *new_heap(void) {
  struct mi_heap_s *heap = mi__heap_new(&mi__subproc_main, NULL);
  ck_assert_ptr_nonnull(heap);
  return heap;
}
static uint32_t word_of(struct mi_theap_s *theap) { return mi__load(&theap->xclaim, acquire); }
static uint32_t state_of(struct mi_theap_s *theap) { return word_of(theap) & MI_CLAIM_STATE; }
static struct mi_theap_s *theap_of(struct mi_heap_s *heap) {
  struct mi_theap_s *theap = mi__heap_theap_slow(heap);
  ck_assert_ptr_nonnull(theap);
  return theap;
}

/* A fork child, where another thread was just ending the heap that a parked one allocates from. */
START_TEST(a_parked_thread_loses_its_default_theap) {
  struct mi_theap_s *theap = theap_of(new_heap());
  struct mi_thread *self = mi__thread_self(true);
  (void)mi_theap_set_default(theap);
  mi__store(&theap->xclaim, word_of(theap) | MI_CLAIM_DYING, relaxed);
  mi__park_begin(self);
  mi__teardown_fork_child(self);
  mi__park_end();
  ck_assert_ptr_eq(mi_theap_get_default(), &self->main);
  mi_free(mi_malloc(64));
}
END_TEST

/* ---- the word ---- */

START_TEST(one_claim_at_a_time) {
  struct mi_theap_s *theap = theap_of(new_heap());
  uint32_t free_word = word_of(theap);
  ck_assert_uint_eq(state_of(theap), MI_CLAIM_FREE);
  ck_assert_uint_ne(mi__claim_seq(free_word), 0);
  ck_assert(mi__claim_try(theap));
  ck_assert_uint_eq(state_of(theap), MI_CLAIM_WORK);
  ck_assert_uint_eq(mi__claim_seq(word_of(theap)), mi__claim_seq(free_word));
  ck_assert(!mi__claim_try(theap));
  mi__claim_release(theap);
  ck_assert_uint_eq(word_of(theap), free_word);
  ck_assert(mi__claim_try(theap));
}
END_TEST

START_TEST(a_record_has_a_new_number_each_time) {
  uint32_t seen[20];
  struct mi_theap_s *first = NULL;
  for (int i = 0; i < 20; i++) {
    struct mi_heap_s *heap = new_heap();
    struct mi_theap_s *theap = theap_of(heap);
    if (first == NULL) first = theap;
    ck_assert_ptr_eq(theap, first);
    seen[i] = mi__claim_seq(word_of(theap));
    for (int k = 0; k < i; k++) ck_assert_uint_ne(seen[k], seen[i]);
    mi__heap_end(heap, true);
    ck_assert_uint_eq(word_of(theap), 0); /* free: a number that no theap has */
    ck_assert_ptr_null(mi__theap_heap(theap));
    ck_assert_ptr_null(mi__theap_thread(theap));
  }
}
END_TEST

/* ---- waiting ---- */

static struct mi_heap_s *heap_to_end;
static _Atomic(bool) has_ended;
static void *end_it(void *destroy) {
  mi__heap_end(heap_to_end, destroy != NULL);
  mi__store(&has_ended, true, release);
  return NULL;
}
/* The end waits for who works on the theap, asleep, and with no lock held. */
START_TEST(an_end_waits_for_the_claim) {
  for (int destroy = 0; destroy < 2; destroy++) {
    heap_to_end = new_heap();
    has_ended = false;
    struct mi_theap_s *theap = theap_of(heap_to_end);
    void *p = mi_heap_malloc(heap_to_end, 100);
    ck_assert(mi__claim_try(theap));
    pthread_t ender;
    pthread_create(&ender, NULL, end_it, destroy ? &heap_to_end : NULL);
    while ((word_of(theap) & MI_CLAIM_SLEEPERS) == 0) sched_yield();
    ck_assert(!mi__load(&has_ended, acquire));
    ck_assert(mi__lock_try_acquire(&mi__heaps_lock));
    mi__lock_release(&mi__heaps_lock);
    ck_assert_ptr_eq(heap_to_end->theaps, theap);
    ck_assert_ptr_eq(mi__page_heap(page_at(p)), heap_to_end);
    mi__claim_release(theap);
    ck_assert_int_eq(pthread_join(ender, NULL), 0);
    ck_assert(has_ended);
    ck_assert_uint_eq(word_of(theap), 0);
    ck_assert_int_ge(count_of(&mi__subproc_main.heaps_delete_wait), 1);
    if (destroy) continue;
    ck_assert_ptr_eq(mi__page_heap(page_at(p)), &mi__heap_main);
    mi_free(p);
  }
}
END_TEST

static int n_worked;
static void work(struct mi_theap_s *theap) {
  ck_assert_uint_eq(state_of(theap), MI_CLAIM_WORK);
  n_worked++;
}
START_TEST(work_leaves_out_what_others_have) {
  struct mi_heap_s *heaps[3];
  for (int i = 0; i < 3; i++) {
    heaps[i] = new_heap();
    (void)theap_of(heaps[i]);
  }
  struct mi_thread *self = mi__thread_self(false);
  mi__thread_each_theap(self, work);
  ck_assert_int_eq(n_worked, 3);
  struct mi_theap_s *held = theap_of(heaps[1]);
  ck_assert(mi__claim_try(held));
  mi__thread_each_theap(self, work);
  ck_assert_int_eq(n_worked, 5);
  mi__claim_release(held);
  for (int i = 0; i < 3; i++) ck_assert_uint_eq(state_of(theap_of(heaps[i])), MI_CLAIM_FREE);
}
END_TEST

/* ---- the end of a thread ---- */

static void *left[6];
static void leave_blocks(void *arg) {
  struct mi_heap_s **heaps = arg;
  for (int i = 0; i < 6; i++) {
    left[i] = mi_heap_malloc(heaps[i % 3], 64 + 900u * (unsigned)i);
    ck_assert_ptr_nonnull(left[i]);
  }
  mi_free(left[3]); /* heap 0's second one */
}
START_TEST(a_thread_leaves_its_blocks_in_their_heaps) {
  struct mi_heap_s *heaps[3];
  for (int i = 0; i < 3; i++) heaps[i] = new_heap();
  in_thread(leave_blocks, heaps);
  for (int i = 0; i < 3; i++) {
    ck_assert_ptr_null(heaps[i]->theaps);
    ck_assert_int_eq(count_of(&heaps[i]->counters.theaps.current), 0);
    ck_assert_int_eq(count_of(&heaps[i]->counters.theaps.total), 1);
    struct mi_page *page = page_at(left[i]);
    ck_assert_ptr_eq(mi__page_heap(page), heaps[i]);
    ck_assert_uint_eq(mi__load(&page->owner, relaxed), MI_OWNER_NONE);
    ck_assert_int_eq(page->list, MI_LIST_POOL);
    ck_assert_int_eq(count_of(&heaps[i]->counters.pages_abandoned.current), i == 0 ? 1 : 2);
  }
  /* and the next thread takes them over */
  void *p = mi_heap_malloc(heaps[1], 964);
  ck_assert_ptr_eq(page_at(p), page_at(left[1]));
  merge_counters();
  ck_assert_int_eq(count_of(&heaps[1]->counters.pages_abandoned.current), 1);
}
END_TEST

/* ---- both ends at once ---- */

enum { N_HEAPS = 4, N_USERS = 3 };
static struct mi_heap_s *raced[N_HEAPS];
static pthread_barrier_t barrier;
static void *blocks[N_USERS][N_HEAPS];
static void *use_and_end(void *arg) {
  void **mine = arg;
  for (int i = 0; i < N_HEAPS; i++) mine[i] = mi_heap_malloc(raced[i], 500);
  pthread_barrier_wait(&barrier);
  return NULL; /* while the heaps end */
}
static void *end_half(void *arg) {
  int from = (int)(uintptr_t)arg;
  pthread_barrier_wait(&barrier);
  for (int i = from; i < N_HEAPS; i += 2) mi__heap_end(raced[i], from == 1);
  return NULL;
}
START_TEST(threads_and_heaps_end_together) {
  for (size_t round = 0; round < mi_test_scale(500, 10000); round++) {
    pthread_t users[N_USERS], enders[2];
    for (int i = 0; i < N_HEAPS; i++) raced[i] = new_heap();
    pthread_barrier_init(&barrier, NULL, N_USERS + 2);
    for (int i = 0; i < N_USERS; i++) pthread_create(&users[i], NULL, use_and_end, blocks[i]);
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&enders[i], NULL, end_half, (void *)i);
    for (int i = 0; i < N_USERS; i++) pthread_join(users[i], NULL);
    for (int i = 0; i < 2; i++) pthread_join(enders[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int i = 0; i < N_USERS; i++) {
      for (int k = 0; k < N_HEAPS; k += 2) {
        ck_assert_ptr_eq(mi__page_heap(page_at(blocks[i][k])), &mi__heap_main);
        mi_free(blocks[i][k]);
      }
    }
    ck_assert_ptr_eq(mi__subproc_main.last, &mi__heap_main);
  }
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(bins[mi__bin_of(500)].blocks), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

/* The same theap from both sides, as near to each other as it gets. */
static _Atomic(unsigned) at_start;
static void start_together(void) {
  unsigned place = mi__fetch_add(&at_start, 1, acq_rel), all = place / 2 * 2 + 2;
  for (int i = 0; (int)(mi__load(&at_start, acquire) - all) < 0; i++) {
    if (i > 1000) sched_yield();
  }
}
static _Atomic(size_t) n_rounds;
static void *end_threads(void *arg) {
  (void)arg;
  for (size_t i = 0; i < n_rounds; i++) {
    ck_assert_ptr_nonnull(mi_heap_malloc(raced[0], 64));
    start_together();
    mi__thread_end(true);
    start_together();
    start_together(); /* there is another heap */
  }
  return NULL;
}
START_TEST(one_of_two_ends_wins) {
  pthread_t thread;
  n_rounds = mi_test_scale(3000, 30000);
  raced[0] = new_heap();
  pthread_create(&thread, NULL, end_threads, NULL);
  for (size_t i = 0; i < n_rounds; i++) {
    start_together();
    mi__heap_end(raced[0], true);
    start_together();
    raced[0] = new_heap();
    start_together();
  }
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

/* A thread works on all its theaps while heaps that it does not use any more are ended. */
static _Atomic(bool) stop;
static void *collect_often(void *arg) {
  (void)arg;
  for (int i = 0; i < N_HEAPS; i++) mi_free(mi_heap_malloc(raced[i], 500));
  pthread_barrier_wait(&barrier);
  while (!mi__load(&stop, acquire)) mi_collect(true);
  return NULL;
}
START_TEST(collections_race_with_ends) {
  for (size_t round = 0; round < mi_test_scale(200, 4000); round++) {
    pthread_t user;
    for (int i = 0; i < N_HEAPS; i++) raced[i] = new_heap();
    mi__store(&stop, false, relaxed);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&user, NULL, collect_often, NULL);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < N_HEAPS; i++) mi__heap_end(raced[i], i % 2 == 0);
    mi__store(&stop, true, release);
    pthread_join(user, NULL);
    pthread_barrier_destroy(&barrier);
  }
  ck_assert_int_eq(n_errors, 0);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/teardown");
  TCase *tcase = new_case(suite, "claim");
  tcase_add_test(tcase, one_claim_at_a_time);
  tcase_add_test(tcase, a_record_has_a_new_number_each_time);
  tcase_add_test(tcase, an_end_waits_for_the_claim);
  tcase_add_test(tcase, work_leaves_out_what_others_have);
  tcase_add_test(tcase, a_thread_leaves_its_blocks_in_their_heaps);
  tcase = new_case(suite, "fork");
  tcase_add_test(tcase, a_parked_thread_loses_its_default_theap);
  tcase = new_case(suite, "races");
  tcase_set_timeout(tcase, 250);
  tcase_add_test(tcase, threads_and_heaps_end_together);
  tcase_add_test(tcase, one_of_two_ends_wins);
  tcase_add_test(tcase, collections_race_with_ends);
  return mi_test_run_suite(suite);
}
