/* SPDX-License-Identifier: MIT */
/* rptest [SCALE [THREADS]] - mixed sizes with a share of foreign frees.
 *
 * Each thread keeps a set of live blocks of 16 bytes to 64 KiB, small ones more often, and replaces
 * random ones. A quarter of the blocks that it drops goes to the next thread's inbox instead of
 * being freed; each thread empties its own inbox now and then and frees what it finds. */
#include "load.h"

#include <stdatomic.h>

enum {
  MAX_THREADS = 64,
  N_SLOTS = 2500,
  N_REPLACE = 4000000,
  INBOX_EVERY = 128,  /* replacements between two looks into the inbox */
  INBOX_MAX = 1000,   /* blocks; a thread that does not look must not pile up memory */
  LINE = 64,
};

struct worker {
  /* Written by the thread before this one in the ring. */
  _Alignas(LINE) _Atomic(struct block *) xinbox;
  atomic_size_t xn_inbox;
  /* The owner's. */
  _Alignas(LINE) pthread_t thread;
  struct worker *next;
  uint64_t random;
  size_t n_replace;
  struct block *slots[N_SLOTS];
};

static void send(struct worker *to, struct block *b) {
  struct block *head = atomic_load_explicit(&to->xinbox, memory_order_relaxed);
  do {
    b->next = head;
    /* Release: the block and its link, for the acquire in empty_inbox. */
  } while (!atomic_compare_exchange_weak_explicit(&to->xinbox, &head, b, memory_order_release,
                                                  memory_order_relaxed));
  atomic_fetch_add_explicit(&to->xn_inbox, 1, memory_order_relaxed);
}

static void empty_inbox(struct worker *w) {
  size_t n = 0;
  /* Acquire: pairs with the release in send. */
  struct block *b = atomic_exchange_explicit(&w->xinbox, NULL, memory_order_acquire);
  while (b != NULL) {
    struct block *next = b->next;
    block_free(b);
    b = next;
    n++;
  }
  atomic_fetch_sub_explicit(&w->xn_inbox, n, memory_order_relaxed);
}

/* The count may wrap for a moment below 0 (a block taken before it is counted): that reads as full,
 * and the block is freed here. */
static int inbox_full(struct worker *w) {
  return atomic_load_explicit(&w->xn_inbox, memory_order_relaxed) >= INBOX_MAX;
}

static size_t pick_size(uint64_t *random) {
  uint64_t r = random_next(random) >> 24;
  return (r & 127) == 0 ? random_skewed(random, 8 * 1024, 64 * 1024)
                        : random_skewed(random, 16, 8 * 1024);
}

static void *run(void *arg) {
  struct worker *w = arg;
  for (size_t i = 0; i < w->n_replace; i++) {
    struct block **slot = &w->slots[random_below(&w->random, N_SLOTS)];
    if (*slot != NULL) {
      if ((random_next(&w->random) >> 40) % 4 == 0 && !inbox_full(w->next)) {
        block_check(*slot);
        send(w->next, *slot);
      } else {
        block_free(*slot);
      }
    }
    *slot = block_new(pick_size(&w->random));
    if (i % INBOX_EVERY == 0) empty_inbox(w);
  }
  return NULL;
}

int main(int argc, char **argv) {
  static struct worker workers[MAX_THREADS];
  struct load l = load_start(argc, argv, 2, MAX_THREADS);
  for (size_t k = 0; k < l.n_threads; k++) {
    workers[k].next = &workers[(k + 1) % l.n_threads];
    workers[k].random = random_seed(k);
    workers[k].n_replace = load_count(&l, N_REPLACE);
  }
  for (size_t k = 0; k < l.n_threads; k++) thread_start(&workers[k].thread, run, &workers[k]);
  for (size_t k = 0; k < l.n_threads; k++) pthread_join(workers[k].thread, NULL);
  for (size_t k = 0; k < l.n_threads; k++) {
    empty_inbox(&workers[k]);
    for (size_t i = 0; i < N_SLOTS; i++) {
      if (workers[k].slots[i] != NULL) block_free(workers[k].slots[i]);
    }
  }
  return load_end(&l);
}
