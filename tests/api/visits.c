/* SPDX-License-Identifier: MIT */
/* Visits of the blocks of a heap. F10 free-inside-visit: each live block is seen once, and may be
 * freed by the visitor. What the areas say; pages that threads left; those of one theap; huge blocks
 * and aligned ones. And visits while other threads free, which miss nothing that stays; and while they
 * allocate too. */
#include "thread/heaps.h"

enum { MAX_BLOCKS = 12000 };
static struct block { void *p; size_t size; unsigned seen; bool live; } blocks[MAX_BLOCKS];
static size_t n_blocks;

static void add(void *p, size_t size) {
  CHECK(p != NULL && n_blocks < MAX_BLOCKS);
  blocks[n_blocks++] = (struct block){p, size, 0, true};
}
/* By address, so that a visit finds its block. */
static int order(const void *a, const void *b) {
  const struct block *x = a, *y = b;
  return (uintptr_t)x->p < (uintptr_t)y->p ? -1 : (uintptr_t)x->p > (uintptr_t)y->p;
}
static void sort(void) { qsort(blocks, n_blocks, sizeof blocks[0], order); }
/* The one that begins in [start, start + size); NULL: none of ours. */
static struct block *find(const void *start, size_t size) {
  size_t low = 0, high = n_blocks;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if ((uintptr_t)blocks[mid].p < (uintptr_t)start) low = mid + 1;
    else high = mid;
  }
  return low < n_blocks && (uintptr_t)blocks[low].p - (uintptr_t)start < size ? &blocks[low] : NULL;
}

struct visit {
  mi_heap_t *heap;
  size_t n_areas, n_used, n_blocks, n_strange;
  size_t free_every, stop_after; /* 0: never */
  bool free_next;                /* with it one that comes later in the area */
  mi_heap_area_t area;
};
static bool see(const mi_heap_t *heap, const mi_heap_area_t *area, void *p, size_t size, void *arg) {
  struct visit *v = arg;
  CHECK(heap == v->heap && size == area->block_size && area->full_block_size >= size);
  if (p == NULL) { /* an area begins */
    v->area = *area;
    v->n_areas++;
    v->n_used += area->used;
    CHECK(area->committed <= area->reserved && area->blocks != NULL);
    return true;
  }
  CHECK(area->blocks == v->area.blocks && size == v->area.block_size);
  CHECK((uintptr_t)p - (uintptr_t)area->blocks <= area->reserved - size);
  struct block *b = find(p, size);
  v->n_blocks++;
  if (b == NULL || !b->live) {
    v->n_strange++;
    return true;
  }
  b->seen++;
  if (v->free_every > 0 && v->n_blocks % v->free_every == 0) {
    b->live = false;
    free(b->p);
    if (v->free_next && b + 1 < blocks + n_blocks && b[1].live && b[1].seen == 0 &&
        (uintptr_t)b[1].p - (uintptr_t)area->blocks < area->reserved) {
      b[1].live = false;
      free(b[1].p);
    }
  }
  return v->stop_after == 0 || v->n_blocks < v->stop_after;
}
static struct visit begin(mi_heap_t *heap) {
  for (size_t i = 0; i < n_blocks; i++) blocks[i].seen = 0;
  return (struct visit){.heap = heap};
}
static size_t n_live(void) {
  size_t n = 0;
  for (size_t i = 0; i < n_blocks; i++) n += blocks[i].live;
  return n;
}
static void check_all_seen(void) {
  for (size_t i = 0; i < n_blocks; i++)
    if (blocks[i].live && blocks[i].seen != 1) FAIL("block %zu of %zu bytes is seen %u times", i, blocks[i].size, blocks[i].seen);
}

/* ---- F10 ---- */

