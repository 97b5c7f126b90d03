/* SPDX-License-Identifier: MIT */
/* src/rt/lock.c: locks, their order, and what runs once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rt/lock.h"
#include "../suite.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_THREADS = 4 };

static struct mi__lock lock = MI_LOCK_INIT(MI_LOCK_META);
static struct mi__once once;
static long counter; /* plain: the lock, or the once, is what makes it right */
static _Atomic(int) n_runs;

static void nap_ms(long ms) {
  struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
  nanosleep(&time, NULL);
}

static void run_threads(void *(*body)(void *), void *arg) {
  pthread_t thread[N_THREADS];
  for (int i = 0; i < N_THREADS; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, body, arg), 0);
  for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
}

/* ---- locks ---- */

static void *count_up(void *arg) {
  long n = *(long *)arg;
  for (long i = 0; i < n; i++) {
    mi__lock_acquire(&lock);
    counter++;
    if (i % 64 == 0) sched_yield(); /* with the lock held, so that others come to sleep */
    mi__lock_release(&lock);
  }
  return NULL;
}

START_TEST(lets_one_thread_in) {
  long n = 20000;
  run_threads(count_up, &n);
  ck_assert_int_eq(counter, N_THREADS * n);
  ck_assert_uint_eq(mi__load(&lock.state, relaxed), 0);
}
END_TEST

static void *try_up(void *arg) {
  long *done = arg;
  for (int i = 0; i < 20000; i++) {
    if (!mi__lock_try_acquire(&lock)) continue;
    counter++;
    (*done)++; /* under the lock */
    mi__lock_release(&lock);
  }
  return NULL;
}

START_TEST(try_lets_one_thread_in) {
  long done = 0;
  run_threads(try_up, &done);
  ck_assert_int_gt(done, 0);
  ck_assert_int_eq(counter, done);
}
END_TEST

static void *try_once(void *got) {
  *(bool *)got = mi__lock_try_acquire(&lock);
  return NULL;
}

START_TEST(try_fails_while_it_is_held) {
  pthread_t thread;
  bool got = true;
  mi__lock_acquire(&lock);
  ck_assert_int_eq(pthread_create(&thread, NULL, try_once, &got), 0);
  pthread_join(thread, NULL);
  ck_assert(!got);
  mi__lock_release(&lock);
  ck_assert(mi__lock_try_acquire(&lock));
  mi__lock_release(&lock);
}
END_TEST

static void *hold_long(void *arg) {
  mi__lock_acquire(&lock);
  mi__store((_Atomic(int) *)arg, 1, release);
  nap_ms(200);
  mi__lock_release(&lock);
  return NULL;
}

/* Who waits sleeps: it uses next to no processor time, and is woken. */
START_TEST(waits_asleep) {
  pthread_t thread;
  _Atomic(int) held = 0;
  struct timespec before, after;
  ck_assert_int_eq(pthread_create(&thread, NULL, hold_long, &held), 0);
  while (mi__load(&held, acquire) == 0) nap_ms(1);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  mi__lock_acquire(&lock);
  mi__lock_release(&lock);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  long used_us = (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
  ck_assert_int_lt(used_us, 50000);
  pthread_join(thread, NULL);
}
END_TEST

START_TEST(is_free_after_a_reset) {
  mi__lock_acquire(&lock);
  mi__lock_reset(&lock);
  ck_assert(mi__lock_try_acquire(&lock));
  mi__lock_release(&lock);
}
END_TEST

/* The order is the one of enum mi__lock_rank; a thread that forks takes all of one rank, in any
 * order. Only the debug build looks. */
static struct mi__lock outer = MI_LOCK_INIT(MI_LOCK_FORK);
static struct mi__lock same[2] = { MI_LOCK_INIT(MI_LOCK_POOL), MI_LOCK_INIT(MI_LOCK_POOL) };

START_TEST(takes_locks_in_order) {
  for (int i = 0; i < 2; i++) {
    mi__lock_acquire(&outer);
    mi__lock_acquire(&same[0]);
    mi__lock_acquire(&same[1]);
    mi__lock_acquire(&lock);
    mi__lock_release(&same[0]);
    mi__lock_release(&outer);
    mi__lock_release(&lock);
    mi__lock_release(&same[1]);
  }
}
END_TEST

static void take_in_turn(struct mi__lock *first, struct mi__lock *second) {
  mi__lock_acquire(first);
  mi__lock_acquire(second);
}
static void reverse_ranks(void) { take_in_turn(&lock, &outer); }
static void reverse_addresses(void) { take_in_turn(&same[1], &same[0]); }
static void take_twice(void) { take_in_turn(&lock, &lock); }
static void release_unheld(void) { mi__lock_release(&lock); }
static void (*const mistakes[])(void) = {
  reverse_ranks, reverse_addresses, take_twice, release_unheld
};

START_TEST(stops_at_a_wrong_order) {
  if (!MI_DEBUG) return;
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    mistakes[_i]();
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status));
  ck_assert_int_ne(WTERMSIG(status), SIGALRM);
}
END_TEST

