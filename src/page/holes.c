/* SPDX-License-Identifier: MIT */
#include "page/holes.h"
#include "os/os.h"
#include "page/hole_map.h"
#include "rt/counter.h"
#include "rt/option.h"
#include <string.h>

#define LOCK MI_LOCK_INIT(MI_LOCK_HOLES)
struct mi__lock mi__holes_locks[MI_HOLES_LOCKS] = {LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK,
                                                   LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK};

struct mi__lock *mi__holes_lock(const struct mi_page *page) {
  return &mi__holes_locks[((uintptr_t)page >> MI_RECORD_SHIFT) % MI_HOLES_LOCKS];
}

unsigned mi__holes_unit_shift(const struct mi_page *page) {
  unsigned shift = mi__log2(mi__os_facts.page_size);
  while ((size_t)page->n_slices << MI_SLICE_SHIFT >> shift > MAX_UNITS) shift++;
  return shift;
}

/* For other threads than the owner's, which may be forming blocks. volatile: else the compiler may
 * have the caller load it, which the sanitizer does look at. */
__attribute__((no_sanitize("thread"))) static uint32_t formed_now(const struct mi_page *page) {
  return *(const volatile uint32_t *)&page->n_formed;
}
static struct map map_now(const struct mi_page *page) {
  return map_with(page, formed_now(page) + mi__page_n_holes(page));
}

uint32_t mi__holes_mark(const struct mi_page *page, uint64_t *blocks) {
  if (mi__page_n_holes(page) == 0) return 0;
  struct map map = map_now(page);
  struct units units = load_units(page);
  return mark_holes(&map, &units, blocks);
}

bool mi__holes_overlap(const struct mi_page *page, const uint64_t *blocks) {
  struct map map = map_of(page);
  struct units units = load_units(page);
  for (uint32_t unit = 0; unit < map.n_units; unit++) {
    if (!has_bit(units.bits, unit)) continue;
    struct range range = blocks_of(&map, unit);
    if (any_set(blocks, range.lo, mi__min(range.hi, map.n_blocks - 1))) return true;
  }
  return false;
}

bool mi__holes_has(const struct mi_page *page, const void *block) {
  if (mi__page_n_holes(page) == 0) return false;
  /* Nothing here but what is constant, and the bitmap. */
  unsigned shift = mi__holes_unit_shift(page);
  struct units units = load_units(page);
  size_t start = (size_t)((const char *)block - page->start);
  return any_set(units.bits, (uint32_t)(start >> shift),
                 (uint32_t)((start + page->block_size - 1) >> shift));
}

static void set_n_holes(struct mi_page *page, uint32_t n) {
  mi__store(&page->n_holes, (uint16_t)n, relaxed);
  mi__page_set_flag(page, MI_PAGE_HAS_HOLES, n > 0);
}

/* ---- counters ---- */

static void count_holes(int64_t bytes, int64_t blocks) {
  mi__count(&mi__hole_counters.purged_bytes, bytes);
  mi__count(&mi__hole_counters.purged_blocks, blocks);
}

/* ---- making ---- */

/* What is free, and what becomes of it. Blocks have a bit each. */
struct plan {
  struct map map;
  struct units units;
  uint64_t free[MI_PAGE_MAX_BLOCKS / 64]; /* on the list or in holes */
  uint64_t gone[MI_PAGE_MAX_BLOCKS / 64]; /* in holes */
};

/* The units that can go: every block that overlaps them is free; or (*tail) was never formed. */
static struct units choose(const struct plan *plan, bool with_tail, struct units *tail) {
  struct units wanted = {{0}};
  *tail = wanted;
  for (uint32_t unit = 0; unit < plan->map.n_units; unit++) {
    if (has_bit(plan->units.bits, unit)) continue;
    struct range blocks = blocks_of(&plan->map, unit);
    if (blocks.hi >= plan->map.n_blocks) break;
    if (all_set(plan->free, blocks.lo, blocks.hi)) set_bit(wanted.bits, unit);
    else if (with_tail && is_tail(&plan->map, blocks)) set_bit(tail->bits, unit);
  }
  return wanted;
}

/* Of the free blocks those that are in no hole, by address, and then `more`. */
static void link_rest(struct mi_page *page, const struct plan *plan, struct mi_block *more) {
  struct mi_block **link = &page->free;
  for (uint32_t w = 0; w <= (page->n_blocks - 1) / 64; w++) {
    for (uint64_t bits = plan->free[w] & ~plan->gone[w]; bits != 0; bits &= bits - 1) {
      size_t index = w * 64 + mi__ctz64(bits);
      struct mi_block *block = (void *)(page->start + index * page->block_size);
      *link = block;
      link = &block->next;
    }
  }
  *link = more;
}

