/* SPDX-License-Identifier: MIT */
/* The structures of this layer: sub-process, heap, theap, thread.
 *
 * sub-process  a set of heaps and of arenas of its own; its memory never serves another
 * heap    what a program creates with mi_heap_new, and the main heap of each sub-process; owns
 *         pages through one theap for each thread that uses it
 * theap   the part of a heap that one thread uses without locks: its ready lists and its pages
 * thread  what a thread has: the theap of its main heap, its run of frees into other threads'
 *         pages, and the theaps of other heaps that it has used
 *
 * A page of a theap is, by bin, in one of these places:
 *   current   the ready list holds its blocks, and takes its frees (push word)
 *   avail     has free blocks, or room to form some
 *   full      has none: every block is in use or on xremote
 *   hollow    has none but in holes (page/holes.h)
 *   slot      is empty, kept for quick reuse until it is old (slot.h)
 * and leaves the theap by mi__page_delete or to nobody (abandoned; in the heap's pool, see pool.h).
 *
 * Threads: a theap belongs to its thread, and to who holds its claim (teardown.h); the shared
 * theaps to whoever holds their lock. Pools are shared (pool.h). What is marked L is written under
 * mi__heaps_lock. */
#ifndef MI_HEAP_HEAP_H
#define MI_HEAP_HEAP_H

#include "arena/arena.h"
#include "heap/pool.h"
#include "page/page.h"
#include "page/remote.h"
#include "rt/counter.h"

struct mi_thread;
struct mi_theap_s;
struct mi_subproc;

struct mi_heap_s {
  _Atomic(struct mi__arenas *) arenas; /* atomic for who visits a heap that has just ended */
  struct mi__arena *only;     /* not NULL: blocks come from this arena and nowhere else */
  struct mi_subproc *subproc; /* L; NULL: the record is free */
  _Atomic(size_t) id;         /* no other heap ever has the same; 0: the record is free */
  size_t key;                 /* of the record: index of the threads' tables, 1 and up */
  int numa_node;              /* wanted; -1: any */
  bool lost;                  /* L: a fork left pages behind that name it and are never found */
  _Atomic(uint32_t) xpools;   /* who works on all pools of it: thread_sweep.h */
  _Atomic(uint64_t) xpools_swept_ms; /* when that ended last; 0: never */
  struct mi_theap_s *theaps;  /* L: first of the list */
  struct mi_heap_s *prev, *next; /* L: heaps of the sub-process by seq */
  /* L: for threads that are past their end: a theap that is used under a lock, and one without
   * blocks that leads there */
  struct mi_theap_s *shared;
  _Atomic(struct mi_theap_s *) gate;
  struct mi__pool huge; /* heaps other than the main heap: huge pages */
  struct mi__pool pools[MI_BINS];
  /* Last: what a small program touches of the record is in its first 4 KiB. */
  struct mi__heap_counters counters;
};
extern struct mi_heap_s mi__heap_main;
mi__inline struct mi__arenas *mi__heap_arenas(const struct mi_heap_s *heap) {
  return mi__load(&heap->arenas, relaxed);
}
/* The one that never ends: who frees into it need not be found again. */
mi__inline bool mi__heap_is_main(const struct mi_heap_s *heap) { return heap == &mi__heap_main; }

struct mi_subproc {
  struct mi__arenas *arenas;
  struct mi_heap_s *main;
  struct mi_heap_s *first, *last; /* L: heaps, by seq; main is the first */
  struct mi__heap_counters ended; /* of heaps that are gone */
  struct mi__gauge heaps, threads;
  _Atomic(int64_t) heaps_delete_wait;
  struct mi_subproc *next;        /* L: all sub-processes */
};
extern struct mi_subproc mi__subproc_main;

struct mi__page_queue { struct mi_page *head, *tail; };

struct mi__theap_bin {
  struct mi_page *current;
  struct mi__page_queue avail; /* first in, first out: a page gathers frees while others are used */
  struct mi__page_queue full;
  uint32_t n_pages; /* current, avail, full and hollow */
  uint32_t n_full;
  _Atomic(struct mi_page *) slot; /* slot.h */
  uint32_t n_taken; /* mallocs since the last merge, see account.h */
  int32_t n_live;   /* change of the number of live blocks since the last merge */
} mi__aligned(sizeof(void *) * 8); /* so that the place of a bin is a shift away */

/* Pages found broken, for each fault. */
union mi__faults {
  uint32_t any; /* 0: none */
  uint8_t n[MI_FAULT_TWICE]; /* 255: or more */
};
_Static_assert(sizeof(union mi__faults) == 4, "`any` covers all numbers");

