/* SPDX-License-Identifier: MIT */
/* What the tests of statistics share. */
#ifndef MI_TESTS_API_STATS_H
#define MI_TESTS_API_STATS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "common.h"
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <errno.h>
#include <pthread.h>

static inline void get_stats(mi_stats_t *stats) {
  mi_stats_init(stats);
  CHECK(mi_stats_get(stats));
}
static inline void get_heap_stats(mi_heap_t *heap, mi_stats_t *stats) {
  mi_stats_init(stats);
  CHECK(mi_heap_stats_get(heap, stats));
}

/* 0 <= current <= peak, and no total below 0, of all there is. */
static inline void check_count(const char *name, size_t index, const mi_stat_count_t *c) {
  if (c->current >= 0 && c->current <= c->peak && c->total >= 0) return;
  fprintf(stderr, "%s[%zu]: total %lld, peak %lld, current %lld\n", name, index,
          (long long)c->total, (long long)c->peak, (long long)c->current);
  _exit(1);
}
#define CHECK_COUNT(s, name) check_count(#name, 0, &(s)->name)
static inline void check_sane(const mi_stats_t *s) {
  CHECK_COUNT(s, pages);
  CHECK_COUNT(s, reserved);
  CHECK_COUNT(s, committed);
  CHECK_COUNT(s, page_committed);
  CHECK_COUNT(s, pages_abandoned);
  CHECK_COUNT(s, threads);
  CHECK_COUNT(s, malloc_normal);
  CHECK_COUNT(s, malloc_huge);
  CHECK_COUNT(s, malloc_requested);
  CHECK_COUNT(s, heaps);
  CHECK_COUNT(s, theaps);
  CHECK(s->purged.total >= 0 && s->reset.total >= 0 && s->malloc_normal_count.total >= 0);
  CHECK(s->malloc_huge_count.total >= 0 && s->pages_retire.total >= 0);
  for (size_t i = 0; i <= MI_BIN_HUGE; i++) {
    check_count("malloc_bins", i, &s->malloc_bins[i]);
    check_count("page_bins", i, &s->page_bins[i]);
  }
}

/* Brackets match, and something follows each comma: what a text that was cut would miss. */
static inline bool is_balanced(const char *text) {
  char open[64];
  int depth = 0;
  bool quoted = false;
  char before = 0;
  for (const char *s = text; *s != 0; s++) {
    if (*s == '"') quoted = !quoted;
    if (!quoted && (*s == '{' || *s == '[')) {
      CHECK(depth < 64);
      open[depth++] = *s == '{' ? '}' : ']';
    }
    if (!quoted && (*s == '}' || *s == ']')) {
      if (depth == 0 || open[--depth] != *s || before == ',' || before == ':') return false;
    }
    if (*s != '\n') before = *s;
  }
  return depth == 0 && !quoted && before == '}';
}

/* The size class of a block. */
static inline size_t bin_of(size_t block_size) {
  for (size_t bin = 1; bin < MI_BIN_HUGE; bin++) {
    size_t size = mi_stats_get_bin_size(bin);
    if (size != 0 && block_size <= size) return bin;
  }
  return MI_BIN_HUGE;
}

static inline uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

#endif
