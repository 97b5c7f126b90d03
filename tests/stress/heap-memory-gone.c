/* SPDX-License-Identifier: MIT */
/* E04 out-of-memory-at-awkward-places, what concerns heaps: with the address space limited and full,
 * heaps and theaps are made or not, by threads that are new too; NULL and ENOMEM, no crash; after
 * the frees all is as before. */
#include "thread/heaps.h"
#include <sys/resource.h>

enum { MAX_HEAPS = 2000, MAX_BLOCKS = 4000, N_THREADS = 20, EARLY = 1000 };
/* Made while there was memory: to use them, a thread needs a theap of each, and a longer table. */
static mi_heap_t *early[EARLY];
static mi_heap_t *heaps[MAX_HEAPS];
static size_t n_heaps;
static void *blocks[MAX_BLOCKS];

/* Each may fail, in any way that is told. */
static void use(mi_heap_t *heap) {
  static const size_t sizes[] = {16, 3000, 50000, 400000, 3 << 20};
  for (int i = 0; i < 5; i++) {
    errno = 0;
    char *p = mi_heap_malloc(heap, sizes[i]);
    if (p == NULL) {
      CHECK(errno == ENOMEM);
      continue;
    }
    CHECK(mi_heap_of(p) == heap);
    p[0] = p[sizes[i] - 1] = 1;
    if (i % 2 == 0) free(p);
  }
}
static void *first_use(void *arg) {
  (void)arg;
  for (size_t i = 0; i < EARLY; i++) {
    errno = 0;
    void *p = mi_heap_malloc(early[EARLY - 1 - i], 16);
    if (p == NULL) CHECK(errno == ENOMEM);
    else CHECK(mi_heap_of(p) == early[EARLY - 1 - i]);
    free(p);
  }
  for (size_t i = 0; i < 10 && i < n_heaps; i++) use(heaps[i]);
  errno = 0;
  mi_heap_t *heap = mi_heap_new();
  if (heap == NULL) {
    CHECK(errno == ENOMEM);
    return NULL;
  }
  mi_theap_t *theap = mi_heap_theap(heap);
  if (theap != NULL) {
    mi_theap_set_default(theap);
    free(malloc(100));
  }
  use(heap);
  mi_heap_destroy(heap);
  free(malloc(100));
  return NULL;
}

/* Theaps that ended leave their records, which need no memory when they are used again: so that what
 * is missing is a table. And threads that ended leave theirs, with tables for few heaps. */
static pthread_barrier_t barrier;
static void *end_small(void *arg) {
  free(malloc(100));
  pthread_barrier_wait(&barrier);
  return arg;
}
static void *use_early(void *arg) {
  for (size_t i = 0; i < EARLY; i++) CHECK(mi_heap_malloc(early[i], 16) != NULL);
  return arg;
}
static void leave_records(void) {
  pthread_t t[N_THREADS];
  in_thread(use_early, NULL);
  pthread_barrier_init(&barrier, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++) t[i] = start(end_small, NULL);
  for (int i = 0; i < N_THREADS; i++) join(t[i]);
  pthread_barrier_destroy(&barrier);
  for (size_t i = 0; i < EARLY; i++) mi_heap_destroy(early[i]);
  for (size_t i = 0; i < EARLY; i++) CHECK((early[i] = mi_heap_new()) != NULL);
}

static void starve(void) {
  size_t n = 0;
  n_heaps = 0;
  for (size_t size = 16 << 20; size >= 1024 && n < MAX_BLOCKS; size /= 4) {
    void *p;
    while (n < MAX_BLOCKS && (p = malloc(size)) != NULL) blocks[n++] = p;
  }
  for (; n_heaps < MAX_HEAPS; n_heaps++) {
    errno = 0;
    if ((heaps[n_heaps] = mi_heap_new()) == NULL) break;
    use(heaps[n_heaps]);
  }
  if (n_heaps < MAX_HEAPS) CHECK(errno == ENOMEM);
  mi_subproc_id_t id = mi_subproc_new();
  pthread_t t[N_THREADS];
  pthread_attr_t attr;
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 64 << 10) == 0);
  size_t n_threads = 0;
  while (n_threads < N_THREADS && pthread_create(&t[n_threads], &attr, first_use, NULL) == 0) n_threads++;
  first_use(NULL);
  mi_theap_set_default(NULL);
  for (size_t i = 0; i < n_threads; i++) join(t[i]);
  if (id._mi_subproc != NULL) mi_subproc_destroy(id);
  for (size_t i = 0; i < n_heaps; i += 2) mi_heap_delete(heaps[i]);
  for (size_t i = 1; i < n_heaps; i += 2) mi_heap_destroy(heaps[i]);
  for (size_t i = 0; i < n; i++) free(blocks[i]);
}

int main(void) {
  mi_test_not_under("thread");
  mi_test_not_under("address");
  behave_limit(100);
  mi_option_set(mi_option_max_errors, 0);
  mi_option_set(mi_option_show_errors, 0);
  free(malloc(100));
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < EARLY; i++) CHECK((early[i] = mi_heap_new()) != NULL);
    if (round > 0) leave_records(); /* else theaps themselves are missing */
    struct rlimit limit, old;
    CHECK(getrlimit(RLIMIT_AS, &old) == 0);
    limit = old;
    limit.rlim_cur = behave_virtual() + 64 * BEHAVE_MiB;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    starve();
    CHECK(setrlimit(RLIMIT_AS, &old) == 0);
    for (size_t i = 0; i < EARLY; i++) expect_heap(stamped_in(early[i], 100, i), early[i]);
    for (size_t i = 0; i < EARLY; i++) mi_heap_destroy(early[i]);
    mi_heap_t *heap = mi_heap_new();
    CHECK(heap != NULL);
    for (size_t i = 0; i < 100; i++) expect_heap(stamped_in(heap, 1000 * i, i), heap);
    mi_heap_destroy(heap);
  }
  return 0;
}
