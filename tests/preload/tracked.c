/* SPDX-License-Identifier: MIT */
/* For tracked.sh: `tracked MISUSE FAMILY` makes one mistake, with blocks of the family mi or plain. Nothing of it may be
 * optimised away, so it is built without. */
#include "mimalloc.h"
#include "mimalloc-stats.h"
#include "common.h"
#include <malloc.h>
#include <pthread.h>

static struct family {
  const char *name;
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  void *(*memalign)(size_t, size_t);
  size_t (*usable)(void *);
} *f;

static size_t mi_usable(void *p) { return mi_usable_size(p); }
static struct family families[] = {
    {"mi", mi_malloc, mi_calloc, mi_realloc, mi_free, mi_memalign, mi_usable},
    {"plain", malloc, calloc, realloc, free, memalign, malloc_usable_size},
};

static volatile int ones;
static void *volatile hidden; /* the compiler must not know that a block is free */

static void look_at(char c) { /* a jump that depends on it */
  if (c == 1) ones++;
}
static void *freed(size_t size) {
  hidden = f->malloc(size);
  memset(hidden, 1, size);
  f->free(hidden);
  return hidden;
}
static void store_behind(char *p, size_t size) {
  memset(p, 1, size);
  p[size] = 1;
  f->free(p);
}

static void nothing(void) {
  char *p = f->calloc(7, 100);
  for (size_t i = 0; i < 700; i++) look_at(p[i]);
  p = f->realloc(p, 200);
  p = f->realloc(p, 1000000);
  for (size_t i = 0; i < 200; i++) look_at(p[i]);
  memset(p, 2, f->usable(p));
  f->free(p);
}
static void uninitialised(void) {
  char *p = f->malloc(100);
  p[98] = 0;
  look_at(p[98]);
  look_at(p[99]);
  f->free(p);
}
static void uninitialised_again(void) { /* the block was in use before, and full of data */
  f->free(memset(f->malloc(100), 1, 100));
  uninitialised();
}
static void uninitialised_grown(void) {
  char *p = f->malloc(100);
  p[99] = 0;
  p = f->realloc(p, 120);
  look_at(p[99]);
  look_at(p[100]);
  f->free(p);
}
static void uninitialised_kept(void) { /* realloc neither reads nor initialises */
  char *p = f->realloc(f->malloc(100), 5000);
  look_at(p[50]);
  f->free(p);
}
static void overrun(void) { store_behind(f->malloc(100), 100); }
static void overrun_full(void) { store_behind(f->malloc(96), 96); }
static void overrun_calloc(void) { store_behind(f->calloc(3, 7), 21); }
static void overrun_realloc(void) { store_behind(f->realloc(f->malloc(1000), 333), 333); }
static void overrun_aligned(void) { store_behind(f->memalign(4096, 5000), 5000); }
static void overrun_huge(void) { store_behind(f->malloc(1000000), 1000000); }
static void overrun_nothing(void) { store_behind(f->malloc(0), 0); }
static void overrun_usable(void) {
  char *p = f->malloc(77);
  store_behind(p, f->usable(p));
}
static void underrun(void) {
  char *p = f->malloc(100);
  p[-1] = 1;
  f->free(p);
}
static void use_after_free(void) { look_at(*(char *)freed(100)); }
static void use_after_free_huge(void) { look_at(*(char *)freed(3000000)); }
static void store_after_free(void) { ((char *)freed(100))[20] = 1; }
static void use_after_realloc(void) {
  hidden = f->calloc(1, 100);
  char *p = hidden, *q = f->realloc(p, 101);
  look_at(q[5]);
  look_at(p[5]);
  f->free(q);
}
static void *free_hidden(void *arg) {
  f->free(hidden);
  return arg;
}
static void use_after_remote_free(void) {
  hidden = f->calloc(1, 100);
  pthread_t t;
  if (pthread_create(&t, NULL, free_hidden, NULL) != 0) exit(MI_TEST_ERROR);
  pthread_join(t, NULL);
  look_at(*(char *)hidden);
}
static void __attribute__((noinline)) lose(size_t size) { hidden = f->malloc(size); }
static void __attribute__((noinline)) clear_stack(void) {
  volatile char over_it[2000];
  memset((char *)over_it, 0, sizeof over_it);
}
static void __attribute__((noinline)) leak_of(size_t size) {
  lose(size);
  hidden = NULL;
  clear_stack();
}
static void leak(void) { leak_of(500); }
/* The block that its page begins with, whose address the library knows as that of the page: one page full of blocks of 48
 * bytes is made, and all the others freed. */
