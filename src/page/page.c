/* SPDX-License-Identifier: MIT */
#include "page/page.h"
#include "base/track.h"
#include "os/os.h"
#include "page/holes.h"
#include "page/remote.h"
#include <string.h>

/* Records of neighbouring slices are neighbours, but for a granule's border, and only huge pages
 * cross that. */
static void set_inner(struct mi_page *page, size_t slice) {
  struct mi_page *inner = page + slice;
  inner->block_size = slice * MI_RECORD_SIZE;
  mi__store(&inner->owner, MI_OWNER_INNER, relaxed);
}

static void clear_inner(struct mi_page *inner) {
  mi__store(&inner->owner, MI_OWNER_NONE, relaxed);
  inner->block_size = 0;
}

void mi__page_set_interior(struct mi_page *page, const void *p) {
  mi__page_set_flag(page, MI_PAGE_INTERIOR, true);
  if (page->kind != MI_PAGE_HUGE) {
    uintptr_t owner = mi__load(&page->owner, relaxed);
    mi__store(&page->owner, owner | MI_OWNER_SPECIAL, relaxed);
    return;
  }
  page->first = (uint32_t)((size_t)((const char *)p - page->start) / MI_SLICE_SIZE);
  if (page->first == 0) return;
  struct mi_page *inner = mi__record_of(p);
  inner->block_size = (size_t)((char *)inner - (char *)page);
  mi__store(&inner->owner, MI_OWNER_INNER, relaxed);
}

static struct mi_page *init_record(const struct mi__span *span, struct mi_heap_s *heap) {
  struct mi_page *page = mi__record_of(span->start);
  mi__assert(page->kind == MI_PAGE_NONE && mi__load(&page->owner, relaxed) == MI_OWNER_NONE);
  page->start = span->start;
  page->n_slices = (uint32_t)span->n_slices;
  page->arena = span->arena;
  mi__store(&page->heap, heap, relaxed);
  page->push = &page->free;
  mi__store(&page->flags,
            (uint16_t)((span->zero ? MI_PAGE_ZERO : 0) |
                       (span->pinned || span->has_commit_fun ? MI_PAGE_PINNED : 0) |
                       (span->in_parts ? MI_PAGE_IN_PARTS : 0)),
            relaxed);
  mi__track_hide(span->start, span->n_slices * MI_SLICE_SIZE);
  mi__track_hide(&page->start, sizeof page->start);
  return page;
}

/* Release: pairs with the acquire of mi__remote_pin, by which others find the page. */
static void publish(struct mi_page *page) {
  mi__store(&page->xremote, MI_REMOTE_OWNED, release);
}

/* First blocks of many pages must not share a cache set, so where a small page starts forming
 * depends on its slice. 17 is odd (all indexes occur) and moves the first block by 17 blocks, so
 * neighbours differ in the low 12 bits for every block size that is no multiple of 4 KiB.
 * Blocks of a cache line and less begin near the start of an OS page, at one of 13 cache lines:
 * what is formed first ends with that OS page, and should be enough for who needs a few of them
 * only. Of 64 pages 5 share a set then, which any first-level cache holds. */
static uint32_t first_index(const struct mi_page *page) {
  size_t slice = (uintptr_t)page->start >> MI_SLICE_SHIFT;
  if (page->block_size > MI_CACHE_LINE) return (uint32_t)(slice * 17 % page->n_blocks);
  size_t offset = slice % 16 * 4096 + slice % 13 * MI_CACHE_LINE;
  return (uint32_t)((offset + page->block_size - 1) / page->block_size) % page->n_blocks;
}

struct mi_page *mi__page_new(const struct mi__span *span, unsigned bin, struct mi_heap_s *heap) {
  struct mi_page *page = init_record(span, heap);
  page->bin = (uint8_t)bin;
  page->kind = (uint8_t)mi__page_kind_of_bin(bin);
  page->block_size = mi__bin_size(bin);
  page->n_blocks = (uint32_t)(span->n_slices * MI_SLICE_SIZE / page->block_size);
  page->first = page->kind == MI_PAGE_SMALL ? first_index(page) : 0;
  for (size_t i = 1; i < span->n_slices; i++) set_inner(page, i);
  publish(page);
  return page;
}

struct mi_page *mi__page_new_huge(const struct mi__span *span, struct mi_heap_s *heap) {
  struct mi_page *page = init_record(span, heap);
  page->kind = MI_PAGE_HUGE;
  page->bin = (uint8_t)mi__bin_for_stats(span->n_slices * MI_SLICE_SIZE);
  page->block_size = span->n_slices * MI_SLICE_SIZE;
  page->n_blocks = page->n_formed = 1;
  mi__page_set_used(page, 1);
  publish(page);
  return page;
}

