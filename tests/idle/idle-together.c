/* SPDX-License-Identifier: MIT */
/* Threads that are idle at the same moment, where nobody else purges: each call does, or waits for, all that its thread has
 * freed, so after the last one nothing is left. With a background thread, that is made by such a call if need be, the same
 * holds a moment later. */
#include "common.h"
#include "mimalloc.h"
#include <pthread.h>

enum { N_THREADS = 6, N_BLOCKS = 24, BLOCK = 300 * 1024 };

static pthread_barrier_t gate;
static unsigned n_rounds;

static void *work(void *arg) {
  static __thread char *blocks[N_BLOCKS];
  for (unsigned round = 0; round < n_rounds; round++) {
    for (unsigned i = 0; i < N_BLOCKS; i++) {
      CHECK((blocks[i] = mi_malloc(BLOCK)) != NULL);
      memset(blocks[i], 1, BLOCK);
    }
    (void)pthread_barrier_wait(&gate);
    for (unsigned i = 0; i < N_BLOCKS; i++) mi_free(blocks[i]);
    mi_on_thread_idle();
    (void)pthread_barrier_wait(&gate); /* all of them are idle; the main thread looks */
    (void)pthread_barrier_wait(&gate);
  }
  return arg;
}

static void run(const char *how, unsigned rounds, unsigned moment_ms) {
  pthread_t threads[N_THREADS];
  n_rounds = rounds;
  CHECK(pthread_barrier_init(&gate, NULL, N_THREADS + 1) == 0);
  size_t before = mi_test_rss_kib();
  for (unsigned k = 0; k < N_THREADS; k++) CHECK(pthread_create(&threads[k], NULL, work, NULL) == 0);
  for (unsigned round = 0; round < n_rounds; round++) {
    (void)pthread_barrier_wait(&gate);
    (void)pthread_barrier_wait(&gate);
    size_t left = 0;
    for (unsigned ms = 0; ms <= moment_ms; ms += 10) {
      size_t now = mi_test_rss_kib();
      left = now > before ? now - before : 0;
      if (left < 4096 || ms == moment_ms) break;
      usleep(10000);
    }
    if (left >= 4096) {
      fprintf(stderr, "%s, round %u: %zu KiB are left of %d\n", how, round, left, N_THREADS * N_BLOCKS * BLOCK / 1024);
      exit(1);
    }
    (void)pthread_barrier_wait(&gate);
  }
  for (unsigned k = 0; k < N_THREADS; k++) CHECK(pthread_join(threads[k], NULL) == 0);
  CHECK(pthread_barrier_destroy(&gate) == 0);
}

int main(void) {
  mi_test_not_under("address"); /* which keep memory of their own */
  mi_test_not_under("thread");
  unsigned n = (unsigned)mi_test_scale(10, 100);
  mi_option_set(mi_option_scavenger, 0);
  run("by themselves", n, 0);
  mi_option_set(mi_option_scavenger, 1);
  run("in the background", n, MI_TEST_PATIENCE_MS);
  return 0;
}