/* Memory that was never touched since it was mapped or purged is not there; but with huge pages it
 * may be. What is committed as blocks are formed cannot be. */
static bool may_have_tail(const struct mi_page *page) {
  if (mi__page_flag(page, MI_PAGE_IN_PARTS)) return false;
  return !mi__page_flag(page, MI_PAGE_ZERO) || mi__option_get(mi_option_allow_thp) == 2;
}

bool mi__holes_has_tail(const struct mi_page *page) {
  if (mi__page_n_reached(page) == page->n_blocks || !may_have_tail(page)) return false;
  struct map map = map_of(page);
  struct units units = load_units(page);
  for (uint32_t unit = 0; unit < map.n_units; unit++) {
    if (!has_bit(units.bits, unit) && is_tail(&map, blocks_of(&map, unit))) return true;
  }
  return false;
}

static void count_tail(struct mi_page *page, int64_t bytes) {
  mi__page_set_flag(page, MI_PAGE_TAIL_GONE, true);
  mi__count(&mi__hole_counters.unformed_bytes, bytes);
  mi__count(&mi__hole_counters.unformed_bytes_total, bytes);
}

static void make_holes(struct mi_page *page, struct plan *plan, int64_t bytes) {
  uint32_t n = mark_holes(&plan->map, &plan->units, plan->gone);
  count_holes(bytes, n);
  mi__count(&mi__hole_counters.purged_bytes_total, bytes);
  page->n_formed -= n;
  set_n_holes(page, mi__page_n_holes(page) + n);
  link_rest(page, plan, NULL); /* the links were in what is gone */
}

static bool leads_into_tail(const struct plan *plan) {
  const struct map *map = &plan->map;
  if (map->n_out == 0) return false;
  uint32_t end = map->first_out + map->n_out;
  if (any_set(plan->free, map->first_out, mi__min(end, map->n_blocks) - 1)) return true;
  return end > map->n_blocks && any_set(plan->free, 0, end - map->n_blocks - 1);
}

/* What goes; `map` tells of it also when it has gone. */
struct going {
  struct map map;
  struct units holes, tail;
};

static enum mi__fault make(struct mi_page *page, struct going *going) {
  struct plan plan = {.map = map_of(page), .units = load_units(page)};
  uint32_t n;
  if (!mi__page_mark_free(page, plan.free, &n) || n != page->n_formed - mi__page_used(page)) {
    enum mi__fault fault = mi__page_free_fault(page);
    return fault != MI_FAULT_NONE ? fault : MI_FAULT_TWICE;
  }
  if (leads_into_tail(&plan)) return MI_FAULT_FREE;
  mi__count(&mi__hole_counters.blocks_visited, n);
  (void)mark_holes(&plan.map, &plan.units, plan.gone);
  for (uint32_t w = 0; w <= (page->n_blocks - 1) / 64; w++) plan.free[w] |= plan.gone[w];
  struct units tail, wanted = choose(&plan, may_have_tail(page), &tail);
  *going = (struct going){plan.map, wanted, tail};
  page->swept = (uint16_t)(mi__page_used(page) + 1);
  add_units(&plan.units, &wanted);
  if (has_units(&wanted)) make_holes(page, &plan, (int64_t)n_units(&wanted) << plan.map.shift);
  if (has_units(&tail)) count_tail(page, (int64_t)n_units(&tail) << plan.map.shift);
  add_units(&plan.units, &tail);
  store_units(page, &plan.units);
  return MI_FAULT_NONE;
}

/* ---- giving back ---- */

void mi__discards_begin(struct mi__discards *discards,
                        void (*undone)(struct mi_page *page, void *arg), void *arg) {
  discards->n = 0;
  discards->bytes = 0;
  discards->is_known = discards->at_once = false;
  discards->undone = undone;
  discards->arg = arg;
}