/* All but the words that others may look at is cleared plainly; those stay atomic. */
static void clear_record(struct mi_page *page) {
  mi__track_show(&page->start, sizeof page->start);
  mi__store(&page->owner, MI_OWNER_NONE, relaxed);
  mi__store(&page->xremote, 0, relaxed);
  mi__store(&page->theap, NULL, relaxed);
  mi__store(&page->flags, 0, relaxed);
  page->push = NULL;
  page->free = NULL;
  page->until = page->held = page->swept = 0;
  page->block_size = 0;
  page->start = NULL;
  page->next = page->prev = NULL;
  mi__store(&page->heap, NULL, relaxed);
  page->n_formed = page->n_blocks = page->n_slices = page->arena = page->first = 0;
  page->bin = page->kind = page->list = 0;
  mi__store(&page->n_counted, 0, relaxed);
  page->fault = 0;
}

void mi__page_forget_huge(struct mi_page *page) {
  if (page->first > 0)
    clear_inner(mi__record_of(page->start + (size_t)page->first * MI_SLICE_SIZE));
  clear_record(page);
}

void mi__page_delete(struct mi__arenas *arenas, struct mi_page *page) {
  char *start = page->start;
  size_t n_slices = page->n_slices;
  uint32_t arena = page->arena;
  if (page->kind == MI_PAGE_HUGE) {
    mi__page_forget_huge(page);
  } else {
    mi__holes_end(page);
    if (n_slices > 1) mi__page_more(page)->epoch = 0;
    for (size_t i = 1; i < n_slices; i++) clear_inner(page + i);
    clear_record(page);
  }
  mi__span_free(arenas, start, n_slices, arena);
}

/* Blocks that the next step may form: up to the end of the page, or to `first` once the index has
 * wrapped. */
static uint32_t formable_run(const struct mi_page *page, uint32_t *index) {
  uint32_t reached = mi__page_n_reached(page);
  uint32_t i = page->first + reached;
  if (i >= page->n_blocks) i -= page->n_blocks;
  *index = i;
  uint32_t left = page->n_blocks - reached;
  return left < page->n_blocks - i ? left : page->n_blocks - i;
}

mi__inline struct mi_block *link_next(struct mi_block *block, size_t size) {
  block->next = (struct mi_block *)(void *)((char *)block + size);
  return block->next;
}

uint32_t mi__page_form(struct mi_page *page, size_t min_bytes) {
  mi__assert(page->free == NULL);
  uint32_t index, run = formable_run(page, &index);
  if (run == 0) return 0;
  size_t size = page->block_size;
  char *at = page->start + (size_t)index * size;
  /* At first only blocks that begin in the OS page of the first one. */
  if (page->n_formed == 0) min_bytes = mi__min(min_bytes, 4096 - ((uintptr_t)at & 4095));
  uint32_t n = (uint32_t)mi__div_up(min_bytes, size);
  if (n > run) n = run;
  if (mi__unlikely(mi__page_flag(page, MI_PAGE_IN_PARTS | MI_PAGE_TAIL_GONE))) {
    if (mi__page_flag(page, MI_PAGE_IN_PARTS) && !mi__span_commit(page->arena, at, at + n * size))
      return 0;
    mi__holes_before_form(page, at, n * size);
  }
  struct mi_block *block = (struct mi_block *)(void *)at;
  page->free = block;
  uint32_t left = n - 1;
  for (; left >= 8; left -= 8) { /* half the instructions of one at a time */
    block = link_next(link_next(link_next(link_next(block, size), size), size), size);
    block = link_next(link_next(link_next(link_next(block, size), size), size), size);
  }
  for (; left > 0; left--) block = link_next(block, size);
  block->next = NULL;
  page->n_formed += n;
  return n;
}

/* A walk along a list in the order of the frees waits for the memory of each block in turn. Where
 * the list has a good part of the page, the lines of all blocks are asked for before, in the order
 * of their addresses, which waits for several at a time. (bench/mstress, two processors that share
 * a cache: a fifth less time; with 32 blocks and an eighth of the page as the least, a sixth.) */
#define MANY 8u
static mi__noinline void prefetch(const struct mi_page *page) {
  if (mi__page_flag(page, MI_PAGE_HAS_HOLES)) return; /* most of it may be gone */
  size_t step = mi__max(page->block_size, MI_CACHE_LINE);
  uint32_t behind = page->n_blocks - page->first;
  const char *first = page->start + (size_t)page->first * page->block_size;
  const char *end = first + (size_t)mi__min(page->n_formed, behind) * page->block_size;
  for (const char *at = first; at < end; at += step) __builtin_prefetch(at);
  if (page->n_formed <= behind) return;
  end = page->start + (size_t)(page->n_formed - behind) * page->block_size;
  for (const char *at = page->start; at < end; at += step) __builtin_prefetch(at);
}

/* A list was walked as far as `last`, whose link is `next`. */
struct walk {
  struct mi_block *last, *next;
  uint32_t n;
};
static void walk_on(const struct mi_page *page, struct walk *walk, uint32_t max) {
  struct mi_block *last = walk->last, *next = walk->next;
  uint32_t n = walk->n;
  while (next != NULL && n < max && mi__page_is_block(page, next)) {
    last = next;
    next = next->next;
    n++;
  }
  *walk = (struct walk){last, next, n};
}
/* As far as `max` blocks. */
static struct walk walk_list(const struct mi_page *page, struct mi_block *list, uint32_t max) {
  struct walk walk = {NULL, list, 0};
  uint32_t few = mi__max(MANY, page->n_formed / 16);
  walk_on(page, &walk, mi__min(few, max));
  if (walk.n < few || walk.next == NULL) return walk;
  prefetch(page);
  walk_on(page, &walk, max);
  return walk;
}

