/* SPDX-License-Identifier: MIT */
#include "heap/registry.h"
#include "arena/meta.h"
#include "arena/stable.h"
#include "heap/damage.h"
#include "heap/teardown.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include <string.h>

struct mi__lock mi__heaps_lock = MI_LOCK_INIT(MI_LOCK_HEAPS);
struct mi_heap_s mi__heap_main;

/* Under mi__heaps_lock. */
static struct mi__stable heap_records = {.size = sizeof(struct mi_heap_s)};
static struct mi__stable theap_records = {.size = sizeof(struct mi_theap_s)};
static size_t next_id = 2; /* 1: the main heap */
/* A record keeps its key, as its tag where its memory goes: no more keys than heaps at a time. */
static size_t next_key = 1;
/* No two theaps have the same: 2^29 of them go by before a number comes again, while somebody waits
 * for a claim. */
static uint32_t next_claim_seq = 1;

/* ---- theaps ---- */

/* Into the lists of its heap and its thread. */
static void link_theap(struct mi_theap_s *theap, struct mi_heap_s *heap, struct mi_thread *thread) {
  theap->prev = theap->tprev = NULL;
  theap->next = heap->theaps;
  if (heap->theaps != NULL) heap->theaps->prev = theap;
  heap->theaps = theap;
  theap->tnext = thread->theaps;
  if (thread->theaps != NULL) thread->theaps->tprev = theap;
  thread->theaps = theap;
}

void mi__theap_unlink(struct mi_theap_s *theap) {
  if (theap->prev != NULL) theap->prev->next = theap->next;
  else mi__theap_heap(theap)->theaps = theap->next;
  if (theap->next != NULL) theap->next->prev = theap->prev;
  if (theap->tprev != NULL) theap->tprev->tnext = theap->tnext;
  else mi__theap_thread(theap)->theaps = theap->tnext;
  if (theap->tnext != NULL) theap->tnext->tprev = theap->tprev;
  theap->next = theap->prev = theap->tnext = theap->tprev = NULL;
}

static struct mi_theap_s *new_theap(struct mi_heap_s *heap, struct mi_thread *thread) {
  mi__lock_acquire(&mi__heaps_lock);
  size_t tag;
  struct mi_theap_s *theap = mi__stable_alloc(&theap_records, &tag);
  if (theap != NULL) {
    uint32_t seq = next_claim_seq++;
    if (seq << MI_CLAIM_SEQ_SHIFT == 0) seq = next_claim_seq++; /* 0 is that of free records */
    mi__store(&theap->xclaim, seq << MI_CLAIM_SEQ_SHIFT | MI_CLAIM_FREE, relaxed);
    link_theap(theap, heap, thread);
    mi__theap_init(theap, heap, thread);
  }
  mi__lock_release(&mi__heaps_lock);
  return theap;
}

void mi__theap_free_record(struct mi_theap_s *theap) {
  mi__store(&theap->heap, NULL, relaxed);
  mi__store(&theap->thread, NULL, relaxed);
  mi__store(&theap->used_bins, 0, relaxed);
  theap->n_refills = theap->n_refills_merged = theap->n_since_collect = 0;
  /* A default theap of a living thread is freed when that sees that it is none any more. */
  if (!mi__load(&theap->is_default, relaxed)) mi__stable_free(&theap_records, theap, 0);
}

void mi__theap_not_default(struct mi_theap_s *theap) {
  mi__lock_acquire(&mi__heaps_lock);
  mi__store(&theap->is_default, false, relaxed);
  if (mi__theap_heap(theap) == NULL) mi__stable_free(&theap_records, theap, 0);
  mi__lock_release(&mi__heaps_lock);
}

/* ---- the way from a heap to the calling thread's theap ---- */

static void clear_entries(struct mi__theap_entry *entries, size_t n) {
  memset(entries, 0, n * sizeof *entries);
}