/* These units, which the OS has refused, are no holes: the page is as it was. */
static void undo(struct mi_page *page, const struct map *map, struct range units, bool is_tail) {
  struct plan plan = {.map = *map, .units = load_units(page)};
  int64_t bytes = -((int64_t)(units.hi - units.lo + 1) << map->shift);
  mi__lock_acquire(mi__holes_lock(page));
  uint32_t before = mark_holes(map, &plan.units, plan.free);
  for (uint32_t unit = units.lo; unit <= units.hi; unit++) clear_bit(plan.units.bits, unit);
  uint32_t n = before - mark_holes(map, &plan.units, plan.gone);
  store_units(page, &plan.units);
  page->n_formed += n;
  set_n_holes(page, mi__page_n_holes(page) - n);
  link_rest(page, &plan, page->free);
  mi__lock_release(mi__holes_lock(page));
  if (is_tail) {
    mi__count(&mi__hole_counters.unformed_bytes, bytes);
    mi__count(&mi__hole_counters.unformed_bytes_total, bytes);
  } else {
    count_holes(bytes, -(int64_t)n);
    mi__count(&mi__hole_counters.purged_bytes_total, bytes);
  }
}

void mi__discards_flush(struct mi__discards *discards) {
  unsigned n = discards->n;
  if (n == 0) return;
  mi__os_discard_ranges(discards->range, n, discards->at_once);
  discards->n = 0;
  discards->bytes = 0;
  for (unsigned i = 0; i < n; i++) {
    struct mi_page *page = discards->page[i];
    const struct mi__os_range *range = &discards->range[i];
    struct map map = map_of(page);
    uint32_t lo = (uint32_t)(range->start - page->start) >> map.shift;
    bool tail = is_out(&map, blocks_of(&map, lo).lo);
    if (mi__likely(range->done)) {
      struct mi__hole_counters *c = &mi__hole_counters;
      mi__count(tail ? &c->unformed_discard_calls : &c->discard_calls, 1);
      continue;
    }
    uint32_t hi = lo + (uint32_t)(range->size >> map.shift) - 1;
    undo(page, &map, (struct range){lo, hi}, tail);
    if (discards->undone != NULL) discards->undone(page, discards->arg);
  }
}

/* Have the units that `wanted` names given back, neighbours in one call. The page is whole when
 * this is called. */
static void discard_runs(const struct map *map, struct mi_page *page, const struct units *wanted,
                         struct mi__discards *discards) {
  bool zero = mi__option_get(mi_option_purge_holes_eager_zero) != 0;
  for (uint32_t lo = 0; lo < map->n_units; lo++) {
    if (!has_bit(wanted->bits, lo)) continue;
    uint32_t hi = lo + 1;
    while (hi < map->n_units && has_bit(wanted->bits, hi)) hi++;
    char *start = page->start + ((size_t)lo << map->shift);
    size_t size = (size_t)(hi - lo) << map->shift;
    if (zero) memset(start, 0, size);
    if (discards->n == MI_DISCARDS) mi__discards_flush(discards);
    if (!discards->is_known) {
      discards->at_once = mi__os_discards_at_once();
      discards->is_known = true;
    }
    discards->bytes += size;
    discards->page[discards->n] = page;
    discards->range[discards->n++] = (struct mi__os_range){start, size, false};
    lo = hi;
  }
}

enum mi__fault mi__holes_make(struct mi_page *page, struct mi__discards *discards) {
  struct going going;
  mi__assert(mi__holes_may(page) && page->push == &page->free);
  mi__lock_acquire(mi__holes_lock(page));
  enum mi__fault fault = make(page, &going);
  mi__lock_release(mi__holes_lock(page));
  if (mi__unlikely(fault != MI_FAULT_NONE)) return fault;
  mi__page_check(page);
  discard_runs(&going.map, page, &going.holes, discards);
  discard_runs(&going.map, page, &going.tail, discards);
  if (!discards->at_once || discards->bytes >= MI_DISCARD_BYTES) mi__discards_flush(discards);
  return MI_FAULT_NONE;
}

/* ---- and back ---- */

/* Take units out of the bitmap until so many bytes of blocks are out. Returns how many units. */
static uint32_t clear_holes(const struct map *map, struct units *units, size_t min_bytes) {
  uint32_t n = 0;
  size_t bytes = 0;
  uint32_t unit = next_hole(map, units, 0);
  while (unit < map->n_units && bytes < min_bytes) {
    /* All of its first block, so that there is one at least. */
    struct range blocks = blocks_of(map, unit), whole = units_of(map, blocks.lo);
    for (uint32_t i = whole.lo; i <= whole.hi; i++) {
      if (!has_bit(units->bits, i)) continue;
      clear_bit(units->bits, i);
      n++;
    }
    bytes += mi__max((size_t)1 << map->shift, (size_t)map->block_size);
    unit = next_hole(map, units, unit);
  }
  return n;
}

