/* SPDX-License-Identifier: MIT */
/* The page table: from any address to the record of its slice in two loads.
 *
 *   record = zero granule + directory[p >> 28] + ((p >> 16) & 4095)        (units of records)
 *
 * The directory has one entry for each granule of 256 MiB: the distance in bytes from a static,
 * all-zero granule to that granule's array of 4096 records. Entry 0 leads to the zero granule,
 * whose records have no owner: NULL, foreign and stale pointers need no test of their own.
 *
 * Owns: the directory and all records. What a record holds is the page layer's business
 * (page/page.h); here it is 128 bytes.
 *
 * PAGEMAP-1: an entry changes once, from 0.
 *
 * PAGEMAP-2: an array of records is never unmapped.
 *
 * Threads: reads need no lock: whoever holds a pointer into a granule got it after the entry was
 * set (release CAS in mi__pagemap_ensure; whatever handed the pointer over carries the order on).
 */
#ifndef MI_ARENA_PAGEMAP_H
#define MI_ARENA_PAGEMAP_H

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"

#define MI_SLICE_SHIFT 16
#define MI_SLICE_SIZE ((size_t)1 << MI_SLICE_SHIFT)
#define MI_GRANULE_SHIFT 28
#define MI_GRANULE_SIZE ((size_t)1 << MI_GRANULE_SHIFT)
#define MI_GRANULE_SLICES ((size_t)1 << (MI_GRANULE_SHIFT - MI_SLICE_SHIFT))
#define MI_RECORD_SHIFT 7
#define MI_RECORD_SIZE ((size_t)1 << MI_RECORD_SHIFT)

#if UINTPTR_MAX <= UINT32_MAX
#define MI_ADDRESS_BITS 32
#elif defined(__x86_64__)
#define MI_ADDRESS_BITS 47
#else
#define MI_ADDRESS_BITS 48
#endif
#define MI_GRANULES ((size_t)1 << (MI_ADDRESS_BITS - MI_GRANULE_SHIFT))
#define MI_ADDRESS_LIMIT ((uint64_t)1 << MI_ADDRESS_BITS)

struct mi_page; /* page/page.h: MI_RECORD_SIZE bytes */

/* One granule's records, then one bit a slice: is the slice part of a mapping of its own (no
 * arena)? That tail stays untouched where all memory comes from arenas. It is as large as the
 * largest OS page that arrays are cut at. */
#define MI_RECORDS_BYTES (MI_GRANULE_SLICES * MI_RECORD_SIZE)
#define MI_GRANULE_META_BYTES (MI_RECORDS_BYTES + 64 * 1024)

struct mi__pagemap {
  char zero[MI_GRANULE_META_BYTES];         /* never written */
  _Atomic(intptr_t) directory[MI_GRANULES]; /* bytes from `zero` to the granule's records */
};
extern struct mi__pagemap mi__pagemap __attribute__((visibility("hidden")));

/* The record of the slice of p; p below MI_ADDRESS_LIMIT. */
mi__inline struct mi_page *mi__record_of(const void *p) {
  uintptr_t a = (uintptr_t)p;
  char *base = mi__pagemap.zero;
  mi__pin_base(base); /* one register addresses both halves of the object; their distance is a
                         displacement */
  _Atomic(intptr_t) *directory = (_Atomic(intptr_t) *)(void *)(base + offsetof(struct mi__pagemap,
                                                                               directory));
  intptr_t distance = mi__load(&directory[a >> MI_GRANULE_SHIFT], relaxed);
  size_t within = (a >> (MI_SLICE_SHIFT - MI_RECORD_SHIFT)) &
                  ((MI_GRANULE_SLICES - 1) << MI_RECORD_SHIFT);
  return (struct mi_page *)(void *)(base + distance + within);
}
/* The same for any address: one above the range leads to the zero granule. */
mi__inline struct mi_page *mi__record_of_any(const void *p) {
  return mi__record_of((uint64_t)(uintptr_t)p < MI_ADDRESS_LIMIT ? p : NULL);
}

/* Make sure that all slices of [start, start + size) have records. False: no memory, or above the
 * range. */
bool mi__pagemap_ensure(const void *start, size_t size);
/* The same, with record arrays taken from `spare` (mapped by the caller, zero) instead of the OS:
 * cannot fail but for the range. Returns the number of arrays used; what is left behind them is the
 * caller's. SIZE_MAX: out of range or too few. */
size_t mi__pagemap_ensure_from(const void *start, size_t size, char *spare, size_t n_spare);
/* Most record arrays that a range of `size` bytes can need. */
mi__inline size_t mi__pagemap_arrays_for(size_t size) { return (size >> MI_GRANULE_SHIFT) + 2; }
/* The address of the first slice from `from` on (a slice, or NULL) that has a record; NULL: none.
 */
const char *mi__pagemap_next(const char *from);
/* Mark or unmark the slices of [start, start + size) as a mapping of its own; they have records. */
void mi__pagemap_mark_direct(const void *start, size_t size, bool direct);
bool mi__pagemap_is_direct(const void *p); /* any address */
/* pagemap_commit: touch the directory; the transparent-huge-page advice for it. */
void mi__pagemap_init(bool commit);

#endif
