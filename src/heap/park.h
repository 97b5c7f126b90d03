/* SPDX-License-Identifier: MIT */
/* Parks: a thread's declared idle time, in which its theaps are the background thread's to sweep.
 *
 *   RUNNING --begin--> PARKED --claim (CAS)--> SWEEPING --leave--> PARKED --end--> RUNNING
 *
 * While it is parked a thread's two thread-local words point to a dummy, as before its start:
 * malloc and free take their slow paths, which end the park.
 *
 * What holds:
 *   PARK-1  Theaps of a parked thread are touched under SWEEPING only, which has one holder: a
 *           claim is a CAS from PARKED alone. It pairs with the release of begin, end with that of
 *           leave.
 *   PARK-2  A thread that wants its theaps back sets the bit BACK by an atomic read-modify-write.
 *           No claim succeeds with the bit set, and it stays until the thread is RUNNING. So it
 *           waits for one holder at most, and that looks at the bit between two pages.
 *   PARK-3  A park is made due after its state is PARKED; who takes what is due (exchange) claims
 *           afterwards. A claim that finds RUNNING may drop it: the next park is made due again.
 *           One that finds SWEEPING makes it due again.
 *   PARK-4  A free by another thread into a page of a parked one pushes, has a full fence, and
 *           reads the state. Begin writes the state by an atomic read-modify-write; a sweep takes
 *           the lists later. So the sweep sees the block, or the free sees the park and makes it
 *           due.
 *   PARK-5  A sweep holds mi__sweep_lock. A fork hurries it and takes the lock, so no thread is
 *           SWEEPING in a fork child.
 * Every way out of a park goes through mi__park_end: the program's call, an allocation, the
 * thread's end. A heap that is ended claims its theaps as ever (teardown.h): a sweep holds WORK of
 * the one that it is at. models/park.pml checks all this.
 * Threads: the parked thread itself, where nothing else is said. */
#ifndef MI_HEAP_PARK_H
#define MI_HEAP_PARK_H

#include "heap/heap.h"

enum { MI_PARK_RUNNING = 0, MI_PARK_PARKED = 1, MI_PARK_SWEEPING = 2, MI_PARK_BACK = 4 };

extern struct mi_thread mi__thread_parked; /* the dummy */
mi__inline bool mi__is_parked(void) { return mi__tls.self == &mi__thread_parked; }

/* A live thread that is not parked. The park is due at once, or the interval after its last
 * sweep. */
void mi__park_begin(struct mi_thread *self);
/* Nothing where the calling thread is not parked. Waits for a sweep to leave the page that it is
 * at. */
void mi__park_end(void);
/* The calling thread's data; NULL: it is not parked. */
struct mi_thread *mi__park_self(void);

/* ---- any thread ---- */
extern struct mi__lock mi__sweep_lock; /* one sweep of a parked thread at a time */
/* How many wait for the lock, or for the end of all sweeps: a sweep ends between two pages. */
extern _Atomic(uint32_t) mi__sweep_hurry;

/* With the lock held. False: it is not parked, or about to come back. */
bool mi__park_claim(struct mi_thread *thread);
void mi__park_leave(struct mi_thread *thread);
/* The holder of the claim: somebody waits. */
mi__inline bool mi__park_must_leave(const struct mi_thread *thread) {
  return (mi__load(&thread->xpark, relaxed) & MI_PARK_BACK) != 0 ||
         mi__load(&mi__sweep_hurry, relaxed) != 0;
}
/* Make the park due, in the interval from now at the earliest where the thread was swept just
 * before. */
void mi__park_make_due(struct mi_thread *thread, uint64_t when_ms);
void mi__park_freed_slow(struct mi_thread *owner);
/* After a push into a page that had an owner. It may have another one by now, or none, or be
 * another page: the data of threads stays, and being looked at does no harm. */
mi__inline void mi__park_freed(const struct mi_page *page) {
  mi__fence_after_rmw();
  uintptr_t owner = mi__load(&page->owner, relaxed) & ~(MI_OWNER_SPECIAL | MI_OWNER_INNER);
  if (owner == MI_OWNER_NONE) return;
  struct mi_thread *thread = (struct mi_thread *)owner;
  if (mi__unlikely(mi__load(&thread->xpark, relaxed) != MI_PARK_RUNNING))
    mi__park_freed_slow(thread);
}

/* purge_holes_min_interval in ms, at least 0. */
int64_t mi__sweep_interval(void);

#endif
