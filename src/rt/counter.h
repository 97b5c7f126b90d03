/* SPDX-License-Identifier: MIT */
/* Counters of slow events: those of the process, and those of a heap. Relaxed atomics: each is
 * exact on its own. "gauge": current, peak and total; "count": total only.
 *
 * What one thread adds to a gauge and another takes away may arrive in the other order, so that
 * `current` is below 0 for a while. A reader sees 0 then, and a peak that is not below current;
 * what is stored is never corrected, or what arrives late would count for ever.
 *
 * The blocks of a heap are counted by its theaps, without atomics, and added to the heap's counters
 * now and then (heap/account.h). When a heap ends its counters are added to those of its
 * sub-process. */
#ifndef MI_RT_COUNTER_H
#define MI_RT_COUNTER_H

#include "base/atomic.h"
#include "base/compiler.h"

#define MI_GAUGES(X) X(reserved) X(committed)
#define MI_COUNTS(X) \
  X(purged) X(reset) X(mmap_calls) X(commit_calls) X(reset_calls) X(purge_calls) X(arena_count) \
  X(arena_purges) X(arena_rollback_count)

/* pages: of all kinds; blocks: bytes of blocks with pages of a size class; huge: bytes of blocks
 * with a page of their own. */
#define MI_HEAP_GAUGES(X) X(pages) X(pages_abandoned) X(blocks) X(huge) X(theaps)
#define MI_HEAP_COUNTS(X) \
  X(n_blocks) X(n_huge) X(pages_extended) X(pages_retire) X(page_searches) X(page_searches_count) \
  X(pages_reclaim_on_alloc) X(pages_reclaim_on_free) X(pages_reabandon_full) X(refills) \
  X(pages_unabandon_busy_wait)
#define MI_COUNTER_BINS 74

/* Of holes (page/holes.h): the first two, unformed_bytes and those of ineligible pages go up and
 * down; the others count. */
#define MI_HOLE_COUNTS(X) \
  X(purged_bytes) X(purged_blocks) X(purged_bytes_total) X(discard_calls) X(reuse_calls) \
  X(pages_freed) X(ineligible_pages) X(ineligible_bytes) X(ineligible_free_bytes) \
  X(unformed_bytes) X(unformed_bytes_total) X(unformed_discard_calls) X(unformed_reuse_calls) \
  X(pages_skipped) X(blocks_visited) X(full_sweeps)

struct mi__gauge { _Atomic(int64_t) current, peak, total; };
struct mi__counters {
#define X(name) struct mi__gauge name;
  MI_GAUGES(X)
#undef X
#define X(name) _Atomic(int64_t) name;
  MI_COUNTS(X)
#undef X
};
extern struct mi__counters mi__counters;
struct mi__hole_counters {
#define X(name) _Atomic(int64_t) name;
  MI_HOLE_COUNTS(X)
#undef X
};
extern struct mi__hole_counters mi__hole_counters;

struct mi__heap_counters {
#define X(name) struct mi__gauge name;
  MI_HEAP_GAUGES(X)
#undef X
#define X(name) _Atomic(int64_t) name;
  MI_HEAP_COUNTS(X)
#undef X
  _Atomic(uint64_t) used_bins[2];              /* a bit for each bin that was ever counted */
  struct mi__bin_counters { struct mi__gauge blocks, pages; } bins[MI_COUNTER_BINS];
};

mi__inline void mi__count(_Atomic(int64_t) *counter, int64_t amount) {
  mi__fetch_add(counter, amount, relaxed);
}
void mi__gauge_raise_peak(struct mi__gauge *gauge, int64_t to);
/* What a thread counted for itself: `amount` more now, `peak` more at its peak (>= 0, >= amount),
 * `total` more in all. */
mi__inline void mi__gauge_merge(struct mi__gauge *gauge, int64_t amount, int64_t peak,
                                int64_t total) {
  if (amount != 0 || peak != 0) {
    int64_t to = mi__fetch_add(&gauge->current, amount, relaxed) + peak;
    if (mi__load(&gauge->peak, relaxed) < to) mi__gauge_raise_peak(gauge, to);
  }
  if (total != 0) mi__fetch_add(&gauge->total, total, relaxed);
}
/* amount may be negative; total grows by positive ones only. */
mi__inline void mi__gauge_add(struct mi__gauge *gauge, int64_t amount) {
  int64_t up = amount > 0 ? amount : 0;
  mi__gauge_merge(gauge, amount, up, up);
}
struct mi__gauge_values { int64_t current, peak, total; };
struct mi__gauge_values mi__gauge_read(const struct mi__gauge *gauge);
/* Add all of src to dest, whose peak becomes at least what it had plus the peak of src. Nothing is
 * written where src is all zero. clear: src is zero afterwards. */
void mi__gauge_add_all(struct mi__gauge *dest, struct mi__gauge *src, bool clear);
void mi__count_add_all(_Atomic(int64_t) *dest, _Atomic(int64_t) *src, bool clear);
/* Totals start at 0 again and peaks at what there is now. */
void mi__gauge_restart(struct mi__gauge *gauge);
void mi__count_restart(_Atomic(int64_t) *counter);
void mi__counters_restart(struct mi__counters *c);

mi__inline void mi__heap_counters_use_bin(struct mi__heap_counters *c, unsigned bin) {
  uint64_t bit = (uint64_t)1 << bin % 64;
  if (mi__unlikely((mi__load(&c->used_bins[bin / 64], relaxed) & bit) == 0)) {
    mi__fetch_or(&c->used_bins[bin / 64], bit, relaxed);
  }
}
/* mi__gauge_add_all and mi__count_add_all of everything. */
void mi__heap_counters_add(struct mi__heap_counters *dest, struct mi__heap_counters *src,
                           bool clear);
void mi__heap_counters_restart(struct mi__heap_counters *c);

#endif