/* is_short: it could have been longer, which only a ready list may be. A block that leads to itself
 * stops the walk's progress, so it is the last one. */
static enum mi__fault fault_of(const struct walk *walk, bool is_short, enum mi__fault kind) {
  if (mi__likely(walk->next == NULL))
    return is_short && kind != MI_FAULT_READY ? kind : MI_FAULT_NONE;
  return is_short || walk->next == walk->last ? kind : MI_FAULT_TWICE;
}

enum mi__fault mi__page_put_back(struct mi_page *page, struct mi_block *list, uint32_t max,
                                 enum mi__fault kind, uint32_t *n) {
  struct walk walk = walk_list(page, list, max);
  enum mi__fault fault = fault_of(&walk, walk.n < max, kind);
  if (mi__unlikely(fault != MI_FAULT_NONE)) walk.n = 0; /* the last one may be a live block */
  *n = walk.n;
  if (walk.n == 0) return fault;
  walk.last->next = page->free;
  page->free = list;
  mi__page_set_used(page, mi__page_used(page) - walk.n);
  return MI_FAULT_NONE;
}

enum mi__fault mi__page_free_fault(const struct mi_page *page) {
  uint32_t max = page->n_formed - mi__page_used(page);
  struct walk walk = walk_list(page, page->free, max);
  /* In a page with no live block a block that leads to itself was rather freed twice. */
  if (mi__page_used(page) == 0 && walk.next != NULL && walk.next == walk.last)
    return MI_FAULT_TWICE;
  return fault_of(&walk, walk.n < max, MI_FAULT_FREE);
}

bool mi__page_mark_free(const struct mi_page *page, uint64_t *bits, uint32_t *n) {
  memset(bits, 0, (page->n_blocks + 63) / 64 * sizeof *bits);
  /* Multiplication by the rounded-up reciprocal gives the exact index of every block start: the
   * error is below one, since an offset in a page is below 2^32 / 2^10 and the reciprocal is off by
   * less than 1. What is no block start does not multiply back. */
  uint64_t reciprocal = ((uint64_t)1 << 32) / page->block_size + 1;
  *n = 0;
  uint32_t expected = page->n_formed - mi__page_used(page);
  if (expected > MANY && expected > page->n_formed / 16) prefetch(page);
  for (const struct mi_block *b = page->free; b != NULL; b = b->next) {
    uintptr_t offset = (uintptr_t)((const char *)b - page->start);
    if (offset >= page->n_slices * MI_SLICE_SIZE) return false;
    uint32_t index = (uint32_t)((offset * reciprocal) >> 32);
    if (index >= page->n_blocks || (size_t)index * page->block_size != offset) return false;
    uint64_t bit = (uint64_t)1 << (index % 64);
    if (bits[index / 64] & bit) return false;
    bits[index / 64] |= bit;
    ++*n;
  }
  return mi__page_n_holes(page) == 0 || !mi__holes_overlap(page, bits);
}

bool mi__page_is_whole(const struct mi_page *page) {
  uint64_t bits[MI_PAGE_MAX_BLOCKS / 64];
  uint32_t n;
  return mi__page_mark_free(page, bits, &n) && n == page->n_formed;
}

void mi__page_set_fault(struct mi_page *page, enum mi__fault fault) {
  if (!mi__page_flag(page, MI_PAGE_BROKEN)) page->fault = (uint8_t)fault;
  mi__page_set_flag(page, MI_PAGE_BROKEN, true);
}

void mi__page_mark_broken(struct mi_page *page, enum mi__fault fault) {
  mi__page_set_fault(page, fault);
  mi__holes_end(page);
  page->free = NULL;
  page->n_formed = page->n_blocks;
  mi__page_set_used(page, UINT32_MAX / 2); /* out of reach of any number of frees */
}

bool mi__page_list_has(const struct mi_page *page, const struct mi_block *list, const void *block,
                       uint32_t look_at) {
  uint32_t max = look_at < page->n_blocks ? look_at : page->n_blocks;
  uint32_t n = 0;
  for (const struct mi_block *b = list; b != NULL && n < max; b = b->next, n++) {
    if (!mi__page_is_block(page, b)) return false;
    if (b == block) return true;
  }
  return false;
}

void mi__page_check(const struct mi_page *page) {
  if (!MI_DEBUG || mi__page_flag(page, MI_PAGE_BROKEN)) return;
  uint32_t n = 0;
  for (const struct mi_block *b = page->free; b != NULL; b = b->next, n++) {
    mi__assert(mi__page_is_block(page, b));
    mi__assert(n < page->n_blocks);
  }
  mi__assert(mi__page_used(page) + n == page->n_formed);
  mi__assert(mi__page_n_reached(page) <= page->n_blocks);
  mi__assert(page->push == &page->free);
}
