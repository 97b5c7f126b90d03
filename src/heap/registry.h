/* SPDX-License-Identifier: MIT */
/* Which heaps and theaps there are. Records of both are type-stable (arena/stable.h): old pointers
 * to them are compared, never trusted.
 *
 * Owns: the lists of heaps, of a heap's theaps and of a thread's theaps.
 * Locks: mi__heaps_lock guards all of it. Threads: any. */
#ifndef MI_HEAP_REGISTRY_H
#define MI_HEAP_REGISTRY_H

#include "heap/heap.h"

extern struct mi__lock mi__heaps_lock;

/* The theap of `heap` of the calling thread, which is begun where it is new; made where there is
 * none. For a thread that is past its end the heap's gate: without blocks and thread, it leads to
 * mi__shared_alloc. NULL: no memory, or heap is NULL. */
struct mi_theap_s *mi__heap_theap_slow(struct mi_heap_s *heap);
/* 0: it is none, or not any more. */
mi__inline size_t mi__heap_id(const struct mi_heap_s *heap) { return mi__load(&heap->id, relaxed); }
/* NULL: it takes the slow way. */
mi__inline struct mi_theap_s *mi__heap_theap_quick(const struct mi_heap_s *heap) {
  if (mi__unlikely(heap == NULL)) return NULL;
  struct mi_thread *self = mi__tls.self;
  size_t id = mi__heap_id(heap);
  if (mi__likely(self->last.id == id)) return self->last.theap;
  const struct mi__theap_entry *entry = mi__thread_entry(self, heap->key);
  struct mi_theap_s *theap = entry->theap;
  if (mi__unlikely(entry->id != id || theap == NULL)) return NULL;
  self->last.id = id;
  return self->last.theap = theap;
}

/* The theap of `heap` of this thread, which is the calling one; NULL: it has none. */
struct mi_theap_s *mi__heap_find_theap(struct mi_heap_s *heap, struct mi_thread *self);
/* At the thread's end. */
void mi__thread_forget_theaps(struct mi_thread *self);
/* `main` is about to be of another heap. */
void mi__thread_forget_main(struct mi_thread *self);
/* The calling thread's malloc does not look at this theap any more. */
void mi__theap_not_default(struct mi_theap_s *theap);

/* The shared theap of a heap, with mi__shared_lock held. NULL: no memory. */
struct mi_theap_s *mi__heap_shared_theap(struct mi_heap_s *heap);

/* mi_heap_new: in the sub-process, from the arena (NULL: any). NULL: no memory. */
struct mi_heap_s *mi__heap_new(struct mi_subproc *subproc, struct mi__arena *only);
/* delete (MI_FATE_MOVE) or destroy. The main heap of a sub-process stays. */
void mi__heap_end(struct mi_heap_s *heap, bool destroy);
/* Is this a heap? For checks: a record that was freed is none. */
mi__inline bool mi__heap_is_live(const struct mi_heap_s *heap) { return mi__heap_id(heap) != 0; }
/* 0: the main heap of the process. */
mi__inline size_t mi__heap_seq(const struct mi_heap_s *heap) { return mi__heap_id(heap) - 1; }

void mi__registry_init(void);

/* A bit for each bin of which the heap ever had pages that others share. */
mi__inline uint64_t mi__heap_bins_with_pools(const struct mi_heap_s *heap) {
  uint64_t all = ((uint64_t)1 << MI_BINS) - 1;
  return mi__load(&heap->counters.used_bins[0], relaxed) & all;
}

/* ---- for teardown.c and subproc.c, with mi__heaps_lock held ---- */
struct mi_heap_s *mi__heap_new_locked(struct mi_subproc *subproc, struct mi__arena *only);
void mi__theap_unlink(struct mi_theap_s *theap);
void mi__theap_free_record(struct mi_theap_s *theap);
void mi__heap_each_locked(void (*act)(struct mi_heap_s *heap, void *arg), void *arg);

#endif
