/* SPDX-License-Identifier: MIT */
/* scratch [SCALE [THREADS]] - false sharing, handed on.
 *
 * The main thread allocates small blocks next to each other and gives one to each thread. A thread
 * frees its block, and then again and again allocates a block of that size, counts in it for a
 * while and frees it. An allocator that gives a thread the block that it got from elsewhere makes
 * all of them write to one cache line: the run takes several times as long. */
#include "load.h"

enum {
  MAX_THREADS = 64,
  SIZE = 16,
  N_ROUNDS = 4000000,
  N_WRITES = 400,
};

struct worker {
  pthread_t thread;
  volatile uint64_t *given;
  size_t n_rounds;
};

static void *run(void *arg) {
  struct worker *w = arg;
  if (*w->given != (uint64_t)(uintptr_t)w->given) fail("damaged block");
  free((void *)w->given);
  for (size_t i = 0; i < w->n_rounds; i++) {
    volatile uint64_t *p = malloc(SIZE);
    if (p == NULL) fail("out of memory");
    p[0] = 0;
    for (size_t k = 0; k < N_WRITES; k++) p[0] = p[0] + 1;
    if (p[0] != N_WRITES) fail("block written by another thread");
    free((void *)p);
  }
  return NULL;
}

int main(int argc, char **argv) {
  static struct worker workers[MAX_THREADS];
  struct load l = load_start(argc, argv, 2, MAX_THREADS);
  for (size_t k = 0; k < l.n_threads; k++) {
    workers[k].given = malloc(SIZE);
    if (workers[k].given == NULL) fail("out of memory");
    *workers[k].given = (uint64_t)(uintptr_t)workers[k].given;
    workers[k].n_rounds = load_count(&l, N_ROUNDS);
  }
  for (size_t k = 0; k < l.n_threads; k++) thread_start(&workers[k].thread, run, &workers[k]);
  for (size_t k = 0; k < l.n_threads; k++) pthread_join(workers[k].thread, NULL);
  return load_end(&l);
}