/* ---- once ---- */

static void *run_it(void *arg) {
  bool *saw_it = arg;
  if (mi__once_begin(&once)) {
    mi__fetch_add(&n_runs, 1, relaxed);
    nap_ms(20); /* long enough for the others to sleep */
    counter = 4711;
    mi__once_end(&once);
  }
  if (counter != 4711) *saw_it = false; /* who comes back sees what was done */
  return NULL;
}

START_TEST(runs_once_and_others_wait) {
  bool saw_it = true;
  ck_assert(!mi__once_is_done(&once));
  run_threads(run_it, &saw_it);
  ck_assert_int_eq(mi__load(&n_runs, relaxed), 1);
  ck_assert(saw_it);
  ck_assert(mi__once_is_done(&once));
  ck_assert(!mi__once_begin(&once));
}
END_TEST

START_TEST(returns_at_once_when_entered_again) {
  ck_assert(mi__once_begin(&once));
  ck_assert(!mi__once_begin(&once));
  ck_assert(!mi__once_is_done(&once));
  ck_assert(!mi__once_begin(&once));
  mi__once_end(&once);
  ck_assert(mi__once_is_done(&once));
}
END_TEST

static void *begin_only(void *arg) {
  if (!mi__once_begin(&once)) abort();
  return arg;
}

START_TEST(begins_anew_in_a_fork_child) {
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, begin_only, NULL), 0);
  pthread_join(thread, NULL); /* to this thread as if it were not there any more */
  mi__once_fork_child(&once);
  ck_assert(mi__once_begin(&once));
  mi__once_fork_child(&once); /* this thread is still here, and in the middle of it */
  ck_assert(!mi__once_begin(&once));
  mi__once_end(&once);
  mi__once_fork_child(&once);
  ck_assert(mi__once_is_done(&once));
}
END_TEST

static void reset(void) {
  mi__lock_reset(&lock);
  once = (struct mi__once){ 0, 0 };
  counter = 0;
  n_runs = 0;
}

int main(void) {
  Suite *suite = suite_create("rt/lock");
  TCase *locks = tcase_create("lock");
  tcase_add_checked_fixture(locks, reset, NULL);
  tcase_set_timeout(locks, 60);
  tcase_add_test(locks, lets_one_thread_in);
  tcase_add_test(locks, try_lets_one_thread_in);
  tcase_add_test(locks, try_fails_while_it_is_held);
  tcase_add_test(locks, waits_asleep);
  tcase_add_test(locks, is_free_after_a_reset);
  tcase_add_test(locks, takes_locks_in_order);
  tcase_add_loop_test(locks, stops_at_a_wrong_order, 0,
    (int)(sizeof(mistakes) / sizeof(mistakes[0])));
  suite_add_tcase(suite, locks);

  TCase *onces = tcase_create("once");
  tcase_add_checked_fixture(onces, reset, NULL);
  tcase_set_timeout(onces, 60);
  tcase_add_loop_test(onces, runs_once_and_others_wait, 0, 5);
  tcase_add_test(onces, returns_at_once_when_entered_again);
  tcase_add_test(onces, begins_anew_in_a_fork_child);
  suite_add_tcase(suite, onces);
  return mi_test_run_suite(suite);
}
