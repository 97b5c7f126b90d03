/* SPDX-License-Identifier: MIT */
/* Finding and claiming runs of slices. See bitmap.h for the state and its invariants.
 *
 * Owns: the used bits and the hints. Locks: none. Threads: any.
 *
 * A hint moves inwards when a search found nothing outside of it, and outwards at a free. Moving
 * inwards is a CAS, a full fence, and a second look at the chunks that were left out. A free clears
 * `used`, has a full fence, and looks at the hint. One of the two sees the other, so no free slice
 * stays outside for good (BITMAP-3). */
#include "arena/bitmap.h"
#include "arena/pagemap.h"
#include "base/check.h"

/* ---- what fits in one chunk: a mask of the slices to take, 0 where there is none ---- */

static uint64_t fit_one(uint64_t used) { return ~used & (used + 1); } /* the lowest clear bit */

static uint64_t fit_four(uint64_t used) {
  uint64_t any = used | (used >> 2);
  any |= any >> 1;
  uint64_t clear = ~any & UINT64_C(0x1111111111111111);
  if (clear == 0) return 0;
  return UINT64_C(0xf) << (63 - (unsigned)__builtin_clzll(clear));
}

static uint64_t fit_eight(uint64_t used) {
  uint64_t any = used | (used >> 4); /* fold each byte into its lowest bit */
  any |= any >> 2;
  any |= any >> 1;
  uint64_t clear = ~any & UINT64_C(0x0101010101010101);
  if (clear == 0) return 0;
  return UINT64_C(0xff) << (63 - (unsigned)__builtin_clzll(clear));
}

static uint64_t fit_chunk(uint64_t used) { return used == 0 ? MI_CHUNK_FULL : 0; }

typedef uint64_t fit_fun(uint64_t used);

mi__inline uint64_t used_of(struct mi__bitmap *map, size_t chunk) {
  return mi__load(&map->chunks[chunk].xused, relaxed);
}

/* The acquire pairs with the release in mi__bitmap_free. */
mi__inline uint64_t claim_in_chunk(struct mi__chunk *chunk, fit_fun *fit) {
  uint64_t used = mi__load(&chunk->xused, relaxed);
  uint64_t mask;
  while ((mask = fit(used)) != 0) {
    if (mi__cas_weak(&chunk->xused, &used, used | mask, acquire)) break;
  }
  return mask;
}

/* ---- hints ---- */

static void hint_at_most(_Atomic(uint32_t) *hint, uint32_t value) {
  uint32_t seen = mi__load(hint, relaxed);
  while (seen > value && !mi__cas_weak(hint, &seen, value, relaxed)) {}
}

static void hint_at_least(_Atomic(uint32_t) *hint, uint32_t value) {
  uint32_t seen = mi__load(hint, relaxed);
  while (seen < value && !mi__cas_weak(hint, &seen, value, relaxed)) {}
}

/* True: something turned up behind the hint; the search is worth another try. */
static bool raise_low(struct mi__bitmap *map, uint32_t from, uint32_t to) {
  uint32_t seen = from;
  if (!mi__cas(&map->xlow, &seen, to, relaxed)) return true;
  mi__fence(seq_cst); /* pairs with the fence between mi__bitmap_free and mi__bitmap_freed */
  for (uint32_t c = from; c < to; c++) {
    if (used_of(map, c) == MI_CHUNK_FULL) continue;
    hint_at_most(&map->xlow, c);
    return true;
  }
  return false;
}

mi__inline bool lower_high(struct mi__bitmap *map, _Atomic(uint32_t) *hint, uint32_t from,
                           uint32_t to, fit_fun *fit) {
  uint32_t seen = from;
  if (!mi__cas(hint, &seen, to, relaxed)) return true;
  mi__fence(seq_cst); /* as in raise_low */
  for (uint32_t c = from; c-- > to;) {
    if (fit(used_of(map, c)) == 0) continue;
    hint_at_least(hint, c + 1);
    return true;
  }
  return false;
}

