/* SPDX-License-Identifier: MIT */
/* One protocol for all ends: of a thread, of a heap (delete, destroy), of a sub-process.
 *
 * A theap is the meeting point of its thread and its heap, and either may end first, or both at
 * once. It has one claim word: a state, a sequence number that no other theap ever had, and a bit
 * for sleepers.
 *
 *      +--------- mi__claim_release ----------+
 *      v                                      |
 *    FREE --mi__claim_try----------------> WORK     who works on several theaps: collect, ageing
 *      |                                      |     (their thread); later a sweep (the scavenger)
 *      +--mi__claim_dying------------> DYING --+--mi__claim_end--> free record (sequence number 0)
 *
 * DYING has one winner. It empties the theap, unlinks it from the lists of thread and heap, and
 * gives the record back. Whoever loses waits until the word is another one, and looks at the list
 * again: the record may be another theap by then, which its sequence number tells.
 *
 * What holds:
 *   TEAR-1  A claim is waited for with no lock held; with a lock held it is only tried. So the
 *           holder, who needs mi__heaps_lock to unlink, always gets on.
 *   TEAR-2  No callback of the program runs under a claim, and no claim is waited for under one.
 *   TEAR-3  A theap that is linked is FREE, WORK or DYING under its own sequence number. Under WORK
 *           it cannot be unlinked, so its links can be followed.
 *   TEAR-4  While a theap is linked, its heap's and its thread's records are in use: both ends wait
 *           for it.
 *
 * Which ends may run at the same time: a thread's end and the delete or destroy of any heap that it
 * used; deletes and destroys of different heaps; all of them with frees of blocks by any thread,
 * but for the two that the manual forbids: frees into a heap that is being destroyed, and frees by
 * a thread of blocks that it allocated itself while another thread deletes their heap.
 * The release of mi__claim_release and mi__claim_end pairs with the acquire of the next claim, that
 * of DYING also with the acquire of who waits. models/teardown.pml checks all this. */
#ifndef MI_HEAP_TEARDOWN_H
#define MI_HEAP_TEARDOWN_H

#include "heap/heap.h"

/* Bits of xclaim. */
#define MI_CLAIM_FREE 0u
#define MI_CLAIM_WORK 1u
#define MI_CLAIM_DYING 2u
#define MI_CLAIM_STATE 3u
#define MI_CLAIM_SLEEPERS 4u
#define MI_CLAIM_SEQ_SHIFT 3

mi__inline uint32_t mi__claim_seq(uint32_t word) { return word >> MI_CLAIM_SEQ_SHIFT; }

/* FREE -> WORK, of a theap that is linked (mi__heaps_lock held) or that is the caller's. False:
 * somebody has it. */
bool mi__claim_try(struct mi_theap_s *theap);
void mi__claim_release(struct mi_theap_s *theap);

/* What becomes of the pages of a theap. */
enum mi__fate {
  MI_FATE_ABANDON, /* they stay in the heap, without an owner: the thread ends */
  MI_FATE_MOVE,    /* they go to the main heap of the sub-process: delete */
  MI_FATE_DESTROY, /* they are given back with all their blocks */
};
/* Tear down all theaps of the thread but `main`, or of the heap. */
void mi__teardown_thread(struct mi_thread *thread);
void mi__teardown_heap(struct mi_heap_s *heap, enum mi__fate fate);

/* The theap of the thread after this one (NULL: the first), but for `main`, with WORK held; that of
 * `after` is released. One that is being torn down is left out. NULL: the end. */
struct mi_theap_s *mi__thread_next_theap(struct mi_thread *thread, struct mi_theap_s *after);
/* Each of them. */
void mi__thread_each_theap(struct mi_thread *thread, void (*act)(struct mi_theap_s *theap));

/* In a fork child, with all locks held: theaps of threads that are not here any more are taken off
 * the lists and lost. `self`: the thread that is left, or NULL. */
void mi__teardown_fork_child(struct mi_thread *self);

#endif
