/* SPDX-License-Identifier: MIT */
/* src/heap/visit.c: pages that are pinned, and what becomes of those that die meanwhile. What a visit
 * shows is in tests/api/heaps.c. */
#include "common.h"
#include "fixture.h"
#include "heap/registry.h"
#include "heap/visit.h"
#include <sched.h>
#include <time.h>

enum { SIZE = 20000 }; /* a medium page */

static struct mi__visit visit_of(mi_heap_t *heap, mi_block_visit_fun *visitor, void *arg) {
  return (struct mi__visit){heap, NULL, false, true, visitor, arg, false};
}

static int n_areas;
static bool count_areas(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size,
                        void *arg) {
  (void)heap, (void)area, (void)size, (void)arg;
  n_areas += block == NULL;
  return true;
}

/* Frees the block that it is shown, so that the page dies, and visits the heap once more. */
static bool free_and_look(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                          size_t size, void *arg) {
  (void)area, (void)size;
  struct mi_page **dead = arg;
  if (block == NULL) return true;
  *dead = page_at(block);
  mi_free(block);
  mi_heap_collect((mi_heap_t *)(uintptr_t)heap, true);
  ck_assert_uint_eq((*dead)->kind, MI_PAGE_MEDIUM); /* pinned: still there */
  struct mi__visit again = visit_of((mi_heap_t *)(uintptr_t)heap, count_areas, NULL);
  ck_assert(mi__visit(&again));
  return true;
}

START_TEST(a_dead_page_is_shown_to_nobody_else) {
  mi_heap_t *heap = mi_heap_new();
  struct mi_page *dead = NULL;
  ck_assert_ptr_nonnull(mi_heap_malloc(heap, SIZE));
  struct mi__visit visit = visit_of(heap, free_and_look, &dead);
  ck_assert(mi__visit(&visit));
  ck_assert_int_eq(n_areas, 0);
  ck_assert_ptr_nonnull(dead);
  ck_assert_uint_eq(dead->kind, MI_PAGE_NONE); /* given back by the visit */
  ck_assert_uint_eq(dead->n_pins, 0);
  mi_heap_destroy(heap);
}
END_TEST

/* ---- several visits, while pages come and go ---- */

static _Atomic(bool) stop;
static _Atomic(int) n_seen, n_gone;
/* A page stays as it is while it is shown. */
static bool look_twice(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size,
                       void *arg) {
  (void)heap, (void)block, (void)arg;
  sched_yield();
  const struct mi_page *page = mi__record_of(area->blocks);
  if (page->block_size != size) mi__fetch_add(&n_gone, 1, relaxed);
  mi__fetch_add(&n_seen, 1, relaxed);
  return true;
}
static void *visit_often(void *arg) {
  while (!mi__load(&stop, relaxed)) {
    struct mi__visit visit = visit_of(arg, look_twice, NULL);
    (void)mi__visit(&visit);
  }
  return arg;
}

START_TEST(visits_at_the_same_time) {
  pthread_t visitors[3];
  mi_heap_t *heap = mi_heap_new();
  mi__option_set(mi_option_purge_delay, 0); /* no page waits in a slot */
  mi__option_set(mi_option_arena_reserve, 16 * 1024);
  struct mi_theap_s *theap = mi__heap_theap_slow(heap);
  for (int i = 0; i < 3; i++) pthread_create(&visitors[i], NULL, visit_often, heap);
  /* On a busy machine a visitor yields to others than this one; so for a while at most. */
  time_t end = time(NULL) + (time_t)mi_test_scale(5, 30);
  for (size_t i = 0; i < mi_test_scale(12000, 60000) && time(NULL) < end; i++) {
    void *p = mi_heap_malloc(heap, SIZE);
    ck_assert_ptr_nonnull(p);
    mi_free(p);
    mi__theap_collect(theap, true); /* the page goes */
  }
  mi__store(&stop, true, relaxed);
  for (int i = 0; i < 3; i++) pthread_join(visitors[i], NULL);
  ck_assert_int_gt(mi__load(&n_seen, relaxed), 0);
  ck_assert_int_eq(mi__load(&n_gone, relaxed), 0);
  mi_heap_destroy(heap);
  for (const char *s = mi__pagemap_next(NULL); s != NULL; s = mi__pagemap_next(s + MI_SLICE_SIZE)) {
    ck_assert_uint_eq(((struct mi_page *)mi__record_of(s))->n_pins, 0);
  }
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/visit");
  TCase *tcase = new_case(suite, "pins");
  tcase_set_timeout(tcase, 250);
  tcase_add_test(tcase, a_dead_page_is_shown_to_nobody_else);
  tcase_add_test(tcase, visits_at_the_same_time);
  return mi_test_run_suite(suite);
}
