/* SPDX-License-Identifier: MIT */
/* E06 mlockall: raise RLIMIT_MEMLOCK, mlockall(MCL_CURRENT|MCL_FUTURE), and the MCL_ONFAULT variant; 64 MiB burst, free, wait;
 * calloc the same sizes. All calls succeed, calloc zero, no output, errno of a successful malloc unchanged, processor time over
 * idle seconds below 10 ms a second (no retry loop). */
#include "thread/behave.h"
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

enum { N_BLOCKS = 2048 };

static void burst(bool zero, uint64_t seed) {
  static void *blocks[N_BLOCKS];
  static size_t sizes[N_BLOCKS];
  uint64_t rng = seed;
  size_t total = 0;
  for (size_t i = 0; i < N_BLOCKS; i++) {
    sizes[i] = total < 64 * BEHAVE_MiB ? behave_random_size(&rng, 100, i % 16 == 0 ? BEHAVE_MiB : 32 * BEHAVE_KiB) : 64;
    total += sizes[i];
    errno = 0;
    blocks[i] = zero ? calloc(1, sizes[i]) : malloc(sizes[i]);
    CHECK(blocks[i] != NULL && errno == 0);
    if (zero) CHECK(behave_is_zero(blocks[i], sizes[i]));
    behave_fill(blocks[i], sizes[i], i);
  }
  for (size_t i = 0; i < N_BLOCKS; i++) {
    CHECK(behave_verify(blocks[i], sizes[i], i) == sizes[i]);
    free(blocks[i]);
  }
}

static long processor_us(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (long)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

static void run(int flags) {
  size_t seconds = mi_test_scale(1, 5);
  behave_limit(60);
  burst(false, 1);
  if (mlockall(flags) != 0) SKIP("mlockall is refused, errno %d", errno);
  burst(false, 1);
  burst(true, 1);
  behave_collect(true);
  burst(true, 2);
  long used = LONG_MAX;
  /* On a busy machine what is due may be done late, and costs more. */
  for (int attempt = 0; attempt < 3 && used > (long)seconds * 10000; attempt++) {
    long before = processor_us();
    behave_sleep_ms((unsigned)seconds * 1000);
    used = processor_us() - before;
  }
  if (used > (long)seconds * 10000) FAIL("%ld us of processor time in %zu s of sleep", used, seconds);
  burst(true, 3);
}

static void run_in_child(int flags) {
  static char output[4096];
  int fds[2];
  CHECK(pipe(fds) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    run(flags);
    exit(0);
  }
  close(fds[1]);
  ssize_t n = read(fds[0], output, sizeof(output) - 1);
  close(fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  output[n > 0 ? n : 0] = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) {
    behave_say("%s", output);
    _exit(MI_TEST_SKIP);
  }
  if (status != 0 || n > 0) FAIL("flags %d: status %#x; it printed: %s", flags, (unsigned)status, output);
}

int main(void) {
  if (BEHAVE_SANITIZED) SKIP("a sanitizer's shadow cannot be locked");
  behave_limit(150);
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &limit); /* refused: the privilege to lock may do all the same, else mlockall says no */
  run_in_child(MCL_CURRENT | MCL_FUTURE);
  run_in_child(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  return 0;
}