static void fill(mi_heap_t *heap, size_t n) {
  static const size_t sizes[] = {16, 100, 1000, 9000, 70000};
  for (size_t i = 0; i < n; i++) {
    size_t size = sizes[i % 50 < 47 ? i % 3 : i % 50 < 49 ? 3 : 4];
    add(mi_heap_malloc(heap, size), size);
  }
}
static void check_free_inside(void) {
  mi_heap_t *heap = new_heap();
  n_blocks = 0;
  fill(heap, 10000);
  sort();
  struct visit v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, true, see, &v));
  check_all_seen();
  CHECK(v.n_blocks == 10000 && v.n_strange == 0 && v.n_used == 10000);
  v = begin(heap);
  v.free_every = 2;
  CHECK(mi_heap_visit_blocks(heap, true, see, &v));
  check_all_seen();
  CHECK(v.n_blocks == 10000 && v.n_strange == 0 && n_live() == 5000);
  v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, true, see, &v));
  check_all_seen();
  CHECK(v.n_blocks == 5000 && v.n_used == 5000);
  size_t n_areas = v.n_areas;
  v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, false, see, &v)); /* pages only */
  CHECK(v.n_blocks == 0 && v.n_areas == n_areas && v.n_used == 5000);
  v = begin(heap);
  v.stop_after = 7;
  CHECK(!mi_heap_visit_blocks(heap, true, see, &v) && v.n_blocks == 7);
  v = begin(heap);
  v.free_every = 1; /* whole pages go under the visit */
  CHECK(mi_heap_visit_blocks(heap, true, see, &v) && v.n_blocks == 5000 && n_live() == 0);
  v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, true, see, &v) && v.n_blocks == 0 && v.n_used == 0);
  CHECK(!mi_heap_visit_blocks(heap, true, NULL, &v));
  n_blocks = 0;
  fill(heap, 10000);
  sort();
  v = begin(heap);
  v.free_every = 3;
  v.free_next = true;
  CHECK(mi_heap_visit_blocks(heap, true, see, &v) && v.n_strange == 0 && n_live() < 6000);
  check_all_seen();
  mi_heap_destroy(heap);
}

/* A page that its visitor empties goes back when the visit has left it. */
static void check_pages_go(void) {
  long delay = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, 0); /* at once, not when the next one is empty */
  mi_heap_t *heap = new_heap();
  size_t before = behave_virtual();
  for (int round = 0; round < 600; round++) {
    n_blocks = 0;
    for (int i = 0; i < 12; i++) add(mi_heap_malloc(heap, 400000), 400000);
    sort();
    struct visit v = begin(heap);
    v.free_every = 1;
    CHECK(mi_heap_visit_blocks(heap, true, see, &v) && n_live() == 0);
  }
  if (!BEHAVE_SANITIZED && behave_virtual() > before + 256 * BEHAVE_MiB)
    FAIL("%zu KiB more are mapped", (behave_virtual() - before) / 1024);
  mi_heap_destroy(heap);
  mi_option_set(mi_option_purge_delay, delay);
}

/* ---- whose pages ---- */

static void *fill_in_thread(void *arg) {
  fill(arg, 500);
  return NULL;
}
static void check_owners(void) {
  mi_heap_t *heap = new_heap(), *other = new_heap();
  n_blocks = 0;
  in_thread(fill_in_thread, heap);
  size_t left = n_blocks;
  fill(heap, 300);
  CHECK(mi_heap_malloc(other, 100) != NULL); /* and of no other heap */
  add(mi_heap_malloc(heap, 5 << 20), 5 << 20);
  add(mi_heap_malloc_aligned(heap, 700, 4096), 700);
  add(mi_heap_malloc_aligned_at(heap, 3000, 64, 24), 3000);
  add(mi_heap_malloc_aligned(heap, 100, 8 << 20), 100);
  sort();
  struct visit v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, true, see, &v));
  check_all_seen();
  CHECK(v.n_blocks == n_blocks && v.n_used == n_blocks);
  v = begin(heap);
  CHECK(mi_heap_visit_blocks(heap, false, see, &v) && v.n_used == n_blocks);
  v = begin(heap);
  CHECK(mi_heap_visit_abandoned_blocks(heap, true, see, &v));
  size_t abandoned = v.n_blocks;
  CHECK(abandoned >= 1 && abandoned <= left && v.n_strange == 0);
  v = begin(heap);
  CHECK(mi_theap_visit_blocks(mi_heap_theap(heap), true, see, &v));
  CHECK(v.n_strange == 0 && v.n_blocks + abandoned <= n_blocks && v.n_blocks >= 300);
  mi_heap_destroy(heap);
  mi_heap_destroy(other);
}

/* ---- while others work ---- */

