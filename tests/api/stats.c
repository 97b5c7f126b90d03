/* SPDX-License-Identifier: MIT */
/* Statistics of heaps and sub-processes by their figures: a heap that nobody used, one thread's use,
 * its end, heaps that come and go, merging by the rule, sub-processes, reset, and bad arguments. */
#include "stats.h"

static mi_stats_t a, b, c;

/* ---- one heap ---- */

struct use {
  mi_heap_t *heap;
  size_t size, n;
};
static void *use_heap(void *arg) {
  struct use *use = arg;
  for (size_t i = 0; i < use->n; i++) CHECK(mi_heap_malloc(use->heap, use->size) != NULL);
  return NULL;
}
static void in_thread(mi_heap_t *heap, size_t size, size_t n) {
  struct use use = {heap, size, n};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_heap, &use) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void test_one_heap(void) {
  mi_heap_t *heap = mi_heap_new();
  get_heap_stats(heap, &a);
  CHECK(a.pages.total == 0 && a.theaps.total == 0 && a.malloc_normal.total == 0);
  void *p = mi_heap_malloc(heap, 64), *q = mi_heap_malloc(heap, 64);
  CHECK(p != NULL && q != NULL);
  get_heap_stats(heap, &a);
  check_sane(&a);
  CHECK(a.pages.current >= 1 && a.pages.current <= 2 && a.theaps.current == 1);
  size_t usable = mi_usable_size(p);
  CHECK(mi_test_tracked() || a.malloc_normal.current == 2 * (int64_t)usable);
  CHECK(a.malloc_normal_count.total == 2);
  CHECK(mi_test_tracked() || a.malloc_bins[bin_of(usable)].current == 2);
  mi_free(p);
  get_heap_stats(heap, &a);
  CHECK(mi_test_tracked() || a.malloc_normal.current == (int64_t)usable);
  CHECK(a.malloc_normal.peak >= 2 * (int64_t)usable);
  in_thread(heap, 64, 10);
  get_heap_stats(heap, &b);
  check_sane(&b);
  CHECK(b.pages.current > a.pages.current && b.pages_abandoned.current >= 1);
  CHECK(b.theaps.current == 1 && b.theaps.total == 2 && b.malloc_normal_count.total == 12);
  void *huge = mi_heap_malloc(heap, 3 << 20);
  get_heap_stats(heap, &c);
  CHECK(c.malloc_huge_count.total == 1 && c.malloc_huge.current >= 3 << 20);
  CHECK(c.malloc_huge.current == (int64_t)mi_usable_size(huge) || mi_test_tracked());
  CHECK(c.malloc_requested.current == c.malloc_normal.current + c.malloc_huge.current);
  mi_heap_destroy(heap);
  mi_free(NULL);
}

/* ---- heaps that come and go ---- */

static void test_many_heaps(void) {
  static const size_t sizes[] = {16, 100, 1000, 8000, 60000, 500000};
  get_stats(&a);
  for (int i = 0; i < 100; i++) {
    mi_heap_t *heap = mi_heap_new();
    for (size_t k = 0; k < 6; k++) CHECK(mi_heap_malloc(heap, sizes[k]) != NULL);
    mi_heap_destroy(heap);
  }
  get_stats(&b);
  check_sane(&b);
  CHECK(b.heaps.total == a.heaps.total + 100 && b.heaps.current == a.heaps.current);
  CHECK(b.theaps.total == a.theaps.total + 100 && b.theaps.current == a.theaps.current);
  CHECK(b.pages.total >= a.pages.total + 600 && b.pages.current == a.pages.current);
  CHECK(b.malloc_normal_count.total == a.malloc_normal_count.total + 600 || mi_test_tracked());
  CHECK(b.malloc_normal.current == a.malloc_normal.current);
}