/* Into the thread's table, which grows for it where there is memory. */
static void remember(struct mi_thread *self, const struct mi_heap_s *heap,
                     struct mi_theap_s *theap) {
  if (mi__unlikely(heap->key > self->table_mask)) {
    size_t n = self->table_mask + 1;
    while (n <= heap->key) n *= 2;
    struct mi__theap_entry *table = mi__meta_alloc(n * sizeof *table, MI_CACHE_LINE);
    if (table != NULL) {
      for (size_t i = 0; i <= self->table_mask; i++) {
        struct mi__theap_entry *entry = mi__thread_entry(self, i);
        /* Those of heaps that have ended may be left out. In a table that could not grow before, an
         * entry may stand at another place than its key's. */
        struct mi_heap_s *its = entry->theap == NULL ? NULL : mi__theap_heap(entry->theap);
        if (its != NULL && mi__heap_id(its) == entry->id) table[its->key & (n - 1)] = *entry;
      }
      self->table_at = (char *)table - (char *)self;
      self->table_mask = n - 1;
    } else {
      self->is_crowded = true;
    }
  }
  self->has_theaps = true;
  self->last = (struct mi__theap_entry){mi__heap_id(heap), theap};
  *mi__thread_entry(self, heap->key) = self->last;
}

void mi__thread_forget_theaps(struct mi_thread *self) {
  clear_entries(&self->last, 1);
  if (self->has_theaps) clear_entries(mi__thread_entry(self, 0), self->table_mask + 1);
}

void mi__thread_forget_main(struct mi_thread *self) {
  struct mi__theap_entry *entry = mi__thread_entry(self, mi__theap_heap(&self->main)->key);
  if (entry->theap == &self->main) clear_entries(entry, 1);
  clear_entries(&self->last, 1);
}

struct mi_theap_s *mi__heap_find_theap(struct mi_heap_s *heap, struct mi_thread *self) {
  if (heap == mi__theap_heap(&self->main)) return &self->main;
  struct mi__theap_entry known = *mi__thread_entry(self, heap->key);
  if (known.id == mi__heap_id(heap)) return known.theap;
  /* A theap that is there is in the table, unless that could not grow: then it may have pushed out
   * another. */
  if (!self->is_crowded) return NULL;
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_theap_s *theap = self->theaps;
  while (theap != NULL && mi__theap_heap(theap) != heap) theap = theap->tnext;
  mi__lock_release(&mi__heaps_lock);
  return theap;
}

/* The caller holds mi__shared_lock. */
struct mi_theap_s *mi__heap_shared_theap(struct mi_heap_s *heap) {
  if (heap->shared == NULL) heap->shared = new_theap(heap, &mi__thread_shared);
  return heap->shared;
}

static struct mi_theap_s *gate_of(struct mi_heap_s *heap) {
  struct mi_theap_s *gate = mi__load(&heap->gate, acquire);
  if (gate != NULL) return gate;
  mi__lock_acquire(&mi__heaps_lock);
  size_t tag;
  gate = mi__load(&heap->gate, relaxed);
  if (gate == NULL && (gate = mi__stable_alloc(&theap_records, &tag)) != NULL) {
    mi__store(&gate->heap, heap, relaxed);
    mi__store(&heap->gate, gate, release); /* pairs with the acquire above */
  }
  mi__lock_release(&mi__heaps_lock);
  return gate;
}

struct mi_theap_s *mi__heap_theap_slow(struct mi_heap_s *heap) {
  if (heap == NULL || !mi__heap_is_live(heap)) return NULL;
  struct mi_thread *self = mi__thread_self(true);
  if (self == NULL) return gate_of(heap);
  struct mi_theap_s *theap = mi__heap_find_theap(heap, self);
  if (theap == NULL) theap = new_theap(heap, self);
  if (theap != NULL) remember(self, heap, theap);
  return theap;
}

/* ---- heaps ---- */

static void init_heap(struct mi_heap_s *heap, size_t id, struct mi_subproc *subproc,
                      struct mi__arena *only) {
  mi__store(&heap->id, id, relaxed);
  mi__store(&heap->arenas, subproc->arenas, relaxed);
  heap->only = only;
  heap->numa_node = -1;
  mi__pools_open(heap);
  heap->subproc = subproc;
  mi__gauge_add(&subproc->heaps, 1);
}

struct mi_heap_s *mi__heap_new_locked(struct mi_subproc *subproc, struct mi__arena *only) {
  size_t key;
  struct mi_heap_s *heap = mi__stable_alloc(&heap_records, &key);
  if (heap == NULL) return NULL;
  if (heap->key == 0) heap->key = key != 0 ? key : next_key++;
  init_heap(heap, next_id++, subproc, only);
  heap->next = NULL;
  heap->prev = subproc->last;
  if (subproc->last != NULL) subproc->last->next = heap;
  else subproc->first = heap;
  subproc->last = heap;
  return heap;
}

