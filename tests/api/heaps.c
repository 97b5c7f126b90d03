/* SPDX-License-Identifier: MIT */
/* Heaps: whose block it is, what delete and destroy leave, collect, bad input. F02
 * delete-heap-thread-dies-process-exits, F05 destroy-heap-with-full-pages. */
#include "thread/heaps.h"

static int n_errors, last_error;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
}

/* ---- whose is it ---- */

static void check_addresses(void) {
  mi_heap_t *heap = mi_heap_new();
  static const size_t sizes[] = {8, 1000, 8192, 60000, 500000, 600000, 5000000, 400u << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *p = mi_heap_malloc(heap, sizes[i]), *q = mi_malloc(sizes[i]);
    CHECK(p != NULL && q != NULL);
    size_t n = mi_usable_size(p);
    for (size_t at = 0; at < n; at += n / 7 + 1) { /* inside of it, too */
      CHECK(mi_heap_of(p + at) == heap && mi_heap_contains(heap, p + at));
      CHECK(!mi_heap_contains(mi_heap_main(), p + at) && mi_any_heap_contains(p + at));
    }
    CHECK(mi_heap_of(p + n - 1) == heap);
    CHECK(mi_heap_of(q) == mi_heap_main() && mi_heap_of(q + n - 1) == mi_heap_main());
    CHECK(!mi_heap_contains(heap, q));
    mi_free(p);
    mi_free(q);
  }
  /* an offset that is no multiple of the alignment, of a huge block */
  char *p = mi_heap_malloc_aligned_at(heap, 3000000, 1 << 20, 24);
  CHECK(p != NULL && mi_heap_of(p) == heap && mi_heap_of(p + 2999999) == heap);
  mi_free(p);
  int local;
  static char stat[8];
  const void *strangers[] = {NULL, &local, stat, (void *)8, (void *)UINTPTR_MAX};
  for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
    CHECK(mi_heap_of(strangers[i]) == NULL && !mi_any_heap_contains(strangers[i]));
    CHECK(!mi_heap_contains(heap, strangers[i]) && !mi_heap_contains(NULL, strangers[i]));
  }
  CHECK(n_errors == 0);
  mi_heap_destroy(heap);
}

static void *heap_main_here(void *arg) {
  *(mi_heap_t **)arg = mi_heap_main();
  return NULL;
}
static void check_main(void) {
  mi_heap_t *here = mi_heap_main(), *there = NULL;
  in_thread(heap_main_here, &there);
  CHECK(here != NULL && here == there);
  void *p = mi_heap_malloc(here, 100), *q = mi_heap_zalloc(here, 2000000);
  CHECK(mi_heap_of(p) == here && mi_heap_of(q) == here);
  mi_free(p);
  mi_free(q);
  CHECK(mi_heap_theap(here) == mi_theap_get_default());
  /* it stays */
  n_errors = 0;
  mi_heap_delete(here);
  mi_heap_destroy(here);
  CHECK(n_errors == 2 && last_error == EINVAL);
  p = mi_malloc(100);
  CHECK(mi_heap_of(p) == here);
  mi_free(p);
}

/* ---- delete and destroy ---- */

enum { N_BLOCKS = 600 };
static void *blocks[N_BLOCKS];
static size_t sizes[N_BLOCKS];
static void *fill(void *heap) {
  uint64_t random = 7;
  for (size_t i = 0; i < N_BLOCKS; i++) {
    sizes[i] = behave_random_size(&random, 8, i % 50 == 0 ? 3 << 20 : 20000);
    blocks[i] = i % 9 == 0 ? mi_heap_malloc_aligned(heap, sizes[i], 4096) : mi_heap_malloc(heap, sizes[i]);
    CHECK(blocks[i] != NULL && mi_heap_of(blocks[i]) == heap);
    behave_fill(blocks[i], sizes[i], i);
  }
  return NULL;
}
static void verify_all(mi_heap_t *heap) {
  for (size_t i = 0; i < N_BLOCKS; i++) {
    CHECK(mi_heap_of(blocks[i]) == heap && mi_usable_size(blocks[i]) >= sizes[i]);
    CHECK(behave_verify(blocks[i], sizes[i], i) == sizes[i]);
  }
}
static void *free_all(void *arg) {
  (void)arg;
  for (size_t i = 0; i < N_BLOCKS; i++) mi_free(blocks[i]);
  return NULL;
}

/* Made, filled, ended and freed, each by this thread or by one that is gone. */
static void check_delete(void) {
  for (int how = 0; how < 8; how++) {
    mi_heap_t *heap = mi_heap_new();
    CHECK(heap != NULL);
    if (how & 1) in_thread(fill, heap);
    else fill(heap);
    verify_all(heap);
    if (how & 2) in_thread(delete_heap, heap);
    else mi_heap_delete(heap);
    verify_all(mi_heap_main());
    for (size_t i = 0; i < N_BLOCKS; i += 7) { /* they are as any others */
      blocks[i] = mi_realloc(blocks[i], sizes[i] += 5000);
      behave_fill(blocks[i], sizes[i], i);
    }
    verify_all(mi_heap_main());
    if (how & 4) in_thread(free_all, NULL);
    else free_all(NULL);
  }
}

