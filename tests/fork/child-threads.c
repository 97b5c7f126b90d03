/* SPDX-License-Identifier: MIT */
/* The child of a process with threads uses threads itself: it frees blocks of threads that did not come along, hands blocks
 * from thread to thread, verifies what it inherited, and leaves by exit(). Many threads fork at the same time. */
#include "fork/workload.h"

enum { N_FORKERS = 3 };

static struct churn churn;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static struct set shared; /* made by a thread that is parked while the others fork */
static bool stop;

static void *free_part(void *arg) {
  size_t from = (size_t)(uintptr_t)arg;
  for (size_t i = from; i < shared.n; i += 4) {
    size_t at = behave_verify(shared.blocks[i], shared.sizes[i], shared.tag + i);
    if (at != shared.sizes[i]) FAIL("inherited block %zu is changed at byte %zu", i, at);
    free(shared.blocks[i]);
    shared.blocks[i] = NULL;
  }
  return work_in_thread(NULL);
}

static void be_child(void) {
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) {
    int err = pthread_create(&t[i], NULL, free_part, (void *)i);
    if (err != 0) FAIL("pthread_create in a fork child gave %d", err);
  }
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  static struct churn own;
  churn_start(&own);
  behave_sleep_ms(20);
  churn_stop(&own);
}

static void *fork_often(void *arg) {
  size_t n = *(size_t *)arg;
  for (size_t i = 0; i < n; i++) {
    pid_t pid = fork_limited(15);
    if (pid == 0) {
      be_child();
      exit(0);
    }
    wait_for(pid, "a child that uses threads");
    free(malloc(behave_random_size(&(uint64_t){i}, 8, 8192)));
  }
  return NULL;
}

static void *own_and_wait(void *arg) {
  (void)arg;
  shared = set_make(1200, 8, 16 * BEHAVE_KiB, 3);
  pthread_mutex_unlock(&turn);
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) behave_sleep_ms(5);
  return NULL;
}

int main(void) {
  mi_test_not_under("address"); /* its own malloc may stay locked for ever in the child of a process with threads */
  mi_test_not_under("thread"); /* it does not support threads in a fork child */
  size_t n_forks = mi_test_scale(8, 150);
  behave_limit((unsigned)(30 + n_forks));
  pthread_t owner, forkers[N_FORKERS];
  pthread_mutex_lock(&turn);
  if (pthread_create(&owner, NULL, own_and_wait, NULL) != 0) FAIL("pthread_create failed");
  while (pthread_mutex_trylock(&turn) != 0) behave_sleep_ms(1);
  churn_start(&churn);
  for (int i = 0; i < N_FORKERS; i++) {
    if (pthread_create(&forkers[i], NULL, fork_often, &n_forks) != 0) FAIL("pthread_create failed");
  }
  for (int i = 0; i < N_FORKERS; i++) pthread_join(forkers[i], NULL);
  churn_stop(&churn);
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  pthread_join(owner, NULL);
  set_free(&shared);
  return 0;
}
