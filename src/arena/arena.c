/* SPDX-License-Identifier: MIT */
/* Spans: taken from arenas and given back.
 *
 * Owns: nothing of its own; a span is its taker's. Locks: none (reserve.c has one for new arenas).
 * Threads: any.
 *
 * Order of a search: in each arena, oldest first, the place that its hints know (one slice from
 * below; 8 and 64 from above, aligned); then any run in any arena; then at least half of what is
 * wanted, where the request takes less; then a new arena; then whatever the request takes. Searches
 * that fail cost a walk, but come before a reservation only. */
#include "arena/arena.h"
#include "arena/types.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/option.h"

#define MEDIUM_SLICES 8

/* ---- claimed slices become a span ---- */

mi__inline bool open_slices(struct mi__arena *arena, size_t at, size_t end) {
  size_t first = at / MI_CHUNK_SLICES >> arena->step_shift;
  size_t last = (end - 1) / MI_CHUNK_SLICES >> arena->step_shift;
  uint64_t missing = mi__chunk_mask(first, last - first + 1) & ~mi__load(&arena->xopen, acquire);
  return mi__likely(missing == 0) || mi__arena_open(arena, missing);
}

/* Give back what is owned: a free, as protocols.md has it. */
static mi__noinline void free_slices(struct mi__arena *arena, size_t at, size_t end) {
  struct mi__chunk_part part;
  for (size_t next = at; next < end; next = part.next) {
    part = mi__chunk_part(next, end);
    mi__purge_mark(arena, &arena->slices.chunks[part.chunk], part.mask, part.next - next);
  }
  mi__bitmap_free(&arena->slices, at, end);
  /* Pairs with the fence of a pass that has just reset the arena: it sees the marks, or we see 0.
   */
  mi__fence(seq_cst);
  mi__bitmap_freed(&arena->slices, at, end);
  mi__purge_arm(arena, at, end);
}

/* The same where the slices lie in one chunk. */
mi__inline void free_in_chunk(struct mi__arena *arena, size_t at, size_t n) {
  struct mi__chunk *chunk = &arena->slices.chunks[at / MI_CHUNK_SLICES];
  uint64_t mask = mi__chunk_mask(at % MI_CHUNK_SLICES, n);
  mi__purge_mark(arena, chunk, mask, n);
  mi__chunk_free(chunk, mask);
  mi__fence(seq_cst);
  mi__bitmap_freed(&arena->slices, at, at + n);
  mi__purge_arm(arena, at, at + n);
}

/* Slices never used before, or purged: set the bits of use, count what is new. */
static mi__noinline void first_use(struct mi__chunk *chunk, uint64_t mask) {
  uint64_t fresh = mask & ~mi__load(&chunk->xcommitted, relaxed);
  mi__fetch_or(&chunk->xdirty, mask, relaxed);
  if (fresh == 0) return;
  mi__fetch_or(&chunk->xcommitted, mask, relaxed);
  mi__gauge_add(&mi__counters.committed,
                (int64_t)__builtin_popcountll(fresh) * (int64_t)MI_SLICE_SIZE);
}

/* True: the slices read as zeros. */
mi__inline bool use_chunk(struct mi__arena *arena, struct mi__chunk *chunk, uint64_t mask,
                          size_t n) {
  mi__purge_unmark(arena, chunk, mask, n);
  uint64_t dirty = mi__load(&chunk->xdirty, relaxed) & mask;
  if ((mi__load(&chunk->xcommitted, relaxed) & dirty) != mask) first_use(chunk, mask);
  return dirty == 0;
}

/* Slices that are owned and need not be committed yet. True: they read as zeros. */
static bool hold_slices(struct mi__arena *arena, size_t at, size_t end) {
  bool zero = true;
  struct mi__chunk_part part;
  for (; at < end; at = part.next) {
    part = mi__chunk_part(at, end);
    struct mi__chunk *chunk = &arena->slices.chunks[part.chunk];
    mi__purge_unmark(arena, chunk, part.mask, part.next - at);
    if ((mi__load(&chunk->xdirty, relaxed) & part.mask) != 0) zero = false;
  }
  return zero;
}