static void __attribute__((noinline)) lose_first(void) {
  enum { N = 65536 / 48 };
  static void *all[N];
  int lost = 0;
  for (int i = 0; i < N; i++) all[i] = f->malloc(16);
  for (int i = 0; i < N; i++) {
    if (lost > 0 || (uintptr_t)all[i] % 65536 != 0) f->free(all[i]);
    else lost++;
    all[i] = NULL;
  }
}
static void leak_first(void) {
  lose_first();
  clear_stack();
}
static void leak_huge(void) { leak_of(3000000); }
static void double_free(void) { f->free(freed(100)); }
static void double_free_late(void) { /* deep in the list of free blocks */
  void *p = freed(100), *more[20];
  for (int i = 0; i < 20; i++) more[i] = f->malloc(100);
  for (int i = 0; i < 20; i++) f->free(more[i]);
  f->free(more[3]);
  (void)p;
}
static void interior_free(void) {
  char *p = f->malloc(100);
  f->free(p + 16);
  f->free(p);
}
static void interior_free_huge(void) {
  char *p = f->malloc(3000000);
  f->free(p + 65536);
  f->free(p);
}
static void interior_free_offset(void) { /* in a page with pointers inside of blocks */
  char *p = mi_malloc_aligned_at(100, 64, 8);
  memset(p, 1, 100);
  mi_free(p + 8);
  mi_free(p);
}
static void deferred(bool force, unsigned long long heartbeat, void *arg) {
  (void)force, (void)heartbeat, (void)arg;
  mi_register_deferred_free(NULL, NULL);
  overrun();
}
static void overrun_in_callback(void) { /* the library calls it at work */
  mi_free(mi_malloc(1));
  mi_register_deferred_free(deferred, NULL);
  mi_collect(true);
}
static void overrun_offset(void) { store_behind(mi_malloc_aligned_at(100, 64, 8), 100); }

/* ---- heaps ---- */

