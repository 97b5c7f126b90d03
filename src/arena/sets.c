/* SPDX-License-Identifier: MIT */
/* Sets of arenas: that of the process and those of sub-processes; and what concerns all arenas:
 * whether an address is in one, printing, exit.
 *
 * Owns: the sets. Locks: mi__arena_reserve_lock, and inside of it the purge guard at the end of a
 * set. Threads: any; the end of a set has it to itself (arena.h). */
#include "arena/meta.h"
#include "arena/types.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/message.h"
#include <string.h>

static struct mi__arenas main_set;
static struct mi__arenas *free_sets; /* under the reserve lock */

_Atomic(int64_t) mi__purge_ask_at = INT64_MAX;

struct mi__arenas *mi__arenas_main(void) { return &main_set; }

static struct mi__arenas *make_set(void) {
  struct mi__arenas *set = mi__meta_alloc(sizeof *set, MI_CACHE_LINE);
  if (set == NULL) return NULL;
  struct mi__arenas *next = mi__load(&main_set.xnext, relaxed);
  do {
    mi__store(&set->xnext, next, relaxed);
    /* Release: pairs with the acquire of mi__arenas_each. */
  } while (!mi__cas_weak(&main_set.xnext, &next, set, release));
  return set;
}

struct mi__arenas *mi__arenas_new(void) {
  mi__lock_acquire(&mi__arena_reserve_lock);
  struct mi__arenas *set = free_sets;
  if (set != NULL) free_sets = set->next_free;
  mi__lock_release(&mi__arena_reserve_lock);
  if (set == NULL) return make_set();
  set->next_free = NULL;
  return set;
}

struct mi__arenas *mi__arenas_each(const struct mi__arenas *after) {
  return after == NULL ? &main_set : mi__load(&after->xnext, acquire);
}

void mi__arenas_ask(struct mi__arenas *arenas) {
  int64_t waiting = mi__load(&arenas->xwaiting_bytes, relaxed);
  if (waiting >= mi__load(&mi__purge_ask_at, relaxed)) mi__purge_ask();
}

mi__cold void mi__purge_ask(void) { mi__fetch_or(&mi__wants, MI_WANTS_BACKGROUND, relaxed); }

size_t mi__arenas_waiting(struct mi__arenas *arenas) {
  int64_t bytes = mi__load(&arenas->xwaiting_bytes, relaxed);
  return bytes > 0 ? (size_t)bytes : 0;
}

struct counts {
  size_t used, committed, marked; /* slices */
};

static struct counts count_slices(const struct mi__arena *arena) {
  struct counts n = {0, 0, 0};
  for (size_t c = 0; c < arena->slices.n_chunks; c++) {
    const struct mi__chunk *chunk = &arena->slices.chunks[c];
    uint64_t marked = mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed);
    n.used += (size_t)__builtin_popcountll(mi__load(&chunk->xused, relaxed) & ~chunk->outside);
    n.committed += (size_t)__builtin_popcountll(mi__load(&chunk->xcommitted, relaxed));
    n.marked += (size_t)__builtin_popcountll(marked);
  }
  return n;
}

void mi__arenas_sizes(const struct mi__arenas *set, size_t *reserved, size_t *committed) {
  *reserved = *committed = 0;
  struct mi__arena *arena = mi__arenas_first(set);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    if (mi__load(&arena->xgone, relaxed)) continue;
    *reserved += arena->map_size;
    *committed += count_slices(arena).committed * MI_SLICE_SIZE;
  }
}

/* ---- pictures ---- */

struct mi__arena *mi__arenas_picture(const struct mi__arenas *set, struct mi__arena *after,
                                     struct mi__arena_facts *facts) {
  struct mi__arena *arena = after == NULL ? mi__arenas_first(set) : mi__arenas_next(after);
  while (arena != NULL && mi__load(&arena->xgone, relaxed)) arena = mi__arenas_next(arena);
  if (arena == NULL) return NULL;
  *facts = (struct mi__arena_facts){.number = arena->number,
                                    .start = arena->base,
                                    .n_slices = mi__arena_end_slice(arena),
                                    .numa_node = arena->numa_node,
                                    .pinned = arena->pinned,
                                    .exclusive = arena->exclusive,
                                    .mapped = arena->mapped,
                                    .has_commit_fun = arena->commit_fun != NULL};
  for (size_t c = 0; c < arena->slices.n_chunks; c++) {
    facts->n_outside += (size_t)__builtin_popcountll(arena->slices.chunks[c].outside);
  }
  return arena;
}