static void test_merge_figures(void) {
  mi_stats_header_init(&a);
  mi_stats_header_init(&b);
  size_t bin = 0, block = 0;
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &a));
  for (int i = 0; i < 64; i++) {
    mi_heap_t *heap = mi_heap_new();
    for (int k = 0; k < 10; k++) {
      void *p = mi_heap_malloc(heap, 200);
      CHECK(p != NULL);
      block = mi_usable_size(p);
    }
    bin = bin_of(block);
    mi_heap_destroy(heap);
  }
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &b));
  check_sane(&b);
  if (mi_test_tracked()) return;
  CHECK(b.heaps.total == a.heaps.total + 64);
  CHECK(b.page_bins[bin].total == a.page_bins[bin].total + 64);
  CHECK(b.malloc_bins[bin].total == a.malloc_bins[bin].total + 640);
  CHECK(b.malloc_normal_count.total == a.malloc_normal_count.total + 640);
  CHECK(b.malloc_normal.total == a.malloc_normal.total + 640 * (int64_t)block);
  CHECK(b.malloc_bins[bin].current == a.malloc_bins[bin].current);
}

/* Blocks of a deleted heap count in the main heap from then on; what it has counted in all stays with
 * the sub-process. */
static void test_delete(void) {
  if (mi_test_tracked()) return;
  mi_heap_t *heap = mi_heap_new();
  void *p[50], *huge = mi_heap_malloc(heap, 3 << 20);
  for (int i = 0; i < 50; i++) CHECK((p[i] = mi_heap_malloc(heap, 3000)) != NULL);
  size_t bin = bin_of(mi_usable_size(p[0]));
  int64_t bytes = 50 * (int64_t)mi_usable_size(p[0]), huge_bytes = (int64_t)mi_usable_size(huge);
  in_thread(heap, 3000, 50); /* and pages without an owner */
  get_heap_stats(heap, &c);
  CHECK(c.malloc_normal.current == 2 * bytes && c.malloc_huge.current == huge_bytes);
  get_heap_stats(NULL, &a);
  mi_heap_delete(heap);
  get_heap_stats(NULL, &b);
  check_sane(&b);
  CHECK(b.malloc_normal.current == a.malloc_normal.current + 2 * bytes);
  CHECK(b.malloc_bins[bin].current == a.malloc_bins[bin].current + 100);
  CHECK(b.malloc_huge.current == a.malloc_huge.current + huge_bytes);
  CHECK(b.pages.current == a.pages.current + c.pages.current);
  CHECK(b.page_bins[bin].current == a.page_bins[bin].current + c.page_bins[bin].current);
  CHECK(b.malloc_normal_count.total == a.malloc_normal_count.total);
  for (int i = 0; i < 50; i++) mi_free(p[i]);
  mi_free(huge);
  get_heap_stats(NULL, &b);
  CHECK(b.malloc_normal.current == a.malloc_normal.current + bytes);
  CHECK(b.malloc_huge.current == a.malloc_huge.current);
}

/* ---- merge to the sub-process ---- */

static void same_sum(const mi_stats_t *x, const mi_stats_t *y) {
  CHECK(x->malloc_normal.current == y->malloc_normal.current);
  CHECK(x->malloc_normal.total == y->malloc_normal.total);
  CHECK(x->pages.current == y->pages.current && x->pages.total == y->pages.total);
}

static void test_merge_rule(void) {
  mi_heap_t *heap = mi_heap_new();
  void *p[20];
  for (int i = 0; i < 20; i++) p[i] = mi_heap_malloc(heap, 5000);
  for (int i = 0; i < 10; i++) mi_free(p[i]);
  static mi_stats_t own, whole, whole2;
  get_heap_stats(heap, &own);
  get_stats(&whole);
  mi_stats_header_init(&a);
  mi_stats_header_init(&b);
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &a));
  mi_heap_stats_merge_to_subproc(heap);
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &b));
  const mi_stat_count_t *from = &own.malloc_normal, *before = &a.malloc_normal,
                        *after = &b.malloc_normal;
  CHECK(from->current > 0 && from->peak > from->current && from->total >= from->peak);
  CHECK(after->total == before->total + from->total);
  CHECK(after->current == before->current + from->current);
  int64_t peak = before->current + from->peak;
  CHECK(after->peak == (before->peak > peak ? before->peak : peak));
  CHECK(b.pages.total == a.pages.total + own.pages.total);
  get_heap_stats(heap, &own);
  check_sane(&own);
  CHECK(own.malloc_normal.total == 0 && own.malloc_normal.current == 0);
  CHECK(own.pages.total == 0 && own.pages.peak == 0 && own.malloc_normal_count.total == 0);
  get_stats(&whole2);
  same_sum(&whole, &whole2);
  /* Again: there is nothing to add. */
  mi_heap_stats_merge_to_subproc(heap);
  mi_stats_header_init(&c);
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &c));
  CHECK(memcmp(&b, &c, sizeof b) == 0);
  /* What is freed now was added before: the heap has less than none, which reads as none. */
  for (int i = 10; i < 20; i++) mi_free(p[i]);
  get_heap_stats(heap, &own);
  check_sane(&own);
  CHECK(own.malloc_normal.current == 0);
  get_stats(&whole2);
  check_sane(&whole2);
  CHECK(whole2.malloc_normal.current < whole.malloc_normal.current);
  mi_heap_destroy(heap);
  get_stats(&whole2);
  check_sane(&whole2);
  CHECK(whole2.pages.current < whole.pages.current);
}

