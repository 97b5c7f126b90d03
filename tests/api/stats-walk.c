/* SPDX-License-Identifier: MIT */
/* Statistics are read while others work: threads make, use and destroy or delete heaps, and end;
 * readers take all forms of the figures meanwhile. No figure is ever out of range, the last ones are
 * exact, and the thread sanitizer has nothing to say. */
#include "stats.h"

enum { CHURNERS = 2, READERS = 2 };
static size_t rounds;
static _Atomic(int) n_churning = CHURNERS;
static _Atomic(size_t) n_allocated;

static void churn_once(uint32_t *random, size_t round) {
  mi_heap_t *heap = mi_heap_new();
  CHECK(heap != NULL);
  void *p[20], *kept = NULL;
  for (int i = 0; i < 20; i++) {
    p[i] = mi_heap_malloc(heap, 1 + next_random(random) % 3000);
    CHECK(p[i] != NULL);
  }
  n_allocated += 20;
  for (int i = 0; i < 10; i++) mi_free(p[i]);
  if (round % 16 == 0) CHECK((kept = mi_heap_malloc(heap, 600 * 1024)) != NULL);
  if (round % 8 == 0) {
    if (round % 32 == 0) mi_heap_stats_merge_to_subproc(heap);
    mi_heap_delete(heap);
    for (int i = 10; i < 20; i++) mi_free(p[i]);
    mi_free(kept);
  } else {
    mi_heap_destroy(heap);
  }
}

static void *short_lived(void *arg) {
  uint32_t random = (uint32_t)(uintptr_t)arg + 1;
  for (size_t i = 0; i < 20; i++) churn_once(&random, i);
  return NULL;
}

static void *churn(void *arg) {
  uint32_t random = (uint32_t)(uintptr_t)arg * 77 + 5;
  for (size_t i = 0; i < rounds; i += 20) {
    pthread_t thread;
    for (size_t k = 0; k < 20; k++) churn_once(&random, i + k);
    if (i % 100 != 0) continue;
    CHECK(pthread_create(&thread, NULL, short_lived, arg) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  n_churning--;
  return NULL;
}

static void drop(const char *text, void *arg) {
  (void)text;
  (*(int *)arg)++;
}

static void *read_all(void *arg) {
  mi_stats_t s;
  char text[4096];
  int64_t heaps = 0, blocks = 0;
  for (int i = 0, lines = 0; n_churning > 0; i++) {
    get_stats(&s);
    check_sane(&s);
    CHECK(s.heaps.total >= heaps && s.malloc_normal_count.total >= blocks);
    heaps = s.heaps.total;
    blocks = s.malloc_normal_count.total;
    mi_stats_init(&s);
    CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &s));
    check_sane(&s);
    get_heap_stats(NULL, &s);
    check_sane(&s);
    if (i % 16 == 0) mi_subproc_heap_stats_print_out(mi_subproc_main(), drop, &lines);
    CHECK(mi_stats_get_json(sizeof text, text) == text);
    if (i % 64 == 0) mi_stats_merge();
    if (i % 32 == 0) {
      char *dump = mi_heap_dump_json(i % 64 == 0, i % 128 == 0);
      CHECK(dump != NULL && is_balanced(dump) && strstr(dump, "\"seq\":0") != NULL);
      mi_free(dump);
    }
  }
  return arg;
}

int main(void) {
  static mi_stats_t before, after;
  pthread_t churner[CHURNERS], reader[READERS];
  rounds = mi_test_scale(1000, 10000);
  get_stats(&before);
  for (uintptr_t i = 0; i < CHURNERS; i++)
    CHECK(pthread_create(&churner[i], NULL, churn, (void *)i) == 0);
  for (int i = 0; i < READERS; i++) CHECK(pthread_create(&reader[i], NULL, read_all, NULL) == 0);
  for (int i = 0; i < CHURNERS; i++) pthread_join(churner[i], NULL);
  for (int i = 0; i < READERS; i++) pthread_join(reader[i], NULL);
  get_stats(&after);
  check_sane(&after);
  CHECK(after.heaps.current == before.heaps.current);
  CHECK(after.theaps.current <= 1); /* that of this thread, if it has allocated */
  CHECK(after.heaps.total == before.heaps.total + (int64_t)n_allocated / 20);
  CHECK(after.malloc_huge.current == before.malloc_huge.current);
  int64_t n = after.malloc_normal_count.total - before.malloc_normal_count.total;
  /* The C library allocates for threads. */
  CHECK(n >= (int64_t)n_allocated && n < (int64_t)n_allocated + 2000);
  CHECK(after.malloc_normal.current < before.malloc_normal.current + 65536);
  return 0;
}