uint64_t mi__arena_bits(const struct mi__arena *arena, size_t c, enum mi__slice_bit bit) {
  const struct mi__chunk *chunk = &arena->slices.chunks[c];
  uint64_t is_free = ~(mi__load(&chunk->xused, relaxed) | chunk->outside);
  switch (bit) {
  case MI_SLICE_COMMITTED: return mi__load(&chunk->xcommitted, relaxed) & ~chunk->outside;
  case MI_SLICE_FREE: return is_free;
  default:
    return (mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed)) & is_free;
  }
}

/* ---- the end of a set ---- */

/* Records that were never touched are not touched here either. */
static void clear_record(char *slice) {
  uint64_t *words = (uint64_t *)(void *)mi__record_of(slice);
  uint64_t any = 0;
  for (size_t i = 0; i < MI_RECORD_SIZE / sizeof *words; i++) any |= words[i];
  if (any != 0) memset(words, 0, MI_RECORD_SIZE);
}

static void clear_records(struct mi__arena *arena) {
  for (size_t c = 0; c < arena->slices.n_chunks; c++) {
    struct mi__chunk *chunk = &arena->slices.chunks[c];
    uint64_t taken = mi__load(&chunk->xused, relaxed) & ~chunk->outside;
    for (; taken != 0; taken &= taken - 1)
      clear_record(mi__arena_address(arena, c * MI_CHUNK_SLICES + mi__ctz64(taken)));
  }
}

static void end_arena(struct mi__arena *arena) {
  if (!mi__load(&arena->xgone, relaxed)) {
    size_t committed = count_slices(arena).committed * MI_SLICE_SIZE;
    clear_records(arena);
    /* Where the OS cannot unmap (too many mappings) the contents at least go back. */
    if (arena->mapped && !mi__os_unmap(arena->map_start, arena->map_size))
      (void)mi__os_discard(arena->map_start, arena->map_size, false);
    mi__gauge_add(&mi__counters.committed, -(int64_t)committed);
    mi__gauge_add(&mi__counters.reserved, -(int64_t)arena->map_size);
  }
  mi__arena_forget(arena);
}

/* With the lock and the guard, and nobody calling a commit function of the set. */
static void lock_quiet_set(struct mi__arenas *set) {
  for (;;) {
    mi__lock_acquire(&mi__arena_reserve_lock);
    mi__purge_keep_out();
    /* Acquire: pairs with the release at the end of such calls (purge.c). */
    uint32_t n = mi__load(&set->xcalling, acquire);
    if (n == 0) return;
    mi__purge_let_in();
    mi__lock_release(&mi__arena_reserve_lock);
    mi__os_wait(&set->xcalling, n, -1);
  }
}

void mi__arenas_delete(struct mi__arenas *set) {
  mi__assert(set != NULL && set != &main_set);
  lock_quiet_set(set);
  struct mi__arena *arena = mi__arenas_first(set);
  while (arena != NULL) {
    struct mi__arena *next = mi__arenas_next(arena);
    end_arena(arena);
    arena = next;
  }
  mi__store(&set->xfirst, NULL, relaxed);
  mi__store(&set->xn_arenas, 0, relaxed);
  mi__store(&set->xexpire, 0, relaxed);
  mi__store(&set->xexpire_calls, 0, relaxed);
  mi__store(&set->xwaiting_bytes, 0, relaxed);
  set->last = NULL;
  set->n_reserved = 0;
  set->next_free = free_sets;
  free_sets = set;
  mi__purge_let_in();
  mi__lock_release(&mi__arena_reserve_lock);
}

/* ---- all arenas ---- */

static bool is_inside(const struct mi__arena *arena, const void *p) {
  size_t within = (uintptr_t)p - (uintptr_t)arena->map_start; /* wraps for an address below */
  return arena->set != NULL && within < arena->map_size && !mi__load(&arena->xgone, relaxed);
}