/* ---- sub-processes ---- */

static void *use_subproc(void *arg) {
  mi_subproc_id_t *id = arg;
  static mi_stats_t s;
  mi_subproc_add_current_thread(*id);
  void *p = mi_malloc(100000);
  get_stats(&s);
  check_sane(&s);
  CHECK(s.threads.current == 1 && s.heaps.current == 1 && s.theaps.current == 1);
  CHECK(s.malloc_normal_count.total == 1 && s.malloc_normal.current >= 100000);
  CHECK(s.reserved.current >= s.committed.current && s.committed.current >= 100000);
  mi_free(p);
  return NULL;
}

static void test_subprocs(void) {
  mi_subproc_id_t id = mi_subproc_new();
  mi_stats_init(&b);
  CHECK(mi_subproc_stats_get(id, &b));
  CHECK(b.malloc_normal.total == 0 && b.pages.total == 0 && b.threads.total == 0);
  CHECK(b.heaps.current == 1 && b.heaps.total == 1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_subproc, &id) == 0 && pthread_join(thread, NULL) == 0);
  get_stats(&a);
  CHECK(mi_subproc_stats_get(id, &b));
  CHECK(b.malloc_normal.total >= 100000 && b.malloc_normal.current == 0);
  CHECK(b.threads.total == 1 && b.threads.current == 0);
  mi_subproc_destroy(id);
  get_stats(&c);
  check_sane(&c);
  CHECK(c.malloc_normal.total == a.malloc_normal.total + b.malloc_normal.total);
  CHECK(c.malloc_normal.current == a.malloc_normal.current);
  CHECK(c.heaps.current == a.heaps.current && c.heaps.total == a.heaps.total + 1);
  CHECK(c.threads.current == a.threads.current && c.threads.total == a.threads.total + 1);

  /* The next one begins at 0, and heaps made after it have one theap for all their use. */
  id = mi_subproc_new();
  mi_stats_init(&b);
  CHECK(mi_subproc_stats_get(id, &b));
  CHECK(b.malloc_normal.total == 0 && b.heaps.total == 1 && b.threads.total == 0);
  mi_subproc_destroy(id);
  get_stats(&a);
  mi_heap_t *heap[4];
  for (int i = 0; i < 4; i++) heap[i] = mi_heap_new();
  for (int i = 0; i < 400; i++) CHECK(mi_heap_malloc(heap[i % 4], 100) != NULL);
  get_stats(&b);
  CHECK(b.theaps.total == a.theaps.total + 4);
  for (int i = 0; i < 4; i++) mi_heap_destroy(heap[i]);
}

/* ---- the rest ---- */