static void check_destroy(void) {
  for (int how = 0; how < 4; how++) {
    mi_heap_t *heap = mi_heap_new();
    if (how & 1) in_thread(fill, heap);
    else fill(heap);
    verify_all(heap);
    if (how & 2) in_thread(destroy_heap, heap);
    else mi_heap_destroy(heap);
    for (size_t i = 0; i < N_BLOCKS; i++) CHECK(mi_heap_of(blocks[i]) != heap);
  }
}

/* F05: pages that are full to the last block. Resident memory stays flat. */
static void check_full_pages(void) {
  static const size_t of[] = {8, 64, 512, 4096, 20000};
  size_t before = 0;
  for (int round = 0; round < 100; round++) {
    mi_heap_t *heap = mi_heap_new();
    for (size_t i = 0; i < 5; i++) {
      for (size_t n = 4 * 65536 / of[i] + 100; n > 0; n--) {
        char *p = mi_heap_malloc(heap, of[i]);
        CHECK(p != NULL);
        p[0] = p[of[i] - 1] = 1;
      }
    }
    mi_heap_destroy(heap);
    if (round == 9) before = behave_resident();
  }
  if (BEHAVE_SANITIZED) return;
  if (behave_resident() > before + BEHAVE_MiB) FAIL("%zu KiB more are resident", (behave_resident() - before) / 1024);
}

/* F02: a thread makes a heap, takes a block, deletes the heap, ends. */
static void *delete_and_end(void *arg) {
  mi_heap_t *heap = mi_heap_new();
  char **p = arg;
  *p = mi_heap_malloc(heap, 64);
  CHECK(*p != NULL);
  behave_fill(*p, 64, 3);
  mi_heap_delete(heap);
  return NULL;
}
static void check_delete_and_end(void) {
  char *p, *kept;
  in_thread(delete_and_end, &p);
  in_thread(delete_and_end, &kept); /* the process ends with it */
  CHECK(behave_verify(p, 64, 3) == 64 && mi_heap_of(p) == mi_heap_main());
  mi_free(p);
}

/* ---- collect, affinity ---- */

static void check_collect(void) {
  mi_heap_t *heap = mi_heap_new();
  mi_option_set(mi_option_purge_delay, 0);
  fill(heap);
  mi_heap_collect(heap, false);
  mi_heap_collect(heap, true);
  verify_all(heap);
  size_t full = behave_resident();
  free_all(NULL);
  mi_heap_collect(heap, true);
  size_t left = behave_resident();
  if (!BEHAVE_SANITIZED && left > full / 2)
    FAIL("%zu KiB of %zu are resident after the collection", left / 1024, full / 1024);
  fill(heap);
  mi_heap_set_numa_affinity(heap, 0);
  mi_heap_set_numa_affinity(heap, 1000); /* no such node: any */
  void *p = mi_heap_malloc(heap, 100000);
  CHECK(p != NULL);
  mi_heap_set_numa_affinity(heap, -5);
  CHECK(mi_heap_malloc(heap, 200) != NULL);
  verify_all(heap);
  mi_heap_destroy(heap);
}

/* ---- bad input ---- */

static void *use_dead_heap(void *arg) {
  mi_heap_t *heap = arg;
  n_errors = 0;
  errno = 0;
  CHECK(mi_heap_malloc(heap, 8) == NULL && errno == EINVAL && n_errors == 1 && last_error == EINVAL);
  CHECK(mi_heap_zalloc(heap, 1 << 20) == NULL && mi_heap_calloc(heap, 3, 5) == NULL);
  CHECK(mi_heap_malloc_aligned(heap, 8, 64) == NULL && mi_heap_strdup(heap, "x") == NULL);
  void *p = mi_malloc(10);
  CHECK(mi_heap_realloc(heap, p, 100) == NULL && mi_heap_theap(heap) == NULL);
  mi_free(p);
  CHECK(n_errors == 7 && errno == EINVAL);
  mi_heap_collect(heap, true);
  mi_heap_set_numa_affinity(heap, 0);
  mi_heap_delete(heap);
  mi_heap_destroy(heap);
  CHECK(n_errors == 11);
  return NULL;
}
static void *use_dead_heap_later(void *arg) {
  mi_free(mi_malloc(8)); /* the thread has begun */
  return use_dead_heap(arg);
}

static void check_bad_input(void) {
  n_errors = 0;
  mi_heap_delete(NULL);
  mi_heap_destroy(NULL);
  mi_heap_collect(NULL, true);
  mi_heap_set_numa_affinity(NULL, 1);
  CHECK(n_errors == 0);
  errno = 0;
  CHECK(mi_heap_theap(NULL) == NULL && errno == EINVAL && n_errors == 1);

  /* A heap that has ended, while no other has its place: never used; used by this thread. */
  for (int used = 0; used < 3; used++) {
    mi_heap_t *heap = mi_heap_new();
    if (used > 0) CHECK(mi_heap_malloc(heap, 8) != NULL);
    if (used == 2) mi_heap_delete(heap);
    else mi_heap_destroy(heap);
    use_dead_heap(heap);
    in_thread(use_dead_heap, heap); /* of a thread that has never used the library */
    in_thread(use_dead_heap_later, heap);
  }
}

int main(void) {
  behave_limit(100);
  mi_option_set(mi_option_show_errors, 0);
  mi_register_error(count_error, NULL);
  check_addresses();
  check_main();
  check_delete();
  check_destroy();
  check_full_pages();
  check_delete_and_end();
  check_bad_input();
  check_collect();
  return 0;
}
