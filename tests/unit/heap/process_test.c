/* SPDX-License-Identifier: MIT */
/* src/heap/process.c: start, fork and exit. */
#include "fixture.h"
#include <sys/wait.h>
#include <unistd.h>

START_TEST(starts_once) {
  struct mi__arenas *arenas = mi__heap_main.arenas;
  ck_assert_ptr_eq(arenas, mi__arenas_main());
  void *p = alloc(64);
  mi_process_init();
  mi__process_init();
  ck_assert_ptr_eq(mi__heap_main.arenas, arenas);
  ck_assert_ptr_eq(mi_heap_main(), &mi__heap_main);
  ck_assert_uint_eq(mi__heap_main.id, 1);
  ck_assert_ptr_eq(mi__page_heap(page_at(p)), &mi__heap_main);
}
END_TEST

/* ---- fork ---- */

/* The exit code of a child that runs `act`, or -1. */
static int in_child(int (*act)(void)) {
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    alarm(60);
    _exit(act());
  }
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static char *kept[100];
static int work_in_child(void) {
  for (int i = 0; i < 100; i++) {
    for (int k = 0; k < 100; k++) {
      if (kept[i][k] != (char)i) return 2;
    }
    mi_free(kept[i]);
  }
  for (size_t size = 8; size <= 4 * MI_MIB; size *= 2) {
    char *p = mi_malloc(size);
    if (p == NULL) return 3;
    memset(p, 1, size);
    mi_free(p);
  }
  mi_collect(true);
  return n_errors == 0 ? 0 : 4;
}

START_TEST(a_child_goes_on) {
  for (int i = 0; i < 100; i++) kept[i] = memset(alloc(100), i, 100);
  ck_assert_int_eq(in_child(work_in_child), 0);
  ck_assert_int_eq(work_in_child(), 0); /* the parent's blocks are its own */
}
END_TEST

/* Another thread holds each lock in turn when the process forks: the fork waits for it. */
static pthread_barrier_t barrier;
static void *hold_lock(void *arg) {
  struct mi__lock *lock = arg;
  mi__lock_acquire(lock);
  pthread_barrier_wait(&barrier);
  usleep(20000);
  mi__lock_release(lock);
  pthread_barrier_wait(&barrier); /* lives for as long as the child */
  return NULL;
}

START_TEST(a_child_finds_no_lock_held) {
  struct mi__lock *const locks[] = {
      &mi__shared_lock, &mi__threads_lock, &mi__heap_main.pools[4].lock,
      &mi__heap_main.pools[MI_BIN_LAST].lock, &mi__arena_reserve_lock, &mi__meta_lock};
  for (int i = 0; i < 100; i++) kept[i] = memset(alloc(100), i, 100);
  pthread_barrier_init(&barrier, NULL, 2);
  for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, hold_lock, locks[i]);
    pthread_barrier_wait(&barrier);
    ck_assert_int_eq(in_child(work_in_child), 0);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    mi__lock_acquire(locks[i]); /* and so does the parent */
    mi__lock_release(locks[i]);
  }
}
END_TEST

static int make_threads(void) {
  in_thread(free_it, kept[0]);
  void *p = alloc(100);
  in_thread(free_it, p);
  mi__thread_end(false);
  mi_free(alloc(100));
  return n_errors == 0 ? 0 : 4;
}

START_TEST(a_child_may_have_threads) {
  kept[0] = alloc(100);
  ck_assert_int_eq(in_child(make_threads), 0);
}
END_TEST

static void *foreign_block;
static int see_run(void) {
  if (mi__thread_self(false)->run.page != NULL) return 2;
  return mi__remote_is_empty(page_at(foreign_block)) ? 3 : 0;
}

static pthread_barrier_t two;
static void *allocate_and_wait(void *arg) {
  foreign_block = mi_malloc(64);
  pthread_barrier_wait(&two);
  pthread_barrier_wait(&two);
  return arg;
}

START_TEST(the_run_goes_out_before) {
  pthread_t thread;
  alloc(16);
  pthread_barrier_init(&two, NULL, 2);
  pthread_create(&thread, NULL, allocate_and_wait, NULL);
  pthread_barrier_wait(&two);
  mi_free(foreign_block);
  ck_assert_ptr_nonnull(mi__thread_self(false)->run.page);
  ck_assert_int_eq(in_child(see_run), 0);
  pthread_barrier_wait(&two);
  pthread_join(thread, NULL);
}
END_TEST

/* Frees into pages of threads that the child does not have are lost, and nothing else is. */
static int free_foreign(void) {
  memset(foreign_block, 1, 64);
  mi_free(foreign_block);
  for (int i = 0; i < 3000; i++) {
    if (mi_malloc(64) == foreign_block) return 2;
  }
  mi_collect(true);
  return n_errors == 0 ? 0 : 3;
}

START_TEST(blocks_of_vanished_threads_can_be_freed) {
  pthread_t thread;
  pthread_barrier_init(&two, NULL, 2);
  pthread_create(&thread, NULL, allocate_and_wait, NULL);
  pthread_barrier_wait(&two);
  ck_assert_int_eq(in_child(free_foreign), 0);
  pthread_barrier_wait(&two);
  pthread_join(thread, NULL);
}
END_TEST

/* ---- exit ---- */

static int n_exits;
static void on_exit_called(void) { n_exits++; }

START_TEST(ends_once) {
  mi__process_on_exit = on_exit_called;
  char *p = alloc(64);
  mi_process_done();
  mi_process_done();
  ck_assert_int_eq(n_exits, 1);
  p[0] = 1; /* destructors of other libraries come later */
  mi_free(p);
  alloc(64);
}
END_TEST

START_TEST(destroys_on_exit_what_is_free) {
  mi__option_set(mi_option_destroy_on_exit, 1);
  mi__option_set(mi_option_arena_reserve, 8192);
  mi_free(alloc(MI_MIB));
  mi_free(alloc(100));
  ck_assert_int_gt(CURRENT(reserved), 0);
  mi_process_done();
  ck_assert_int_eq(CURRENT(reserved), 0);
}
END_TEST

START_TEST(what_is_live_stays) {
  mi__option_set(mi_option_destroy_on_exit, 1);
  char *p = alloc(MI_MIB);
  memset(p, 7, MI_MIB);
  mi_process_done();
  ck_assert_int_eq(p[MI_MIB - 1], 7);
  mi_free(p);
}
END_TEST

static void own_output(const char *text, void *arg) {
  (void)text, (void)arg;
  _exit(7);
}
static int leave_with_statistics(void) {
  mi__option_set(mi_option_show_stats, 1);
  mi_register_output(own_output, NULL);
  exit(0); /* the library's destructor prints */
}

START_TEST(statistics_at_exit) {
  ck_assert_int_eq(in_child(leave_with_statistics), 7);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/process");
  TCase *tcase = new_case(suite, "process");
  tcase_add_test(tcase, starts_once);
  tcase_add_test(tcase, a_child_goes_on);
  tcase_add_test(tcase, a_child_finds_no_lock_held);
  tcase_add_test(tcase, a_child_may_have_threads);
  tcase_add_test(tcase, the_run_goes_out_before);
  tcase_add_test(tcase, blocks_of_vanished_threads_can_be_freed);
  tcase_add_test(tcase, ends_once);
  tcase_add_test(tcase, destroys_on_exit_what_is_free);
  tcase_add_test(tcase, what_is_live_stays);
  tcase_add_test(tcase, statistics_at_exit);
  return mi_test_run_suite(suite);
}
