/* SPDX-License-Identifier: MIT */
/* What holes there are and could be. Nothing here changes a page. Threads: any. */
#include "api/core.h"
#include "api/stats.h"
#include "base/track.h"
#include "heap/process.h"
#include "heap/subproc.h"
#include "heap/thread.h"
#include "heap/visit.h"
#include "os/os.h"
#include "page/holes.h"
#include "rt/counter.h"
#include "rt/message.h"

mi__export void mi_purge_holes_stats_get(mi_purge_holes_stats_t *stats) {
  if (stats == NULL) return;
  /* One counter may be ahead of another that other threads are just counting. */
#define X(name) stats->name = (size_t)mi__max(mi__load(&mi__hole_counters.name, relaxed), 0);
  MI_HOLE_COUNTS(X)
#undef X
}

/* ---- the report ---- */

enum { MIN_GRAIN = 12, N_GRAINS = 5, N_CLASSES = 5 }; /* 4 KiB to 64 KiB; 1, 2, 3-4, 5-8, 9 up */

struct row {
  size_t pages, live, free, blocked, gone, pending, pinned, live_in_pinned;
  size_t by_live[N_CLASSES]; /* pinned OS pages, by the number of live blocks in them */
};
struct report {
  struct row rows[MI_BINS];
  size_t grains[N_GRAINS]; /* free bytes that could go in units of this size */
  unsigned os_shift;
};

/* The blocks of a page that lie in a piece of it. */
struct piece {
  uint32_t n_blocks, n_free;
  bool whole; /* it lies wholly inside formed blocks */
};

struct shown {
  const struct mi_page *page;
  const uint64_t *free;   /* a bit for each block */
  const uint64_t *formed;
};

static bool has_bit(const uint64_t *bits, uint32_t i) { return (bits[i / 64] >> i % 64 & 1) != 0; }

static struct piece look_at(const struct shown *shown, size_t start, size_t size) {
  const struct mi_page *page = shown->page;
  uint32_t lo = (uint32_t)(start / page->block_size);
  uint32_t hi = (uint32_t)((start + size - 1) / page->block_size);
  struct piece piece = {.whole = hi < page->n_blocks};
  for (uint32_t i = lo; i <= hi && i < page->n_blocks; i++) {
    piece.n_blocks++;
    if (!has_bit(shown->formed, i)) piece.whole = false;
    else if (has_bit(shown->free, i)) piece.n_free++;
  }
  return piece;
}

static bool could_go(const struct piece *piece) {
  return piece->whole && piece->n_free == piece->n_blocks;
}

/* Free bytes that could go in units of 2^shift. */
static size_t in_grains(const struct shown *shown, unsigned shift) {
  size_t size = (size_t)1 << shift, end = (size_t)shown->page->n_slices << MI_SLICE_SHIFT, sum = 0;
  for (size_t at = 0; at + size <= end; at += size) {
    struct piece piece = look_at(shown, at, size);
    if (could_go(&piece)) sum += size;
  }
  return sum;
}

static unsigned live_class(uint32_t n) { return n <= 2 ? n - 1 : n <= 4 ? 2 : n <= 8 ? 3 : 4; }

static void add_pinned(struct row *row, const struct shown *shown, unsigned shift) {
  size_t size = (size_t)1 << shift, end = (size_t)shown->page->n_slices << MI_SLICE_SHIFT;
  for (size_t at = 0; at + size <= end; at += size) {
    struct piece piece = look_at(shown, at, size);
    if (!piece.whole || piece.n_free == 0 || piece.n_free == piece.n_blocks) continue;
    uint32_t n_live = piece.n_blocks - piece.n_free;
    row->pinned++;
    row->live_in_pinned += n_live;
    row->by_live[live_class(n_live)]++;
  }
}