/* ---- the three common sizes ---- */

size_t mi__bitmap_claim_one(struct mi__bitmap *map) {
  for (;;) {
    uint32_t low = mi__load(&map->xlow, relaxed);
    uint32_t c = low;
    for (; c < map->n_chunks; c++) {
      uint64_t mask = claim_in_chunk(&map->chunks[c], fit_one);
      if (mask == 0) continue;
      if (mi__unlikely(c != low)) (void)raise_low(map, low, c);
      return (size_t)c * MI_CHUNK_SLICES + mi__ctz64(mask);
    }
    if (low == c || !raise_low(map, low, c)) return SIZE_MAX;
  }
}

mi__inline size_t claim_high(struct mi__bitmap *map, _Atomic(uint32_t) *hint, fit_fun *fit) {
  for (;;) {
    uint32_t high = mi__load(hint, relaxed);
    for (uint32_t c = high; c-- > 0;) {
      uint64_t mask = claim_in_chunk(&map->chunks[c], fit);
      if (mask == 0) continue;
      if (mi__unlikely(c + 1 != high)) (void)lower_high(map, hint, high, c + 1, fit);
      return (size_t)c * MI_CHUNK_SLICES + mi__ctz64(mask);
    }
    if (high == 0 || !lower_high(map, hint, high, 0, fit)) return SIZE_MAX;
  }
}

size_t mi__bitmap_claim_eight(struct mi__bitmap *map) {
  return claim_high(map, &map->xhigh8, fit_eight);
}
size_t mi__bitmap_claim_chunk(struct mi__bitmap *map) {
  return claim_high(map, &map->xhigh64, fit_chunk);
}

/* ---- exact ranges ---- */

static void give_back(struct mi__bitmap *map, size_t at, size_t end) {
  mi__bitmap_free(map, at, end);
  mi__fence(seq_cst);
  mi__bitmap_freed(map, at, end);
}

bool mi__bitmap_try_claim(struct mi__bitmap *map, size_t at, size_t end, bool *given_back) {
  mi__assert(at < end && end <= map->n_chunks * MI_CHUNK_SLICES);
  struct mi__chunk_part part;
  for (size_t next = at; next < end; next = part.next) {
    part = mi__chunk_part(next, end);
    _Atomic(uint64_t) *word = &map->chunks[part.chunk].xused;
    uint64_t used = mi__load(word, relaxed);
    do {
      if ((used & part.mask) == 0) continue; /* to the CAS */
      if (next == at) return false;
      give_back(map, at, next);
      *given_back = true;
      return false;
    } while (!mi__cas_weak(word, &used, used | part.mask, acquire));
  }
  return true;
}

mi__inline void raise_high(struct mi__bitmap *map, _Atomic(uint32_t) *hint, uint32_t first,
                           uint32_t last, fit_fun *fit) {
  for (uint32_t c = last + 1; c > first && c > mi__load(hint, relaxed); c--) {
    if (fit(used_of(map, c - 1)) != 0) hint_at_least(hint, c);
  }
}

void mi__bitmap_freed_slow(struct mi__bitmap *map, size_t at, size_t end) {
  uint32_t first = (uint32_t)(at / MI_CHUNK_SLICES);
  uint32_t last = (uint32_t)((end - 1) / MI_CHUNK_SLICES);
  hint_at_most(&map->xlow, first);
  /* Only a fit moves the high hints: single slices that come and go far up would make every search
   * start there. */
  raise_high(map, &map->xhigh4, first, last, fit_four);
  raise_high(map, &map->xhigh8, first, last, fit_eight);
  raise_high(map, &map->xhigh64, first, last, fit_chunk);
}

/* ---- any run ---- */

struct run {
  size_t lo, hi; /* [lo, hi) */
};

/* As many slices of a run as are looked at: any alignment can be met in them. */
static size_t enough(const struct mi__run_request *request) {
  return request->n + request->align - 1;
}

