/* SPDX-License-Identifier: MIT */
/* src/rt/counter.c: gauges, and the counters of heaps. */
#include "rt/counter.h"
#include "../suite.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static struct mi__gauge gauge;

START_TEST(keeps_current_peak_and_total) {
  mi__gauge_add(&gauge, 10);
  mi__gauge_add(&gauge, 5);
  mi__gauge_add(&gauge, -12);
  mi__gauge_add(&gauge, 4);
  struct mi__gauge_values v = mi__gauge_read(&gauge);
  ck_assert_int_eq(v.current, 7);
  ck_assert_int_eq(v.peak, 15);
  ck_assert_int_eq(v.total, 19);
}
END_TEST

/* What arrives in the wrong order is 0 meanwhile, and right in the end. */
START_TEST(is_never_read_below_zero) {
  mi__gauge_add(&gauge, 3);
  mi__gauge_add(&gauge, -5);
  ck_assert_int_eq(mi__gauge_read(&gauge).current, 0);
  mi__gauge_merge(&gauge, 4, 4, 4);
  ck_assert_int_eq(mi__gauge_read(&gauge).current, 2);
  ck_assert_int_eq(mi__gauge_read(&gauge).peak, 3);
  ck_assert_int_eq(mi__gauge_read(&gauge).total, 7);
}
END_TEST

/* Each thread holds at most 3 at a time. */
static void *go_up_and_down(void *arg) {
  for (int i = 0; i < 50000; i++) {
    mi__gauge_add(&gauge, 3);
    struct mi__gauge_values v = mi__gauge_read(&gauge);
    if (v.peak < v.current || v.current < 3) *(int *)arg = 1;
    mi__gauge_add(&gauge, -3);
    mi__count(&mi__counters.mmap_calls, 2);
  }
  return NULL;
}

START_TEST(is_exact_with_many_threads) {
  pthread_t thread[4];
  int bad[4] = { 0 };
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, go_up_and_down, &bad[i]), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    ck_assert_int_eq(bad[i], 0);
  }
  struct mi__gauge_values v = mi__gauge_read(&gauge);
  ck_assert_int_eq(v.current, 0);
  ck_assert_int_eq(v.total, 4 * 50000 * 3);
  ck_assert_int_ge(v.peak, 3);
  ck_assert_int_le(v.peak, 12);
  ck_assert_int_eq(mi__load(&mi__counters.mmap_calls, relaxed), 4 * 50000 * 2);
}
END_TEST

START_TEST(adds_by_the_rule) {
  struct mi__gauge from = {0};
  mi__gauge_add(&gauge, 10);
  mi__gauge_add(&gauge, -6); /* 4 now, peak 10 */
  mi__gauge_add(&from, 5);
  mi__gauge_add(&from, -2); /* 3 now, peak 5 */
  mi__gauge_add_all(&gauge, &from, true);
  struct mi__gauge_values v = mi__gauge_read(&gauge);
  ck_assert_int_eq(v.current, 7);
  ck_assert_int_eq(v.peak, 10); /* not below 4 + 5 */
  ck_assert_int_eq(v.total, 15);
  v = mi__gauge_read(&from);
  ck_assert_int_eq(v.current + v.peak + v.total, 0);
  mi__gauge_add(&from, 9);
  mi__gauge_add_all(&gauge, &from, false);
  ck_assert_int_eq(mi__gauge_read(&gauge).peak, 16);
  ck_assert_int_eq(mi__gauge_read(&from).current, 9);
}
END_TEST

/* Blocks that were there when the counts were taken away, freed since. */
START_TEST(what_is_below_zero_is_added_too) {
  struct mi__gauge from = {0};
  mi__gauge_add(&gauge, 8);
  mi__gauge_add(&from, -5);
  mi__gauge_add_all(&gauge, &from, true);
  ck_assert_int_eq(mi__gauge_read(&gauge).current, 3);
  ck_assert_int_eq(mi__gauge_read(&gauge).peak, 8);
  ck_assert_int_eq(mi__load(&from.current, relaxed), 0);
}
END_TEST

