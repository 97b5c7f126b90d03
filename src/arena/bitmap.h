/* SPDX-License-Identifier: MIT */
/* The state of an arena's slices: six bits a slice, 64 slices to a chunk, one cache line to a
 * chunk; and how runs of slices are found and claimed without locks.
 *
 * A chunk covers 4 MiB of aligned address space, so a large page is a whole chunk, and a granule
 * (256 MiB) is 64 chunks.
 *
 * Bits: used (1: taken, or outside of the arena), dirty (may hold anything but zeros), committed
 * (handed out and not purged since; where memory must be committed: usable), young and old (to be
 * purged). A sixth, ready, is for memory that is committed by a function of the program's and was
 * committed when it was handed over: usable, though `committed` is clear; a purge clears it.
 *
 * BITMAP-1: dirty, committed, young, old and ready of a slice are changed by its owner only: who
 * set `used`, until he clears it. Reading them without owning the slice gives a hint.
 *
 * BITMAP-2: a slice that is set in young or old is set in committed.
 *
 * BITMAP-3: no chunk below `xlow` has a free slice; none from `xhigh4` up has a free aligned run of
 * 4, none from `xhigh8` up one of 8, none from `xhigh64` up is wholly free (chunk numbers; but for
 * frees that are still under way).
 *
 * Threads: any. A claim is a CAS with acquire; it pairs with the release of the free
 * (mi__bitmap_free), so that what the last owner wrote to the memory and to the other bits is
 * seen. Writes of the other bits are relaxed for that reason. */
#ifndef MI_ARENA_BITMAP_H
#define MI_ARENA_BITMAP_H

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/compiler.h"

#define MI_CHUNK_SLICES 64
#define MI_CHUNK_FULL UINT64_MAX

struct mi__chunk {
  _Atomic(uint64_t) xused, xdirty, xcommitted, xyoung, xold;
  _Atomic(uint64_t) xready;
  uint64_t outside; /* slices that are not the arena's: never free. Constant. */
  uint64_t unused;
};
_Static_assert(sizeof(struct mi__chunk) == MI_CACHE_LINE, "one chunk is one cache line");

struct mi__bitmap {
  struct mi__chunk *chunks;
  size_t n_chunks;
  size_t origin;          /* number of slice 0 counted from address 0; a multiple of 64 */
  _Atomic(uint32_t) xlow; /* see BITMAP-3 */
  _Atomic(uint32_t) xhigh4, xhigh8, xhigh64;
};

/* Slices [at, at + n) of a chunk as a mask; n from 1 to 64. */
mi__inline uint64_t mi__chunk_mask(size_t at, size_t n) {
  return (MI_CHUNK_FULL >> (64 - n)) << at;
}

/* One step of a walk over the slices [at, end): the part that lies in one chunk. */
struct mi__chunk_part {
  size_t chunk;
  uint64_t mask;
  size_t next; /* where the walk goes on */
};
mi__inline struct mi__chunk_part mi__chunk_part(size_t at, size_t end) {
  size_t within = at % MI_CHUNK_SLICES;
  size_t n = mi__min(MI_CHUNK_SLICES - within, end - at);
  return (struct mi__chunk_part){at / MI_CHUNK_SLICES, mi__chunk_mask(within, n), at + n};
}

/* Make slices [first, end) of n_chunks zeroed chunks the arena's own; all others stay taken for
 * ever. */
void mi__bitmap_init(struct mi__bitmap *map, struct mi__chunk *chunks, size_t n_chunks,
                     size_t origin, size_t first, size_t end);

/* Find and claim. Each returns the first slice, or SIZE_MAX. */
size_t mi__bitmap_claim_one(struct mi__bitmap *map);   /* the lowest free slice */
size_t mi__bitmap_claim_eight(struct mi__bitmap *map); /* the highest free aligned 8 */
size_t mi__bitmap_claim_chunk(struct mi__bitmap *map); /* the highest chunk that is wholly free */

struct mi__run_request {
  size_t n;     /* slices */
  size_t min;   /* claim_longest: no less than this */
  size_t align; /* of the slice number counted from address 0; a power of two */
  bool from_high;
  bool cross_granules;
  bool given_back; /* out: a claim was undone; the caller arms as after a free */
};
/* Any run of n slices, by a walk over the whole map. */
size_t mi__bitmap_claim_run(struct mi__bitmap *map, struct mi__run_request *request);
/* The longest run of at least `min` and at most `n` slices; *n_out tells its length. */
size_t mi__bitmap_claim_longest(struct mi__bitmap *map, struct mi__run_request *request,
                                size_t *n_out);
/* Exactly [at, end), all or nothing. *given_back: see above; left alone otherwise. */
bool mi__bitmap_try_claim(struct mi__bitmap *map, size_t at, size_t end, bool *given_back);

/* Mark free (release). The caller then has a full fence and calls mi__bitmap_freed, which mends the
 * hints: either the free sees a hint that was just moved past its slices, or who moved it sees the
 * freed slices when it looks again. */
mi__inline void mi__chunk_free(struct mi__chunk *chunk, uint64_t mask) {
  /* Pairs with the acquire of the next claim. */
  uint64_t before mi__unused = mi__fetch_and(&chunk->xused, ~mask, release);
  mi__assert((before & mask) == mask);
}
mi__inline void mi__bitmap_free(struct mi__bitmap *map, size_t at, size_t end) {
  struct mi__chunk_part part;
  for (; at < end; at = part.next) {
    part = mi__chunk_part(at, end);
    mi__chunk_free(&map->chunks[part.chunk], part.mask);
  }
}
void mi__bitmap_freed_slow(struct mi__bitmap *map, size_t at, size_t end);
mi__inline void mi__bitmap_freed(struct mi__bitmap *map, size_t at, size_t end) {
  size_t last = (end - 1) / MI_CHUNK_SLICES;
  size_t high = mi__min(mi__load(&map->xhigh4, relaxed), mi__load(&map->xhigh8, relaxed));
  high = mi__min(high, mi__load(&map->xhigh64, relaxed));
  if (mi__likely(at / MI_CHUNK_SLICES >= mi__load(&map->xlow, relaxed) && last < high)) return;
  mi__bitmap_freed_slow(map, at, end);
}

#endif
