/* SPDX-License-Identifier: MIT */
/* Units and blocks of a page: the arithmetic of holes, for holes.c and its tests. Reads of a page
 * are for its owner, or under the lock of holes.h. */
#ifndef MI_PAGE_HOLE_MAP_H
#define MI_PAGE_HOLE_MAP_H

#include "page/holes.h"

#define MAX_UNITS 256u

/* ---- bits ---- */

struct units { uint64_t bits[MAX_UNITS / 64]; };

mi__inline struct units load_units(const struct mi_page *page) {
  struct units units = {{0}};
  if (page->n_slices == 1) {
    units.bits[0] = mi__load(&page->holes, relaxed);
  } else {
    const struct mi__page_inner *more = mi__page_more(page);
    for (int i = 0; i < 4; i++) units.bits[i] = mi__load(&more->holes[i], relaxed);
  }
  return units;
}

mi__inline void store_units(struct mi_page *page, const struct units *units) {
  if (page->n_slices == 1) {
    mi__store(&page->holes, (uint16_t)units->bits[0], relaxed);
  } else {
    struct mi__page_inner *more = mi__page_more(page);
    for (int i = 0; i < 4; i++) mi__store(&more->holes[i], units->bits[i], relaxed);
  }
}

mi__inline bool has_units(const struct units *units) {
  return (units->bits[0] | units->bits[1] | units->bits[2] | units->bits[3]) != 0;
}

mi__inline bool has_bit(const uint64_t *bits, uint32_t i) {
  return (bits[i / 64] >> i % 64 & 1) != 0;
}
mi__inline void set_bit(uint64_t *bits, uint32_t i) { bits[i / 64] |= (uint64_t)1 << i % 64; }
mi__inline void clear_bit(uint64_t *bits, uint32_t i) { bits[i / 64] &= ~((uint64_t)1 << i % 64); }

/* The bits of [lo, hi] that lie in word w, which is one of theirs. */
mi__inline uint64_t mask_in(uint32_t w, uint32_t lo, uint32_t hi) {
  uint64_t mask = UINT64_MAX;
  if (w == lo / 64) mask &= UINT64_MAX << lo % 64;
  if (w == hi / 64) mask &= UINT64_MAX >> (63 - hi % 64);
  return mask;
}

mi__inline bool all_set(const uint64_t *bits, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; w <= hi / 64; w++) {
    if ((~bits[w] & mask_in(w, lo, hi)) != 0) return false;
  }
  return true;
}

mi__inline bool any_set(const uint64_t *bits, uint32_t lo, uint32_t hi) {
  for (uint32_t w = lo / 64; w <= hi / 64; w++) {
    if ((bits[w] & mask_in(w, lo, hi)) != 0) return true;
  }
  return false;
}

/* How many were not set before. */
mi__inline uint32_t set_all(uint64_t *bits, uint32_t lo, uint32_t hi) {
  uint32_t n = 0;
  for (uint32_t w = lo / 64; w <= hi / 64; w++) {
    uint64_t mask = mask_in(w, lo, hi);
    n += (uint32_t)__builtin_popcountll(mask & ~bits[w]);
    bits[w] |= mask;
  }
  return n;
}

/* ---- blocks and units ---- */

/* What is needed of a page to tell the blocks of its units. */
struct map {
  uint32_t block_size, n_blocks, n_units;
  unsigned shift;
  uint32_t first_out, n_out; /* blocks that were never formed: from the first up, wrapping */
};
struct range { uint32_t lo, hi; };

mi__inline struct map map_with(const struct mi_page *page, uint32_t reached) {
  uint32_t first_out = page->first + reached;
  unsigned shift = mi__holes_unit_shift(page);
  return (struct map){
      .block_size = (uint32_t)page->block_size,
      .n_blocks = page->n_blocks,
      .n_units = (uint32_t)((size_t)page->n_slices << MI_SLICE_SHIFT >> shift),
      .shift = shift,
      .first_out = first_out >= page->n_blocks ? first_out - page->n_blocks : first_out,
      .n_out = page->n_blocks - reached,
  };
}

mi__inline struct map map_of(const struct mi_page *page) {
  return map_with(page, mi__page_n_reached(page));
}

/* The blocks that overlap the unit; hi is n_blocks or more where it ends behind the last one. */
mi__inline struct range blocks_of(const struct map *map, uint32_t unit) {
  uint32_t start = unit << map->shift, last = start + ((uint32_t)1 << map->shift) - 1;
  return (struct range){start / map->block_size, last / map->block_size};
}

mi__inline struct range units_of(const struct map *map, uint32_t block) {
  uint32_t start = block * map->block_size;
  return (struct range){start >> map->shift, (start + map->block_size - 1) >> map->shift};
}

/* Were these blocks never formed, one and all? */
mi__inline bool is_tail(const struct map *map, struct range blocks) {
  uint32_t from = blocks.lo + (blocks.lo < map->first_out ? map->n_blocks : 0) - map->first_out;
  return blocks.hi < map->n_blocks && from + (blocks.hi - blocks.lo) < map->n_out;
}
mi__inline bool is_out(const struct map *map, uint32_t block) {
  return is_tail(map, (struct range){block, block});
}

/* Set the bits of the formed blocks in holes. */
mi__inline uint32_t mark_holes(const struct map *map, const struct units *units, uint64_t *blocks) {
  uint32_t n = 0;
  for (uint32_t unit = 0; unit < map->n_units; unit++) {
    if (!has_bit(units->bits, unit)) continue;
    struct range range = blocks_of(map, unit);
    if (!is_out(map, range.lo)) n += set_all(blocks, range.lo, range.hi);
  }
  return n;
}

/* The first unit of a hole, from `unit` on; n_units: none. */
mi__inline uint32_t next_hole(const struct map *map, const struct units *units, uint32_t unit) {
  while (unit < map->n_units &&
         (!has_bit(units->bits, unit) || is_out(map, blocks_of(map, unit).lo))) {
    unit++;
  }
  return unit;
}

mi__inline uint32_t n_units(const struct units *units) {
  int n = 0;
  for (int i = 0; i < 4; i++) n += __builtin_popcountll(units->bits[i]);
  return (uint32_t)n;
}

mi__inline void add_units(struct units *units, const struct units *more) {
  for (int i = 0; i < 4; i++) units->bits[i] |= more->bits[i];
}

#endif
