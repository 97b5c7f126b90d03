/* SPDX-License-Identifier: MIT */
/* Statistics as JSON. Threads: any. */
#include "api/heap.h"
#include "api/stats.h"
#include "rt/json.h"

struct field {
  const char *name;
  size_t offset;
};
#define FIELD(name) {#name, offsetof(mi_stats_t, name)}
static const struct field counts[] = {
    FIELD(pages), FIELD(reserved), FIELD(committed), FIELD(page_committed), FIELD(pages_abandoned),
    FIELD(threads), FIELD(malloc_normal), FIELD(malloc_huge), FIELD(malloc_requested),
    FIELD(segments), FIELD(segments_abandoned), FIELD(segments_cache), FIELD(heaps), FIELD(theaps),
};
static const struct field counters[] = {
    FIELD(reset), FIELD(purged), FIELD(mmap_calls), FIELD(commit_calls), FIELD(reset_calls),
    FIELD(purge_calls), FIELD(arena_count), FIELD(malloc_normal_count), FIELD(malloc_huge_count),
    FIELD(malloc_guarded_count), FIELD(arena_rollback_count), FIELD(arena_purges),
    FIELD(pages_extended), FIELD(pages_retire), FIELD(page_searches), FIELD(page_searches_count),
    FIELD(pages_reclaim_on_alloc), FIELD(pages_reclaim_on_free), FIELD(pages_reabandon_full),
    FIELD(pages_unabandon_busy_wait), FIELD(heaps_delete_wait),
};
#define N_OF(a) (sizeof(a) / sizeof *(a))

static void put_count(struct mi__json *json, const char *name, const mi_stat_count_t *count,
                      bool with_size, size_t block_size) {
  mi__json_open(json, name, '{');
  if (with_size) mi__json_number(json, "block_size", (int64_t)block_size);
  mi__json_number(json, "total", count->total);
  mi__json_number(json, "peak", count->peak);
  mi__json_number(json, "current", count->current);
  mi__json_close(json);
}

static void put_bins(struct mi__json *json, const char *name, const mi_stat_count_t *bins) {
  mi__json_open(json, name, '[');
  for (size_t bin = 0; bin <= MI_BIN_HUGE; bin++) {
    put_count(json, NULL, &bins[bin], true, mi_stats_get_bin_size(bin));
  }
  mi__json_close(json);
}

static void put_stats(struct mi__json *json, const mi_stats_t *stats) {
  const char *base = (const char *)stats;
  mi__json_open(json, NULL, '{');
  mi__json_number(json, "stat_version", (int64_t)stats->version);
  mi__json_number(json, "mimalloc_version", mi_version());
  for (size_t i = 0; i < N_OF(counts); i++) {
    const void *count = base + counts[i].offset;
    put_count(json, counts[i].name, count, false, 0);
  }
  for (size_t i = 0; i < N_OF(counters); i++) {
    const void *counter = base + counters[i].offset;
    mi__json_number(json, counters[i].name, ((const mi_stat_counter_t *)counter)->total);
  }
  put_bins(json, "malloc_bins", stats->malloc_bins);
  put_bins(json, "page_bins", stats->page_bins);
  mi__json_open(json, "chunk_bins", '[');
  for (size_t i = 0; i < MI_CBIN_COUNT; i++) {
    put_count(json, NULL, &stats->chunk_bins[i], false, 0);
  }
  mi__json_close(json);
  mi__json_close(json);
}

static char *as_json(const mi_stats_t *stats, size_t buf_size, char *buf) {
  struct mi__json json;
  if (buf == NULL) {
    mi__json_begin(&json, NULL, 0);
    put_stats(&json, stats);
    buf_size = json.needed + 1;
    buf = mi_malloc(buf_size);
  }
  if (buf == NULL || buf_size == 0) return NULL;
  mi__json_begin(&json, buf, buf_size);
  put_stats(&json, stats);
  return buf;
}

mi__export char *mi_stats_as_json(mi_stats_t *stats, size_t buf_size, char *buf) {
  if (stats == NULL || stats->size != sizeof *stats || stats->version != MI_STAT_VERSION)
    return NULL;
  return as_json(stats, buf_size, buf);
}

mi__export char *mi_heap_stats_get_json(mi_heap_t *heap, size_t buf_size, char *buf) {
  mi_stats_t_decl(stats);
  return mi_heap_stats_get(heap, &stats) ? as_json(&stats, buf_size, buf) : NULL;
}

mi__export char *mi_subproc_stats_get_json(mi_subproc_id_t subproc_id, size_t buf_size, char *buf) {
  mi_stats_t_decl(stats);
  return mi_subproc_stats_get(subproc_id, &stats) ? as_json(&stats, buf_size, buf) : NULL;
}

mi__export char *mi_stats_get_json(size_t buf_size, char *buf) {
  return mi_subproc_stats_get_json(mi_subproc_current(), buf_size, buf);
}
