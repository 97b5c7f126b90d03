/* SPDX-License-Identifier: MIT */
/* Epochs: how long ago a large page was allocated from, counted in sweeps instead of by a clock.
 *
 * An epoch lasts for purge_holes_min_interval at least, and only a sweep ends it, at its beginning,
 * one step a sweep. A large page whose epoch is the current one or the one before keeps its free
 * blocks in a sweep: between one and two intervals from its last use where somebody sweeps that
 * often, and always where it is used all the time.
 *
 * Malloc does not leave a mark. A page has its blocks handed out only while it is current, and each
 * sweep ends that: so it is enough to stamp a page when it becomes current, and when it ceases to
 * be. What was current since the last sweep counts as used when it is swept, and stays one to two
 * intervals longer than it need; nothing goes too early.
 *
 * What holds:
 *   EPOCH-1  No epoch is shorter than the interval, whoever sweeps and wherever a sweeper is
 *            preempted: one mover at a time claims the move by CAS; it looks at the clock under the
 *            claim, increments, and only then records, with a clock read after that, when the epoch
 *            began.
 *   EPOCH-2  A fork child begins an epoch of its own, whatever a mover had done.
 * Epochs are compared modulo 2^32. models/epoch.pml checks this. */
#ifndef MI_HEAP_EPOCH_H
#define MI_HEAP_EPOCH_H

#include "page/holes.h"

extern _Atomic(uint32_t) mi__epoch_now;

/* A sweep begins: end the epoch if it has lasted for `interval` ms. The number of the epoch that
 * the sweep is in. Any thread. */
uint32_t mi__epoch_move(uint64_t interval);
void mi__epoch_fork_child(void);

/* Owner of a large page: its blocks are, or were just, handed out. */
mi__inline void mi__epoch_stamp(struct mi_page *page) {
  mi__page_more(page)->epoch = mi__load(&mi__epoch_now, relaxed);
}
/* The page becomes current: what the floor kept of it is in use. */
mi__inline void mi__epoch_begin_current(struct mi_page *page) {
  mi__epoch_stamp(page);
  mi__holes_unkeep(page);
}
/* How many epochs ago the page was in use; below 0 where somebody moved the epoch since the sweep
 * that asks began, and the page was stamped after that. */
mi__inline int32_t mi__epoch_age(const struct mi_page *page, uint32_t epoch) {
  return (int32_t)(epoch - mi__page_more(page)->epoch);
}

#endif