static mi_heap_t *busy;
static _Atomic(bool) stopped;
static void *churn(void *arg) {
  uint64_t random = 1 + (uint64_t)(uintptr_t)arg;
  while (!stopped) {
    void *p[200];
    for (int i = 0; i < 200; i++) {
      size_t size = behave_random(&random) % (i % 40 == 0 ? 200000 : 3000);
      p[i] = i % 2 ? mi_heap_malloc(busy, size) : mi_malloc(size);
      CHECK(p[i] != NULL);
    }
    for (int i = 0; i < 200; i++) free(p[i]);
    if (behave_random(&random) % 8 == 0) mi_heap_collect(busy, true);
  }
  return NULL;
}
/* Only frees: a visit is exact. The blocks lie among those that stay, in pages of this thread, of one
 * that waits and of one that has ended; some pages are given back. */
enum { N_VICTIMS = 20000 };
static void *victims[3][N_VICTIMS];
static pthread_barrier_t mixed, barrier;
static void mix(void **to) {
  for (size_t i = 0; i < N_VICTIMS; i++) {
    size_t size = i % 2000 == 0 ? 700000 : i % 100 == 0 ? 40000 : 50 + i % 1000;
    CHECK((to[i] = mi_heap_malloc(busy, size)) != NULL);
    if (i % 30 == 0 && i < N_VICTIMS / 2) fill(busy, 3);
  }
}
static void free_all(void **all) {
  for (size_t i = 0; i < N_VICTIMS; i++) free(all[i]);
}
static void *mix_and_end(void *arg) {
  mix(arg);
  return NULL;
}
static void *mix_and_free(void *arg) {
  mix(arg);
  pthread_barrier_wait(&mixed);
  pthread_barrier_wait(&barrier);
  free_all(arg);
  return NULL;
}
static void *free_others(void *arg) {
  pthread_barrier_wait(&barrier);
  free_all(arg);
  return NULL;
}
static _Atomic(bool) done;
static void *visit_until_done(void *arg) {
  (void)arg;
  pthread_barrier_wait(&barrier);
  for (bool last = false; !last;) {
    last = done;
    struct visit v = begin(busy);
    CHECK(mi_heap_visit_blocks(busy, true, see, &v));
    check_all_seen();
    CHECK(!last || v.n_strange == 0);
  }
  return NULL;
}
static void check_frees(void) {
  busy = new_heap();
  n_blocks = 0;
  done = false;
  mix(victims[0]);
  in_thread(mix_and_end, victims[1]);
  pthread_barrier_init(&mixed, NULL, 2);
  pthread_barrier_init(&barrier, NULL, 4);
  pthread_t own = start(mix_and_free, victims[2]);
  pthread_barrier_wait(&mixed);
  sort();
  pthread_t a = start(free_others, victims[1]), reader = start(visit_until_done, NULL);
  pthread_barrier_wait(&barrier);
  free_all(victims[0]);
  join(own);
  join(a);
  done = true;
  join(reader);
  pthread_barrier_destroy(&barrier);
  pthread_barrier_destroy(&mixed);
  mi_heap_destroy(busy);
}

/* Frees and allocations: what stays is seen once at most, and a visit ends. */
static void *visit_often(void *arg) {
  (void)arg;
  for (size_t i = 0; i < mi_test_scale(40, 1000); i++) {
    struct visit v = begin(busy);
    CHECK(mi_heap_visit_blocks(busy, i % 4 != 3, see, &v));
    for (size_t k = 0; k < n_blocks; k++) CHECK(blocks[k].seen <= 1);
  }
  return NULL;
}
static void check_busy(void) {
  busy = new_heap();
  n_blocks = 0;
  fill(busy, 1000);
  in_thread(fill_in_thread, busy); /* these stay, in pages that others share and take over */
  sort();
  pthread_t t[3], reader;
  for (uintptr_t i = 0; i < 3; i++) t[i] = start(churn, (void *)i);
  reader = start(visit_often, NULL);
  join(reader);
  stopped = true;
  for (int i = 0; i < 3; i++) join(t[i]);
  struct visit v = begin(busy);
  CHECK(mi_heap_visit_blocks(busy, true, see, &v));
  check_all_seen();
  mi_heap_destroy(busy);
}

int main(void) {
  mi_test_not_tracked();
  behave_limit(200);
  check_free_inside();
  check_pages_go();
  check_owners();
  for (size_t i = 0; i < mi_test_scale(3, 20); i++) check_frees();
  check_busy();
  return 0;
}
