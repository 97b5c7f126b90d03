/* SPDX-License-Identifier: MIT */
/* Statistics as numbers: from the counters of heaps, sub-processes and the process to mi_stats_t.
 * doc/statistics.md says what each figure means and when it is exact.
 * Threads: any. Figures are read one by one while other threads go on counting. */
#include "api/stats.h"
#include "api/heap.h"
#include "base/track.h"
#include "heap/collect.h"
#include "heap/process.h"
#include "heap/subproc.h"
#include "heap/thread.h"
#include "rt/counter.h"

_Static_assert(MI_BIN_HUGE + 1 == MI_COUNTER_BINS && MI_BIN_HUGE == MI_STAT_BIN_HUGE,
               "size classes are those of the interface");

/* ---- from counters to the structure ---- */

static mi_stat_count_t as_count(const struct mi__gauge *gauge) {
  struct mi__gauge_values v = mi__gauge_read(gauge);
  return (mi_stat_count_t){v.total, v.peak, v.current};
}

static mi_stat_counter_t as_counter(const _Atomic(int64_t) *counter) {
  int64_t n = mi__load(counter, relaxed);
  return (mi_stat_counter_t){n > 0 ? n : 0};
}

static void fill_bins(mi_stats_t *s, const struct mi__heap_counters *c) {
  for (unsigned word = 0; word < 2; word++) {
    uint64_t used = mi__load(&c->used_bins[word], relaxed);
    for (; used != 0; used &= used - 1) {
      unsigned bin = 64 * word + mi__ctz64(used);
      s->malloc_bins[bin] = as_count(&c->bins[bin].blocks);
      s->page_bins[bin] = as_count(&c->bins[bin].pages);
    }
  }
}

/* Of all but size and version. Both peaks need not have been at the same time, so that their sum is
 * the least that is certain to be enough. */
static void fill_heaps(struct mi__stats *out, const struct mi__heap_counters *c) {
  mi_stats_t *s = &out->s;
  mi_stats_init(s);
  s->pages = as_count(&c->pages);
  s->pages_abandoned = as_count(&c->pages_abandoned);
  s->theaps = as_count(&c->theaps);
  s->malloc_normal = as_count(&c->blocks);
  s->malloc_huge = as_count(&c->huge);
  s->malloc_requested.total = s->malloc_normal.total + s->malloc_huge.total;
  s->malloc_requested.peak = s->malloc_normal.peak + s->malloc_huge.peak;
  s->malloc_requested.current = s->malloc_normal.current + s->malloc_huge.current;
  s->malloc_normal_count = as_counter(&c->n_blocks);
  s->malloc_huge_count = as_counter(&c->n_huge);
  s->pages_extended = as_counter(&c->pages_extended);
  s->pages_retire = as_counter(&c->pages_retire);
  s->page_searches = as_counter(&c->page_searches);
  s->page_searches_count = as_counter(&c->page_searches_count);
  s->pages_reclaim_on_alloc = as_counter(&c->pages_reclaim_on_alloc);
  s->pages_reclaim_on_free = as_counter(&c->pages_reclaim_on_free);
  s->pages_reabandon_full = as_counter(&c->pages_reabandon_full);
  s->pages_unabandon_busy_wait = as_counter(&c->pages_unabandon_busy_wait);
  fill_bins(s, c);
  out->refills = as_counter(&c->refills).total;
}

static void fill_process(mi_stats_t *s, const struct mi__counters *c) {
  s->reserved = as_count(&c->reserved);
  s->committed = as_count(&c->committed);
  s->reset = as_counter(&c->reset);
  s->purged = as_counter(&c->purged);
  s->mmap_calls = as_counter(&c->mmap_calls);
  s->commit_calls = as_counter(&c->commit_calls);
  s->reset_calls = as_counter(&c->reset_calls);
  s->purge_calls = as_counter(&c->purge_calls);
  s->arena_count = as_counter(&c->arena_count);
  s->arena_rollback_count = as_counter(&c->arena_rollback_count);
  s->arena_purges = as_counter(&c->arena_purges);
}

/* All that is known of the arenas of a sub-process other than the main one is what they have
 * now. */
static void fill_arenas(mi_stats_t *s, const struct mi__arenas *arenas) {
  size_t reserved, committed;
  mi__arenas_sizes(arenas, &reserved, &committed);
  int64_t r = (int64_t)reserved, c = (int64_t)committed;
  s->reserved = (mi_stat_count_t){r, r, r};
  s->committed = (mi_stat_count_t){c, c, c};
}

