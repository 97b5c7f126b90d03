/* SPDX-License-Identifier: MIT */
/* Statistics as text. doc/statistics.md explains every line.
 * Threads: any. The function that the text goes to is called with no lock held. */
#include "api/core.h"
#include "api/heap.h"
#include "api/stats.h"
#include "api/text.h"
#include "heap/subproc.h"
#include "heap/thread.h"
#include "rt/message.h"
#include "rt/option.h"

typedef struct mi__text as_text(size_t);

static void print_count(struct mi__sink sink, const char *name, const mi_stat_count_t *count,
                        as_text *text) {
  mi__print(sink.out, sink.arg, "  %-18s %12s %12s %12s\n", name, text((size_t)count->current).s,
            text((size_t)count->peak).s, text((size_t)count->total).s);
}

static void print_total(struct mi__sink sink, const char *name, int64_t total, as_text *text) {
  mi__print(sink.out, sink.arg, "  %-44s %12s\n", name, text((size_t)total).s);
}

static void print_head(struct mi__sink sink, const char *name) {
  mi__print(sink.out, sink.arg, "%-20s %12s %12s %12s\n", name, "now", "peak", "total");
}

/* ---- parts ---- */

/* arenas: memory is told too; whole: heaps and threads are. */
static void print_memory(struct mi__sink sink, const mi_stats_t *s, bool arenas, bool whole) {
  print_head(sink, "memory");
  if (arenas) {
    print_count(sink, "reserved", &s->reserved, mi__text_bytes);
    print_count(sink, "committed", &s->committed, mi__text_bytes);
  }
  print_count(sink, "blocks", &s->malloc_normal, mi__text_bytes);
  print_count(sink, "huge blocks", &s->malloc_huge, mi__text_bytes);
  print_count(sink, "pages", &s->pages, mi__text_count);
  print_count(sink, "abandoned pages", &s->pages_abandoned, mi__text_count);
  print_count(sink, "theaps", &s->theaps, mi__text_count);
  if (!whole) return;
  print_count(sink, "heaps", &s->heaps, mi__text_count);
  print_count(sink, "threads", &s->threads, mi__text_count);
}

static void print_given_back(struct mi__sink sink, const mi_stats_t *s) {
  mi__print(sink.out, sink.arg, "given back %48s\n", "total");
  print_total(sink, "purged", s->purged.total, mi__text_bytes);
  print_total(sink, "  purge calls", s->purge_calls.total, mi__text_count);
  print_total(sink, "  arena passes", s->arena_purges.total, mi__text_count);
  print_total(sink, "reset", s->reset.total, mi__text_bytes);
  print_total(sink, "  reset calls", s->reset_calls.total, mi__text_count);
}

static void print_holes(struct mi__sink sink) {
  mi_purge_holes_stats_t h;
  mi_purge_holes_stats_get(&h);
  mi__print(sink.out, sink.arg, "holes %53s\n", "now");
  print_total(sink, "in holes", (int64_t)h.purged_bytes, mi__text_bytes);
  print_total(sink, "  blocks", (int64_t)h.purged_blocks, mi__text_count);
  print_total(sink, "given back of what was never formed", (int64_t)h.unformed_bytes,
              mi__text_bytes);
  print_total(sink, "pages that can have none", (int64_t)h.ineligible_pages, mi__text_count);
  print_total(sink, "  free in them", (int64_t)h.ineligible_free_bytes, mi__text_bytes);
  mi__print(sink.out, sink.arg, "%59s\n", "total");
  print_total(sink, "put in holes", (int64_t)h.purged_bytes_total, mi__text_bytes);
  print_total(sink, "  calls", (int64_t)h.discard_calls, mi__text_count);
  print_total(sink, "holes taken into use again", (int64_t)h.reuse_calls, mi__text_count);
  print_total(sink, "given back of what was never formed", (int64_t)h.unformed_bytes_total,
              mi__text_bytes);
  print_total(sink, "  calls", (int64_t)h.unformed_discard_calls, mi__text_count);
  print_total(sink, "  taken into use", (int64_t)h.unformed_reuse_calls, mi__text_count);
  print_total(sink, "pages freed with holes in them", (int64_t)h.pages_freed, mi__text_count);
  print_total(sink, "free blocks looked at", (int64_t)h.blocks_visited, mi__text_count);
  print_total(sink, "unchanged pages passed over", (int64_t)h.pages_skipped, mi__text_count);
  print_total(sink, "sweeps that looked at all", (int64_t)h.full_sweeps, mi__text_count);
}

static void print_memory_events(struct mi__sink sink, const mi_stats_t *s) {
  print_total(sink, "mappings made", s->mmap_calls.total, mi__text_count);
  print_total(sink, "commit calls", s->commit_calls.total, mi__text_count);
  print_total(sink, "arenas", s->arena_count.total, mi__text_count);
  print_total(sink, "arena claims rolled back", s->arena_rollback_count.total, mi__text_count);
}

