/* SPDX-License-Identifier: MIT */
/* thread-first-call: each entry point as the first call of the library in a new thread. And C07's
 * part with a second heap: destructors of thread keys that allocate from heaps after the library's
 * own clean-up of the thread. */
#include "thread/heaps.h"
#include <limits.h>

static mi_heap_t *heap;
enum { SIZE = 40 };

static void *by_posix(void) {
  void *p = NULL;
  CHECK(mi_posix_memalign(&p, 64, SIZE) == 0);
  return p;
}
static void *by_nothing(void) {
  mi_free(NULL);
  CHECK(mi_usable_size(NULL) == 0);
  return NULL;
}
static void *by_query(void) {
  CHECK(mi_heap_of(NULL) == NULL && !mi_heap_contains(heap, &heap));
  return NULL;
}
static void *by_collect(void) {
  mi_collect(true);
  mi_heap_collect(heap, true);
  return NULL;
}
/* 24 size classes, each until it has taken several runs of blocks (emulated-tls). */
static void *by_classes(void) {
  enum { N_CLASSES = 24, BYTES = 48 << 10 };
  static __thread void *p[8192];
  size_t n = 0;
  for (size_t k = 0; k < N_CLASSES; k++) {
    size_t size = k < 8 ? 16 * (k + 1) : (size_t)128 << (k - 8) / 4;
    if (k >= 8) size += size / 4 * ((k - 8) % 4);
    for (size_t bytes = 0; bytes < BYTES && n < 8190; bytes += size) {
      CHECK((p[n++] = mi_malloc(size)) != NULL);
      if (bytes % 3 == 0) CHECK((p[n++] = mi_heap_malloc(heap, size)) != NULL);
    }
  }
  CHECK(n > 4000);
  while (n > 0) free(p[--n]);
  return NULL;
}
static void *by_new_heap(void) {
  mi_heap_t *h = new_heap();
  void *p = mi_heap_malloc(h, SIZE);
  mi_heap_delete(h);
  return p;
}
static void *by_destroy(void) {
  mi_heap_destroy(new_heap());
  return NULL;
}
static void *by_default(void) {
  CHECK(mi_theap_get_default() != NULL);
  return NULL;
}
static void *by_set_default(void) {
  CHECK(mi_theap_set_default(NULL) == mi_theap_get_default());
  return NULL;
}
static void *by_done(void) {
  mi_thread_done();
  return NULL;
}
static void *by_subproc(void) {
  mi_subproc_id_t id = mi_subproc_current();
  CHECK(id._mi_subproc == mi_subproc_main()._mi_subproc);
  mi_subproc_add_current_thread(id);
  return NULL;
}
#define SIMPLE(name, call) \
  static void *name(void) { return call; }
SIMPLE(f_malloc, mi_malloc(SIZE))
SIMPLE(f_calloc, mi_calloc(4, 10))
SIMPLE(f_zalloc, mi_zalloc(SIZE))
SIMPLE(f_mallocn, mi_mallocn(4, 10))
SIMPLE(f_realloc, mi_realloc(NULL, SIZE))
SIMPLE(f_rezalloc, mi_rezalloc(NULL, SIZE))
SIMPLE(f_small, mi_malloc_small(SIZE))
SIMPLE(f_zsmall, mi_zalloc_small(SIZE))
SIMPLE(f_strdup, mi_strdup("as long as a block of forty bytes must be"))
SIMPLE(f_aligned, mi_malloc_aligned(SIZE, 64))
SIMPLE(f_aligned_at, mi_malloc_aligned_at(SIZE, 64, 8))
SIMPLE(f_aligned_mib, mi_malloc_aligned(SIZE, 1 << 20))
SIMPLE(f_aligned_alloc, mi_aligned_alloc(64, 64))
SIMPLE(f_memalign, mi_memalign(64, SIZE))
SIMPLE(f_valloc, mi_valloc(SIZE))
SIMPLE(f_pvalloc, mi_pvalloc(SIZE))
SIMPLE(f_large, mi_malloc(300000))
SIMPLE(f_huge, mi_malloc(3 << 20))
SIMPLE(f_new, mi_new(SIZE))
SIMPLE(f_new_nothrow, mi_new_nothrow(SIZE))
SIMPLE(f_new_aligned, mi_new_aligned(SIZE, 64))
SIMPLE(f_heap_malloc, mi_heap_malloc(heap, SIZE))
SIMPLE(f_heap_zalloc, mi_heap_zalloc(heap, SIZE))
SIMPLE(f_heap_calloc, mi_heap_calloc(heap, 4, 10))
SIMPLE(f_heap_realloc, mi_heap_realloc(heap, NULL, SIZE))
SIMPLE(f_heap_aligned, mi_heap_malloc_aligned(heap, SIZE, 256))
SIMPLE(f_heap_huge, mi_heap_malloc(heap, 3 << 20))
SIMPLE(f_heap_strdup, mi_heap_strdup(heap, "as long as a block of forty bytes must be"))
SIMPLE(f_theap, mi_theap_malloc(mi_heap_theap(heap), SIZE))
SIMPLE(f_heap_main, mi_heap_malloc(mi_heap_main(), SIZE))

