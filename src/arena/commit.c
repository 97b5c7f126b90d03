/* SPDX-License-Identifier: MIT */
/* Slices are made usable and given up: by the OS, or by the program's commit function.
 *
 * Owns: nothing; the caller owns the slices (BITMAP-1). Locks: none, and while a commit function
 * runs the caller holds none but that of the shared theap. Threads: any. */
#include "arena/types.h"
#include "base/track.h"
#include "os/os.h"
#include "rt/counter.h"
#include <errno.h>

static bool is_usable(const struct mi__arena *arena, size_t slice) {
  const struct mi__chunk *chunk = &arena->slices.chunks[slice / MI_CHUNK_SLICES];
  uint64_t usable = mi__load(&chunk->xcommitted, relaxed) | mi__load(&chunk->xready, relaxed);
  return (usable >> slice % MI_CHUNK_SLICES & 1) != 0;
}

static bool call_program(struct mi__arena *arena, bool commit, char *start, size_t size,
                         bool *zero) {
  int saved = errno;
  unsigned depth = mi__track_pause();
  bool ok = arena->commit_fun(commit, start, size, zero, arena->commit_arg);
  mi__track_resume(depth);
  errno = saved;
  return ok;
}

/* *zero: it is known to read as zeros now. */
static bool commit_memory(struct mi__arena *arena, size_t at, size_t end, bool *zero) {
  char *start = mi__arena_address(arena, at);
  size_t size = (end - at) * MI_SLICE_SIZE;
  *zero = false;
  mi__count(&mi__counters.commit_calls, 1);
  if (arena->commit_fun == NULL) return mi__os_commit(start, size, NULL);
  return call_program(arena, true, start, size, zero);
}

bool mi__arena_commit(struct mi__arena *arena, size_t at, size_t end) {
  while (at < end) {
    size_t run = at;
    while (run < end && !is_usable(arena, run)) run++;
    bool zero = false;
    if (run > at) {
      if (!commit_memory(arena, at, run, &zero)) return false;
      mi__gauge_add(&mi__counters.committed, (int64_t)((run - at) * MI_SLICE_SIZE));
    }
    struct mi__chunk_part part;
    for (; at < run; at = part.next) {
      part = mi__chunk_part(at, run);
      struct mi__chunk *chunk = &arena->slices.chunks[part.chunk];
      mi__fetch_or(&chunk->xcommitted, part.mask, relaxed);
      if (zero) mi__fetch_and(&chunk->xdirty, ~part.mask, relaxed);
    }
    at = run + 1;
  }
  return true;
}

/* Two threads may do the same step: nothing is lost by that, and no step is ever closed again. The
 * release pairs with the acquire of who finds the bit set. */
bool mi__arena_open(struct mi__arena *arena, uint64_t missing) {
  size_t step_size = (MI_CHUNK_SLICES * MI_SLICE_SIZE) << arena->step_shift;
  char *end = arena->map_start + arena->map_size;
  while (missing != 0) {
    unsigned first = mi__ctz64(missing);
    uint64_t rest = ~(missing >> first);
    unsigned n = rest == 0 ? 64 : mi__ctz64(rest);
    uint64_t run = mi__chunk_mask(first, n);
    char *from = arena->base + first * step_size;
    char *to = from + n * step_size;
    if (from < arena->map_start) from = arena->map_start;
    if (to > end) to = end;
    mi__count(&mi__counters.commit_calls, 1);
    if (!mi__os_commit(from, (size_t)(to - from), NULL)) return false;
    mi__fetch_or(&arena->xopen, run, release);
    missing &= ~run;
  }
  return true;
}

static bool discard(struct mi__arena *arena, char *start, size_t size, bool surely) {
  bool unused = false;
  if (arena->commit_fun != NULL) return call_program(arena, false, start, size, &unused);
  if (surely && arena->needs_commit) return mi__os_decommit(start, size, &unused);
  return mi__os_discard(start, size, !surely);
}

bool mi__arena_discard(struct mi__arena *arena, struct mi__os_range *ranges, unsigned n,
                       bool surely, bool at_once) {
  bool plain = surely && arena->commit_fun == NULL && !arena->needs_commit;
  if (at_once && n > 1 && plain && mi__os_discards_at_once()) {
    mi__os_discard_ranges(ranges, n, true);
  } else {
    for (struct mi__os_range *r = ranges; r < ranges + n; r++) {
      r->done = discard(arena, r->start, r->size, surely);
    }
  }
  /* Lazily discarded memory may keep its contents; what a program handed over may be backed by a
   * file. */
  return surely && arena->mapped;
}
