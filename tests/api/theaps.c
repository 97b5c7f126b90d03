/* SPDX-License-Identifier: MIT */
/* Theaps: the one that malloc looks at may be that of any heap, and that heap may end, by the hand
 * of its own thread or of another. */
#include "thread/heaps.h"

static int n_errors;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors += err == EINVAL;
}

/* All forms of malloc serve from this heap. */
static void check_served_from(mi_heap_t *heap) {
  void *p[] = {malloc(10),       calloc(3, 100),         realloc(NULL, 3000),  mi_malloc_aligned(100, 1024),
               malloc(100000),   calloc(1, 3 << 20),     mi_strdup("theap"),   mi_malloc_aligned(100, 1 << 20),
               mi_malloc_aligned_at(4000, 256, 8), mi_new(50), mi_malloc_small(80), mi_zalloc(500)};
  for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
    if (p[i] == NULL || mi_heap_of(p[i]) != heap) FAIL("block %zu lies in heap %p, not in %p", i, (void *)mi_heap_of(p[i]), (void *)heap);
    free(p[i]);
  }
}

static void check_set_and_get(void) {
  mi_theap_t *first = mi_theap_get_default();
  CHECK(first != NULL && mi_heap_theap(mi_heap_main()) == first);
  mi_heap_t *a = mi_heap_new(), *b = mi_heap_new();
  mi_theap_t *of_a = mi_heap_theap(a), *of_b = mi_heap_theap(b);
  CHECK(of_a != NULL && of_b != NULL && of_a != of_b && of_a != first);
  CHECK(mi_theap_set_default(of_a) == first && mi_theap_get_default() == of_a);
  check_served_from(a);
  CHECK(mi_theap_set_default(of_a) == of_a);
  CHECK(mi_theap_set_default(of_b) == of_a);
  check_served_from(b);
  void *p = mi_heap_malloc(mi_heap_main(), 10); /* the main heap is still there */
  CHECK(mi_heap_of(p) == mi_heap_main());
  free(p);
  CHECK(mi_theap_set_default(NULL) == of_b); /* back to that of the main heap */
  CHECK(mi_theap_get_default() == first);
  check_served_from(mi_heap_main());
  mi_theap_set_default(of_a);
  CHECK(mi_theap_set_default(first) == of_a);
  check_served_from(mi_heap_main());
  mi_heap_destroy(a);
  mi_heap_delete(b);
  check_served_from(mi_heap_main());
}

/* Its heap is ended by its own thread. */
static void check_ended_here(void) {
  for (int destroy = 0; destroy < 2; destroy++) {
    mi_heap_t *heap = mi_heap_new();
    mi_theap_set_default(mi_heap_theap(heap));
    void *p = malloc(100);
    CHECK(mi_heap_of(p) == heap);
    behave_fill(p, 100, 1);
    if (destroy) mi_heap_destroy(heap);
    else mi_heap_delete(heap);
    check_served_from(mi_heap_main());
    CHECK(mi_theap_get_default() == mi_heap_theap(mi_heap_main()));
    if (destroy) continue;
    CHECK(mi_heap_of(p) == mi_heap_main() && behave_verify(p, 100, 1) == 100);
    free(p);
  }
}

/* By another thread. What the thread does next: each is one of its first steps after the end. */
static void *be_ended(void *arg) {
  int step = *(int *)arg;
  mi_heap_t *main_heap = mi_heap_main(), *heap = mi_heap_new();
  mi_theap_set_default(mi_heap_theap(heap));
  void *p = malloc(100);
  behave_fill(p, 100, 1);
  bool destroy = step % 2 == 1;
  in_thread(destroy ? destroy_heap : delete_heap, heap);
  /* Records of other theaps take the place, if it is not kept. */
  mi_heap_t *others[4];
  for (int i = 0; i < 4; i++) {
    others[i] = mi_heap_new();
    if (step >= 8) CHECK(mi_heap_malloc(others[i], 100) != NULL);
  }
  void *q = NULL;
  switch (step / 2 % 7) {
    case 0: q = malloc(100); break;
    case 1: q = calloc(1, 3 << 20); break;
    case 2: q = mi_malloc_aligned(100, 4 << 20); break;
    case 3: CHECK(mi_theap_get_default() == mi_heap_theap(main_heap)); break;
    case 4: mi_theap_set_default(NULL); break;
    case 5: mi_collect(true); break;
    case 6: q = mi_malloc_aligned_at(3000, 512, 8); break;
  }
  if (q != NULL) CHECK(mi_heap_of(q) == main_heap);
  free(q);
  if (step == 14) return NULL; /* ends with it as it is */
  check_served_from(main_heap);
  CHECK(mi_theap_get_default() == mi_heap_theap(main_heap));
  if (!destroy) {
    CHECK(mi_heap_of(p) == main_heap && behave_verify(p, 100, 1) == 100);
    free(p);
  }
  for (int i = 0; i < 4; i++) mi_heap_destroy(others[i]);
  return NULL;
}

/* A thread that ends with such a default; a thread after it has one of its own. */
static void *end_with_default(void *arg) {
  mi_heap_t *heap = arg;
  CHECK(mi_theap_get_default() == mi_heap_theap(mi_heap_main()));
  mi_theap_set_default(mi_heap_theap(heap));
  check_served_from(heap);
  return NULL;
}

static void *foreign_theap(void *arg) {
  n_errors = 0;
  mi_theap_t *mine = mi_theap_get_default();
  CHECK(mi_theap_set_default(arg) == mine && n_errors == 1 && mi_theap_get_default() == mine);
  mi_theap_collect(arg, true); /* not ours: nothing */
  return NULL;
}

static void check_collect(void) {
  mi_heap_t *heap = mi_heap_new();
  mi_theap_t *theap = mi_heap_theap(heap);
  enum { N = 2000 };
  static void *p[N];
  for (int i = 0; i < N; i++) CHECK((p[i] = mi_theap_malloc(theap, 100)) != NULL);
  for (int i = 0; i < N; i++) behave_fill(p[i], 100, (uint64_t)i);
  for (int i = 0; i < N; i += 2) free(p[i]);
  mi_theap_collect(theap, false);
  mi_theap_collect(theap, true);
  mi_theap_collect(NULL, true);
  for (int i = 1; i < N; i += 2) CHECK(behave_verify(p[i], 100, (uint64_t)i) == 100);
  mi_heap_destroy(heap);
  mi_theap_collect(theap, true); /* nothing is there any more */
}

int main(void) {
  behave_limit(60);
  mi_option_set(mi_option_show_errors, 0);
  mi_register_error(count_error, NULL);
  check_set_and_get();
  check_ended_here();
  for (int step = 0; step < 15; step++) in_thread(be_ended, &step);
  mi_heap_t *heap = mi_heap_new();
  for (int i = 0; i < 3; i++) in_thread(end_with_default, heap);
  in_thread(foreign_theap, mi_heap_theap(heap));
  mi_heap_destroy(heap);
  n_errors = 0;
  CHECK(mi_theap_malloc(NULL, 8) == NULL && errno == EINVAL && n_errors == 1);
  check_collect();
  return 0;
}