bool mi__holes_bring_back(struct mi_page *page, size_t bytes) {
  struct plan plan = {.map = map_of(page), .units = load_units(page)};
  mi__assert(page->free == NULL);
  mi__lock_acquire(mi__holes_lock(page));
  uint32_t before = mark_holes(&plan.map, &plan.units, plan.free);
  uint32_t n_units = clear_holes(&plan.map, &plan.units, bytes);
  if (n_units > 0) {
    uint32_t n = before - mark_holes(&plan.map, &plan.units, plan.gone);
    store_units(page, &plan.units);
    page->n_formed += n;
    set_n_holes(page, before - n);
    link_rest(page, &plan, NULL);
    count_holes(-((int64_t)n_units << plan.map.shift), -(int64_t)n);
    mi__count(&mi__hole_counters.reuse_calls, 1);
  }
  mi__lock_release(mi__holes_lock(page));
  return n_units > 0;
}

void mi__holes_before_form(struct mi_page *page, const char *at, size_t size) {
  if (!mi__page_flag(page, MI_PAGE_TAIL_GONE)) return;
  struct map map = map_of(page);
  struct units units = load_units(page);
  uint32_t from = (uint32_t)(at - page->start) >> map.shift;
  uint32_t last = (uint32_t)((size_t)(at - page->start) + size - 1) >> map.shift;
  uint32_t n = 0, left = 0;
  for (uint32_t unit = 0; unit < map.n_units; unit++) {
    if (!has_bit(units.bits, unit) || !is_out(&map, blocks_of(&map, unit).lo)) continue;
    bool now = unit >= from && unit <= last;
    if (now) clear_bit(units.bits, unit);
    *(now ? &n : &left) += 1;
  }
  if (left == 0) mi__page_set_flag(page, MI_PAGE_TAIL_GONE, false);
  if (n == 0) return;
  mi__lock_acquire(mi__holes_lock(page));
  store_units(page, &units);
  mi__lock_release(mi__holes_lock(page));
  mi__count(&mi__hole_counters.unformed_bytes, -((int64_t)n << map.shift));
  mi__count(&mi__hole_counters.unformed_reuse_calls, 1);
}

/* Of all units of the bitmap, those that are no tail. */
static uint32_t n_hole_units(const struct map *map, const struct units *units) {
  uint32_t n = 0;
  for (uint32_t unit = next_hole(map, units, 0); unit < map->n_units;
       unit = next_hole(map, units, unit + 1)) {
    n++;
  }
  return n;
}

size_t mi__holes_bytes(const struct mi_page *page) {
  struct map map = map_now(page);
  struct units units = load_units(page);
  return (size_t)n_hole_units(&map, &units) << map.shift;
}

void mi__holes_end_slow(struct mi_page *page) {
  struct units units = load_units(page);
  if (!has_units(&units)) return;
  struct map map = map_of(page);
  int64_t n = n_hole_units(&map, &units), n_tail = n_units(&units) - n;
  if (n > 0) mi__count(&mi__hole_counters.pages_freed, 1);
  count_holes(-(n << map.shift), -(int64_t)mi__page_n_holes(page));
  mi__count(&mi__hole_counters.unformed_bytes, -(n_tail << map.shift));
  mi__lock_acquire(mi__holes_lock(page));
  store_units(page, &(struct units){{0}});
  set_n_holes(page, 0);
  mi__lock_release(mi__holes_lock(page));
}

/* ---- the floor ---- */

_Atomic(int64_t) mi__holes_kept;

bool mi__holes_keep(struct mi_page *page, size_t bytes, size_t floor) {
  struct mi__page_inner *more = mi__page_more(page);
  mi__assert(page->kind == MI_PAGE_LARGE && more->kept == 0);
  int64_t now = mi__load(&mi__holes_kept, relaxed);
  do {
    if (now + (int64_t)bytes > (int64_t)floor) return false;
  } while (!mi__cas_weak(&mi__holes_kept, &now, now + (int64_t)bytes, relaxed));
  more->kept = (uint32_t)bytes;
  return true;
}

void mi__holes_unkeep(struct mi_page *page) {
  struct mi__page_inner *more = mi__page_more(page);
  if (page->n_slices == 1 || more->kept == 0) return;
  mi__fetch_sub(&mi__holes_kept, (int64_t)more->kept, relaxed);
  more->kept = 0;
}
