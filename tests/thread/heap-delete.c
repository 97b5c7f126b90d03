/* SPDX-License-Identifier: MIT */
/* Delete and its races, scenarios delete-race, mt and teardown: against the end of a thread that used
 * the heap, against frees of its blocks by others, against a second delete; and what is left
 * afterwards. A thread that itself owns pages of a heap does not free into them meanwhile. */
#include "thread/heaps.h"
#include <sched.h>

static mi_heap_t *heap;

/* ---- a thread that used it ends at the same time ---- */

static void *take_and_end(void *arg) {
  *(struct stamped **)arg = stamped_in(heap, 64, 5);
  return NULL;
}
static _Atomic(int) has_used;
static void *take_tell_and_end(void *arg) {
  take_and_end(arg);
  __atomic_store_n(&has_used, 1, __ATOMIC_RELEASE);
  return NULL;
}
static void check_thread_end(void) {
  for (size_t i = 0; i < mi_test_scale(900, 20000); i++) {
    struct stamped *s, *t;
    heap = new_heap();
    has_used = 0;
    pthread_t other = start(take_and_end, &t), thread;
    join(other);
    thread = start(take_tell_and_end, &s);
    while (__atomic_load_n(&has_used, __ATOMIC_ACQUIRE) == 0) sched_yield();
    mi_heap_delete(heap); /* while it ends */
    join(thread);
    expect_heap(s, mi_heap_main());
    expect_heap(t, mi_heap_main());
    verify_and_free(s);
    verify_and_free(t);
  }
}

/* ---- frees by others, of pages with and without an owner, huge ones too ---- */

enum { N_FREERS = 4, MAX_BLOCKS = 4096 };
static struct stamped *blocks[MAX_BLOCKS];
static size_t n_blocks;
static pthread_barrier_t barrier;
static bool used_before; /* the freers have pages of their own in the heap */

static void *make_blocks(void *arg) {
  size_t size = *(size_t *)arg;
  for (size_t i = 0; i < n_blocks; i++) blocks[i] = stamped_in(heap, size, i);
  return NULL;
}
static void *free_quarter(void *arg) {
  size_t from = (size_t)(uintptr_t)arg;
  struct stamped *own = NULL;
  if (used_before) own = stamped_in(heap, 500, 77); /* of no size that others free */
  pthread_barrier_wait(&barrier);
  for (size_t i = from; i < n_blocks; i += N_FREERS) verify_and_free(blocks[i]);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier); /* the heap is gone */
  if (own != NULL) {
    expect_heap(own, mi_heap_main());
    verify_and_free(own);
  }
  return NULL;
}

struct frees {
  size_t size, n;
  bool by_other; /* made by a thread that has ended: pages without an owner */
  bool overlap;  /* delete while they are freed, else afterwards */
  bool used;
};
static void free_and_delete(const struct frees *f) {
  pthread_t freers[N_FREERS];
  size_t size = f->size;
  heap = new_heap();
  n_blocks = f->n;
  used_before = f->used;
  if (f->by_other) in_thread(make_blocks, &size);
  else make_blocks(&size);
  pthread_barrier_init(&barrier, NULL, N_FREERS + 1);
  for (size_t i = 0; i < N_FREERS; i++) freers[i] = start(free_quarter, (void *)(uintptr_t)i);
  pthread_barrier_wait(&barrier);
  if (f->overlap) mi_heap_delete(heap);
  pthread_barrier_wait(&barrier);
  if (!f->overlap) mi_heap_delete(heap);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < N_FREERS; i++) join(freers[i]);
  pthread_barrier_destroy(&barrier);
}

/* Blocks of the main heap that nobody else touches, of sizes that are freed meanwhile. */
static _Atomic(bool) stopped;
static void *be_canary(void *arg) {
  static const size_t canary_sizes[] = {40000, 32, 8000, 300000, 600000, 3000};
  uint64_t tag = (uint64_t)(uintptr_t)arg;
  while (!stopped) {
    struct stamped *s[12];
    for (size_t k = 0; k < 12; k++) s[k] = stamped_in(mi_heap_main(), canary_sizes[k % 6], tag + k);
    sched_yield();
    for (size_t k = 0; k < 12; k++) {
      expect_heap(s[k], mi_heap_main());
      verify_and_free(s[k]);
    }
  }
  return NULL;
}

static void check_frees(void) {
  pthread_t canaries[3];
  for (uintptr_t i = 0; i < 3; i++) canaries[i] = start(be_canary, (void *)(1000 * i));
  static const struct frees all[] = {
      {32, 4096, false, false, false},  {32, 4096, false, true, false},  {32, 4096, true, true, false},
      {32, 4096, true, true, true},     {8000, 200, true, true, true},   {40000, 64, true, true, false},
      {300000, 40, true, true, false},  {600000, 40, true, true, false}, {600000, 40, false, true, true},
      {3000, 1000, false, true, true},
  };
  for (size_t i = 0; i < mi_test_scale(8, 500); i++) {
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
      /* With page_reclaim_on_free -1 who frees never keeps a page. */
      mi_option_set(mi_option_page_reclaim_on_free, (i + k) % 2 == 0 ? -1 : 0);
      free_and_delete(&all[k]);
    }
  }
  mi_option_set(mi_option_page_reclaim_on_free, 0);
  stopped = true;
  for (int i = 0; i < 3; i++) join(canaries[i]);
}

/* ---- two deletes at once; a new heap while another goes ---- */

