/* SPDX-License-Identifier: MIT */
/* A sweep: all that a thread's theaps have free goes back, at an idle point. Pending frees are
 * taken in, empty pages are given back, holes are made in the others (page/holes.h), also in the
 * abandoned pages of the same heaps, and the purge of the arenas is brought forward.
 *
 * Holes are made once in purge_holes_min_interval for each thread. A page that has not changed
 * since is passed over, but in every purge_holes_full_every-th sweep. Large pages that were just in
 * use keep their memory (epoch.h); of the others purge_holes_large_floor bytes stay, over all
 * threads, those that were used last; until nobody has used them for
 * purge_holes_large_floor_epochs, or the thread ends or collects by force.
 *
 * Abandoned pages of a heap are swept by one thread at a time, and for parked threads once in an
 * interval. Who does so has the heap's claim, and the heap cannot end meanwhile:
 *
 *   mi_heap_s.xpools   0 free   1 somebody sweeps   2 the heap ends   +4 somebody sleeps
 *
 * The end of a heap waits for the claim with nothing held. A fork child resets it; what the
 * vanished thread had taken from the pools is lost.
 *
 * Threads: the thread itself, or who holds the claim of its park (park.h). */
#ifndef MI_HEAP_THREAD_SWEEP_H
#define MI_HEAP_THREAD_SWEEP_H

#include "heap/heap.h"

enum mi__sweep_how {
  MI_SWEEP_OWN = 0,
  MI_SWEEP_PARKED = 1, /* by the holder of the park's claim; leaves when it is waited for */
  MI_SWEEP_FORCE = 2   /* whatever interval, epoch, and floor say */
};
/* Sweep. *again_ms (may be NULL): of a park: when it is to be swept once more; 0: not before
 * something changes. False: it left early. */
bool mi__thread_sweep(struct mi_thread *thread, unsigned how, uint64_t *again_ms);

/* What the floor keeps in the theap goes, or only in this page. */
void mi__theap_drop_floor(struct mi_theap_s *theap);
void mi__page_drop_floor(struct mi_theap_s *theap, struct mi_page *page);

/* In a fork child, when lost theaps are off the lists. self NULL: it has not allocated. */
void mi__sweep_fork_child(struct mi_thread *self);

/* Abandoned pages of all heaps, at once. */
void mi__sweep_all_pools(void);
enum { MI_POOLS_FREE = 0, MI_POOLS_SWEPT = 1, MI_POOLS_CLOSED = 2, MI_POOLS_SLEEPERS = 4 };
void mi__pools_close_slow(struct mi_heap_s *heap);
/* The heap is about to end: nobody works on its pools from now on. */
mi__inline void mi__pools_close(struct mi_heap_s *heap) {
  uint32_t word = MI_POOLS_FREE;
  /* Acquire: pairs with the release of who swept them. */
  if (mi__unlikely(!mi__cas(&heap->xpools, &word, MI_POOLS_CLOSED, acquire)))
    mi__pools_close_slow(heap);
}
/* A new heap. */
mi__inline void mi__pools_open(struct mi_heap_s *heap) {
  mi__store(&heap->xpools, MI_POOLS_FREE, relaxed);
}
void mi__pools_fork_child(struct mi_heap_s *heap);

#endif