static void fill(mi_heap_t *heap) { /* every kind of page */
  static const size_t sizes[] = {0, 1, 100, 5000, 70000, 400000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t size = sizes[i];
    memset(mi_heap_malloc(heap, size), 1, size);
    char *p = mi_heap_zalloc(heap, size);
    if (size > 0) look_at(p[size - 1]);
    memset(mi_heap_realloc(heap, p, size + 700), 2, size + 700);
    memset(mi_heap_malloc_aligned(heap, size, 256), 3, size);
    memset(mi_heap_malloc_aligned_at(heap, size, 64, 8), 4, size);
    mi_free(mi_heap_malloc(heap, size));
  }
}
static void *fill_too(void *heap) {
  fill(heap);
  return heap;
}
static mi_heap_t *new_full_heap(void) { /* by two threads */
  mi_heap_t *heap = mi_heap_new();
  pthread_t t;
  if (pthread_create(&t, NULL, fill_too, heap) != 0) exit(MI_TEST_ERROR);
  pthread_join(t, NULL);
  fill(heap);
  return heap;
}
/* Nothing is reported, and nothing is lost: the blocks have gone with their heap. */
static void heap_nothing(void) {
  for (int i = 0; i < 3; i++) {
    mi_heap_destroy(new_full_heap());
    mi_collect(true);
  }
}
static bool see_block(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg) {
  (void)heap, (void)area, (void)arg;
  if (block != NULL && size > 0) ones++;
  return true;
}
static void *in_subproc(void *arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t *)arg);
  mi_free(mi_malloc(100));
  memset(mi_malloc(100), 1, 100); /* goes with its sub-process */
  fill(mi_heap_new());
  return arg;
}
/* The functions that walk what there is, and those that end it. */
static void heap_walks(void) {
  mi_heap_t *heap = new_full_heap();
  mi_theap_t *theap = mi_heap_theap(heap), *before = mi_theap_set_default(theap);
  memset(mi_malloc(100), 1, 100);
  mi_free(mi_theap_zalloc(theap, 100));
  mi_theap_collect(theap, true);
  mi_theap_set_default(before);
  mi_heap_collect(heap, true);
  mi_heap_visit_blocks(heap, true, see_block, NULL);
  mi_free(mi_heap_dump_json(true, false));
  mi_free(mi_heap_stats_get_json(heap, 0, NULL));
  mi_free(mi_stats_get_json(0, NULL));
  mi_heap_destroy(heap);
  mi_subproc_id_t id = mi_subproc_new();
  pthread_t t;
  if (pthread_create(&t, NULL, in_subproc, &id) != 0) exit(MI_TEST_ERROR);
  pthread_join(t, NULL);
  mi_subproc_destroy(id);
}
static void heap_deleted(void) { /* what lived in it lives on */
  mi_heap_t *heap = mi_heap_new();
  char *small = mi_heap_malloc(heap, 100), *large = mi_heap_zalloc(heap, 3000000);
  memset(small, 1, 100);
  mi_heap_delete(heap);
  look_at(small[99]);
  look_at(large[2999999]);
  mi_free(small);
  mi_free(large);
}
static void after_destroy(size_t size, size_t offset) {
  mi_heap_t *heap = mi_heap_new();
  hidden = memset(mi_heap_malloc_aligned_at(heap, size, 64, offset), 1, size);
  mi_heap_destroy(heap);
  look_at(*(char *)hidden);
}
static void heap_use_after_destroy(void) { after_destroy(100, 0); }
static void heap_use_after_destroy_huge(void) { after_destroy(3000000, 0); }
static void heap_use_after_destroy_inside(void) { after_destroy(100, 8); }
static void heap_use_after_destroy_huge_inside(void) { after_destroy(3000000, 8); }
static void heap_overrun(void) {
  mi_heap_t *heap = mi_heap_new();
  store_behind(mi_heap_malloc(heap, 100), 100);
  mi_heap_destroy(heap);
}
static void __attribute__((noinline)) lose_in(mi_heap_t *heap) {
  mi_free(mi_heap_malloc(heap, 500)); /* not the first of its page, which could be found */
  hidden = mi_heap_malloc(heap, 500);
  hidden = NULL;
  clear_stack();
}
static void heap_leak(void) { lose_in(mi_heap_new()); }
static void heap_leak_deleted(void) {
  mi_heap_t *heap = mi_heap_new();
  lose_in(heap);
  mi_heap_delete(heap);
}

static const struct {
  const char *name;
  void (*run)(void);
} misuses[] = {
#define MISUSE(name) {#name, name}
    MISUSE(nothing), MISUSE(uninitialised), MISUSE(uninitialised_again), MISUSE(uninitialised_grown),
    MISUSE(uninitialised_kept), MISUSE(overrun), MISUSE(overrun_full), MISUSE(overrun_calloc),
    MISUSE(overrun_realloc), MISUSE(overrun_aligned), MISUSE(overrun_huge), MISUSE(overrun_nothing),
    MISUSE(overrun_usable), MISUSE(overrun_offset), MISUSE(overrun_in_callback), MISUSE(underrun), MISUSE(use_after_free),
    MISUSE(use_after_free_huge), MISUSE(store_after_free), MISUSE(use_after_realloc),
    MISUSE(use_after_remote_free), MISUSE(leak), MISUSE(leak_first), MISUSE(leak_huge), MISUSE(double_free),
    MISUSE(double_free_late), MISUSE(interior_free), MISUSE(interior_free_huge), MISUSE(interior_free_offset),
    MISUSE(heap_nothing), MISUSE(heap_walks), MISUSE(heap_deleted), MISUSE(heap_use_after_destroy), MISUSE(heap_use_after_destroy_huge),
    MISUSE(heap_use_after_destroy_inside), MISUSE(heap_use_after_destroy_huge_inside), MISUSE(heap_overrun),
    MISUSE(heap_leak), MISUSE(heap_leak_deleted),
};

int main(int argc, char **argv) {
  if (argc != 3) return MI_TEST_ERROR;
  f = strcmp(argv[2], "mi") == 0 ? &families[0] : &families[1];
  for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
    if (strcmp(argv[1], misuses[i].name) != 0) continue;
    misuses[i].run();
    return 0;
  }
  return MI_TEST_ERROR;
}
