/* SPDX-License-Identifier: MIT */
/* src/os/linux_process.c: facts, clock, random numbers, waiting, small files, the process. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "filter.h"
#include "../suite.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *file_text;

static size_t scripted_file(const char *path, char *buf, size_t size) {
  (void)path;
  size_t n = file_text == NULL ? 0 : strlen(file_text);
  if (n > size) n = size;
  if (n > 0) memcpy(buf, file_text, n);
  return n;
}

/* ---- facts ---- */

struct overcommit { const char *text; bool expected; };
static const struct overcommit overcommits[] = {
  { "0\n", true }, { "1\n", true }, { "2\n", false }, { NULL, true }
};

START_TEST(reads_overcommit) {
  mi__os_calls.read_file = scripted_file;
  file_text = overcommits[_i].text;
  mi__os_init();
  ck_assert_int_eq(mi__os_facts.overcommits, overcommits[_i].expected);
}
END_TEST

START_TEST(knows_the_page_sizes) {
  mi__os_init();
  ck_assert_uint_eq(mi__os_facts.page_size, (size_t)sysconf(_SC_PAGESIZE));
  if (mi__os_facts.page_size == 4096) ck_assert_uint_eq(mi__os_facts.large_page_size, 2 * MI_MIB);
}
END_TEST

struct nodes { const char *text; unsigned expected; };
static const struct nodes nodes[] = {
  { "0\n", 1 }, { "0-3\n", 4 }, { "0-3,6\n", 7 }, { "0,16-17\n", 18 }, { NULL, 1 },
  { "99999999999\n", 1 }
};

START_TEST(counts_numa_nodes) {
  mi__os_calls.read_file = scripted_file;
  file_text = nodes[_i].text;
  ck_assert_uint_eq(mi__os_numa_nodes(), nodes[_i].expected);
  ck_assert_uint_lt(mi__os_cpu_numa_node(), 4096);
}
END_TEST

START_TEST(sees_what_is_resident) {
  char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p[0] = 1;
  ck_assert_int_eq(mi__os_is_resident(p), 1);
  ck_assert_int_eq(mi__os_is_resident(p + 100), 1);
  ck_assert_int_eq(mi__os_is_resident(p + 4096), 0);
  munmap(p, 8192);
  ck_assert_int_eq(mi__os_is_resident(p), -1);
}
END_TEST

/* ---- clock and random numbers ---- */

static uint64_t zero_clock(void) { return 0; }

START_TEST(clock_runs_and_is_never_zero) {
  uint64_t before = mi__os_clock_ms();
  struct timespec nap = { 0, 30000000 };
  nanosleep(&nap, NULL);
  uint64_t took = mi__os_clock_ms() - before;
  ck_assert_uint_ge(took, 29);
  ck_assert_uint_lt(took, 5000);
  mi__os_calls.clock_ms = zero_clock;
  ck_assert_uint_eq(mi__os_clock_ms(), 1);
}
END_TEST

/* Of 200 draws each bit is set in 60 to 140: the chance to miss that by luck is below one in ten
 * million. */
static void check_draws(void) {
  enum { N = 200 };
  uint64_t x[N];
  int n_set[64] = { 0 };
  for (int i = 0; i < N; i++) {
    x[i] = mi__os_random();
    for (int k = 0; k < i; k++) ck_assert_uint_ne(x[i], x[k]);
    for (int bit = 0; bit < 64; bit++) n_set[bit] += (int)(x[i] >> bit & 1);
  }
  for (int bit = 0; bit < 64; bit++) ck_assert(n_set[bit] >= 60 && n_set[bit] <= 140);
}

START_TEST(random_numbers_differ) { check_draws(); }
END_TEST

START_TEST(random_numbers_differ_without_getrandom) {
  int calls[] = { SYS_getrandom };
  if (!filter_calls(calls, 1, SECCOMP_RET_ERRNO | EPERM)) return;
  errno = 4711;
  check_draws();
  ck_assert_int_eq(errno, 4711);
}
END_TEST

/* ---- waiting ---- */

