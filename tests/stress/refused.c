/* SPDX-License-Identifier: MIT */
/* E07 madvise-refused: the program warms up, installs a seccomp filter: madvise, prctl, clone, clone3, openat,
 * sched_getaffinity, getrandom return EPERM; then works with mixed sizes and frees. Exit code 0, no output, calloc zero, no busy
 * loop. Then the same with a filter that kills, and allows mmap, munmap, mprotect, madvise, futex, read, write, exit. */
#include "stress/filter.h"
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void work(size_t steps) {
  static unsigned char *held[256];
  static size_t sizes[256];
  uint64_t rng = 8;
  for (size_t i = 0; i < steps; i++) {
    size_t k = behave_random(&rng) % 256;
    if (held[k] != NULL) {
      CHECK(behave_verify(held[k], sizes[k], k) == sizes[k]);
      free(held[k]);
    }
    unsigned dice = (unsigned)(behave_random(&rng) % 1000);
    sizes[k] = behave_random_size(&rng, 1, dice < 980 ? 20 * BEHAVE_KiB : dice < 999 ? BEHAVE_MiB : 20 * BEHAVE_MiB);
    errno = 0;
    if (i % 2 == 0) {
      held[k] = calloc(1, sizes[k]);
      CHECK(held[k] != NULL && behave_is_zero(held[k], sizes[k]));
    } else {
      held[k] = malloc(sizes[k]);
      CHECK(held[k] != NULL);
    }
    CHECK(errno == 0);
    behave_fill(held[k], sizes[k], k);
    if (i % 2000 == 0) behave_collect(i % 4000 == 0);
  }
  for (size_t k = 0; k < 256; k++) {
    free(held[k]);
    held[k] = NULL;
  }
}

static long processor_us(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (long)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

static void with_refusals(void) {
  static const int refused[] = {SYS_madvise, SYS_prctl,  SYS_clone,        SYS_clone3,
                                SYS_openat,  SYS_sched_getaffinity, SYS_getrandom};
  filter_install(refused, sizeof(refused) / sizeof(refused[0]), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
  work(mi_test_scale(20000, 400000));
  long used_us = LONG_MAX;
  /* On a busy machine what is due may be done late, and costs more. */
  for (int attempt = 0; attempt < 3 && used_us > 50000; attempt++) {
    long before = processor_us();
    behave_sleep_ms(1000);
    used_us = processor_us() - before;
  }
  if (used_us > 50000) FAIL("%ld us of processor time in a second of sleep", used_us);
}

static void under_threat(void) {
  static const int allowed[] = {SYS_mmap,  SYS_munmap, SYS_mprotect, SYS_madvise, SYS_futex,
                                SYS_read, SYS_write,  SYS_exit,     SYS_exit_group};
  filter_install(allowed, sizeof(allowed) / sizeof(allowed[0]), SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
  work(mi_test_scale(20000, 400000));
  /* What programs do that do not know of idle points; pages in use are swept for it. */
  static void *small[4000];
  for (int i = 0; i < 4000; i++) CHECK((small[i] = malloc(1000)) != NULL);
  for (int i = 0; i < 4000; i++)
    if (i % 16 != 0) free(small[i]);
  (void)mi_purge_all(true);
  _exit(0);
}

static void run(void (*how)(void), const char *text) {
  static char output[4096];
  int fds[2];
  CHECK(pipe(fds) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    behave_limit(60);
    work(20000);
    how();
    exit(0);
  }
  close(fds[1]);
  ssize_t n = read(fds[0], output, sizeof(output) - 1);
  close(fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  output[n > 0 ? n : 0] = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) SKIP("filters of system calls are not to be had here");
  if (WIFSIGNALED(status)) FAIL("%s: ended by signal %d; it printed: %s", text, WTERMSIG(status), output);
  if (status != 0) FAIL("%s: exit code %d; it printed: %s", text, WEXITSTATUS(status), output);
  if (n > 0) FAIL("%s: it printed: %s", text, output);
}

int main(void) {
  if (BEHAVE_SANITIZED) SKIP("a sanitizer makes system calls of its own");
  behave_limit(130);
  run(with_refusals, "with refusals");
  run(under_threat, "with a filter that kills");
  return 0;
}
