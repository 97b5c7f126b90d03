/* SPDX-License-Identifier: MIT */
/* src/heap/thread.c: threads begin, end, and go on allocating after their end. */
#include "common.h"
#include "fixture.h"
#include "heap/park.h"
#include "heap/registry.h"
#include "idle/scavenger.h"
#include "rt/alarm.h"
#include <signal.h>
#include <sys/time.h>

static bool is_new(void) {
  return mi__tls.self == &mi__thread_new && mi__tls.theap == &mi__thread_new.main;
}
static bool is_ended(void) { return mi__tls.self == &mi__thread_ended; }

START_TEST(begins_with_the_first_allocation) {
  int64_t threads = count_of(&mi__subproc_main.threads.current);
  ck_assert(is_new());
  ck_assert_ptr_null(mi__thread_self(false));
  ck_assert(is_new());
  void *p = alloc(16);
  struct mi_thread *self = mi__thread_self(false);
  ck_assert_ptr_nonnull(self);
  ck_assert_ptr_eq(mi__tls.theap, &self->main);
  ck_assert_ptr_eq(self->main.heap, &mi__heap_main);
  ck_assert_uint_eq((uintptr_t)self % MI_CACHE_LINE, 0);
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads + 1);
  ck_assert_ptr_eq(mi__thread_self(true), self);
  mi_free(p);
}
END_TEST

static void note_self(void *out) {
  alloc(100);
  *(struct mi_thread **)out = mi__thread_self(false);
}

START_TEST(data_is_used_again) {
  struct mi_thread *a = NULL, *b = NULL, *mine;
  note_self(&mine);
  in_thread(note_self, &a);
  int64_t threads = count_of(&mi__subproc_main.threads.current);
  in_thread(note_self, &b);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_eq(a, b);
  ck_assert_ptr_ne(a, mine);
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads);
}
END_TEST

static void leave_blocks(void *out) {
  void **blocks = out;
  for (int i = 0; i < 10; i++) {
    blocks[i] = alloc((size_t)16 << i);
    memset(blocks[i], i, (size_t)16 << i);
  }
  mi_free(alloc(100000));
}

START_TEST(pages_are_left_to_others) {
  void *blocks[10];
  in_thread(leave_blocks, blocks);
  ck_assert_int_eq(HEAP_CURRENT(pages), 10); /* that of the freed block went back */
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 10);
  for (int i = 0; i < 10; i++) {
    size_t size = (size_t)16 << i;
    ck_assert_ptr_eq(page_at(alloc(size)), page_at(blocks[i]));
    for (size_t k = 0; k < size; k++) ck_assert_int_eq(((char *)blocks[i])[k], i);
    mi_free(blocks[i]);
  }
  ck_assert_int_eq(HEAP_CURRENT(pages), 10);
  merge_counters();
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

static void *to_free;
static void free_one_and_end(void *arg) {
  (void)arg;
  alloc(16);
  mi_free(to_free);
}

START_TEST(a_run_is_pushed_at_the_end) {
  to_free = alloc(64);
  in_thread(free_one_and_end, NULL);
  ck_assert(!mi__remote_is_empty(page_at(to_free)));
}
END_TEST

/* ---- ended ---- */

