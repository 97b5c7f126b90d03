/* SPDX-License-Identifier: MIT */
/* The background thread: one per process, named mi-scavenger, that gives memory back when it is
 * due.
 *
 * It owns no heap: it never allocates, and no function of the program runs on it. All signals but
 * those of faults are blocked in it. It is made when it is worth while and where it is safe:
 *   - at a park;
 *   - at the end of a slow path, with nothing held, once enough waits to be purged
 *     (mi__purge_ask_at), unless the loader or the C library called: they free and allocate under
 *     locks of theirs that making a thread needs too.
 * Without it (option off, purge delay 0 or -1, no thread to be had, stopped) refill purges what is
 * due.
 *
 *   NONE --CAS--> MAKING --> RUNS --stop--> STOPPED for good; also from NONE
 *     ^             | it failed
 *     +-------------+            a fork child: NONE, unless STOPPED
 * Threads: any. */
#ifndef MI_IDLE_SCAVENGER_H
#define MI_IDLE_SCAVENGER_H

#include "base/compiler.h"

/* True: it runs; it is made where it does not. Not for code that the C library may call. */
bool mi__scavenger_ensure(void);
/* At the end of a slow path, where MI_WANTS_BACKGROUND is set (heap/collect.h). */
void mi__scavenger_offer(const void *caller, bool is_malloc);
/* End it and wait for its end. It is not made again in this process. at_exit: wait a second at
 * most, for the calling thread may be in a signal handler, with a lock that it waits for. */
void mi__scavenger_stop(bool at_exit);

#endif