static uint32_t count_bits(const uint64_t *bits, uint32_t n_blocks) {
  uint32_t n = 0;
  for (uint32_t w = 0; w <= (n_blocks - 1) / 64; w++) n += (uint32_t)__builtin_popcountll(bits[w]);
  return n;
}

static bool is_readable(const struct mi_page *page) {
  uintptr_t owner = mi__load(&page->owner, relaxed) & ~MI_OWNER_SPECIAL;
  return owner == MI_OWNER_NONE || owner == (uintptr_t)mi__thread_data();
}

static bool add_page(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size,
                     void *arg) {
  struct report *report = arg;
  const struct mi_page *page = area->reserved1;
  (void)heap;
  (void)block;
  (void)size;
  if (page->kind == MI_PAGE_HUGE || !is_readable(page) || mi__page_flag(page, MI_PAGE_BROKEN))
    return true;
  uint64_t free[MI_PAGE_MAX_BLOCKS / 64] = {0}, formed[MI_PAGE_MAX_BLOCKS / 64] = {0};
  size_t gone = mi__visit_map(page, free, formed);
  struct shown shown = {page, free, formed};
  struct row *row = &report->rows[page->bin];
  uint32_t n_formed = count_bits(formed, page->n_blocks), n_free = count_bits(free, page->n_blocks);
  size_t could = in_grains(&shown, report->os_shift);
  size_t free_bytes = n_free * page->block_size;
  row->pages++;
  row->live += (n_formed - n_free) * page->block_size;
  row->free += free_bytes;
  row->gone += gone;
  row->pending += could - gone;
  row->blocked += free_bytes - could;
  add_pinned(row, &shown, report->os_shift);
  for (unsigned i = 0; i < N_GRAINS; i++) {
    report->grains[i] += in_grains(&shown, MIN_GRAIN + i);
  }
  return true;
}

static bool add_heap(struct mi_heap_s *heap, void *arg) {
  struct mi__visit visit = {.heap = heap, .visitor = add_page, .arg = arg};
  return mi__visit(&visit);
}

static void print(const struct report *report) {
  mi__print(NULL, NULL, "holes: bytes of blocks in pages of this thread and of none\n"
                        "%9s %7s %11s %11s %11s %11s %11s %7s %8s %6s %6s %6s %6s %6s\n",
            "size", "pages", "live", "free", "blocked", "holes", "pending", "pinned", "live in",
            "with 1", "2", "3-4", "5-8", "9+");
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    const struct row *r = &report->rows[bin];
    if (r->pages == 0) continue;
    mi__print(NULL, NULL,
              "%9zu %7zu %11zu %11zu %11zu %11zu %11zu %7zu %8zu %6zu %6zu %6zu %6zu %6zu\n",
              mi__bin_size(bin), r->pages, r->live, r->free, r->blocked, r->gone, r->pending,
              r->pinned, r->live_in_pinned, r->by_live[0], r->by_live[1], r->by_live[2],
              r->by_live[3], r->by_live[4]);
  }
  mi__print(NULL, NULL, "%-16s %11s %11s %11s %11s %11s\n", "could go by", "4 KiB", "8 KiB",
            "16 KiB", "32 KiB", "64 KiB");
  mi__print(NULL, NULL, "%-16s %11zu %11zu %11zu %11zu %11zu\n", "bytes", report->grains[0],
            report->grains[1], report->grains[2], report->grains[3], report->grains[4]);
}

mi__export void mi_purge_holes_report(void) {
  mi__process_init();
  size_t size = mi__align_up(sizeof(struct report), mi__os_facts.page_size);
  /* Too much for a small stack; and nothing that is looked at may change. */
  struct report *report = mi__os_map(size, mi__os_facts.page_size, MI_OS_COMMIT);
  if (report == NULL) return;
  report->os_shift = mi__log2(mi__os_facts.page_size);
  (void)mi__subproc_each_heap(mi__stats_own_subproc(), add_heap, report);
  print(report);
  (void)mi__os_unmap(report, size);
}
