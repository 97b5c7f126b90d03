/* SPDX-License-Identifier: MIT */
/* mstress [SCALE [THREADS]] - phases of growth, with blocks passed around between threads.
 *
 * A phase starts fresh threads. Each grows a set of live blocks, frees some on the way, and swaps
 * some with an exchange table that all threads share; then it frees what it has, but for a tenth,
 * which it leaves in the exchange, and ends. Between phases a part of the exchange is freed by the
 * main thread. Each phase grows further than the one before, then it starts small again. */
#include "load.h"

#include <stdatomic.h>

enum {
  MAX_THREADS = 64,
  N_EXCHANGE = 2000,
  N_PHASES = 144,
  PHASES_OF_CYCLE = 6,
  GROW_STEP = 8000, /* blocks of a thread in the first phase of a cycle, and more in each next */
  GROW_MAX = GROW_STEP * PHASES_OF_CYCLE,
};

static _Atomic(struct block *) exchange[N_EXCHANGE];

struct worker {
  pthread_t thread;
  uint64_t random;
  size_t n_grow;
  size_t n_live;
  struct block *live[GROW_MAX];
};

/* Mostly small, one in 64 of some KiB, one in 4096 of up to 128 KiB. */
static size_t pick_size(uint64_t *random) {
  uint64_t r = random_next(random) >> 24;
  if ((r & 4095) == 0) return random_skewed(random, 16 * 1024, 128 * 1024);
  if ((r & 63) == 0) return random_skewed(random, 1024, 16 * 1024);
  return random_skewed(random, 16, 512);
}

static struct block *swap(size_t place, struct block *b) {
  /* Release: the block's bytes for whoever takes it; acquire: those of the block taken here. */
  return atomic_exchange_explicit(&exchange[place], b, memory_order_acq_rel);
}

static void *run_phase(void *arg) {
  struct worker *w = arg;
  for (size_t i = 0; i < w->n_grow; i++) {
    w->live[w->n_live++] = block_new(pick_size(&w->random));
    uint64_t r = random_next(&w->random) >> 30;
    size_t k = (size_t)(r >> 8) % w->n_live;
    if ((r & 3) == 0) { /* a quarter dies early */
      block_free(w->live[k]);
      w->live[k] = w->live[--w->n_live];
    } else if ((r & 7) == 1) { /* an eighth changes hands */
      struct block *got = swap(random_below(&w->random, N_EXCHANGE), w->live[k]);
      if (got != NULL) block_check(got);
      w->live[k] = got != NULL ? got : w->live[--w->n_live];
    }
  }
  while (w->n_live > 0) {
    struct block *b = w->live[--w->n_live];
    if (w->n_live % 10 == 0) b = swap(random_below(&w->random, N_EXCHANGE), b);
    if (b != NULL) block_free(b);
  }
  return NULL;
}

static void free_exchange(size_t first, size_t step) {
  for (size_t i = first; i < N_EXCHANGE; i += step) {
    struct block *b = swap(i, NULL);
    if (b != NULL) block_free(b);
  }
}

int main(int argc, char **argv) {
  static struct worker workers[MAX_THREADS];
  struct load l = load_start(argc, argv, 2, MAX_THREADS);
  size_t n_phases = load_count(&l, N_PHASES);
  for (size_t k = 0; k < l.n_threads; k++) workers[k].random = random_seed(k);
  for (size_t phase = 0; phase < n_phases; phase++) {
    for (size_t k = 0; k < l.n_threads; k++) {
      workers[k].n_grow = GROW_STEP * (phase % PHASES_OF_CYCLE + 1);
      thread_start(&workers[k].thread, run_phase, &workers[k]);
    }
    for (size_t k = 0; k < l.n_threads; k++) pthread_join(workers[k].thread, NULL);
    free_exchange(phase % 4, 4);
  }
  free_exchange(0, 1);
  return load_end(&l);
}
