/* SPDX-License-Identifier: MIT */
/* Size classes (bins). Bin 1 holds blocks of 8 bytes; 2, 4, 6, 8 hold 16, 32, 48, 64; from there on
 * four bins per doubling up to bin 60, 512 KiB. A block of 16 bytes and more is a multiple of 16.
 * The numbers are those of the statistics ABI: 61 to 72 continue the row for blocks with a page of
 * their own (up to 4 MiB), 73 is everything larger. Pure functions. */
#ifndef MI_PAGE_BIN_H
#define MI_PAGE_BIN_H

#include "base/bits.h"
#include "base/compiler.h"

#define MI_BIN_LAST 60u /* the last bin whose blocks share a page */
#define MI_BINS (MI_BIN_LAST + 1)
#define MI_STAT_BIN_HUGE 73u
#define MI_SMALL_MAX ((size_t)1024)          /* malloc's fast path: bin by table */
#define MI_BLOCK_MAX (512 * MI_KIB)          /* the largest block that shares a page */
#define MI_SMALL_PAGE_BLOCK_MAX (8 * MI_KIB) /* largest block of a one-slice page: 8 of them */
#define MI_MEDIUM_PAGE_BLOCK_MAX (64 * MI_KIB)

extern const uint8_t mi__bin_table[MI_SMALL_MAX + 1] __attribute__((visibility("hidden")));
extern const uint32_t mi__bin_sizes[MI_BINS] __attribute__((visibility("hidden")));

/* Bin of a size up to MI_SMALL_MAX: one load. A table by bytes is 1 KiB, but saves two instructions
 * of every malloc. */
mi__inline unsigned mi__bin_of_small(size_t size) { return mi__bin_table[size]; }

/* Bin of a size above 64: for s = size - 1 with highest bit b, the two bits below it choose among
 * four. */
mi__inline unsigned mi__bin_of_large(size_t size) {
  unsigned b = mi__log2(size - 1);
  return 4 * b + (unsigned)(((size - 1) >> (b - 2)) & 3) - 15;
}
/* Bin of any size up to MI_BLOCK_MAX. */
mi__inline unsigned mi__bin_of(size_t size) {
  if (size > 64) return mi__bin_of_large(size);
  return size <= 8 ? 1 : 2 * (unsigned)((size + 15) / 16);
}
/* Block size of a bin; 0 for numbers that are unused. */
mi__inline size_t mi__bin_size(unsigned bin) { return mi__bin_sizes[bin]; }
/* Bin for the statistics, of any size. */
unsigned mi__bin_for_stats(size_t size);

#endif