struct mi_theap_s {
  struct mi_block *ready[MI_BINS]; /* malloc pops here and nowhere else; must stay first */
  struct mi__theap_bin bins[MI_BINS];
  _Atomic(struct mi_heap_s *) heap;     /* NULL: free, or a dummy */
  /* NULL: free, a dummy or a gate: no ready list has a block */
  _Atomic(struct mi_thread *) thread;
  _Atomic(uint32_t) xclaim;             /* teardown.h */
  struct mi_theap_s *next, *prev;       /* L: of the heap */
  struct mi_theap_s *tnext, *tprev;     /* L: of the thread */
  /* a bit for each bin that ever had a page since the theap was made; written by the owner */
  _Atomic(uint64_t) used_bins;
  uint32_t n_refills;
  uint32_t n_since_collect; /* refills since the last periodic collection */
  union mi__faults faults; /* of pages found broken, not reported yet */
  uint32_t n_refills_merged; /* what mi__theap_merge_counters has added to the process's counters */
  uint32_t n_extended;     /* times that blocks were formed, since the last merge */
  uint32_t n_searched;     /* pages with room looked at, since the last merge */
  uint32_t n_searches;     /* searches of several pages, since the last merge */
  uint32_t n_given_up;     /* full pages abandoned, since the last merge */
  uint32_t n_taken_back;   /* abandoned pages taken over by a free, since the last merge */
  int32_t n_abandoned;     /* what both change of the abandoned pages, since the last merge */
  int64_t live, peak;      /* bytes of blocks, change since the last merge */
  /* full pages that it keeps beyond page_full_retain (refill.c), by bin and in all */
  uint8_t n_extra_full[MI_BINS];
  uint8_t extra_full;
  _Atomic(bool) is_default; /* mi_theap_set_default: its thread's malloc looks here */
  struct mi__page_queue hollow[MI_BINS];
};

mi__inline struct mi_heap_s *mi__theap_heap(const struct mi_theap_s *theap) {
  return mi__load(&theap->heap, relaxed);
}
mi__inline struct mi_thread *mi__theap_thread(const struct mi_theap_s *theap) {
  return mi__load(&theap->thread, relaxed);
}

#define MI_SMALL_TABLE 8u
struct mi__theap_entry {
  size_t id; /* of the heap; 0: none, as for a heap that has ended */
  struct mi_theap_s *theap; /* NULL: none */
};
struct mi_thread {
  struct mi_theap_s main; /* of the main heap of the thread's sub-process; must stay first */
  /* The theap of the heap that mi_heap_malloc used last, and those that it used before, by the
   * heap's key. A heap's id is enough to know that they are still there: they go with their heap,
   * or with this thread, which forgets them then. */
  struct mi__theap_entry last;
  /* Bytes from here to the table; 0: a dummy, whose table are its empty ready lists. Dummies are
   * never written: that would cost each process two pages of memory. */
  ptrdiff_t table_at;
  size_t table_mask;
  struct mi__theap_entry small_table[MI_SMALL_TABLE];
  struct mi_theap_s *theaps; /* L: first of the list; without `main` */
  /* frees into one small page of another thread (main heap), not pushed yet */
  struct mi__run run;
  struct mi_thread *next_free;
  _Atomic(uintptr_t) number; /* the kernel's; 0: nobody's, or not asked for yet */
  _Atomic(int64_t) slot_bytes; /* in its slots, roughly; slot.h */
  struct mi_theap_s *parked_theap; /* what its malloc looks at when it is not parked */
  bool has_theaps;      /* it ever used another heap */
  bool is_crowded;      /* its table could not grow once */
  bool in_callback;     /* deferred-free function running */
  bool in_pool;         /* mi_thread_set_in_threadpool: takes over no pages of others by freeing */
  /* Of the last sweep, for the owner or who holds the claim of its park: thread_sweep.h. */
  /* it left free blocks of large pages, for they were in use just before; or came too early */
  _Atomic(bool) is_pending;
  uint32_t n_sweeps;    /* that made holes */
  struct mi__park_plan {
    uint32_t epoch;     /* of the first sweep of the park, or since others freed */
    uint32_t n;         /* sweeps since that one; 0: the next is the first */
  } plan;
  /* What other threads look at, apart from what the owner writes all the time: park.h, slot.h,
   * collect.h. */
  _Atomic(uint32_t) xpark mi__aligned(MI_CACHE_LINE);
  _Atomic(uint32_t) xrequest;   /* the last request to purge that it has not served; 0: none */
  _Atomic(uint64_t) xsweep_due; /* when its park is to be looked at, in ms; 0: never */
  _Atomic(uint64_t) xslots_due; /* when its slots are to be looked at, in ms; 0: never */
  _Atomic(uint64_t) xswept_ms;  /* when its last sweep ended; 0: it had none */
  _Atomic(uint64_t) xmissed_ms; /* when a sweep came too late for a park; 0: never */
  _Atomic(uint64_t) xfloor_ms;  /* when what the floor keeps of its park goes; 0: nothing is kept */
  struct mi_thread *next_all;   /* all threads; constant, but in a fork child */
  _Atomic(bool) in_use;         /* a thread has it */
} mi__aligned(MI_CACHE_LINE);

mi__inline struct mi__theap_entry *mi__thread_entry(struct mi_thread *self, size_t key) {
  struct mi__theap_entry *table = (void *)((char *)self + self->table_at);
  return &table[key & self->table_mask];
}

/* The two words that malloc and free read. Before a thread's first slow path and after its end
 * they point to static dummies:
 * the ready lists of a dummy are empty, and no page has a dummy as its owner. */
struct mi__tls {
  struct mi_theap_s *theap;
  struct mi_thread *self;
};
extern mi__thread_local struct mi__tls mi__tls __attribute__((visibility("hidden")));
extern struct mi_thread mi__thread_new, mi__thread_ended;

#endif