static _Atomic(uint32_t) word;

static void *wake_later(void *arg) {
  struct timespec nap = { 0, 50000000 };
  nanosleep(&nap, NULL);
  mi__store(&word, 1, release);
  mi__os_wake(&word, INT32_MAX);
  return arg;
}

static long used_us(const struct timespec *before, const struct timespec *after) {
  return (after->tv_sec - before->tv_sec) * 1000000 + (after->tv_nsec - before->tv_nsec) / 1000;
}

static void wait_for_other(void) {
  pthread_t thread;
  uint64_t before = mi__os_clock_ms();
  ck_assert_int_eq(pthread_create(&thread, NULL, wake_later, NULL), 0);
  errno = 4711;
  while (mi__load(&word, acquire) == 0) mi__os_wait(&word, 0, -1);
  ck_assert_uint_ge(mi__os_clock_ms() - before, 40);
  ck_assert_int_eq(errno, 4711);
  pthread_join(thread, NULL);
}

START_TEST(waits_until_woken) {
  struct timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  wait_for_other();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  ck_assert_int_lt(used_us(&before, &after), 20000); /* asleep, not looking again and again */
}
END_TEST

/* Where a filter refuses the futex, waiting still ends, and does not burn the processor. */
START_TEST(waits_without_futex) {
  if (mi_test_under_shadow()) return;
  int calls[] = { SYS_futex };
  struct timespec before, after;
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, wake_later, NULL), 0);
  if (!filter_calls(calls, 1, SECCOMP_RET_ERRNO | EPERM)) return;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  uint64_t n = 0, start = mi__os_clock_ms();
  for (; mi__load(&word, acquire) == 0; n++) mi__os_wait(&word, 0, -1);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  ck_assert_uint_le(n, mi__os_clock_ms() - start + 10); /* one look a millisecond */
  ck_assert_int_lt(used_us(&before, &after), 25000);
}
END_TEST

START_TEST(wait_ends_at_its_timeout) {
  uint64_t before = mi__os_clock_ms();
  mi__os_wait(&word, 0, 50);
  uint64_t took = mi__os_clock_ms() - before;
  ck_assert_uint_ge(took, 45);
  ck_assert_uint_lt(took, 5000);
  mi__os_wait(&word, 1, -1); /* another value: no wait at all */
  mi__os_wait(&word, 0, 0);
}
END_TEST

/* ---- files and the process ---- */

static void write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
  close(fd);
}

START_TEST(reads_small_files) {
  char path[] = "/tmp/mimalloc-test-XXXXXX", buf[16];
  ck_assert_int_ge(mkstemp(path), 0);
  int before = open("/dev/null", O_RDONLY);
  write_file(path, "two\nlines");
  errno = 4711;
  ck_assert_uint_eq(mi__os_read_file(path, buf, sizeof(buf)), 9);
  ck_assert_str_eq(buf, "two\nlines");
  write_file(path, "0123456789abcdefXYZ");
  ck_assert_uint_eq(mi__os_read_file(path, buf, sizeof(buf)), 15);
  ck_assert_str_eq(buf, "0123456789abcde");
  ck_assert_uint_eq(mi__os_read_file(path, buf, 1), 0);
  ck_assert_str_eq(buf, "");
  unlink(path);
  memset(buf, 'x', sizeof(buf));
  ck_assert_uint_eq(mi__os_read_file(path, buf, sizeof(buf)), 0);
  ck_assert_str_eq(buf, "");
  ck_assert_uint_eq(mi__os_read_file("/", buf, sizeof(buf)), 0);
  ck_assert_int_eq(open("/dev/null", O_RDONLY), before + 1); /* no file left open */
}
END_TEST

static void ignore(int signal) { (void)signal; }

/* Interrupts what blocks, so that a write ends with a part of its bytes written. */
static void interrupt_often(void) {
  struct sigaction action = { .sa_handler = ignore };
  struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
}

