/* SPDX-License-Identifier: MIT */
/* Threads that obtain, verify, resize and hand on blocks from four heaps that come and go, and in 1
 * of 100 steps have an idle point: inline, or a park. Every byte is verified. */
#include "idle/idle.h"

enum { N_HEAPS = 4, TABLE = 100, MARKET = 128 };

static struct mailbox market[MARKET];
static struct rolling {
  pthread_mutex_t lock;
  mi_heap_t *heap;
  size_t n_users;
} heaps[N_HEAPS];
static mi_heap_t *old_heaps[1000]; /* their threads may be freeing into their pages */
static atomic_size_t n_old;
static size_t n_steps;

/* A block from a heap that lives on until the lock is dropped, and its blocks after that. */
static struct stamped *obtain(uint64_t *rng) {
  size_t size = behave_random(rng) % 50 == 0 ? behave_random_size(rng, 65536, 2 * BEHAVE_MiB)
                                             : behave_random_size(rng, 32, 20000);
  uint64_t tag = behave_random(rng), dice = behave_random(rng) % 8;
  if (dice >= N_HEAPS) {
    void *p = malloc(size);
    CHECK(p != NULL);
    return stamp(p, size, tag);
  }
  struct rolling *r = &heaps[dice];
  pthread_mutex_lock(&r->lock);
  if (r->heap == NULL || ++r->n_users > mi_test_scale(400, 2000)) {
    if (r->heap != NULL) {
      size_t i = n_old++;
      CHECK(i < 1000);
      old_heaps[i] = r->heap;
    }
    r->heap = new_heap();
    r->n_users = 0;
  }
  struct stamped *s = stamped_in(r->heap, size, tag);
  pthread_mutex_unlock(&r->lock);
  return s;
}

static void *step_on(void *arg) {
  uint64_t rng = behave_seed() ^ ((uintptr_t)arg << 32);
  struct stamped *table[TABLE] = {0};
  for (size_t step = 0; step < n_steps; step++) {
    uint64_t dice = behave_random(&rng) % 1000;
    if (dice < 3) {
      mi_on_thread_idle();
    } else if (dice < 10) {
      if (mi_on_thread_idle_start() && dice < 8) usleep((useconds_t)(behave_random(&rng) % 500));
      mi_on_thread_idle_end();
    } else if (dice < 11) {
      mi_collect(behave_random(&rng) % 2 == 0);
    } else if (dice < 12) {
      mi_purge_all_ex(0, 1, NULL);
    }
    size_t i = behave_random(&rng) % TABLE;
    if (table[i] == NULL) {
      table[i] = obtain(&rng);
    } else if (dice < 400) {
      post(&market[behave_random(&rng) % MARKET], table[i]);
      table[i] = NULL;
      free_list(fetch_all(&market[behave_random(&rng) % MARKET]));
    } else if (dice < 500) {
      verify(table[i]);
      size_t size = behave_random_size(&rng, 32, 40000);
      uint64_t tag = table[i]->tag;
      void *p = realloc(table[i], size);
      CHECK(p != NULL);
      table[i] = stamp(p, size, tag + 1);
    } else {
      verify_and_free(table[i]);
      table[i] = NULL;
    }
  }
  for (int i = 0; i < TABLE; i++)
    if (table[i] != NULL) verify_and_free(table[i]);
  return NULL;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    behave_limit(280);
    enum { MOST = 32 };
    size_t n = BEHAVE_SANITIZED ? 6 : mi_test_scale(12, MOST);
    size_t n_rounds = mi_test_scale(2, 3);
    n_steps = BEHAVE_SANITIZED ? mi_test_scale(1000, 2000) : mi_test_scale(1000, 10000);
    for (int i = 0; i < N_HEAPS; i++) pthread_mutex_init(&heaps[i].lock, NULL);
    for (int i = 0; i < MARKET; i++) pthread_mutex_init(&market[i].mutex, NULL);
    for (size_t round = 0; round < n_rounds; round++) {
      pthread_t t[MOST];
      for (size_t i = 0; i < n; i++) t[i] = start(step_on, (void *)(round * MOST + i + 1));
      for (size_t i = 0; i < n; i++) join(t[i]);
      for (; n_old > 0; n_old--) mi_heap_delete(old_heaps[n_old - 1]); /* blocks wait in the market */
    }
    for (int i = 0; i < MARKET; i++) free_list(fetch_all(&market[i]));
    for (int i = 0; i < N_HEAPS; i++)
      if (heaps[i].heap != NULL) mi_heap_delete(heaps[i].heap);
    mi_collect(true);
    if (committed() > 8 * (int64_t)BEHAVE_MiB)
      FAIL("%lld KiB are committed at the end", (long long)committed() / 1024);
    return 0;
  }
  run_with(WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", "MIMALLOC_PURGE_DELAY=10"), "eager");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "default");
  return 0;
}
