/* SPDX-License-Identifier: MIT */
/* C04 fork-cost-many-threads: 300 parked threads that each hold one block; prints the median of 200 rounds of fork, _exit
 * and wait from main, in microseconds. cost.sh compares two runs. */
#include "fork/workload.h"

enum { N_THREADS = 300, MOST_ROUNDS = 200 };

static pthread_mutex_t parked = PTHREAD_MUTEX_INITIALIZER;
static int n_holding;

static void *hold(void *arg) {
  (void)arg;
  void *p = malloc(100);
  if (p == NULL) FAIL("malloc gave NULL");
  memset(p, 1, 100);
  __atomic_fetch_add(&n_holding, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&parked);
  pthread_mutex_unlock(&parked);
  free(p);
  return NULL;
}

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

int main(void) {
  static pthread_t threads[N_THREADS];
  static uint64_t took[MOST_ROUNDS];
  size_t n_rounds = mi_test_scale(50, MOST_ROUNDS);
  behave_limit(120);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 * BEHAVE_KiB);
  pthread_mutex_lock(&parked);
  for (int i = 0; i < N_THREADS; i++) {
    int err = pthread_create(&threads[i], &attr, hold, NULL);
    if (err != 0) SKIP("thread %d cannot be started, error %d", i, err);
  }
  while (__atomic_load_n(&n_holding, __ATOMIC_RELAXED) < N_THREADS) behave_sleep_ms(1);
  for (size_t i = 0; i < n_rounds; i++) {
    uint64_t begin = behave_now_ns();
    pid_t pid = fork();
    if (pid < 0) FAIL("fork failed, errno %d", errno);
    if (pid == 0) _exit(0);
    wait_for(pid, "a child that leaves at once");
    took[i] = behave_now_ns() - begin;
  }
  pthread_mutex_unlock(&parked);
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
  qsort(took, n_rounds, sizeof(took[0]), compare);
  printf("%llu\n", (unsigned long long)(took[n_rounds / 2] / 1000));
  return 0;
}