static void fill_subproc(struct mi__stats *out, const struct mi_subproc *subproc,
                         const struct mi__heap_counters *heaps) {
  fill_heaps(out, heaps);
  out->s.heaps = as_count(&subproc->heaps);
  out->s.threads = as_count(&subproc->threads);
  out->s.heaps_delete_wait = as_counter(&subproc->heaps_delete_wait);
  if (subproc == &mi__subproc_main) fill_process(&out->s, &mi__counters);
  else fill_arenas(&out->s, subproc->arenas);
}

/* ---- whose ---- */

void mi__stats_merge_own(void) {
  mi__process_init();
  struct mi_thread *self = mi__thread_self(false);
  mi__track_begin();
  if (self != NULL) mi__run_flush(self);
  mi__thread_merge_counters(self);
  mi__shared_merge_counters();
  mi__track_end();
}

void mi__stats_of_heap(struct mi_heap_s *heap, struct mi__stats *out) {
  struct mi__heap_counters sum = {0};
  mi__heap_counters(heap, &sum);
  fill_heaps(out, &sum);
}

void mi__stats_of_subproc(struct mi_subproc *subproc, struct mi__stats *out) {
  struct mi__heap_counters sum = {0};
  mi__subproc_counters(subproc, &sum);
  fill_subproc(out, subproc, &sum);
}

struct mi_subproc *mi__stats_own_subproc(void) {
  mi__process_init();
  return mi_subproc_current()._mi_subproc;
}

struct mi_heap_s *mi__stats_heap(struct mi_heap_s *heap, const char *what) {
  if (heap == NULL) return mi_heap_main();
  return mi__heap_is_bad(heap, what) ? NULL : heap;
}

/* ---- the calls ---- */

static bool is_ours(const mi_stats_t *stats) {
  return stats != NULL && stats->size == sizeof *stats && stats->version == MI_STAT_VERSION;
}

mi__export bool mi_heap_stats_get(mi_heap_t *heap, mi_stats_t *stats) {
  if (!is_ours(stats)) return false;
  heap = mi__stats_heap(heap, "mi_heap_stats_get");
  if (heap == NULL) return false;
  struct mi__stats all;
  mi__stats_merge_own();
  mi__stats_of_heap(heap, &all);
  *stats = all.s;
  return true;
}

mi__export bool mi_subproc_stats_get(mi_subproc_id_t subproc_id, mi_stats_t *stats) {
  struct mi_subproc *subproc = subproc_id._mi_subproc;
  if (!is_ours(stats) || subproc == NULL) return false;
  struct mi__stats all;
  mi__stats_merge_own();
  mi__stats_of_subproc(subproc, &all);
  *stats = all.s;
  return true;
}

mi__export bool mi_stats_get(mi_stats_t *stats) {
  return mi_subproc_stats_get(mi_subproc_current(), stats);
}

mi__export bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc_id, mi_stats_t *stats) {
  struct mi_subproc *subproc = subproc_id._mi_subproc;
  if (!is_ours(stats) || subproc == NULL) return false;
  struct mi__stats all;
  fill_subproc(&all, subproc, &subproc->ended);
  *stats = all.s;
  return true;
}

mi__export size_t mi_stats_get_bin_size(size_t bin) {
  if (bin <= MI_BIN_LAST) return mi__bin_size((unsigned)bin);
  if (bin >= MI_BIN_HUGE) return 0;
  /* Four to a doubling, as below. */
  return mi__bin_size((unsigned)bin - 12) * 8;
}

mi__export size_t mi_heap_get_seq(mi_heap_t *heap) {
  if (heap == NULL || mi__heap_is_bad(heap, "mi_heap_get_seq")) return 0;
  return mi__heap_seq(heap);
}

mi__export void mi_stats_merge(void) { mi__stats_merge_own(); }

mi__export void mi_stats_reset(void) {
  struct mi_subproc *subproc = mi__stats_own_subproc();
  mi__stats_merge_own();
  mi__subproc_restart_counters(subproc);
  if (subproc == &mi__subproc_main) mi__counters_restart(&mi__counters);
}

mi__export void mi_heap_stats_merge_to_subproc(mi_heap_t *heap) {
  heap = mi__stats_heap(heap, "mi_heap_stats_merge_to_subproc");
  if (heap == NULL) return;
  mi__stats_merge_own();
  mi__heap_counters_to_subproc(heap);
}
