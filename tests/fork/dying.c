/* SPDX-License-Identifier: MIT */
/* Fork while threads begin and end: three makers start short threads without pause, each of which leaves blocks behind for
 * others to free; main forks all the time. Every child must be able to allocate, to start threads and to leave: within 5 s where the machine has nothing else to do. */
#include "fork/workload.h"

enum { N_MAKERS = 3, N_LEFT = 24 };

static bool stop;

static void *short_life(void *arg) {
  void **left = arg;
  for (size_t i = 0; i < N_LEFT; i++) {
    left[i] = malloc(16 << (i % 13));
    if (left[i] == NULL) FAIL("malloc gave NULL");
    free(malloc(100));
  }
  return NULL;
}

static void *make_threads(void *arg) {
  (void)arg;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pthread_t t[2];
    void *left[2][N_LEFT];
    for (int i = 0; i < 2; i++) {
      int err = pthread_create(&t[i], NULL, short_life, left[i]);
      if (err != 0) FAIL("pthread_create gave %d", err);
    }
    for (int i = 0; i < 2; i++) {
      pthread_join(t[i], NULL);
      for (size_t k = 0; k < N_LEFT; k++) free(left[i][k]);
    }
  }
  return NULL;
}

int main(void) {
  mi_test_not_under("address"); /* its look for leaks in a child waits for threads that are gone */
  mi_test_not_under("thread"); /* it does not support threads in a fork child */
  size_t n_forks = mi_test_scale(20, 1000);
  behave_limit((unsigned)(30 + n_forks / 20));
  pthread_t makers[N_MAKERS];
  for (int i = 0; i < N_MAKERS; i++) {
    int err = pthread_create(&makers[i], NULL, make_threads, NULL);
    if (err != 0) FAIL("pthread_create gave %d", err);
  }
  for (size_t i = 0; i < n_forks; i++) {
    pid_t pid = fork_limited(5);
    if (pid == 0) {
      work();
      if (i % 4 == 0) behave_collect(true);
      if (i % 2 == 0) exit(0);
      _exit(0);
    }
    wait_for(pid, "fork while threads begin and end");
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int i = 0; i < N_MAKERS; i++) pthread_join(makers[i], NULL);
  return 0;
}
