/* SPDX-License-Identifier: MIT */
#include "page/bin.h"

/* Entry i is the bin of size i, in runs of eight. tests/unit/page/bin_test.c compares both tables
 * with the formula. */
#define EIGHT(bin) bin, bin, bin, bin, bin, bin, bin, bin
const uint8_t mi__bin_table[MI_SMALL_MAX + 1] = {
  1,
  EIGHT(1), EIGHT(2), EIGHT(4), EIGHT(4), EIGHT(6), EIGHT(6), EIGHT(8), EIGHT(8),
  EIGHT(9), EIGHT(9), EIGHT(10), EIGHT(10), EIGHT(11), EIGHT(11), EIGHT(12), EIGHT(12),
  EIGHT(13), EIGHT(13), EIGHT(13), EIGHT(13), EIGHT(14), EIGHT(14), EIGHT(14), EIGHT(14),
  EIGHT(15), EIGHT(15), EIGHT(15), EIGHT(15), EIGHT(16), EIGHT(16), EIGHT(16), EIGHT(16),
  EIGHT(17), EIGHT(17), EIGHT(17), EIGHT(17), EIGHT(17), EIGHT(17), EIGHT(17), EIGHT(17),
  EIGHT(18), EIGHT(18), EIGHT(18), EIGHT(18), EIGHT(18), EIGHT(18), EIGHT(18), EIGHT(18),
  EIGHT(19), EIGHT(19), EIGHT(19), EIGHT(19), EIGHT(19), EIGHT(19), EIGHT(19), EIGHT(19),
  EIGHT(20), EIGHT(20), EIGHT(20), EIGHT(20), EIGHT(20), EIGHT(20), EIGHT(20), EIGHT(20),
  EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21),
  EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21), EIGHT(21),
  EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22),
  EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22), EIGHT(22),
  EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23),
  EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23), EIGHT(23),
  EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24),
  EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24), EIGHT(24),
};
#undef EIGHT

const uint32_t mi__bin_sizes[MI_BINS] = {
       0,      8,     16,      0,     32,      0,     48,      0,
      64,     80,     96,    112,    128,    160,    192,    224,
     256,    320,    384,    448,    512,    640,    768,    896,
    1024,   1280,   1536,   1792,   2048,   2560,   3072,   3584,
    4096,   5120,   6144,   7168,   8192,  10240,  12288,  14336,
   16384,  20480,  24576,  28672,  32768,  40960,  49152,  57344,
   65536,  81920,  98304, 114688, 131072, 163840, 196608, 229376,
  262144, 327680, 393216, 458752, 524288,
};

unsigned mi__bin_for_stats(size_t size) {
  if (size > 4 * MI_MIB) return MI_STAT_BIN_HUGE;
  return mi__bin_of(size);
}
