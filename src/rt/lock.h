/* SPDX-License-Identifier: MIT */
/* Locks of the slow paths. A lock spins 100 times at most and then sleeps on its futex; unlock
 * exchanges first and then looks for sleepers, so that no wake-up is lost. One enum ranks all
 * locks, outermost first; the debug build stops on a reversal; the fork handlers walk the same
 * list.
 * Threads: any. Not recursive. Never held while calling out (callbacks, messages). */
#ifndef MI_RT_LOCK_H
#define MI_RT_LOCK_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Outermost first: a thread may take a lock only while all those it holds come before it in this
 * list. */
enum mi__lock_rank {
  MI_LOCK_FORK,          /* heap/process.c: one fork at a time; who holds it takes all others */
  MI_LOCK_SWEEP,         /* heap/park.c: one sweep of a parked thread at a time */
  MI_LOCK_SHARED_THEAP,  /* heap/thread.c: the theap of threads that are past their end */
  MI_LOCK_HEAPS,         /* heap/registry.c: lists of heaps and theaps, free records of both */
  MI_LOCK_THREADS,       /* heap/thread.c: list of all threads and the free thread data */
  MI_LOCK_VISIT,         /* heap/visit.c: how many visits look at a page */
  MI_LOCK_POOL,          /* heap/pool.h: one bin of a heap's abandoned pages */
  MI_LOCK_HOLES,         /* page/holes.h: the holes of some pages */
  MI_LOCK_ARENA_RESERVE, /* arena/arena.c: one reservation of a new arena at a time */
  MI_LOCK_META,          /* arena/meta.c: memory of the library's own records */
  MI_LOCK_PURGE,         /* arena/purge.c: one purge pass at a time; takes no other lock */
  MI_LOCK_RANKS
};

/* state: 0 free, 1 taken, 2 taken and somebody may sleep. */
struct mi__lock {
  _Atomic(uint32_t) state;
  uint32_t rank; /* enum mi__lock_rank */
};
#define MI_LOCK_INIT(r) \
  { 0, (r) }

void mi__lock_acquire(struct mi__lock *lock);
bool mi__lock_try_acquire(struct mi__lock *lock);
void mi__lock_release(struct mi__lock *lock);
/* In a fork child: free, whoever held it. */
void mi__lock_reset(struct mi__lock *lock);
/* The calling thread holds all locks of the fork handlers from _begin to _end (parent and child):
 * what it takes and releases in between, in fork handlers of others that run then and allocate, is
 * nothing. */
void mi__lock_fork_begin(void);
void mi__lock_fork_end(void);

/* Runs once; a second caller waits for the first (but returns at once when it is the same thread,
 * re-entered). */
struct mi__once {
  _Atomic(uint32_t) state;   /* 0 new, 1 running, 2 running and somebody sleeps, 3 done */
  _Atomic(uintptr_t) runner; /* address of the runner's thread-local word, to know re-entry */
};
/* true: the caller runs it and then calls mi__once_end. */
bool mi__once_begin(struct mi__once *once);
void mi__once_end(struct mi__once *once);
/* In a fork child: what a thread was running that is not here any more begins anew. Running it
 * twice must be harmless. */
void mi__once_fork_child(struct mi__once *once);
mi__inline bool mi__once_is_done(struct mi__once *once) {
  return mi__load(&once->state, acquire) == 3;
}

#endif