/* The highest run of free slices below `end`; it stops at the granule boundary unless the request
 * crosses. */
static bool run_below(struct mi__bitmap *map, size_t end, const struct mi__run_request *request,
                      struct run *out) {
  if (end == 0) return false;
  size_t c = (end - 1) / MI_CHUNK_SLICES;
  uint64_t clear = ~used_of(map, c) & mi__chunk_mask(0, (end - 1) % MI_CHUNK_SLICES + 1);
  while (clear == 0) {
    if (c-- == 0) return false;
    clear = ~used_of(map, c);
  }
  unsigned top = 63 - (unsigned)__builtin_clzll(clear);
  out->hi = c * MI_CHUNK_SLICES + top + 1;
  uint64_t taken = ~clear & mi__chunk_mask(0, top + 1);
  while (taken == 0) {
    bool wall = (map->origin + c * MI_CHUNK_SLICES) % MI_GRANULE_SLICES == 0;
    if (c == 0 || (wall && !request->cross_granules)) break;
    if (out->hi - c * MI_CHUNK_SLICES >= enough(request)) break;
    taken = used_of(map, --c);
  }
  out->lo = c * MI_CHUNK_SLICES + (taken == 0 ? 0 : 64 - (unsigned)__builtin_clzll(taken));
  return true;
}

/* The lowest run of free slices from `at` up. */
static bool run_above(struct mi__bitmap *map, size_t at, const struct mi__run_request *request,
                      struct run *out) {
  size_t c = at / MI_CHUNK_SLICES;
  if (c >= map->n_chunks) return false;
  uint64_t clear = ~used_of(map, c) & (MI_CHUNK_FULL << at % MI_CHUNK_SLICES);
  while (clear == 0) {
    if (++c == map->n_chunks) return false;
    clear = ~used_of(map, c);
  }
  out->lo = c * MI_CHUNK_SLICES + mi__ctz64(clear);
  uint64_t taken = ~clear & (MI_CHUNK_FULL << mi__ctz64(clear));
  while (taken == 0) {
    bool wall = (map->origin + (c + 1) * MI_CHUNK_SLICES) % MI_GRANULE_SLICES == 0;
    if (++c == map->n_chunks || (wall && !request->cross_granules)) break;
    if (c * MI_CHUNK_SLICES - out->lo >= enough(request)) break;
    taken = used_of(map, c);
  }
  out->hi = c * MI_CHUNK_SLICES + (taken == 0 ? 0 : mi__ctz64(taken));
  return true;
}

/* Lower a hint to where it belongs; what is above it fits no more. */
mi__inline size_t settle_high(struct mi__bitmap *map, _Atomic(uint32_t) *hint, fit_fun *fit) {
  uint32_t high = mi__load(hint, relaxed);
  uint32_t c = high;
  while (c > 0 && fit(used_of(map, c - 1)) == 0) c--;
  if (c != high) (void)lower_high(map, hint, high, c, fit);
  return c;
}

/* No run of n slices ends above this: 7 in a row hold an aligned 4, 15 an aligned 8, 127 a whole
 * chunk; they may go on into the chunk after. */
static size_t highest_end(struct mi__bitmap *map, size_t n) {
  size_t chunks = map->n_chunks;
  if (n >= 127) {
    chunks = settle_high(map, &map->xhigh64, fit_chunk) + 1;
  } else if (n >= 15) {
    chunks = settle_high(map, &map->xhigh8, fit_eight) + 1;
  } else if (n >= 7) {
    chunks = settle_high(map, &map->xhigh4, fit_four) + 1;
  }
  return mi__min(chunks, map->n_chunks) * MI_CHUNK_SLICES;
}

