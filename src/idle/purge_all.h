/* SPDX-License-Identifier: MIT */
/* Give back what is free, of all threads. */
#ifndef MI_IDLE_PURGE_ALL_H
#define MI_IDLE_PURGE_ALL_H

#include "base/compiler.h"
#include "mimalloc.h"

/* The steps of mi_purge_all_ex: arenas of all sub-processes; the calling thread; parked threads;
 * all other threads are asked, and serve that at their next refill or idle point; after at most
 * wait_ms the arenas again. Fills *report. MI_PURGE_OK, _PARTIAL, or _BUSY where a call is in
 * progress: then nothing was done. */
int mi__purge_all(bool force, size_t wait_ms, mi_purge_all_report_t *report);
void mi__purge_all_fork_child(void);

#endif
