/* SPDX-License-Identifier: MIT */
/* Sub-processes: heaps with arenas of their own, that end together; and what the heaps of one,
 * those that have ended among them, count together.
 * A record stays one for ever and is used again.
 *
 * Owns: the list of sub-processes, which begins with the main one.
 * Locks: mi__heaps_lock guards it. Threads: any, where nothing else is said. */
#ifndef MI_HEAP_SUBPROC_H
#define MI_HEAP_SUBPROC_H

#include "heap/heap.h"

/* With a main heap and arenas. NULL: no memory. */
struct mi_subproc *mi__subproc_new(void);
/* All its blocks are gone. No thread may be in it, or use its heaps. */
void mi__subproc_end(struct mi_subproc *subproc);
/* In a fork child: no sub-process has threads but that of `self` (NULL: none has). */
void mi__subproc_fork_child(const struct mi_thread *self);
/* Add the counters of a heap, or of all heaps of a sub-process with those that have ended. */
void mi__heap_counters(struct mi_heap_s *heap, struct mi__heap_counters *out);
void mi__subproc_counters(struct mi_subproc *subproc, struct mi__heap_counters *out);
/* Move the counters of a heap to those of its sub-process that stand for heaps which have ended. */
void mi__heap_counters_to_subproc(struct mi_heap_s *heap);
/* mi__gauge_restart of all of them. */
void mi__subproc_restart_counters(struct mi_subproc *subproc);
/* The sub-process after this one; NULL: the first, and at the end. It may end meanwhile: then not
 * all are told. */
struct mi_subproc *mi__subproc_each(struct mi_subproc *after);
/* Each heap of the sub-process once, in the order in which they were made; with no lock held. Heaps
 * may come and go meanwhile. False: `act` returned false. */
bool mi__subproc_each_heap(struct mi_subproc *subproc,
                           bool (*act)(struct mi_heap_s *heap, void *arg), void *arg);

#endif