bool mi__arenas_contain(const void *p) {
  bool found = mi__pagemap_is_direct(p);
  if (found) return true;
  mi__lock_acquire(&mi__arena_reserve_lock);
  uint32_t n = mi__load(&mi__arena_count, relaxed);
  for (uint32_t i = 0; i < n && !found; i++) found = is_inside(mi__arena_table[i], p);
  mi__lock_release(&mi__arena_reserve_lock);
  return found;
}

struct mi__arena *mi__arena_of_id(const void *id) {
  struct mi__arena *found = NULL;
  mi__lock_acquire(&mi__arena_reserve_lock);
  uint32_t n = mi__load(&mi__arena_count, relaxed);
  for (uint32_t i = 0; i < n && found == NULL; i++) {
    if (mi__arena_table[i] == id && mi__arena_table[i]->set != NULL) found = mi__arena_table[i];
  }
  mi__lock_release(&mi__arena_reserve_lock);
  return found;
}

char *mi__arena_range(const struct mi__arena *arena, size_t *size) {
  *size = arena->map_size;
  return arena->map_start;
}

/* Under the reserve lock. False: this number has no arena. */
static bool describe(const struct mi__arena *arena, char *line, size_t size) {
  if (arena->set == NULL) return false;
  struct counts n = count_slices(arena);
  (void)mi__format(
      line, size,
      "arena %u: %p, %zu slices of 64 KiB: %zu used, %zu committed, %zu to be purged%s%s%s%s%s\n",
      (unsigned)arena->number, (void *)arena->map_start, arena->map_size / MI_SLICE_SIZE, n.used,
      n.committed, n.marked, arena->pinned ? ", pinned" : "", arena->exclusive ? ", exclusive" : "",
      arena->mapped ? "" : ", handed over", arena->set != &main_set ? ", of a sub-process" : "",
      mi__load(&arena->xgone, relaxed) ? ", unmapped" : "");
  return true;
}

/* No lock is held while `print` runs. */
void mi__arenas_print(void (*print)(void *arg, const char *line), void *arg) {
  uint32_t count = mi__load(&mi__arena_count, acquire);
  for (uint32_t i = 0; i < count; i++) {
    char line[240];
    mi__lock_acquire(&mi__arena_reserve_lock);
    bool there = describe(mi__arena_table[i], line, sizeof line);
    mi__lock_release(&mi__arena_reserve_lock);
    if (there) print(arg, line);
  }
}

/* ---- exit ---- */

/* All claimed: nobody can take from it any more. */
static void unmap_claimed(struct mi__arena *arena, size_t first, size_t end) {
  size_t committed = count_slices(arena).committed;
  mi__store(&arena->xgone, true, relaxed);
  if (!mi__os_unmap(arena->map_start, arena->map_size)) {
    mi__store(&arena->xgone, false, relaxed);
    mi__bitmap_free(&arena->slices, first, end);
    mi__fence(seq_cst);
    mi__bitmap_freed(&arena->slices, first, end);
    mi__purge_arm(arena, first, end);
    return;
  }
  for (size_t c = 0; c < arena->slices.n_chunks; c++) {
    mi__purge_unmark(arena, &arena->slices.chunks[c], MI_CHUNK_FULL, MI_CHUNK_SLICES);
    mi__store(&arena->slices.chunks[c].xcommitted, 0, relaxed);
  }
  mi__gauge_add(&mi__counters.reserved, -(int64_t)arena->map_size);
  mi__gauge_add(&mi__counters.committed, -(int64_t)(committed * MI_SLICE_SIZE));
}

void mi__arenas_destroy_free(struct mi__arenas *arenas) {
  mi__purge_wait();
  struct mi__arena *arena = mi__arenas_first(arenas);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    if (!arena->mapped || mi__load(&arena->xgone, relaxed)) continue;
    size_t first = mi__arena_slice(arena, arena->map_start);
    size_t end = mi__arena_slice(arena, arena->map_start + arena->map_size);
    bool given_back = false;
    if (mi__bitmap_try_claim(&arena->slices, first, end, &given_back))
      unmap_claimed(arena, first, end);
    if (given_back) mi__purge_arm(arena, first, end);
  }
}
