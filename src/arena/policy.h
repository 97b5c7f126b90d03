/* SPDX-License-Identifier: MIT */
/* The decisions of the arena layer as pure functions: they take numbers and a time and return an
 * amount. */
#ifndef MI_ARENA_POLICY_H
#define MI_ARENA_POLICY_H

#include "base/compiler.h"

#define MI_ARENA_MIN_SIZE (4 * MI_MIB)

/* Bytes to reserve for the next arena. `reserve`: the option arena_reserve. `needed`: what must fit
 * into it. `left`: address space that the process may still take, SIZE_MAX where it has no limit.
 * 0: none; the request is better served by itself. */
size_t mi__policy_reservation(size_t reserve, size_t n_arenas, size_t needed, size_t left);
/* What to try after `size` could not be had; 0: give up. */
size_t mi__policy_smaller_reservation(size_t size, size_t needed);

/* The delay of the purge schedule in ms; below 0: there is none. */
int64_t mi__policy_delay_ms(long purge_delay, long purge_mult);
/* When a pass that was armed for `expire` runs at `now`: is it later than a delay after the free
 * that armed it? */
bool mi__policy_is_late(uint64_t expire_ms, uint64_t now_ms, int64_t delay_ms);
/* Slices in a purge unit: a power of two up to a chunk, else whole chunks. */
size_t mi__policy_unit_slices(size_t minimal_purge_size, bool huge_pages);

#endif