START_TEST(restarts) {
  mi__gauge_add(&gauge, 10);
  mi__gauge_add(&gauge, -6);
  mi__gauge_restart(&gauge);
  struct mi__gauge_values v = mi__gauge_read(&gauge);
  ck_assert_int_eq(v.current, 4);
  ck_assert_int_eq(v.peak, 4);
  ck_assert_int_eq(v.total, 0);
  mi__gauge_add(&gauge, -10);
  mi__gauge_restart(&gauge);
  ck_assert_int_eq(mi__gauge_read(&gauge).peak, 0);
}
END_TEST

/* ---- of heaps ---- */

static struct mi__heap_counters heap;

static struct mi__heap_counters *new_counters(void) {
  void *p = mmap(NULL, sizeof(struct mi__heap_counters), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(p, MAP_FAILED);
  return p;
}

START_TEST(nothing_is_written_for_nothing) {
  struct mi__heap_counters *to = new_counters();
  ck_assert_int_eq(mprotect(to, sizeof *to, PROT_READ), 0);
  mi__heap_counters_add(to, &heap, true);
  ck_assert_int_eq(mprotect(to, sizeof *to, PROT_READ | PROT_WRITE), 0);
  mi__heap_counters_use_bin(&heap, 73);
  mi__gauge_add(&heap.bins[73].blocks, 2);
  mi__gauge_add(&heap.pages, 1);
  mi__count(&heap.n_huge, 2);
  mi__heap_counters_add(to, &heap, true);
  ck_assert_int_eq(mi__gauge_read(&to->bins[73].blocks).current, 2);
  ck_assert_int_eq(mi__gauge_read(&to->pages).total, 1);
  ck_assert_int_eq(mi__load(&to->n_huge, relaxed), 2);
  ck_assert_int_eq(mi__gauge_read(&heap.bins[73].blocks).total, 0);
  ck_assert_int_eq(mi__load(&heap.n_huge, relaxed), 0);
  /* What it has is zero again, but for the bins that it once used. */
  ck_assert_int_eq(mprotect(to, sizeof *to, PROT_READ), 0);
  mi__heap_counters_add(to, &heap, true);
  ck_assert_int_eq(munmap(to, sizeof *to), 0);
}
END_TEST

START_TEST(heaps_restart) {
  mi__heap_counters_use_bin(&heap, 5);
  mi__gauge_add(&heap.bins[5].blocks, 2);
  mi__gauge_add(&heap.bins[5].blocks, -1);
  mi__gauge_add(&heap.blocks, 100);
  mi__count(&heap.refills, 7);
  mi__heap_counters_restart(&heap);
  ck_assert_int_eq(mi__gauge_read(&heap.bins[5].blocks).total, 0);
  ck_assert_int_eq(mi__gauge_read(&heap.bins[5].blocks).peak, 1);
  ck_assert_int_eq(mi__gauge_read(&heap.blocks).current, 100);
  ck_assert_int_eq(mi__load(&heap.refills, relaxed), 0);
  mi__count(&mi__counters.purged, 3);
  mi__gauge_add(&mi__counters.committed, 4);
  mi__counters_restart(&mi__counters);
  ck_assert_int_eq(mi__load(&mi__counters.purged, relaxed), 0);
  ck_assert_int_eq(mi__gauge_read(&mi__counters.committed).current, 4);
  ck_assert_int_eq(mi__gauge_read(&mi__counters.committed).total, 0);
}
END_TEST

static void reset(void) { gauge = (struct mi__gauge){ 0, 0, 0 }; }

int main(void) {
  Suite *suite = suite_create("rt/counter");
  TCase *gauges = tcase_create("gauge");
  tcase_set_timeout(gauges, 60);
  tcase_add_checked_fixture(gauges, reset, NULL);
  tcase_add_test(gauges, keeps_current_peak_and_total);
  tcase_add_test(gauges, is_never_read_below_zero);
  tcase_add_test(gauges, is_exact_with_many_threads);
  tcase_add_test(gauges, adds_by_the_rule);
  tcase_add_test(gauges, what_is_below_zero_is_added_too);
  tcase_add_test(gauges, restarts);
  tcase_add_test(gauges, nothing_is_written_for_nothing);
  tcase_add_test(gauges, heaps_restart);
  suite_add_tcase(suite, gauges);
  return mi_test_run_suite(suite);
}
