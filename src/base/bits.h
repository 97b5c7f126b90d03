/* SPDX-License-Identifier: MIT */
/* Bit and size arithmetic. Pure functions. */
#ifndef MI_BASE_BITS_H
#define MI_BASE_BITS_H

#include "base/compiler.h"

mi__inline bool mi__is_power_of_two(size_t x) { return x != 0 && (x & (x - 1)) == 0; }
/* Round up to a multiple of `align`, a power of two. The caller excludes overflow. */
mi__inline size_t mi__align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }
mi__inline size_t mi__align_down(size_t x, size_t align) { return x & ~(align - 1); }
mi__inline char *mi__ptr_align_up(void *p, size_t align) {
  return (char *)p + (mi__align_up((uintptr_t)p, align) - (uintptr_t)p);
}
mi__inline size_t mi__div_up(size_t x, size_t by) { return x / by + (x % by != 0); }
/* Index of the highest set bit; x is not 0. */
mi__inline unsigned mi__log2(size_t x) {
  return (unsigned)(8 * sizeof(unsigned long) - 1) ^ (unsigned)__builtin_clzl((unsigned long)x);
}
mi__inline unsigned mi__ctz64(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
mi__inline bool mi__mul_overflow(size_t a, size_t b, size_t *out) {
  return __builtin_mul_overflow(a, b, out);
}
mi__inline size_t mi__min(size_t a, size_t b) { return a < b ? a : b; }
mi__inline size_t mi__max(size_t a, size_t b) { return a > b ? a : b; }

#endif
