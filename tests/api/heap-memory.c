/* SPDX-License-Identifier: MIT */
/* What heaps cost: many live ones, and many that were made and ended, one after the other and all at
 * once (burst-destroy). */
#include "thread/behave.h"

enum { MANY = 10000, ENDED = 3000 };
static mi_heap_t *heaps[MANY];

static size_t resident(void) { return mi_test_rss_kib(); }

static void make(size_t from, size_t end, size_t n_blocks, size_t size) {
  for (size_t i = from; i < end; i++) {
    heaps[i] = mi_heap_new();
    if (heaps[i] == NULL) FAIL("heap %zu: NULL", i);
    for (size_t k = 0; k < n_blocks; k++) {
      void *p = mi_heap_malloc(heaps[i], size);
      CHECK(p != NULL);
      memset(p, 0x5a, size);
    }
  }
}
static void destroy(size_t from, size_t end) {
  for (size_t i = from; i < end; i++) mi_heap_destroy(heaps[i]);
}

static bool add_used(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg) {
  (void)heap, (void)block, (void)size;
  *(size_t *)arg += area->used * area->block_size;
  return true;
}
static size_t used_in_main(void) {
  size_t used = 0;
  CHECK(mi_heap_visit_blocks(mi_heap_main(), false, add_used, &used));
  return used;
}

/* burst-destroy: 200 heaps live at once, 20 times, with a block of 200 bytes each or none. What the
 * library keeps of heaps is no block of the main heap, so what is resident is looked at as well.
 * Nothing is purged meanwhile: what had gone before the first look would be missing in it. */
static void burst(size_t n_blocks) {
  long delay = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, -1);
  mi_collect(true);
  make(0, 200, n_blocks, 200);
  destroy(0, 200);
  size_t used = used_in_main(), before = resident();
  for (int round = 0; round < 20; round++) {
    make(0, 200, n_blocks, 200);
    destroy(0, 200);
    if (used_in_main() > used + 256 * BEHAVE_KiB)
      FAIL("round %d: %zu bytes in the main heap, %zu before", round, used_in_main(), used);
    if (!BEHAVE_SANITIZED && !mi_test_tracked() && resident() > before + 256)
      FAIL("round %d with %zu blocks: %zu KiB are resident, %zu before", round, n_blocks, resident(), before);
  }
  mi_option_set(mi_option_purge_delay, delay);
}

int main(void) {
  behave_limit(200);
  make(0, 200, 10, 64); /* the library's own first memory */
  destroy(0, 200);

  size_t before = resident();
  for (size_t i = 0; i < ENDED; i++) {
    make(0, 1, 10, 64);
    destroy(0, 1);
  }
  mi_collect(true);
  size_t one_by_one = resident();
  make(0, ENDED, 10, 64);
  destroy(0, ENDED);
  mi_collect(true);
  size_t at_once = resident();
  printf("%d heaps made and destroyed leave %ld KiB, all at once %ld KiB\n", ENDED, (long)one_by_one - (long)before,
         (long)at_once - (long)before);
  if (!BEHAVE_SANITIZED && !mi_test_tracked()) {
    CHECK(one_by_one <= before + 8 * 1024);
    CHECK(at_once <= before + 8 * 1024);
  }

  burst(1);
  burst(0);

  size_t n = mi_test_under("thread") || mi_test_under("address") ? 500 : MANY;
  before = resident();
  make(0, n, 10, 64);
  size_t each = (resident() - before) / n;
  printf("%zu live heaps with 10 blocks of 64 bytes: %zu KiB each\n", n, each);
  if (!BEHAVE_SANITIZED && !mi_test_tracked()) CHECK(each <= 64);
  for (size_t i = 0; i < n; i += 7) CHECK(mi_heap_of(mi_heap_malloc(heaps[i], 64)) == heaps[i]);
  for (size_t i = 0; i < n; i++) mi_heap_delete(heaps[i]); /* in the order in which they were made */
  make(0, 10, 10, 64);
  destroy(0, 10);
  return 0;
}
