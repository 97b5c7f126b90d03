/* SPDX-License-Identifier: MIT */
/* How the background thread is told of work, and how long it sleeps.
 *
 * Who has work for it first publishes that where it looks (a time in a schedule, a state), then
 * calls mi__alarm_set. The word counts these calls. The sleeper reads it before it looks for work
 * and sleeps only while it has not changed, so what is published after its look keeps it awake.
 *
 *   teller   publish; word + 1 (seq_cst); read `until` (seq_cst): asleep for longer? wake
 *   sleeper  read word; look; write `until` (seq_cst); the kernel reads word, and sleeps if it is
 *            the one that was read; `until` = 0
 *
 * Either the teller sees `until`, or the kernel sees the teller's word: no wake-up is lost, and
 * where nobody sleeps for longer than `when`, none is sent.
 * Threads: any; one sleeper. */
#ifndef MI_RT_ALARM_H
#define MI_RT_ALARM_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Why a slow path has more to do. Bit 0: there is a deferred-free function; bit 1: the background
 * thread is to be made; the rest: how many threads are asked to give back what they can. */
#define MI_WANTS_DEFERRED 1u
#define MI_WANTS_BACKGROUND 2u
#define MI_WANTS_SWEEP 4u
extern _Atomic(uint32_t) mi__wants;

/* There is somebody who looks for work. */
extern _Atomic(bool) mi__alarm_has_sleeper;
/* There is something to do at `when_ms` (mi__os_clock_ms; 0: now), and it is published. */
void mi__alarm_set(uint64_t when_ms);
/* The sleeper, before it looks for work. Acquire: what was published with this word is seen. */
uint32_t mi__alarm_read(void);
/* Sleep until the clock says until_ms or mi__alarm_set is called for an earlier time, unless that
 * was called since `seen` was read. May return early. */
void mi__alarm_sleep(uint32_t seen, uint64_t now_ms, uint64_t until_ms);
/* In a fork child: there is no sleeper. */
void mi__alarm_fork_child(void);

/* The earlier of two times; 0: none. */
mi__inline uint64_t mi__earlier(uint64_t a, uint64_t b) {
  if (a == 0) return b;
  return b != 0 && b < a ? b : a;
}
/* Make a pending time (0: none) no later than `when`. True: it was set. Seq_cst: the caller has
 * published before what is due then, and who takes the time by exchange looks at that
 * afterwards. */
bool mi__due_set(_Atomic(uint64_t) *due, uint64_t when);

#endif