static void print_heap_events(struct mi__sink sink, const mi_stats_t *s) {
  print_total(sink, "blocks allocated", s->malloc_normal_count.total, mi__text_count);
  print_total(sink, "huge blocks allocated", s->malloc_huge_count.total, mi__text_count);
  print_total(sink, "searches among pages with room", s->page_searches_count.total,
              mi__text_count);
  print_total(sink, "  pages looked at", s->page_searches.total, mi__text_count);
  print_total(sink, "pages that formed more blocks", s->pages_extended.total, mi__text_count);
  print_total(sink, "empty pages given back", s->pages_retire.total, mi__text_count);
  print_total(sink, "abandoned pages taken over by a refill", s->pages_reclaim_on_alloc.total,
              mi__text_count);
  print_total(sink, "abandoned pages taken over by a free", s->pages_reclaim_on_free.total,
              mi__text_count);
  print_total(sink, "full pages abandoned", s->pages_reabandon_full.total, mi__text_count);
}

static void print_sizes(struct mi__sink sink, const mi_stats_t *s) {
  print_head(sink, "blocks of size");
  for (size_t bin = 1; bin <= MI_BIN_HUGE; bin++) {
    const mi_stat_count_t *count = &s->malloc_bins[bin];
    if (count->total == 0 && count->peak == 0) continue;
    struct mi__text size = bin == MI_BIN_HUGE ? (struct mi__text){"larger"}
                                              : mi__text_count(mi_stats_get_bin_size(bin));
    print_count(sink, size.s, count, mi__text_count);
  }
}

static void print_events_head(struct mi__sink sink) {
  mi__print(sink.out, sink.arg, "events %52s\n", "total");
}

/* ---- whose ---- */

static void print_subproc(struct mi__sink sink, struct mi_subproc *subproc) {
  struct mi__stats stats;
  bool is_main = subproc == &mi__subproc_main;
  mi__stats_merge_own();
  mi__stats_of_subproc(subproc, &stats);
  print_memory(sink, &stats.s, true, true);
  if (is_main) print_given_back(sink, &stats.s);
  if (is_main) print_holes(sink);
  print_events_head(sink);
  if (is_main) print_memory_events(sink, &stats.s);
  print_heap_events(sink, &stats.s);
  /* They are counted by thread, whatever heap they are for. */
  print_total(sink, "refills", stats.refills, mi__text_count);
  print_total(sink, "waits in the end of a heap", stats.s.heaps_delete_wait.total, mi__text_count);
  print_sizes(sink, &stats.s);
}

static bool print_heap(struct mi_heap_s *heap, void *arg) {
  struct mi__sink sink = *(const struct mi__sink *)arg;
  struct mi__stats stats;
  mi__stats_of_heap(heap, &stats);
  mi__print(sink.out, sink.arg, "heap %zu\n", mi__heap_seq(heap));
  print_memory(sink, &stats.s, false, false);
  print_events_head(sink);
  print_heap_events(sink, &stats.s);
  print_sizes(sink, &stats.s);
  return true;
}

mi__export void mi_heap_stats_print_out(mi_heap_t *heap, mi_output_fun *out, void *arg) {
  struct mi__sink sink = {out, arg};
  heap = mi__stats_heap(heap, "mi_heap_stats_print_out");
  if (heap == NULL) return;
  mi__stats_merge_own();
  (void)print_heap(heap, &sink);
}

mi__export void mi_subproc_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun *out,
                                           void *arg) {
  if (subproc_id._mi_subproc == NULL) return;
  print_subproc((struct mi__sink){out, arg}, subproc_id._mi_subproc);
}

mi__export void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun *out,
                                                void *arg) {
  struct mi__sink sink = {out, arg};
  if (subproc_id._mi_subproc == NULL) return;
  print_subproc(sink, subproc_id._mi_subproc);
  (void)mi__subproc_each_heap(subproc_id._mi_subproc, print_heap, &sink);
}

mi__export void mi_stats_print_out(mi_output_fun *out, void *arg) {
  struct mi__sink sink = {out, arg};
  print_subproc(sink, mi__stats_own_subproc());
  mi__print_process(sink);
}

void mi__print_at_exit(void) {
  if (mi__option_get(mi_option_show_stats) == 0) return;
  struct mi__sink sink = {NULL, NULL};
  print_subproc(sink, &mi__subproc_main);
  mi__print_process(sink);
}

/* The argument is what other versions of the interface passed as the output function. */
mi__export void mi_stats_print(void *out) {
  (void)out;
  mi_stats_print_out(NULL, NULL);
}

/* What the calling thread has counted is in the counts of its heap by then. */
mi__export void mi_thread_stats_print_out(mi_output_fun *out, void *arg) {
  struct mi_thread *self = mi__thread_self(true);
  struct mi_heap_s *heap = self == NULL ? NULL : mi__theap_heap(&self->main);
  mi_heap_stats_print_out(heap, out, arg);
}