START_TEST(after_its_end_a_thread_uses_the_shared_theap) {
  void *before = alloc(48);
  mi__thread_end(false);
  ck_assert(is_ended());
  ck_assert_ptr_null(mi__thread_self(true));
  void *blocks[300];
  for (int i = 0; i < 300; i++) {
    blocks[i] = alloc(48);
    memset(blocks[i], i, 48);
    ck_assert_uint_eq(mi__load(&page_at(blocks[i])->owner, relaxed), (uintptr_t)&mi__thread_shared);
  }
  ck_assert(is_ended());
  mi_free(before); /* by nobody: the page was left behind */
  for (int i = 0; i < 300; i++) {
    for (int k = 0; k < 48; k++) ck_assert_int_eq(((unsigned char *)blocks[i])[k], i & 255);
    mi_free(blocks[i]);
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(what_it_frees_is_used_again) {
  mi__thread_end(false);
  for (int i = 0; i < 10000; i++) { /* far more than a page holds */
    char *p = alloc(1000);
    p[999] = 1;
    mi_free(p);
  }
  ck_assert_int_le(HEAP_CURRENT(pages), 2);
}
END_TEST

START_TEST(after_its_end_all_kinds_are_served) {
  mi__thread_end(false);
  for (size_t size = 8; size <= 8 * MI_MIB; size *= 2) {
    char *p = mi_zalloc(size);
    ck_assert_ptr_nonnull(p);
    size_t n_zero = 0;
    for (size_t i = 0; i < size; i += 8) n_zero += p[i] == 0;
    ck_assert_uint_eq(n_zero, size / 8);
    memset(p, 1, size);
    p = mi_rezalloc(p, size * 2);
    ck_assert(p != NULL && p[size - 1] == 1 && p[size] == 0 && p[2 * size - 1] == 0);
    mi_free(p);
    p = mi_malloc_aligned(size, 256);
    ck_assert(p != NULL && (uintptr_t)p % 256 == 0);
    mi_free(p);
    p = mi_malloc_aligned_at(size, 256, 48);
    ck_assert(p != NULL && ((uintptr_t)p + 48) % 256 == 0);
    ck_assert_int_eq(page_at(p)->kind, MI_PAGE_HUGE); /* no page that others share is marked */
    memset(p, 1, size);
    mi_free(p);
  }
  ck_assert_int_eq(n_errors, 0);
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

START_TEST(its_last_frees_give_pages_back) {
  void *blocks[1000];
  for (int i = 0; i < 1000; i++) blocks[i] = alloc(700);
  mi__thread_end(false);
  for (int i = 0; i < 1000; i++) mi_free(blocks[i]);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

START_TEST(done_by_the_program_it_may_begin_again) {
  void *p = alloc(64);
  int64_t threads = count_of(&mi__subproc_main.threads.current);
  mi_thread_done();
  ck_assert(is_new());
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads - 1);
  mi_thread_done();
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads - 1);
  void *q = alloc(64);
  ck_assert_ptr_eq(page_at(q), page_at(p)); /* taken over */
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads);
  mi_free(p);
  mi_free(q);
}
END_TEST

/* A destructor of the program's runs after ours, and allocates. */
static pthread_key_t late_key;
static int n_late;
static void late(void *value) {
  void *p = alloc(64);
  memset(p, 1, 64);
  mi_free(p);
  if (++n_late < 3) pthread_setspecific(late_key, value);
}
static void allocate_late(void *arg) {
  pthread_setspecific(late_key, arg);
  alloc(64);
}

START_TEST(destructors_may_allocate) {
  pthread_key_create(&late_key, late);
  int64_t threads = count_of(&mi__subproc_main.threads.current);
  in_thread(allocate_late, &late_key);
  ck_assert_int_eq(n_late, 3);
  ck_assert_int_eq(count_of(&mi__subproc_main.threads.current), threads);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* ---- no memory for a thread's data ---- */

enum { N_THREADS = 64 };
static pthread_barrier_t all_there;
static void *try_to_allocate(void *arg) {
  (void)arg;
  void *p = mi_malloc(100);
  if (p != NULL) memset(p, 1, 100);
  pthread_barrier_wait(&all_there); /* all are alive at once */
  mi_free(p);
  return p;
}

START_TEST(without_memory_it_shares) {
  pthread_t threads[N_THREADS];
  pthread_barrier_init(&all_there, NULL, N_THREADS);
  mi__option_set(mi_option_arena_reserve, 8192);
  alloc(100);
  mi__store(&no_maps, true, relaxed);
  for (int i = 0; i < N_THREADS; i++) {
    ck_assert_int_eq(pthread_create(&threads[i], NULL, try_to_allocate, NULL), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    void *p = NULL;
    pthread_join(threads[i], &p);
    ck_assert_ptr_nonnull(p);
  }
  int64_t most = mi__load(&mi__subproc_main.threads.peak, relaxed);
  ck_assert_int_lt(most, N_THREADS); /* else there was memory for all of them */
  mi__store(&no_maps, false, relaxed);
  alloc(100);
  mi_collect(true);
}
END_TEST

/* ---- parks ---- */

static void allocate_in_handler(int number) {
  (void)number;
  mi_free(mi_malloc(64));
}
static bool state_fits(const struct mi_thread *self) {
  bool runs = mi__load(&self->xpark, relaxed) == MI_PARK_RUNNING;
  return runs == (mi__tls.self == self) && runs == (mi__tls.theap == &self->main);
}

/* A handler that allocates in a parked thread ends the park, at whatever step of it it comes. */
START_TEST(a_signal_handler_ends_a_park) {
  struct mi_thread *self = mi__thread_self(true);
  mi_free(mi_malloc(64));
  struct sigaction action = {.sa_handler = allocate_in_handler};
  ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
  struct itimerval often = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
  ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
  bool fits = true;
  for (size_t i = 0; i < mi_test_scale(1000000, 30000000) && fits; i++) {
    mi__park_begin(self);
    mi__park_end();
    fits = state_fits(self);
  }
  ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
  ck_assert(fits);
}
END_TEST

/* Who had taken what is due may not be here any more. */
START_TEST(a_park_is_due_in_a_fork_child) {
  struct mi_thread *self = mi__thread_self(true);
  mi__park_begin(self);
  mi__store(&self->xsweep_due, 0, relaxed);
  mi__thread_fork_child();
  ck_assert_uint_ne(mi__load(&self->xsweep_due, relaxed), 0);
  mi__park_end();
}
END_TEST

static bool started;
static void park_in_callback(bool force, unsigned long long heartbeat, void *arg) {
  (void)force;
  (void)heartbeat;
  (void)arg;
  started |= mi_on_thread_idle_start();
}
START_TEST(no_park_in_a_refill) {
  mi__set_deferred_free(park_in_callback, NULL);
  for (int i = 0; i < 1000; i++) alloc(100);
  ck_assert(!started);
  ck_assert(state_fits(mi__thread_self(false)));
}
END_TEST

/* As exit does in a signal handler that has interrupted the holder. */
START_TEST(exit_waits_for_no_lock) {
  if (mi_test_under_sanitizer("thread")) return; /* a thread that nobody joins is an error to it */
  struct mi_thread *self = mi__thread_self(true);
  ck_assert(mi__scavenger_ensure());
  mi__lock_acquire(&mi__heaps_lock);
  mi__store(&self->xslots_due, 1, relaxed);
  mi__alarm_set(0);
  usleep(50000);
  mi__scavenger_stop(true);
  mi__lock_release(&mi__heaps_lock);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/thread");
  TCase *tcase = new_case(suite, "thread");
  tcase_add_test(tcase, begins_with_the_first_allocation);
  tcase_add_test(tcase, data_is_used_again);
  tcase_add_test(tcase, pages_are_left_to_others);
  tcase_add_test(tcase, a_run_is_pushed_at_the_end);
  tcase_add_test(tcase, after_its_end_a_thread_uses_the_shared_theap);
  tcase_add_test(tcase, what_it_frees_is_used_again);
  tcase_add_test(tcase, after_its_end_all_kinds_are_served);
  tcase_add_test(tcase, its_last_frees_give_pages_back);
  tcase_add_test(tcase, done_by_the_program_it_may_begin_again);
  tcase_add_test(tcase, destructors_may_allocate);
  tcase_add_test(tcase, without_memory_it_shares);
  tcase = new_case(suite, "parks");
  tcase_add_test(tcase, a_signal_handler_ends_a_park);
  tcase_add_test(tcase, a_park_is_due_in_a_fork_child);
  tcase_add_test(tcase, no_park_in_a_refill);
  tcase_add_test(tcase, exit_waits_for_no_lock);
  return mi_test_run_suite(suite);
}