static void *delete_it(void *h) {
  pthread_barrier_wait(&barrier);
  mi_heap_delete(h);
  return NULL;
}
static void *destroy_it(void *h) {
  pthread_barrier_wait(&barrier);
  mi_heap_destroy(h);
  return NULL;
}
static void *make_another(void *arg) {
  pthread_barrier_wait(&barrier);
  mi_heap_t *h = new_heap();
  struct stamped *s = stamped_in(h, 100, 3);
  expect_heap(s, h);
  *(mi_heap_t **)arg = h;
  return NULL;
}
static void check_two_ends(void) {
  for (size_t i = 0; i < mi_test_scale(200, 2000); i++) {
    mi_heap_t *a = new_heap(), *b = new_heap(), *c = NULL;
    struct stamped *p = stamped_in(a, 200, 1), *q = stamped_in(b, 300, 2);
    heap = a;
    struct stamped *other;
    in_thread(take_and_end, &other);
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_t ta = start(delete_it, a), tb = start(i % 2 ? delete_it : destroy_it, b), tc = start(make_another, &c);
    mi_heap_t *d = NULL; /* this thread owns the pages of a and b */
    make_another(&d);
    join(ta);
    join(tb);
    join(tc);
    pthread_barrier_destroy(&barrier);
    expect_heap(p, mi_heap_main());
    verify_and_free(p);
    verify_and_free(other);
    if (i % 2) verify_and_free(q);
    mi_heap_destroy(c);
    mi_heap_destroy(d);
  }
}

/* ---- a user who sits idle with blocks, and goes on afterwards ---- */

static void *sit(void *arg) {
  (void)arg;
  struct stamped *s[20];
  for (size_t i = 0; i < 20; i++) s[i] = stamped_in(heap, i < 18 ? 50 * i : 700000, i);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier); /* the heap is gone, `heap` is another one */
  for (size_t i = 0; i < 20; i++) expect_heap(s[i], mi_heap_main());
  struct stamped *fresh = stamped_in(heap, 100, 9);
  expect_heap(fresh, heap);
  for (size_t i = 0; i < 20; i++) verify_and_free(s[i]);
  struct stamped *again = stamped_in(heap, 100, 10);
  expect_heap(again, heap);
  free_list(fresh);
  return NULL;
}
static void check_foreign_user(void) {
  for (size_t i = 0; i < mi_test_scale(50, 500); i++) {
    heap = new_heap();
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t t = start(sit, NULL);
    pthread_barrier_wait(&barrier);
    if (i % 2 == 0) mi_heap_delete(heap);
    else in_thread(delete_heap, heap);
    heap = new_heap();
    pthread_barrier_wait(&barrier);
    join(t);
    pthread_barrier_destroy(&barrier);
    mi_heap_destroy(heap);
  }
}

/* ---- pages of their own, aligned to 4 MiB ---- */

static struct stamped *whole[4];
static void *make_whole(void *arg) {
  (void)arg;
  for (size_t i = 0; i < 4; i++) {
    size_t size = (i + 1) * 700000;
    void *p = mi_heap_malloc_aligned(heap, size, 4 << 20);
    CHECK(p != NULL && (uintptr_t)p % (4 << 20) == 0);
    whole[i] = stamp(p, size, i);
  }
  return NULL;
}
static void *free_whole(void *arg) {
  size_t from = (size_t)(uintptr_t)arg;
  pthread_barrier_wait(&barrier);
  for (size_t i = from; i < 4; i += 2) verify_and_free(whole[i]);
  return NULL;
}
static void delete_while_freed(void) { /* the whole pages, by two threads */
  pthread_barrier_init(&barrier, NULL, 3);
  pthread_t a = start(free_whole, (void *)0), b = start(free_whole, (void *)1);
  pthread_barrier_wait(&barrier);
  mi_heap_delete(heap);
  join(a);
  join(b);
  pthread_barrier_destroy(&barrier);
}
static void check_whole_pages(void) {
  for (size_t i = 0; i < mi_test_scale(36, 600); i++) {
    heap = new_heap();
    if (i % 2 == 0) make_whole(NULL);
    else in_thread(make_whole, NULL);
    if (i % 3 == 0) { /* freed by others meanwhile */
      delete_while_freed();
    } else if (i % 3 == 1) {
      mi_heap_delete(heap);
      for (size_t k = 0; k < 4; k++) {
        expect_heap(whole[k], mi_heap_main());
        CHECK(mi_usable_size(whole[k]) >= (k + 1) * 700000);
        verify_and_free(whole[k]);
      }
    } else {
      mi_heap_destroy(heap);
      for (size_t k = 0; k < 4; k++) expect_heap(whole[k], NULL);
    }
  }
}

/* The same while the page churns in a heap of a sub-process, whose huge pages are moved to a heap
 * that may end, too. */
static bool first_heap(mi_heap_t *h, void *arg) {
  *(mi_heap_t **)arg = h;
  return false;
}
static mi_subproc_id_t subproc;
static void *delete_in_subproc(void *arg) {
  (void)arg;
  mi_subproc_add_current_thread(subproc);
  mi_heap_t *main_heap = NULL;
  mi_subproc_visit_heaps(subproc, first_heap, &main_heap);
  for (size_t i = 0; i < mi_test_scale(60, 1000); i++) {
    heap = new_heap();
    make_whole(NULL);
    struct stamped *kept = stamped_in(heap, 900000, 4);
    delete_while_freed();
    expect_heap(kept, main_heap);
    verify_and_free(kept);
  }
  return NULL;
}

int main(void) {
  behave_limit(280);
  mi_option_set(mi_option_max_errors, 1);
  check_thread_end();
  check_frees();
  check_two_ends();
  check_foreign_user();
  check_whole_pages();
  subproc = mi_subproc_new();
  in_thread(delete_in_subproc, NULL);
  mi_subproc_destroy(subproc);
  return 0;
}
