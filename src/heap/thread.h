/* SPDX-License-Identifier: MIT */
/* Threads: how they begin and end for the allocator.
 *
 *   new (static dummy) --first slow path--> live --key destructor--> ended (static dummy)
 *                           ^                 |
 *                           +-- mi_thread_done by the program: new again
 *
 * Thread data is type-stable and used again by later threads, never in a fork child that did not
 * end them itself.
 * After its end, and where there was no memory for its data, a thread allocates from the shared
 * theap, under a lock:
 * destructors of other keys may run after ours, four rounds of them, and must not leave anything
 * behind.
 * Locks: MI_LOCK_THREADS (free thread data), MI_LOCK_SHARED_THEAP. */
#ifndef MI_HEAP_THREAD_H
#define MI_HEAP_THREAD_H

#include "heap/heap.h"
#include "heap/theap.h"

/* What the calling thread's malloc looks at; begins the thread where it is new. NULL: use the
 * shared theap. */
struct mi_theap_s *mi__thread_theap(void);
/* The calling thread's data where it is live and not parked, or NULL. begin: make it live where it
 * is new, and end its park. */
struct mi_thread *mi__thread_self(bool begin);
/* The same, of a parked thread too. */
struct mi_thread *mi__thread_data(void);
/* The data after this one, of all threads and of those that have ended; NULL: the first; NULL at
 * the end. Any thread. */
struct mi_thread *mi__thread_each(const struct mi_thread *after);
/* How many threads are not here any more since a fork. */
uint32_t mi__thread_vanished(void);
/* End the calling thread. again: it may begin anew (mi_thread_done); else its later allocations
 * are served by the shared theap. */
void mi__thread_end(bool again);
/* Create the key whose destructor ends threads. */
void mi__thread_init_key(void);

/* The heap that an allocation by this theap comes from, for what needs no theap (huge pages). The
 * theap may be a dummy, or one whose heap has ended. */
struct mi_heap_s *mi__thread_heap_of(const struct mi_theap_s *theap);

/* The calling thread's malloc serves it from the sub-process from now on. */
void mi__thread_join_subproc(struct mi_thread *self, struct mi_subproc *subproc);

/* A block from the shared theap of the heap; NULL: of the main heap. */
struct mi_block *mi__shared_alloc(struct mi_heap_s *heap, unsigned bin, bool *zero);
void mi__shared_collect(void);
/* Counts of the shared theaps go to their heaps, unless somebody has the lock just now. */
void mi__shared_merge_counters(void);

/* The kernel's number of the thread that the owner word of a page names; 0: nobody. */
uintptr_t mi__thread_number(uintptr_t owner);
/* The calling thread: its number is known from now on. */
void mi__thread_note_number(struct mi_thread *self);
/* In a fork child: the calling thread has another number now. */
void mi__thread_fork_child(void);

/* Push the run of the calling thread. */
void mi__run_flush(struct mi_thread *self);

extern _Atomic(bool) mi__process_has_threads; /* a second thread has allocated once */
extern struct mi__lock mi__shared_lock, mi__threads_lock;
extern struct mi_thread mi__thread_shared;

#endif