static void test_numbers(void) {
  mi_heap_t *heap = mi_heap_new(), *next = mi_heap_new();
  CHECK(mi_heap_get_seq(NULL) == 0 && mi_heap_get_seq(mi_heap_main()) == 0);
  size_t seq = mi_heap_get_seq(heap);
  CHECK(seq > 0 && seq == mi_heap_get_seq(heap) && mi_heap_get_seq(next) != seq);
  mi_heap_destroy(heap);
  mi_heap_destroy(next);
  heap = mi_heap_new();
  CHECK(mi_heap_get_seq(heap) > seq);
  mi_heap_destroy(heap);
  size_t last = 0;
  for (size_t bin = 1; bin < MI_BIN_HUGE; bin++) {
    size_t size = mi_stats_get_bin_size(bin);
    CHECK(size > last || (size == 0 && (bin == 3 || bin == 5 || bin == 7)));
    if (size != 0) last = size;
  }
  CHECK(last == 4 << 20 && mi_stats_get_bin_size(60) == 512 * 1024);
  CHECK(mi_stats_get_bin_size(0) == 0 && mi_stats_get_bin_size(MI_BIN_HUGE) == 0);
  CHECK(mi_stats_get_bin_size(74) == 0 && mi_stats_get_bin_size(SIZE_MAX) == 0);
}

static void test_reset(void) {
  void *p = mi_malloc(300000);
  get_stats(&a);
  CHECK(a.malloc_normal_count.total > 0 && a.mmap_calls.total > 0);
  mi_stats_reset();
  get_stats(&b);
  check_sane(&b);
  CHECK(b.malloc_normal.current == a.malloc_normal.current && b.malloc_normal.total == 0);
  CHECK(b.malloc_normal.peak < b.malloc_normal.current + 65536); /* what is ready counts there */
  CHECK(b.malloc_normal_count.total == 0 && b.pages.peak == b.pages.current);
  CHECK(b.committed.current == a.committed.current && b.committed.total == 0);
  CHECK(b.mmap_calls.total == 0 && b.heaps.current == a.heaps.current && b.heaps.total == 0);
  mi_free(p);
  p = mi_malloc(300000);
  get_stats(&b);
  CHECK(b.malloc_normal_count.total == 1);
  mi_free(p);
}

static int n_errors;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors += err == EINVAL;
}

static void test_bad_arguments(void) {
  mi_subproc_id_t none = {NULL};
  char text[8] = "x";
  mi_stats_init(&a);
  CHECK(mi_stats_get(&a) && mi_heap_stats_get(NULL, &a));
  a.size--;
  CHECK(!mi_stats_get(&a) && !mi_heap_stats_get(NULL, &a));
  CHECK(!mi_subproc_stats_get(mi_subproc_main(), &a));
  CHECK(!mi_subproc_stats_get_exclusive(mi_subproc_main(), &a));
  CHECK(mi_stats_as_json(&a, sizeof text, text) == NULL);
  a.size++;
  a.version++;
  CHECK(!mi_stats_get(&a) && !mi_heap_stats_get(NULL, &a));
  CHECK(mi_stats_as_json(&a, 0, NULL) == NULL);
  mi_stats_init(&a);
  CHECK(!mi_stats_get(NULL) && !mi_heap_stats_get(NULL, NULL));
  CHECK(!mi_subproc_stats_get(none, &a) && !mi_subproc_stats_get_exclusive(none, &a));
  CHECK(mi_subproc_stats_get_json(none, 0, NULL) == NULL && mi_stats_as_json(NULL, 0, NULL) == NULL);
  mi_subproc_stats_print_out(none, NULL, NULL);
  mi_subproc_heap_stats_print_out(none, NULL, NULL);
  /* A heap that is none any more: told, and nothing else. */
  mi_heap_t *heap = mi_heap_new();
  mi_heap_destroy(heap);
  mi_register_error(count_error, NULL);
  CHECK(!mi_heap_stats_get(heap, &a) && n_errors == 1);
  CHECK(mi_heap_stats_get_json(heap, 0, NULL) == NULL && n_errors == 2);
  mi_heap_stats_print_out(heap, NULL, NULL);
  mi_heap_stats_merge_to_subproc(heap);
  CHECK(mi_heap_get_seq(heap) == 0 && n_errors == 5);
  mi_register_error(NULL, NULL);
}

int main(void) {
  mi_option_set(mi_option_scavenger, 0); /* the C library allocates for each thread, and none may come unasked */
  test_one_heap();
  test_many_heaps();
  test_merge_figures();
  test_delete();
  test_merge_rule();
  test_subprocs();
  test_numbers();
  test_reset();
  test_bad_arguments();
  mi_stats_merge();
  return 0;
}
