/* SPDX-License-Identifier: MIT */
/* Statistics stay exact when a heap is deleted while other threads free its blocks, whose threads
 * have ended: what is freed before, while and after the pages pass to the main heap is subtracted
 * once, from one heap. Afterwards nothing is left in any heap, and a heap that gets the memory of the
 * deleted one begins at 0. */
#include "stats.h"

enum { FREERS = 3, BLOCKS = 3 * 400 };

static void *blocks[BLOCKS];
static mi_heap_t *heap;
static pthread_barrier_t barrier;

static size_t size_of(size_t i) {
  static const size_t sizes[] = {64, 700, 3000, 20000, 70000, 900000};
  size_t kind = i * 7 % 61;
  return sizes[kind < 40 ? kind % 3 : kind < 58 ? 3 : kind < 60 ? 4 : 5];
}

static void *fill(void *arg) {
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i] = mi_heap_malloc(heap, size_of(i));
    CHECK(blocks[i] != NULL);
  }
  return arg;
}

static void *free_some(void *arg) {
  size_t me = (size_t)(uintptr_t)arg;
  pthread_barrier_wait(&barrier);
  /* Each page by one of them or by all, as it comes. */
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % FREERS == me) mi_free(blocks[i]);
  }
  return arg;
}

static void run(size_t round) {
  static mi_stats_t before, after, s;
  pthread_t thread[FREERS];
  heap = mi_heap_new();
  CHECK(pthread_barrier_init(&barrier, NULL, FREERS + 1) == 0);
  for (uintptr_t i = 0; i < FREERS; i++)
    CHECK(pthread_create(&thread[i], NULL, free_some, (void *)i) == 0);
  get_stats(&before);
  pthread_t filler;
  CHECK(pthread_create(&filler, NULL, fill, NULL) == 0 && pthread_join(filler, NULL) == 0);
  pthread_barrier_wait(&barrier);
  for (volatile size_t i = 0; i < round % 64 * 400; i++) continue;
  mi_heap_delete(heap);
  for (int i = 0; i < FREERS; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  get_stats(&after);
  check_sane(&after);
  if (after.malloc_normal.current > before.malloc_normal.current + 4096 ||
      after.malloc_normal.current + 4096 < before.malloc_normal.current ||
      after.malloc_huge.current != before.malloc_huge.current) {
    fprintf(stderr, "round %zu: bytes %lld, then %lld; huge %lld, then %lld\n", round,
            (long long)before.malloc_normal.current, (long long)after.malloc_normal.current,
            (long long)before.malloc_huge.current, (long long)after.malloc_huge.current);
    _exit(1);
  }
  for (size_t i = 0; i < BLOCKS && i < 100; i++) {
    size_t bin = bin_of(size_of(i));
    /* The C library's own for threads are smaller. */
    if (size_of(i) >= 700 &&
        after.malloc_bins[bin].current != before.malloc_bins[bin].current) {
      fprintf(stderr, "round %zu: blocks of class %zu: %lld, then %lld\n", round, bin,
              (long long)before.malloc_bins[bin].current, (long long)after.malloc_bins[bin].current);
      _exit(1);
    }
  }
  CHECK(after.pages_abandoned.current <= before.pages_abandoned.current + 1);
  heap = mi_heap_new();
  CHECK(mi_heap_malloc(heap, 100) != NULL);
  get_heap_stats(heap, &s);
  CHECK(s.pages.current == 1 && s.pages.total == 1 && s.malloc_normal_count.total == 1);
  CHECK(s.pages_abandoned.current == 0 && s.theaps.total == 1);
  mi_heap_destroy(heap);
}

int main(void) {
  mi_test_not_tracked();
  size_t rounds = mi_test_scale(100, 2000);
  for (size_t i = 0; i < rounds; i++) run(i);
  return 0;
}
