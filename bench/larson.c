/* SPDX-License-Identifier: MIT */
/* larson [SCALE [CHAINS]] - a server whose threads die and hand their blocks on.
 *
 * Each chain has a table of live blocks. Its thread replaces blocks at random places of the table
 * for a while (a stretch), then starts its successor, which goes on with the same table, and ends.
 * So at any time most live blocks belong to threads that are gone, and are freed by a thread that
 * did not allocate them. */
#include "load.h"

enum {
  MAX_CHAINS = 64,
  N_SLOTS = 4000,     /* live blocks of a chain: 2 MiB, more than the nearer caches hold */
  SIZE_LO = 32,
  SIZE_HI = 1000,
  N_REPLACE = 20000,  /* of a stretch: each slot is replaced five times by each thread */
  N_STRETCHES = 600,
};

struct chain {
  uint64_t random;
  size_t n_left; /* stretches still to do */
  struct block *slots[N_SLOTS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static size_t n_running;

static size_t pick_size(struct chain *c) {
  return SIZE_LO + random_below(&c->random, SIZE_HI - SIZE_LO + 1);
}

static void *run_stretch(void *arg) {
  struct chain *c = arg;
  for (size_t i = 0; i < N_REPLACE; i++) {
    struct block **slot = &c->slots[random_below(&c->random, N_SLOTS)];
    block_free(*slot);
    *slot = block_new(pick_size(c));
  }
  if (--c->n_left > 0) {
    pthread_t successor;
    thread_start(&successor, run_stretch, c);
    pthread_detach(successor);
  } else {
    pthread_mutex_lock(&mutex);
    n_running--;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

int main(int argc, char **argv) {
  struct load l = load_start(argc, argv, 2, MAX_CHAINS);
  struct chain *chains = calloc(l.n_threads, sizeof *chains);
  if (chains == NULL) fail("out of memory");
  n_running = l.n_threads;
  /* The first blocks are dealt out in turn, so that the chains' blocks lie side by side. */
  for (size_t k = 0; k < l.n_threads; k++) {
    chains[k].random = random_seed(k);
    chains[k].n_left = load_count(&l, N_STRETCHES);
  }
  for (size_t i = 0; i < N_SLOTS; i++) {
    for (size_t k = 0; k < l.n_threads; k++) chains[k].slots[i] = block_new(pick_size(&chains[k]));
  }
  for (size_t k = 0; k < l.n_threads; k++) {
    pthread_t first;
    thread_start(&first, run_stretch, &chains[k]);
    pthread_detach(first);
  }
  pthread_mutex_lock(&mutex);
  while (n_running > 0) pthread_cond_wait(&ended, &mutex);
  pthread_mutex_unlock(&mutex);
  for (size_t k = 0; k < l.n_threads; k++) {
    for (size_t i = 0; i < N_SLOTS; i++) block_free(chains[k].slots[i]);
  }
  free(chains);
  return load_end(&l);
}
