/* SPDX-License-Identifier: MIT */
#include "arena/policy.h"
#include "arena/bitmap.h"
#include "arena/pagemap.h"
#include "base/bits.h"

/* Every 4 arenas the next ones are twice as large, up to 16 times: 20 arenas of 1 GiB and up hold
 * 124 GiB. */
#define ARENAS_PER_DOUBLING 4
#define MAX_DOUBLINGS 4
/* Under a limit of address space an arena takes a quarter of what is left: the program, its
 * libraries and the stacks of its threads need the rest, and what the program does allocate comes
 * in further, smaller arenas. */
#define SHARE_OF_LIMITED 4

static size_t grown_reserve(size_t reserve, size_t n_arenas) {
  size_t doublings = mi__min(n_arenas / ARENAS_PER_DOUBLING, MAX_DOUBLINGS);
  size_t most = (size_t)1 << (8 * sizeof(size_t) -
                              4); /* no shift overflows, and no arena takes a large part of all */
  reserve = mi__max(reserve, MI_ARENA_MIN_SIZE);
  return reserve > (most >> doublings) ? mi__max(reserve, most) : reserve << doublings;
}

size_t mi__policy_reservation(size_t reserve, size_t n_arenas, size_t needed, size_t left) {
  if (needed > PTRDIFF_MAX / 2) return 0;
  size_t size = grown_reserve(reserve, n_arenas);
  if (left == SIZE_MAX) return mi__align_up(mi__max(size, needed), MI_ARENA_MIN_SIZE);
  size = mi__align_down(mi__min(size, left / SHARE_OF_LIMITED), MI_ARENA_MIN_SIZE);
  if (size == 0 && left >= 2 * MI_ARENA_MIN_SIZE) size = MI_ARENA_MIN_SIZE;
  return size >= needed ? size : 0;
}

size_t mi__policy_smaller_reservation(size_t size, size_t needed) {
  size = mi__align_down(size / 2, MI_ARENA_MIN_SIZE);
  return size >= needed ? size : 0;
}

int64_t mi__policy_delay_ms(long purge_delay, long purge_mult) {
  if (purge_delay < 0 || purge_mult < 0) return -1;
  int64_t delay;
  if (__builtin_mul_overflow((int64_t)purge_delay, (int64_t)purge_mult, &delay))
    return INT64_MAX / 8;
  return delay < INT64_MAX / 8 ? delay : INT64_MAX / 8;
}

bool mi__policy_is_late(uint64_t expire_ms, uint64_t now_ms, int64_t delay_ms) {
  /* armed at the free + delay/2, so one delay after the free is half a delay after that */
  return delay_ms <= 0 || now_ms >= expire_ms + (uint64_t)(delay_ms - delay_ms / 2);
}

size_t mi__policy_unit_slices(size_t minimal_purge_size, bool huge_pages) {
  if (minimal_purge_size == 0) minimal_purge_size = huge_pages ? 2 * MI_MIB : MI_SLICE_SIZE;
  minimal_purge_size = mi__min(minimal_purge_size, MI_GRANULE_SIZE);
  size_t n = mi__div_up(minimal_purge_size, MI_SLICE_SIZE);
  if (n >= MI_CHUNK_SLICES) return mi__align_up(n, MI_CHUNK_SLICES);
  return n == 1 ? 1 : (size_t)1 << (mi__log2(n - 1) + 1);
}
