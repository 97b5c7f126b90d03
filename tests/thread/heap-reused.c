/* SPDX-License-Identifier: MIT */
/* F01 heap-address-reused, and the scenarios aba, key reuse and tls-key-race. A heap goes and another
 * takes its address; no thread may find what it knew of the first. */
#include "thread/heaps.h"

static pthread_barrier_t barrier;
static void meet(void) { pthread_barrier_wait(&barrier); }
static mi_heap_t *heap;
static size_t n_rounds, n_blocks;
static size_t n_same; /* rounds in which the address came again: without any the test says nothing */

/* Stays alive and allocates from whatever `heap` is. */
static void *use(void *arg) {
  (void)arg;
  for (size_t i = 0; i < n_rounds; i++) {
    meet(); /* a heap is there */
    for (size_t k = 0; k < n_blocks; k++) {
      struct stamped *s = stamped_in(heap, 64 + k % 900, k);
      expect_heap(s, heap);
    }
    meet(); /* it may go */
  }
  return NULL;
}

static void check_reuse(size_t rounds, size_t blocks, int n_users, bool destroy) {
  pthread_t users[4];
  n_rounds = rounds;
  n_blocks = blocks;
  pthread_barrier_init(&barrier, NULL, (unsigned)n_users + 1);
  for (int i = 0; i < n_users; i++) users[i] = start(use, NULL);
  for (size_t i = 0; i < rounds; i++) {
    mi_heap_t *before = heap;
    heap = new_heap();
    n_same += heap == before;
    meet();
    meet();
    if (destroy) mi_heap_destroy(heap);
    else mi_heap_delete(heap);
  }
  for (int i = 0; i < n_users; i++) join(users[i]);
  pthread_barrier_destroy(&barrier);
}

/* A heap is destroyed under the threads that used it, and made anew by another of them. */
static void *make_and_use(void *arg) {
  size_t id = (size_t)(uintptr_t)arg;
  for (size_t i = 0; i < n_rounds; i++) {
    meet();
    if (i % 4 == id) {
      if (heap != NULL) mi_heap_destroy(heap);
      heap = new_heap();
    }
    meet();
    for (size_t k = 0; k < 8; k++) expect_heap(mi_heap_malloc(heap, 100), heap);
  }
  return NULL;
}

/* The first use of a heap by several threads at the same moment. */
static void *first_use(void *arg) {
  (void)arg;
  meet();
  mi_theap_t *theap = mi_heap_theap(heap);
  for (size_t k = 0; k < 20; k++) {
    struct stamped *s = stamped_in(heap, 100, k);
    expect_heap(s, heap);
    CHECK(mi_heap_contains(heap, s) && mi_heap_theap(heap) == theap);
  }
  return NULL;
}

int main(void) {
  behave_limit(200);
  check_reuse(mi_test_scale(64, 200), 16, 1, true);
  check_reuse(mi_test_scale(20, 200), 1024, 1, true);
  check_reuse(mi_test_scale(20, 200), 100, 1, false);
  check_reuse(mi_test_scale(200, 2000), 4, 4, true);
  CHECK(n_same > 0);

  pthread_t users[8];
  heap = NULL;
  n_rounds = mi_test_scale(200, 2000);
  pthread_barrier_init(&barrier, NULL, 4);
  for (size_t i = 0; i < 4; i++) users[i] = start(make_and_use, (void *)(uintptr_t)i);
  for (size_t i = 0; i < 4; i++) join(users[i]);
  pthread_barrier_destroy(&barrier);
  mi_heap_destroy(heap);

  for (size_t i = 0; i < mi_test_scale(20, 200); i++) {
    heap = new_heap();
    pthread_barrier_init(&barrier, NULL, 8);
    for (int k = 0; k < 8; k++) users[k] = start(first_use, NULL);
    for (int k = 0; k < 8; k++) join(users[k]);
    pthread_barrier_destroy(&barrier);
    mi_heap_destroy(heap);
  }
  return 0;
}
