/* SPDX-License-Identifier: MIT */
#include "rt/counter.h"

struct mi__counters mi__counters;
struct mi__hole_counters mi__hole_counters;

void mi__gauge_raise_peak(struct mi__gauge *gauge, int64_t to) {
  int64_t peak = mi__load(&gauge->peak, relaxed);
  while (peak < to && !mi__cas_weak(&gauge->peak, &peak, to, relaxed)) {}
}

/* The parts change one by one: a reader in between would see a block that was freed before it was
 * counted, or a peak that is not raised yet. */
struct mi__gauge_values mi__gauge_read(const struct mi__gauge *gauge) {
  struct mi__gauge_values v;
  v.current = mi__load(&gauge->current, relaxed);
  v.peak = mi__load(&gauge->peak, relaxed);
  v.total = mi__load(&gauge->total, relaxed);
  if (v.current < 0) v.current = 0;
  if (v.total < 0) v.total = 0;
  if (v.peak < v.current) v.peak = v.current;
  return v;
}

static inline int64_t take(_Atomic(int64_t) *counter, bool clear) {
  int64_t n = mi__load(counter, relaxed);
  return n != 0 && clear ? mi__exchange(counter, 0, relaxed) : n;
}

/* Most of a heap's are zero. */
static inline void add_gauge(struct mi__gauge *dest, struct mi__gauge *src, bool clear) {
  if ((mi__load(&src->peak, relaxed) | mi__load(&src->total, relaxed) |
       mi__load(&src->current, relaxed)) == 0) {
    return;
  }
  int64_t current = take(&src->current, clear);
  int64_t peak = take(&src->peak, clear);
  int64_t total = take(&src->total, clear);
  mi__gauge_merge(dest, current, peak > current ? peak : current, total);
}

static inline void add_count(_Atomic(int64_t) *dest, _Atomic(int64_t) *src, bool clear) {
  int64_t n = take(src, clear);
  if (n != 0) mi__fetch_add(dest, n, relaxed);
}

void mi__gauge_add_all(struct mi__gauge *dest, struct mi__gauge *src, bool clear) {
  add_gauge(dest, src, clear);
}
void mi__count_add_all(_Atomic(int64_t) *dest, _Atomic(int64_t) *src, bool clear) {
  add_count(dest, src, clear);
}

void mi__count_restart(_Atomic(int64_t) *counter) {
  int64_t n = mi__load(counter, relaxed);
  if (n != 0) mi__fetch_sub(counter, n, relaxed);
}

void mi__gauge_restart(struct mi__gauge *gauge) {
  int64_t current = mi__load(&gauge->current, relaxed);
  mi__count_restart(&gauge->total);
  mi__store(&gauge->peak, current > 0 ? current : 0, relaxed);
}

void mi__counters_restart(struct mi__counters *c) {
#define X(name) mi__gauge_restart(&c->name);
  MI_GAUGES(X)
#undef X
#define X(name) mi__count_restart(&c->name);
  MI_COUNTS(X)
#undef X
}

/* ---- of heaps ---- */

void mi__heap_counters_add(struct mi__heap_counters *dest, struct mi__heap_counters *src,
                           bool clear) {
#define X(name) add_gauge(&dest->name, &src->name, clear);
  MI_HEAP_GAUGES(X)
#undef X
#define X(name) add_count(&dest->name, &src->name, clear);
  MI_HEAP_COUNTS(X)
#undef X
  for (unsigned word = 0; word < 2; word++) {
    uint64_t used = mi__load(&src->used_bins[word], relaxed);
    for (; used != 0; used &= used - 1) {
      unsigned bin = 64 * word + (unsigned)__builtin_ctzll(used);
      mi__heap_counters_use_bin(dest, bin);
      add_gauge(&dest->bins[bin].blocks, &src->bins[bin].blocks, clear);
      add_gauge(&dest->bins[bin].pages, &src->bins[bin].pages, clear);
    }
  }
}

void mi__heap_counters_restart(struct mi__heap_counters *c) {
#define X(name) mi__gauge_restart(&c->name);
  MI_HEAP_GAUGES(X)
#undef X
#define X(name) mi__count_restart(&c->name);
  MI_HEAP_COUNTS(X)
#undef X
  for (unsigned bin = 0; bin < MI_COUNTER_BINS; bin++) {
    mi__gauge_restart(&c->bins[bin].blocks);
    mi__gauge_restart(&c->bins[bin].pages);
  }
}
