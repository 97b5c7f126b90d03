/* SPDX-License-Identifier: MIT */
/* G02 threads-still-running-at-exit: 4 detached threads malloc and free without pause, one more parks and wakes at exit; main
 * returns 7 after 20 ms, purge thread active. Exit code 7, no signal, 200 of 200, each within 2 s (a busy machine gets longer). The program runs itself as the process that exits. */
#include "thread/behave.h"
#include <pthread.h>
#include <sys/wait.h>

static void *churn(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *held[64] = {0};
  for (;;) {
    size_t i = behave_random(&rng) % 64;
    free(held[i]);
    size_t size = behave_random_size(&rng, 8, 256 * BEHAVE_KiB);
    unsigned char *p = held[i] = malloc(size);
    if (p != NULL) p[0] = p[size - 1] = 1;
  }
  return NULL;
}

/* Parks of any length, and much freed before each, so that sweeps and passes go on at the exit. */
static void *park(void *arg) {
  uint64_t rng = behave_now_ns();
  for (;;) {
    void *p = malloc(2 * BEHAVE_MiB), *q = malloc(1000);
    if (p != NULL) memset(p, 1, 2 * BEHAVE_MiB);
    free(p);
    free(q);
    mi_on_thread_idle_start();
    usleep((useconds_t)(behave_random(&rng) % 3000));
    mi_on_thread_idle_end();
  }
  return arg;
}

static int be_process(void) {
  behave_limit(10);
  for (uintptr_t i = 1; i <= 4; i++) {
    pthread_t t;
    int err = pthread_create(&t, NULL, churn, (void *)i);
    if (err != 0) FAIL("pthread_create gave %d", err);
    pthread_detach(t);
  }
  pthread_t t;
  int err = pthread_create(&t, NULL, park, NULL);
  if (err != 0) FAIL("pthread_create gave %d", err);
  pthread_detach(t);
  behave_sleep_ms(20);
  return 7;
}

int main(int argc, char **argv) {
  if (argc > 1) return be_process();
  size_t n_runs = mi_test_scale(30, 200);
  behave_limit((unsigned)(2 * n_runs));
  for (size_t i = 0; i < n_runs; i++) {
    uint64_t begin = behave_now_ns();
    pid_t pid = fork();
    if (pid < 0) FAIL("fork failed, errno %d", errno);
    if (pid == 0) {
      execl("/proc/self/exe", argv[0], "process", (char *)NULL);
      _exit(99);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    uint64_t took_ms = (behave_now_ns() - begin) / 1000000;
    if (WIFSIGNALED(status)) FAIL("run %zu was ended by signal %d", i, WTERMSIG(status));
    if (WEXITSTATUS(status) != 7) FAIL("run %zu left with exit code %d", i, WEXITSTATUS(status));
    if (took_ms > MI_TEST_PATIENCE_MS) FAIL("run %zu took %llu ms", i, (unsigned long long)took_ms);
  }
  return 0;
}