/* The next run in the direction of the request; fresh: the first. */
static bool next_run(struct mi__bitmap *map, const struct mi__run_request *request, struct run *run,
                     bool fresh) {
  size_t end = fresh && request->from_high ? highest_end(map, request->min) : 0;
  if (request->from_high) return run_below(map, fresh ? end : run->lo, request, run);
  return run_above(map, fresh ? 0 : run->hi, request, run);
}

/* Where n slices lie in the run, or SIZE_MAX. */
static size_t place_in_run(struct mi__bitmap *map, const struct mi__run_request *request,
                           struct run run, size_t n) {
  if (run.hi - run.lo < n) return SIZE_MAX;
  if (request->from_high) {
    size_t number = mi__align_down(map->origin + run.hi - n, request->align);
    return number >= map->origin + run.lo ? number - map->origin : SIZE_MAX;
  }
  size_t at = mi__align_up(map->origin + run.lo, request->align) - map->origin;
  return at <= run.hi - n ? at : SIZE_MAX;
}

size_t mi__bitmap_claim_run(struct mi__bitmap *map, struct mi__run_request *request) {
  struct run run = {0, 0};
  struct run before = run;
  bool fresh = true;
  while (next_run(map, request, &run, fresh)) {
    size_t at = place_in_run(map, request, run, request->n);
    if (at == SIZE_MAX) {
      before = run;
      fresh = false;
    } else if (mi__bitmap_try_claim(map, at, at + request->n, &request->given_back)) {
      return at;
    } else {
      run = before; /* somebody was quicker: look at this place again */
    }
  }
  return SIZE_MAX;
}

/* How many slices of the run can be had, at most request->n. */
static size_t length_in_run(struct mi__bitmap *map, const struct mi__run_request *request,
                            struct run run) {
  size_t lo = mi__align_up(map->origin + run.lo, request->align) - map->origin;
  return lo < run.hi ? mi__min(run.hi - lo, request->n) : 0;
}

size_t mi__bitmap_claim_longest(struct mi__bitmap *map, struct mi__run_request *request,
                                size_t *n_out) {
  for (;;) {
    struct run run = {0, 0};
    struct run best = run;
    size_t longest = 0;
    for (bool fresh = true; longest < request->n && next_run(map, request, &run, fresh);
         fresh = false) {
      size_t length = length_in_run(map, request, run);
      if (length <= longest) continue;
      longest = length;
      best = run;
    }
    if (longest == 0 || longest < request->min) return SIZE_MAX;
    size_t at = place_in_run(map, request, best, longest);
    if (at == SIZE_MAX) return SIZE_MAX;
    *n_out = longest;
    if (mi__bitmap_try_claim(map, at, at + longest, &request->given_back)) return at;
  }
}

void mi__bitmap_init(struct mi__bitmap *map, struct mi__chunk *chunks, size_t n_chunks,
                     size_t origin, size_t first, size_t end) {
  mi__assert(origin % MI_CHUNK_SLICES == 0 && first < end && end <= n_chunks * MI_CHUNK_SLICES);
  map->chunks = chunks;
  map->n_chunks = n_chunks;
  map->origin = origin;
  struct mi__chunk *low = &chunks[first / MI_CHUNK_SLICES];
  struct mi__chunk *high = &chunks[(end - 1) / MI_CHUNK_SLICES];
  mi__assert(low == chunks && high == chunks + n_chunks - 1);
  if (first % MI_CHUNK_SLICES != 0) low->outside |= mi__chunk_mask(0, first % MI_CHUNK_SLICES);
  if (end % MI_CHUNK_SLICES != 0) high->outside |= MI_CHUNK_FULL << end % MI_CHUNK_SLICES;
  mi__store(&low->xused, low->outside, relaxed);
  mi__store(&high->xused, high->outside, relaxed);
  mi__store(&map->xlow, 0, relaxed);
  mi__store(&map->xhigh4, (uint32_t)n_chunks, relaxed);
  mi__store(&map->xhigh8, (uint32_t)n_chunks, relaxed);
  mi__store(&map->xhigh64, (uint32_t)n_chunks, relaxed);
}