/* What is owned becomes usable, up to `now`. False: it could not be, and all was given back. */
mi__inline bool commit_or_free(struct mi__arena *arena, size_t at, size_t now, size_t end) {
  if (mi__likely(open_slices(arena, at, now) &&
                 (!arena->needs_commit || mi__arena_commit(arena, at, now))))
    return true;
  free_slices(arena, at, end);
  mi__count(&mi__counters.arena_rollback_count, 1);
  return false;
}

/* True: they read as zeros. */
static bool use_slices(struct mi__arena *arena, size_t at, size_t end) {
  bool zero = true;
  struct mi__chunk_part part;
  for (; at < end; at = part.next) {
    part = mi__chunk_part(at, end);
    if (!use_chunk(arena, &arena->slices.chunks[part.chunk], part.mask, part.next - at))
      zero = false;
  }
  return zero;
}

mi__inline void describe_span(struct mi__arena *arena, size_t at, size_t n, struct mi__span *out) {
  out->start = mi__arena_address(arena, at);
  out->n_slices = n;
  out->arena = arena->number + 1;
  out->pinned = arena->pinned;
  out->has_commit_fun = arena->commit_fun != NULL;
  out->in_parts = false;
}

mi__inline bool commits_in_parts(const struct mi__arena *arena,
                                 const struct mi__span_request *request) {
  if (mi__likely(!arena->needs_commit) || !request->in_parts) return false;
  long demand = mi__option_get(mi_option_page_commit_on_demand);
  return demand == 1 || (demand == 2 && !mi__os_facts.overcommits);
}

static bool make_span(struct mi__arena *arena, const struct mi__span_request *request, size_t at,
                      size_t n, struct mi__span *out) {
  describe_span(arena, at, n, out);
  out->in_parts = request->min_slices < n && commits_in_parts(arena, request);
  size_t now = at + (out->in_parts ? request->min_slices : n);
  if (!commit_or_free(arena, at, now, at + n)) return false;
  out->zero = use_slices(arena, at, now);
  if (now < at + n) out->zero &= hold_slices(arena, now, at + n);
  return true;
}

/* ---- search ---- */

struct search {
  struct mi__arenas *set;
  const struct mi__span_request *request;
  int node; /* from arenas of this NUMA node; -1: from any */
  /* slices were there, but the OS did not commit them: more address space is no remedy */
  bool uncommitted;
};

/* A walk over the arenas that may be asked. */
mi__inline struct mi__arena *first_arena(const struct search *search) {
  struct mi__arena *only = search->request->only;
  return only != NULL ? only : mi__arenas_first(search->set);
}
mi__inline struct mi__arena *next_arena(const struct search *search,
                                        const struct mi__arena *arena) {
  return search->request->only != NULL ? NULL : mi__arenas_next(arena);
}
mi__inline bool serves(const struct mi__arena *arena, const struct search *search) {
  if (search->request->only != NULL) return true;
  bool near = mi__likely(search->node < 0) || arena->numa_node < 0 ||
              arena->numa_node == search->node;
  return near && !arena->exclusive;
}

/* Slices to take from this arena. In a small arena a page that may be shorter takes a part only, in
 * multiples of what it needs at least: the first large page would leave nothing for other sizes. */
mi__inline size_t wanted_from(const struct mi__arena *arena,
                              const struct mi__span_request *request) {
  size_t n = request->n_slices, least = request->min_slices;
  if (mi__likely(n <= arena->page_share) || least == n) return n;
  size_t share = mi__max(arena->page_share, least);
  return mi__min(n, share - share % least);
}

mi__inline size_t claim_quick(struct mi__arena *arena, const struct mi__span_request *request) {
  size_t n = request->n_slices;
  if (n == 1 && request->side == MI_SIDE_LOW) return mi__bitmap_claim_one(&arena->slices);
  if (n == MEDIUM_SLICES) return mi__bitmap_claim_eight(&arena->slices);
  if (n == MI_CHUNK_SLICES && wanted_from(arena, request) == n)
    return mi__bitmap_claim_chunk(&arena->slices);
  return SIZE_MAX;
}

/* A commit function that refuses says nothing about other memory. */
static bool make_found(struct mi__arena *arena, struct search *search, size_t at, size_t n,
                       struct mi__span *out) {
  if (make_span(arena, search->request, at, n, out)) return true;
  search->uncommitted |= arena->commit_fun == NULL;
  return false;
}

