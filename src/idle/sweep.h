/* SPDX-License-Identifier: MIT */
/* Sweeps of parked threads, and what the background thread does in one turn. */
#ifndef MI_IDLE_SWEEP_H
#define MI_IDLE_SWEEP_H

#include "heap/park.h"

/* Any thread but the parked one: sweep its theaps, and bring the purge of their arenas forward.
 * force: as MI_SWEEP_FORCE. False: it is not parked, or left early. */
bool mi__sweep_parked(struct mi_thread *thread, bool force);

/* Do all that is due now: parks, slots, arenas. Returns when the next is, at most 30 s from now.
 * For the background thread; calls no function of the program. */
uint64_t mi__idle_turn(void);

#endif