struct mi_heap_s *mi__heap_new(struct mi_subproc *subproc, struct mi__arena *only) {
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_heap_s *heap = mi__heap_new_locked(subproc, only);
  mi__lock_release(&mi__heaps_lock);
  return heap;
}

/* A huge page of a heap of a sub-process: anybody may have freed it meanwhile. */
static void end_huge(struct mi_heap_s *to, struct mi_page *page, bool destroy) {
  bool there = mi__heap_is_main(to) || mi__pool_put_moved(page);
  if (!there && mi__remote_end(page)) mi__page_delete(mi__heap_arenas(to), page);
  if (there && destroy) mi__page_give_back(page);
}

/* The heap has no theaps any more. */
static inline void end_pool(struct mi_heap_s *heap, struct mi__pool *pool, bool destroy) {
  struct mi_heap_s *to = heap->subproc->main;
  enum mi__evicted how;
  struct mi_page *page;
  /* Acquire: pairs with the release of unlink_locked. Most pools are empty. */
  while (mi__load(&pool->n, acquire) > 0 &&
         (page = mi__pool_evict(heap, pool, to, &how)) != NULL) {
    if (how == MI_EVICTED_OTHERS) continue;
    if (how == MI_EVICTED_HUGE) end_huge(to, page, destroy);
    else if (destroy) mi__page_give_back_abandoned(page);
    else if (!mi__page_abandon(page) && how != MI_EVICTED_BROKEN) mi__report_broken(page);
  }
}

static void end_pools(struct mi_heap_s *heap, bool destroy) {
  for (uint64_t bins = mi__heap_bins_with_pools(heap); bins != 0; bins &= bins - 1) {
    end_pool(heap, &heap->pools[mi__ctz64(bins)], destroy);
  }
  end_pool(heap, &heap->huge, destroy);
}

static void unlink_heap(struct mi_heap_s *heap) {
  struct mi_subproc *subproc = heap->subproc;
  if (heap->prev != NULL) heap->prev->next = heap->next;
  else subproc->first = heap->next;
  if (heap->next != NULL) heap->next->prev = heap->prev;
  else subproc->last = heap->prev;
  heap->next = heap->prev = NULL;
}

static void free_heap_locked(struct mi_heap_s *heap) {
  struct mi_subproc *subproc = heap->subproc;
  unlink_heap(heap);
  mi__heap_counters_add(&subproc->ended, &heap->counters, true);
  mi__gauge_add(&subproc->heaps, -1);
  struct mi_theap_s *gate = mi__load(&heap->gate, relaxed);
  if (gate != NULL) mi__theap_free_record(gate);
  mi__store(&heap->gate, NULL, relaxed);
  for (int i = 0; i < 2; i++) mi__store(&heap->counters.used_bins[i], 0, relaxed);
  heap->shared = NULL;
  heap->only = NULL;
  mi__store(&heap->id, 0, relaxed);
  heap->subproc = NULL;
  if (!heap->lost) mi__stable_free(&heap_records, heap, heap->key);
}

void mi__heap_end(struct mi_heap_s *heap, bool destroy) {
  mi__teardown_heap(heap, destroy ? MI_FATE_DESTROY : MI_FATE_MOVE);
  mi__pools_close(heap);
  end_pools(heap, destroy);
  mi__lock_acquire(&mi__heaps_lock);
  free_heap_locked(heap);
  mi__lock_release(&mi__heaps_lock);
}

void mi__heap_each_locked(void (*act)(struct mi_heap_s *heap, void *arg), void *arg) {
  for (struct mi_subproc *s = &mi__subproc_main; s != NULL; s = s->next) {
    for (struct mi_heap_s *heap = s->first; heap != NULL; heap = heap->next) act(heap, arg);
  }
}

void mi__registry_init(void) {
  mi__subproc_main.arenas = mi__arenas_main();
  mi__subproc_main.main = mi__subproc_main.first = mi__subproc_main.last = &mi__heap_main;
  init_heap(&mi__heap_main, 1, &mi__subproc_main, NULL);
  /* Only the debug build looks at ranks; elsewhere these would touch one more page of memory. */
  for (unsigned bin = 0; MI_DEBUG && bin < MI_BINS; bin++) {
    mi__heap_main.pools[bin].lock.rank = MI_LOCK_POOL;
  }
  for (unsigned i = 0; MI_DEBUG && i < MI_HEAP_LOCKS; i++) mi__heap_locks[i].rank = MI_LOCK_POOL;
}