static void *(*const firsts[])(void) = {
    by_posix, by_nothing, by_query, by_collect, by_classes, by_new_heap, by_destroy, by_default, by_set_default, by_done,
    by_subproc, f_malloc, f_calloc, f_zalloc, f_mallocn, f_realloc, f_rezalloc, f_small, f_zsmall, f_strdup,
    f_aligned, f_aligned_at, f_aligned_mib, f_aligned_alloc, f_memalign, f_valloc, f_pvalloc, f_large, f_huge,
    f_new, f_new_nothrow, f_new_aligned, f_heap_malloc, f_heap_zalloc, f_heap_calloc, f_heap_realloc,
    f_heap_aligned, f_heap_huge, f_heap_strdup, f_theap, f_heap_main};

enum { N_OTHERS = 11 }; /* in the table before those that give a block */
static void *call_first(void *arg) {
  size_t i = (size_t)(uintptr_t)arg;
  void *p = firsts[i]();
  if (i >= N_OTHERS) CHECK(p != NULL && mi_usable_size(p) >= SIZE);
  if (p != NULL) memset(p, 1, SIZE);
  free(p);
  free(malloc(100)); /* and the next ones */
  free(mi_heap_malloc(heap, 100));
  return NULL;
}

/* ---- C07: heaps in destructors ---- */

enum { N_KEYS = 4 };
static pthread_key_t keys[N_KEYS];
static _Thread_local struct { struct stamped *block; int rounds; } held[N_KEYS];
static _Atomic(size_t) n_rounds;

static void destroy(void *value) {
  size_t k = (size_t)(uintptr_t)value - 1;
  n_rounds++;
  if (held[k].block != NULL) verify_and_free(held[k].block);
  held[k].block = NULL;
  if (++held[k].rounds == PTHREAD_DESTRUCTOR_ITERATIONS) return;
  /* from a heap that others use, and one that comes and goes here */
  held[k].block = stamped_in(heap, 100, k);
  expect_heap(held[k].block, heap);
  mi_heap_t *own = new_heap();
  for (size_t size = 40; size < 3000000; size *= 9) {
    void *p = mi_heap_malloc(own, size), *q = mi_heap_malloc_aligned_at(own, size, 64, 8);
    CHECK(p != NULL && q != NULL && mi_heap_of(p) == own && mi_heap_of(q) == own);
    free(q);
    if (held[k].rounds % 2 != 0) free(p); /* else it goes with the heap */
  }
  struct stamped *kept = stamped_in(own, 200, 5);
  if (held[k].rounds % 2 == 0) {
    mi_heap_destroy(own);
  } else {
    mi_heap_delete(own);
    expect_heap(kept, mi_heap_main());
    verify_and_free(kept);
  }
  CHECK(pthread_setspecific(keys[k], value) == 0);
}
static void *live(void *arg) {
  bool begin_between = arg != NULL;
  for (size_t k = 0; k < N_KEYS; k++) {
    if (k == N_KEYS / 2 && begin_between) free(mi_heap_malloc(heap, 50));
    CHECK(pthread_setspecific(keys[k], (void *)(uintptr_t)(k + 1)) == 0);
  }
  return NULL;
}
static void check_destructors(void) {
  if (mi_test_under("thread")) return; /* its books on a thread close before the last round */
  size_t n = mi_test_scale(300, 2000), half = 0;
  for (size_t k = 0; k < N_KEYS; k++) CHECK(pthread_key_create(&keys[k], destroy) == 0);
  for (size_t i = 0; i < n; i++) {
    if (i == n / 2) half = behave_resident();
    in_thread(live, i % 2 ? heap : NULL);
    if (i % 50 == 49) { /* ended while it has blocks of threads past their end */
      mi_heap_delete(heap);
      heap = new_heap();
    }
  }
  CHECK(n_rounds == n * N_KEYS * PTHREAD_DESTRUCTOR_ITERATIONS);
  if (!BEHAVE_SANITIZED && behave_resident() > half + BEHAVE_MiB)
    FAIL("%zu KiB more are resident after %zu threads than after half of them", (behave_resident() - half) / 1024, n);
}
/* Several threads in their destructors at once. */
static void *live_often(void *arg) {
  (void)arg;
  for (size_t i = 0; i < mi_test_scale(10, 100); i++) in_thread(live, heap);
  return NULL;
}

int main(void) {
  behave_limit(250);
  heap = new_heap();
  for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
    in_thread(call_first, (void *)(uintptr_t)i);
    mi_heap_t *old = heap; /* and the first use of a heap that is new to everybody */
    heap = new_heap();
    in_thread(call_first, (void *)(uintptr_t)i);
    mi_heap_destroy(old);
  }
  check_destructors();
  if (mi_test_under("thread")) return 0;
  pthread_t t[4];
  for (int i = 0; i < 4; i++) t[i] = start(live_often, NULL);
  for (int i = 0; i < 4; i++) join(t[i]);
  mi_heap_destroy(heap);
  return 0;
}
