/* SPDX-License-Identifier: MIT */
/* xmalloc [SCALE [PAIRS]] - one side allocates, the other frees.
 *
 * Each pair is a producer and a consumer with a queue of batches between them. The producer fills
 * a batch with fresh blocks of random sizes and appends it; the consumer takes a batch and frees
 * its blocks and the batch itself. No block is freed by the thread that allocated it. The queue is
 * bounded, and the consumer begins when it is full for the first time: else how much is live at the
 * peak would depend on which side happens to be the faster one with an allocator. */
#include "load.h"

enum {
  MAX_PAIRS = 32,
  N_BLOCKS = 256,   /* of a batch: enough that handing over costs little beside allocating */
  QUEUE_MAX = 100,  /* batches: about 5 MiB in flight */
  N_BATCHES = 24000,
  SIZE_LO = 32,
  SIZE_HI = 400,
};

struct batch {
  struct batch *next;
  struct block *blocks[N_BLOCKS];
};

struct pair {
  pthread_mutex_t mutex;
  pthread_cond_t not_full, not_empty;
  struct batch *head, **tail;
  size_t n_queued, n_batches;
  uint64_t random;
  pthread_t producer, consumer;
};

static void *produce(void *arg) {
  struct pair *p = arg;
  for (size_t i = 0; i < p->n_batches; i++) {
    struct batch *b = malloc(sizeof *b);
    if (b == NULL) fail("out of memory");
    for (size_t j = 0; j < N_BLOCKS; j++) {
      b->blocks[j] = block_new(SIZE_LO + random_below(&p->random, SIZE_HI - SIZE_LO + 1));
    }
    b->next = NULL;
    pthread_mutex_lock(&p->mutex);
    while (p->n_queued == QUEUE_MAX) pthread_cond_wait(&p->not_full, &p->mutex);
    *p->tail = b;
    p->tail = &b->next;
    if (++p->n_queued == 1 || p->n_queued == QUEUE_MAX || i + 1 == p->n_batches) {
      pthread_cond_signal(&p->not_empty);
    }
    pthread_mutex_unlock(&p->mutex);
  }
  return NULL;
}

static void *consume(void *arg) {
  struct pair *p = arg;
  size_t n_first = p->n_batches < QUEUE_MAX ? p->n_batches : QUEUE_MAX;
  for (size_t i = 0; i < p->n_batches; i++) {
    pthread_mutex_lock(&p->mutex);
    while (p->n_queued < (i == 0 ? n_first : 1)) pthread_cond_wait(&p->not_empty, &p->mutex);
    struct batch *b = p->head;
    p->head = b->next;
    if (p->head == NULL) p->tail = &p->head;
    /* Waking the producer at half full keeps the two from taking turns at every batch. */
    if (--p->n_queued == QUEUE_MAX / 2) pthread_cond_signal(&p->not_full);
    pthread_mutex_unlock(&p->mutex);
    for (size_t j = 0; j < N_BLOCKS; j++) block_free(b->blocks[j]);
    free(b);
  }
  return NULL;
}

int main(int argc, char **argv) {
  struct load l = load_start(argc, argv, 1, MAX_PAIRS);
  static struct pair pairs[MAX_PAIRS];
  for (size_t k = 0; k < l.n_threads; k++) {
    struct pair *p = &pairs[k];
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->not_full, NULL);
    pthread_cond_init(&p->not_empty, NULL);
    p->tail = &p->head;
    p->n_batches = load_count(&l, N_BATCHES);
    p->random = random_seed(k);
    thread_start(&p->consumer, consume, p);
    thread_start(&p->producer, produce, p);
  }
  for (size_t k = 0; k < l.n_threads; k++) {
    pthread_join(pairs[k].producer, NULL);
    pthread_join(pairs[k].consumer, NULL);
    if (pairs[k].n_queued != 0) fail("batches left");
  }
  return load_end(&l);
}