/* The slices lie in one chunk. */
mi__inline bool alloc_in(struct mi__arena *arena, struct search *search, struct mi__span *out) {
  size_t n = search->request->n_slices;
  size_t at = claim_quick(arena, search->request);
  if (at == SIZE_MAX) return false;
  size_t c = at / MI_CHUNK_SLICES;
  bool open = (mi__load(&arena->xopen, acquire) >> (c >> arena->step_shift) & 1) != 0;
  if (mi__unlikely(!open || arena->needs_commit)) {
    return make_found(arena, search, at, n, out);
  }
  describe_span(arena, at, n, out);
  struct mi__chunk *chunk = &arena->slices.chunks[c];
  out->zero = use_chunk(arena, chunk, mi__chunk_mask(at % MI_CHUNK_SLICES, n), n);
  return true;
}

mi__inline bool alloc_quick(struct search *search, struct mi__span *out) {
  /* Quick places are aligned to their size. */
  if (search->request->align_slices > search->request->n_slices) return false;
  struct mi__arena *arena = first_arena(search);
  for (; arena != NULL; arena = next_arena(search, arena)) {
    if (serves(arena, search) && alloc_in(arena, search, out)) return true;
  }
  return false;
}

/* A claim that was undone is a free; the marks of the slices are still there. */
static void arm_given_back(struct mi__arena *arena, size_t at, size_t end) {
  mi__count(&mi__counters.arena_rollback_count, 1);
  mi__purge_arm(arena, at, end);
}

/* A run of n_slices, or where min is less the longest from min up. */
static bool alloc_run(struct search *search, size_t min, struct mi__span *out) {
  const struct mi__span_request *request = search->request;
  struct mi__run_request run = {.align = mi__max(request->align_slices, 1),
                                .from_high = request->side == MI_SIDE_HIGH,
                                .cross_granules = request->cross_granules};
  struct mi__arena *arena = first_arena(search);
  for (; arena != NULL; arena = next_arena(search, arena)) {
    if (!serves(arena, search)) continue;
    size_t n = run.n = wanted_from(arena, request);
    run.min = mi__min(min, n);
    size_t at = run.min == n ? mi__bitmap_claim_run(&arena->slices, &run)
                             : mi__bitmap_claim_longest(&arena->slices, &run, &n);
    if (run.given_back) arm_given_back(arena, 0, mi__arena_end_slice(arena));
    run.given_back = false;
    if (at == SIZE_MAX) continue;
    if (make_found(arena, search, at, n, out)) return true;
  }
  return false;
}

static bool alloc_near(struct search *search, size_t min, struct mi__span *out) {
  if (alloc_quick(search, out)) return true;
  if (search->request->n_slices > 1 || search->request->side == MI_SIDE_HIGH ||
      search->request->align_slices > 1) {
    if (alloc_run(search, search->request->n_slices, out)) return true;
  }
  return min < search->request->n_slices && alloc_run(search, min, out);
}

/* All that can be had from the arenas there are, down to runs of min slices. */
static bool alloc_existing(struct search *search, size_t min, struct mi__span *out) {
  if (alloc_near(search, min, out)) return true;
  if (mi__likely(search->node < 0) || mi__option_get(mi_option_arena_is_numa_local) != 0)
    return false;
  struct search anywhere = *search;
  anywhere.node = -1;
  bool ok = alloc_near(&anywhere, min, out);
  search->uncommitted |= anywhere.uncommitted;
  return ok;
}

static mi__noinline bool alloc_slow(struct search *search, struct mi__span *out) {
  const struct mi__span_request *request = search->request;
  size_t half = mi__max(request->min_slices, request->n_slices / 2);
  if (request->n_slices > PTRDIFF_MAX / MI_SLICE_SIZE ||
      request->align_slices > MI_MAX_ALIGN_SLICES)
    return false;
  size_t needed = request->n_slices + (request->align_slices > 1 ? request->align_slices - 1 : 0);
  /* No arena for the sake of an alignment: most of it would be of no use to anybody. */
  bool may_reserve = request->only == NULL && request->align_slices <= MI_GRANULE_SLICES;
  uint32_t seen;
  do {
    seen = mi__load(&search->set->xn_arenas, acquire);
    if (alloc_existing(search, half, out)) return true;
  } while (may_reserve && !search->uncommitted &&
           mi__arena_reserve(search->set, needed, seen, search->node));
  if (alloc_existing(search, request->min_slices, out)) return true;
  /* A pass holds what it purges; nobody may go without memory for that. */
  mi__purge_wait();
  return alloc_existing(search, request->min_slices, out);
}

