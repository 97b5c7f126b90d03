/* SPDX-License-Identifier: MIT */
/* A heap snapshot in memory: what doc/snapshot.md describes, read and validated.
 *
 * What holds of a snapshot that was read, so that the rest need not look again:
 *   - block_size and reserved of a page are not 0; capacity and used are at most reserved
 *   - address + reserved * block_size of a page is at most UINT64_MAX
 *   - committed is at most reserved * block_size
 *   - pages of an arena lie in it, in the order of their slices, without overlap
 *   - the bitmaps of an arena have a bit for each of its slices; a map has one for each block
 * Sums over pages may overflow: add_bytes. Memory is allocated only for what the file has. */
#ifndef MI_TOOLS_SNAPSHOT_H
#define MI_TOOLS_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLICE_BYTES UINT64_C(65536)
#define NO_INDEX UINT32_MAX /* of an arena: none; of a NUMA node: none */

enum { SNAPSHOT_BLOCKS = 1 }; /* flags: pages have maps */
enum page_kind { PAGE_SMALL, PAGE_MEDIUM, PAGE_LARGE, PAGE_HUGE, PAGE_KINDS };

struct page {
  uint64_t address; /* of the first block */
  uint64_t slice_address;
  uint64_t block_size;
  uint64_t committed; /* bytes */
  uint64_t tid, heap; /* the owner's number, 0: none; the sequence number of the heap */
  uint32_t reserved, capacity, used; /* blocks */
  uint32_t arena, slice, slices;
  uint8_t kind;
  bool own_mapping, abandoned, full;
  uint8_t *map; /* NULL: none; bit i: block i is not live */
};

struct arena {
  uint64_t address, size;
  uint32_t index, slices, outside, numa_node;
  bool huge_os_pages, exclusive, mapped, commits;
  uint8_t *committed, *free, *purge; /* bitmaps */
  size_t first_page, n_pages;        /* in the snapshot's pages */
};

struct heap {
  uint64_t seq, address;
  uint32_t arena;
};

struct snapshot {
  uint32_t version, pointer_size, flags;
  uint64_t clock_ms, tid;
  struct arena *arenas;
  struct page *pages; /* in the order of the file */
  struct heap *heaps;
  size_t n_arenas, n_pages, n_heaps;
};

/* What a slice is. */
enum slice_state {
  SLICE_PAGE,    /* of a page */
  SLICE_USED,    /* used, and no page of the snapshot has it: the arena's own data as a rule */
  SLICE_FREE,    /* free, and its memory is kept */
  SLICE_PURGE,   /* free, and about to be given back */
  SLICE_PURGED,  /* free, and without memory */
  SLICE_OUTSIDE, /* not the arena's */
  SLICE_STATES
};

/* Read a file. False: `error` tells why, and the snapshot is empty. */
bool snapshot_read(const char *path, struct snapshot *s, char *error, size_t error_size);
void snapshot_free(struct snapshot *s);

/* The page whose slices or blocks hold an address, or NULL; the arena likewise. */
const struct page *snapshot_page_at(const struct snapshot *s, uint64_t address);
const struct arena *snapshot_arena_at(const struct snapshot *s, uint64_t address);

/* By the bitmaps alone: never SLICE_PAGE. */
enum slice_state arena_slice_state(const struct arena *a, uint32_t slice);
/* The slices of each state, pages included. */
void arena_count(const struct snapshot *s, const struct arena *a, uint64_t counts[SLICE_STATES]);

/* Is the block live? Only of a page with a map. */
static inline bool page_block_live(const struct page *p, uint32_t block) {
  return (p->map[block / 8] >> (block % 8) & 1) == 0;
}
static inline uint64_t page_used_bytes(const struct page *p) { return p->used * p->block_size; }
/* Counts of a moment need not fit each other: what would be negative is 0. */
static inline uint64_t page_waste(const struct page *p) {
  uint64_t used = page_used_bytes(p);
  return p->committed > used ? p->committed - used : 0;
}
static inline uint64_t page_hole_bytes(const struct page *p) {
  uint64_t formed = p->capacity * p->block_size;
  return formed > p->committed ? formed - p->committed : 0;
}
static inline uint64_t add_bytes(uint64_t a, uint64_t b) {
  return a + b < a ? UINT64_MAX : a + b;
}

#endif
