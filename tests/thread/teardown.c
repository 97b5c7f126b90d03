/* SPDX-License-Identifier: MIT */
/* C07 alloc-after-thread-teardown: a thread creates 4 pthread keys before its first malloc and 4 after; the destructors run
 * for all PTHREAD_DESTRUCTOR_ITERATIONS rounds: each mallocs 100 bytes, frees the block of the round before, sets its key
 * again; 2000 threads. No crash; the resident memory grows by at most 1 MiB over threads 1000 to 2000. */
#include "thread/behave.h"
#include <limits.h>
#include <pthread.h>

enum { N_THREADS = 2000, N_KEYS = 8 };

/* What a key holds: its index, and the block of the round before. */
struct held {
  pthread_key_t key;
  void *block;
  unsigned rounds;
};

static unsigned n_rounds; /* destructor calls over all threads; threads run one after the other */

static void *make_block(void) {
  unsigned char *p = malloc(100);
  if (p == NULL) FAIL("malloc gave NULL in a destructor");
  behave_fill(p, 100, 17);
  return p;
}

static void free_block(void *p) {
  if (behave_verify(p, 100, 17) != 100) FAIL("block %p changed between two rounds of destructors", p);
  free(p);
}

/* The last round cannot know that it is the last for the C library, so it counts. */
static void destroy(void *value) {
  struct held *h = value;
  n_rounds++;
  h->rounds++;
  free_block(h->block);
  h->block = NULL;
  if (h->rounds == PTHREAD_DESTRUCTOR_ITERATIONS) return;
  h->block = make_block();
  if (pthread_setspecific(h->key, h) != 0) FAIL("pthread_setspecific failed");
}

static void set_key(struct held *h) {
  if (pthread_key_create(&h->key, destroy) != 0) FAIL("pthread_key_create failed");
  h->rounds = 0;
  h->block = NULL;
}

static void *live(void *arg) {
  struct held *held = arg;
  for (int i = 0; i < 4; i++) set_key(&held[i]);
  free(malloc(500));
  for (int i = 4; i < N_KEYS; i++) set_key(&held[i]);
  for (int i = 0; i < N_KEYS; i++) {
    held[i].block = make_block();
    if (pthread_setspecific(held[i].key, &held[i]) != 0) FAIL("pthread_setspecific failed");
  }
  return NULL;
}

int main(void) {
  static struct held held[N_KEYS];
  size_t resident_half = 0;
  /* Its books on a thread close before the last round of destructors: it sees races with what the join orders. */
  const char *sanitizers = getenv("MI_TEST_SANITIZE");
  if (sanitizers != NULL && strstr(sanitizers, "thread") != NULL) SKIP("built for the thread sanitizer");
  behave_limit(60);
  for (int i = 0; i < N_THREADS; i++) {
    pthread_t t;
    if (i == N_THREADS / 2) resident_half = behave_resident();
    int err = pthread_create(&t, NULL, live, held);
    if (err != 0) FAIL("pthread_create gave %d", err);
    pthread_join(t, NULL);
    for (int k = 0; k < N_KEYS; k++) pthread_key_delete(held[k].key);
  }
  size_t resident = behave_resident();
  if (n_rounds != N_THREADS * N_KEYS * PTHREAD_DESTRUCTOR_ITERATIONS) FAIL("%u rounds of destructors", n_rounds);
  if (!BEHAVE_SANITIZED && resident > resident_half + BEHAVE_MiB) {
    FAIL("%zu KiB more are resident after %d threads than after half of them",
         (resident - resident_half) / BEHAVE_KiB, N_THREADS);
  }
  return 0;
}