START_TEST(writes_all_to_standard_error) {
  int ends[2];
  static char text[3 * 65536], got[sizeof(text)];
  for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i % 26);
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    interrupt_often();
    mi__os_write_stderr(text, sizeof(text)); /* more than a pipe holds */
    _exit(0);
  }
  close(ends[1]);
  size_t n = 0;
  long r;
  struct timespec nap = { 0, 30000000 };
  nanosleep(&nap, NULL);
  while ((r = read(ends[0], got + n, sizeof(got) - n)) > 0) n += (size_t)r;
  ck_assert_uint_eq(n, sizeof(text));
  ck_assert_mem_eq(got, text, sizeof(text));
}
END_TEST

START_TEST(closed_standard_error_is_harmless) {
  close(STDERR_FILENO);
  errno = 4711;
  mi__os_write_stderr("x", 1);
  ck_assert_int_eq(errno, 4711);
}
END_TEST

START_TEST(knows_the_process) {
  if (mi_test_under_shadow()) return;
  ck_assert(!mi__os_is_secure());
  ck_assert_ptr_eq(mi__os_environ(), environ);
  ck_assert_uint_eq(mi__os_thread_id(), (uintptr_t)getpid());
  mi__os_init();
  struct mi__os_process_info before, after;
  mi__os_process_info(&before);
  size_t size = 64 * MI_MIB;
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 1, size);
  struct timespec nap = { 0, 20000000 };
  nanosleep(&nap, NULL);
  mi__os_process_info(&after);
  ck_assert_uint_ge(after.current_rss, before.current_rss + size * 9 / 10);
  ck_assert_uint_le(after.current_rss, before.current_rss + size * 11 / 10);
  ck_assert_uint_ge(after.peak_rss, after.current_rss);
  ck_assert_uint_gt(after.page_faults, before.page_faults);
  ck_assert_uint_ge(after.elapsed_ms, before.elapsed_ms + 19);
  ck_assert_uint_ge(after.user_ms + after.system_ms, before.user_ms + before.system_ms);
}
END_TEST

START_TEST(knows_the_room_that_is_left) {
  if (mi_test_under_shadow()) return;
  ck_assert_uint_eq(mi__os_address_space_left(), SIZE_MAX);
  struct rlimit limit = { MI_GIB, RLIM_INFINITY };
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
  size_t left = mi__os_address_space_left();
  ck_assert_uint_lt(left, MI_GIB);
  ck_assert_uint_gt(left, MI_GIB / 2);
  char *p = mmap(NULL, 64 * MI_MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(p, MAP_FAILED);
  ck_assert_uint_eq(mi__os_address_space_left(), left - 64 * MI_MIB);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("os/linux_process");
  if (!mi_test_forks()) return 77;
  TCase *facts = tcase_create("facts");
  tcase_set_timeout(facts, 60);
  tcase_add_loop_test(facts, reads_overcommit, 0,
    (int)(sizeof(overcommits) / sizeof(overcommits[0])));
  tcase_add_test(facts, knows_the_page_sizes);
  tcase_add_loop_test(facts, counts_numa_nodes, 0, (int)(sizeof(nodes) / sizeof(nodes[0])));
  tcase_add_test(facts, sees_what_is_resident);
  suite_add_tcase(suite, facts);

  TCase *time = tcase_create("time");
  tcase_set_timeout(time, 60);
  tcase_add_test(time, clock_runs_and_is_never_zero);
  tcase_add_test(time, random_numbers_differ);
  tcase_add_test(time, random_numbers_differ_without_getrandom);
  tcase_add_test(time, waits_until_woken);
  tcase_add_test(time, waits_without_futex);
  tcase_add_test(time, wait_ends_at_its_timeout);
  suite_add_tcase(suite, time);

  TCase *process = tcase_create("process");
  tcase_set_timeout(process, 60);
  tcase_add_test(process, reads_small_files);
  tcase_add_test(process, writes_all_to_standard_error);
  tcase_add_test(process, closed_standard_error_is_harmless);
  tcase_add_test(process, knows_the_process);
  tcase_add_test(process, knows_the_room_that_is_left);
  suite_add_tcase(suite, process);
  return mi_test_run_suite(suite);
}
