/* SPDX-License-Identifier: MIT */
/* src/heap/epoch.c: epochs end by the clock, one step a sweep, and pages tell how long ago they were used. */
#include "../page/fixture.h"
#include "heap/epoch.h"
#include "os/os.h"
#include <pthread.h>
#include <sched.h>

static _Atomic(uint64_t) clock_now = 1000000;
static uint64_t read_clock(void) { return mi__load(&clock_now, relaxed); }

static void set_up(void) {
  mi__process_init();
  mi__os_calls.clock_ms = read_clock;
  mi__epoch_fork_child(); /* an epoch begins */
}
static void pass(uint64_t ms) { mi__fetch_add(&clock_now, ms, relaxed); }
static uint32_t now(void) { return mi__load(&mi__epoch_now, relaxed); }

START_TEST(no_epoch_is_shorter_than_the_interval) {
  uint32_t first = now();
  ck_assert_uint_eq(mi__epoch_move(100), first);
  pass(99);
  ck_assert_uint_eq(mi__epoch_move(100), first);
  pass(1);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1); /* the next one begins now */
  pass(99);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  pass(1);
  ck_assert_uint_eq(mi__epoch_move(100), first + 2);
  ck_assert_uint_eq(now(), first + 2);
}
END_TEST

START_TEST(one_step_however_late) {
  uint32_t first = now();
  pass(100000);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  pass(50); /* counted from the move, not from when it was due */
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  pass(50);
  ck_assert_uint_eq(mi__epoch_move(100), first + 2);
}
END_TEST

START_TEST(each_sweep_a_step_without_an_interval) {
  uint32_t first = now();
  for (uint32_t i = 1; i <= 5; i++) ck_assert_uint_eq(mi__epoch_move(0), first + i);
}
END_TEST

/* The clock stands at a multiple of the interval and moves only when all have swept. */
enum { N_THREADS = 4, N_STEPS = 200 };
static pthread_barrier_t barrier;
static void *sweep_often(void *arg) {
  uint32_t *bad = arg;
  for (uint32_t i = 0; i < N_STEPS; i++) {
    uint32_t before = now();
    pthread_barrier_wait(&barrier);
    uint32_t got = mi__epoch_move(100);
    if (got != before && got != before + 1) ++*bad;
    pthread_barrier_wait(&barrier);
    if (now() != before + 1) ++*bad;
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) pass(100);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

START_TEST(one_step_for_all_who_sweep_together) {
  pthread_t threads[N_THREADS];
  uint32_t bad[N_THREADS] = {0}, first = now();
  pass(100);
  pthread_barrier_init(&barrier, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++) pthread_create(&threads[i], NULL, sweep_often, &bad[i]);
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_uint_eq(bad[i], 0);
  }
  ck_assert_uint_eq(now(), first + N_STEPS);
}
END_TEST

/* The clock is read last when the number has changed already: what began is not longer ago. */
static uint32_t number_at_last_read;
static uint64_t note_number(void) {
  number_at_last_read = now();
  return read_clock();
}
START_TEST(the_time_is_read_after_the_step) {
  uint32_t first = now();
  mi__os_calls.clock_ms = note_number;
  pass(100);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  ck_assert_uint_eq(number_at_last_read, first + 1);
}
END_TEST

START_TEST(ages_of_pages) {
  struct mi_page *page = page_of_size(81920);
  uint32_t at = now();
  mi__epoch_stamp(page);
  ck_assert_int_eq(mi__epoch_age(page, at), 0);
  ck_assert_int_eq(mi__epoch_age(page, at + 3), 3);
  ck_assert_int_eq(mi__epoch_age(page, at - 1), -1); /* stamped after the sweep began */
  mi__store(&mi__epoch_now, UINT32_MAX, relaxed);
  mi__epoch_stamp(page);
  ck_assert_int_eq(mi__epoch_age(page, UINT32_MAX), 0);
  pass(100);
  ck_assert_uint_eq(mi__epoch_move(100), 0);
  ck_assert_int_eq(mi__epoch_age(page, now()), 1);
  pass(100);
  ck_assert_uint_eq(mi__epoch_move(100), 1);
  ck_assert_int_eq(mi__epoch_age(page, now()), 2);
  mi__epoch_stamp(page);
  ck_assert_int_eq(mi__epoch_age(page, UINT32_MAX), -2);
}
END_TEST

START_TEST(a_page_that_becomes_current_leaves_the_floor) {
  struct mi_page *page = page_of_size(81920);
  ck_assert(mi__holes_keep(page, 81920, MI_MIB));
  mi__page_more(page)->epoch = now() - 5;
  mi__epoch_begin_current(page);
  ck_assert_int_eq(mi__epoch_age(page, now()), 0);
  ck_assert_uint_eq(mi__page_more(page)->kept, 0);
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 0);
}
END_TEST

START_TEST(a_child_has_an_epoch_of_its_own) {
  uint32_t first = now();
  pass(60);
  mi__epoch_fork_child();
  pass(60);
  ck_assert_uint_eq(mi__epoch_move(100), first);
  pass(40);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
}
END_TEST

/* A mover that never comes back: its thread is not in the child. */
static _Atomic(bool) hangs, is_in;
static _Thread_local bool is_mover;
static uint64_t hang_in_the_claim(void) {
  static _Thread_local int n;
  if (mi__load(&hangs, relaxed) && is_mover && ++n == 2) {
    mi__store(&is_in, true, relaxed);
    while (mi__load(&hangs, relaxed)) sched_yield();
  }
  return read_clock();
}
static void *move_once(void *arg) {
  (void)arg;
  is_mover = true;
  (void)mi__epoch_move(100);
  return NULL;
}
START_TEST(a_claim_of_the_parent_ends_in_the_child) {
  pthread_t thread;
  uint32_t first = now();
  pass(100);
  mi__store(&hangs, true, relaxed);
  mi__os_calls.clock_ms = hang_in_the_claim;
  ck_assert_int_eq(pthread_create(&thread, NULL, move_once, NULL), 0);
  while (!mi__load(&is_in, relaxed)) sched_yield();
  ck_assert_uint_eq(mi__epoch_move(100), first); /* somebody is at it */
  mi__epoch_fork_child();
  ck_assert_uint_eq(mi__epoch_move(100), first);
  pass(100);
  ck_assert_uint_eq(mi__epoch_move(100), first + 1);
  mi__store(&hangs, false, relaxed);
  pthread_join(thread, NULL);
}
END_TEST

int main(void) {
  if (!mi_test_forks()) return 77;
  Suite *suite = suite_create("heap/epoch");
  TCase *tcase = tcase_create("epochs");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_up, NULL);
  tcase_add_test(tcase, no_epoch_is_shorter_than_the_interval);
  tcase_add_test(tcase, one_step_however_late);
  tcase_add_test(tcase, each_sweep_a_step_without_an_interval);
  tcase_add_test(tcase, one_step_for_all_who_sweep_together);
  tcase_add_test(tcase, the_time_is_read_after_the_step);
  tcase_add_test(tcase, ages_of_pages);
  tcase_add_test(tcase, a_page_that_becomes_current_leaves_the_floor);
  tcase_add_test(tcase, a_child_has_an_epoch_of_its_own);
  tcase_add_test(tcase, a_claim_of_the_parent_ends_in_the_child);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