/* ---- the interface ---- */

mi__inline bool wants_arena(const struct mi__span_request *request) {
  if (request->only != NULL) return true;
  if (mi__option_get(mi_option_disallow_arena_alloc) != 0) return false;
  /* What may be shorter holds several objects; each of them is smaller than the least that the
   * option can mean. */
  if (request->n_slices <= MEDIUM_SLICES || request->min_slices < request->n_slices) return true;
  if (request->n_slices <= mi__option_get_size(mi_option_arena_max_object_size) / MI_SLICE_SIZE)
    return true;
  /* What may not come straight from the OS comes from an arena that has room for it. */
  return mi__option_get(mi_option_disallow_os_alloc) != 0;
}

mi__inline int node_of(const struct mi__span_request *request) {
  bool local = mi__option_get(mi_option_arena_is_numa_local) != 0;
  if (mi__likely(request->numa_node < 0 && !local)) return -1;
  return mi__numa_node(request->numa_node);
}

bool mi__span_alloc(struct mi__arenas *arenas, const struct mi__span_request *request,
                    struct mi__span *out) {
  mi__assert(request->n_slices >= 1 && request->min_slices >= 1 &&
             request->min_slices <= request->n_slices);
  int node = node_of(request);
  if (mi__likely(wants_arena(request))) {
    struct search search = {arenas, request, node, false};
    if (mi__likely(alloc_quick(&search, out))) return true;
    if (alloc_slow(&search, out)) return true;
    if (request->only != NULL) return false;
  }
  return mi__direct_alloc(request, node, out);
}

void mi__span_free(struct mi__arenas *arenas mi__unused, char *start, size_t n_slices,
                   uint32_t arena) {
  if (mi__unlikely(arena == 0)) {
    mi__direct_free(start, n_slices);
    return;
  }
  struct mi__arena *from = mi__arena_table[arena - 1];
  mi__assert(from->set == arenas || from->exclusive);
  size_t at = mi__arena_slice(from, start);
  if (mi__likely(at % MI_CHUNK_SLICES + n_slices <= MI_CHUNK_SLICES)) {
    free_in_chunk(from, at, n_slices);
  } else {
    free_slices(from, at, at + n_slices);
  }
}

bool mi__span_grow(struct mi__arenas *arenas mi__unused, char *start, size_t n_slices,
                   size_t new_slices, uint32_t arena, bool *zero) {
  mi__assert(new_slices > n_slices);
  *zero = true;
  if (arena == 0) return mi__direct_grow(start, n_slices, new_slices);
  struct mi__arena *from = mi__arena_table[arena - 1];
  size_t at = mi__arena_slice(from, start) + n_slices;
  size_t more = new_slices - n_slices;
  if (more > mi__arena_end_slice(from) - at) return false;
  bool given_back = false;
  bool claimed = mi__bitmap_try_claim(&from->slices, at, at + more, &given_back);
  if (given_back) arm_given_back(from, at, at + more);
  if (!claimed || !commit_or_free(from, at, at + more, at + more)) return false;
  *zero = use_slices(from, at, at + more);
  return true;
}

bool mi__span_commit(uint32_t arena, char *from, char *to) {
  struct mi__arena *of = mi__arena_table[arena - 1];
  size_t at = mi__arena_slice(of, from), end = mi__arena_slice(of, to - 1) + 1;
  if (!mi__arena_commit(of, at, end)) return false;
  (void)use_slices(of, at, end);
  return true;
}

bool mi__span_shrink(struct mi__arenas *arenas mi__unused, char *start, size_t n_slices,
                     size_t new_slices, uint32_t arena) {
  mi__assert(new_slices >= 1 && new_slices < n_slices);
  if (arena == 0) return mi__direct_shrink(start, n_slices, new_slices);
  struct mi__arena *from = mi__arena_table[arena - 1];
  size_t at = mi__arena_slice(from, start);
  free_slices(from, at + new_slices, at + n_slices);
  return true;
}
