/* SPDX-License-Identifier: MIT */
/* New arenas: how large, from where, and what they need before anybody may claim from them.
 *
 * Owns: the table of arenas. Locks: mi__arena_reserve_lock, one reservation at a time. Threads:
 * any. An arena is published by the release store that links it into its set, which pairs with the
 * acquire loads of who searches. */
#include "arena/meta.h"
#include "arena/policy.h"
#include "arena/types.h"
#include "base/check.h"
#include "base/track.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/option.h"
#include <string.h>

#define MIN_STEP_CHUNKS 4 /* 16 MiB */
/* A large page of a whole chunk must leave room for others: arenas of less than 4 chunks have
 * smaller ones. */
#define PAGE_SHARE 4

struct mi__lock mi__arena_reserve_lock = MI_LOCK_INIT(MI_LOCK_ARENA_RESERVE);
struct mi__arena *mi__arena_table[MI_MAX_ARENAS];
_Atomic(uint32_t) mi__arena_count;
static uint32_t n_free_numbers; /* under the reserve lock: entries below the count without a set */

/* ---- memory ---- */

static char *map(size_t size, size_t align, unsigned flags) {
  mi__count(&mi__counters.mmap_calls, 1);
  return mi__os_map(size, align, flags);
}

/* Where the OS overcommits an arena could be usable as a whole for nothing, but for mlockall: that
 * brings in all that is writable. Steps of 1/64 cost a system call each and bound what is locked
 * beyond what is used. */
static enum mi__commit how_to_commit(void) {
  long eager = mi__option_get(mi_option_arena_eager_commit);
  if (eager == 1) return MI_COMMIT_WHOLE;
  return eager == 2 && mi__os_facts.overcommits ? MI_COMMIT_STEPS : MI_COMMIT_SPANS;
}

bool mi__memory_map(struct mi__memory *memory, size_t size, size_t align, bool commit, bool large) {
  *memory = (struct mi__memory){.size = size, .mapped = true, .zero = true, .numa_node = -1};
  memory->commit = commit || large ? MI_COMMIT_WHOLE : how_to_commit();
  memory->pinned = large;
  unsigned flags = memory->commit == MI_COMMIT_WHOLE ? MI_OS_COMMIT : 0;
  memory->start = map(size, align, large ? flags | MI_OS_LARGE : flags);
  return memory->start != NULL;
}

/* ---- memory becomes an arena ---- */

/* The number, and the struct with its chunks, of an arena that was deleted: the one with the least
 * capacity that will do; `any`: or any at all. */
static struct mi__arena *find_free(size_t n_chunks, bool any) {
  struct mi__arena *found = NULL;
  if (n_free_numbers == 0) return NULL;
  uint32_t count = mi__load(&mi__arena_count, relaxed);
  for (uint32_t i = 0; i < count; i++) {
    struct mi__arena *arena = mi__arena_table[i];
    if (arena->set != NULL || (!any && arena->capacity < n_chunks)) continue;
    if (found == NULL || arena->capacity < found->capacity) found = arena;
  }
  return found;
}

static struct mi__arena *new_struct(size_t n_chunks, uint32_t number) {
  size_t chunks_size = n_chunks * sizeof(struct mi__chunk);
  char *meta = mi__meta_alloc(chunks_size + sizeof(struct mi__arena), MI_CACHE_LINE);
  if (meta == NULL) return NULL;
  struct mi__arena *arena = (struct mi__arena *)(void *)(meta + chunks_size);
  arena->slices.chunks = (struct mi__chunk *)(void *)meta;
  arena->capacity = (uint32_t)n_chunks;
  arena->number = number;
  return arena;
}

/* A struct with zeroed chunks and a number; neither is in the table yet. */
static struct mi__arena *take_struct(size_t n_chunks) {
  uint32_t count = mi__load(&mi__arena_count, relaxed);
  struct mi__arena *arena = find_free(n_chunks, false);
  if (arena != NULL) {
    memset(arena->slices.chunks, 0, n_chunks * sizeof(struct mi__chunk));
    return arena;
  }
  if (count < MI_MAX_ARENAS) return new_struct(n_chunks, count);
  struct mi__arena *smaller = find_free(n_chunks, true);
  return smaller != NULL ? new_struct(n_chunks, smaller->number) : NULL;
}

static void init_slices(struct mi__arena *arena, const struct mi__memory *memory, size_t n_chunks) {
  size_t first = mi__arena_slice(arena, arena->map_start);
  mi__bitmap_init(&arena->slices, arena->slices.chunks, n_chunks,
                  (uintptr_t)arena->base >> MI_SLICE_SHIFT, first,
                  first + arena->map_size / MI_SLICE_SIZE);
  for (size_t c = 0; c < n_chunks && !(memory->zero && !memory->ready); c++) {
    struct mi__chunk *chunk = &arena->slices.chunks[c];
    if (!memory->zero) mi__store(&chunk->xdirty, MI_CHUNK_FULL, relaxed);
    if (memory->ready) mi__store(&chunk->xready, MI_CHUNK_FULL, relaxed);
  }
}

static void publish(struct mi__arenas *set, struct mi__arena *arena) {
  uint32_t count = mi__load(&mi__arena_count, relaxed);
  if (arena->number < count) n_free_numbers--;
  arena->set = set;
  mi__store(&arena->xnext, NULL, relaxed);
  mi__arena_table[arena->number] = arena;
  if (arena->number == count) mi__store(&mi__arena_count, count + 1, release);
  if (set->last == NULL) mi__store(&set->xfirst, arena, release);
  else mi__store(&set->last->xnext, arena, release);
  set->last = arena;
  mi__store(&set->xn_arenas, mi__load(&set->xn_arenas, relaxed) + 1, release);
  mi__count(&mi__counters.arena_count, 1);
  mi__gauge_add(&mi__counters.reserved, (int64_t)arena->map_size);
}

struct mi__arena *mi__arena_add(struct mi__arenas *set, const struct mi__memory *memory) {
  uintptr_t start = mi__align_up((uintptr_t)memory->start, MI_SLICE_SIZE);
  uintptr_t end = mi__align_down((uintptr_t)memory->start + memory->size, MI_SLICE_SIZE);
  if (end <= start) return NULL;
  uintptr_t base = mi__align_down(start, MI_CHUNK_SIZE);
  size_t n_chunks = mi__div_up(end - base, MI_CHUNK_SIZE);
  if (!mi__pagemap_ensure((char *)start, end - start)) return NULL;
  /* Last of all that may fail: memory for records is never given back. */
  struct mi__arena *arena = take_struct(n_chunks);
  if (arena == NULL) return NULL;
  arena->base = (char *)base;
  arena->map_start = (char *)start;
  arena->map_size = end - start;
  init_slices(arena, memory, n_chunks);
  size_t share = arena->map_size / MI_SLICE_SIZE / PAGE_SHARE;
  arena->page_share = share < MI_CHUNK_SLICES ? (uint32_t)share : UINT32_MAX;
  arena->needs_commit = memory->commit == MI_COMMIT_SPANS;
  size_t step = mi__max(mi__div_up(n_chunks, 64), MIN_STEP_CHUNKS);
  arena->step_shift = (uint8_t)(mi__log2(step - 1) + 1);
  mi__store(&arena->xopen, memory->commit == MI_COMMIT_STEPS ? 0 : UINT64_MAX, relaxed);
  mi__store(&arena->xexpire, 0, relaxed);
  mi__store(&arena->xgone, false, relaxed);
  arena->mapped = memory->mapped;
  arena->pinned = memory->pinned;
  arena->exclusive = memory->exclusive;
  arena->numa_node = memory->numa_node;
  arena->commit_fun = memory->commit_fun;
  arena->commit_arg = memory->commit_arg;
  if (arena->numa_node >= 0 && arena->mapped)
    mi__os_bind_numa(arena->map_start, arena->map_size, arena->numa_node);
  mi__track_hide(&arena->base, sizeof arena->base);
  mi__track_hide(&arena->map_start, sizeof arena->map_start);
  publish(set, arena);
  return arena;
}

void mi__arena_forget(struct mi__arena *arena) {
  arena->set = NULL;
  n_free_numbers++;
}

/* ---- reservation for lack of room ---- */

unsigned mi__numa_nodes(void) {
  size_t most = mi__option_get_size(mi_option_use_numa_nodes);
  if (most == 1) return 1;
  size_t n = mi__os_numa_nodes();
  return (unsigned)(most == 0 ? n : mi__min(n, most));
}

int mi__numa_node(int node) {
  unsigned n = mi__numa_nodes();
  if (n <= 1) return -1;
  return (int)((node >= 0 ? (unsigned)node : mi__os_cpu_numa_node()) % n);
}

static bool map_any(struct mi__memory *memory, size_t size, size_t align) {
  long large = mi__option_get(mi_option_allow_large_os_pages);
  if (large > 0) {
    if (mi__memory_map(memory, size, MI_CHUNK_SIZE, true, true)) return true;
    if (large > 1) mi__area_note_no_large();
  }
  return mi__memory_map(memory, size, align, false, false);
}

/* An arena of `size` bytes, or of the largest that can be had and holds `needed`. */
static struct mi__arena *reserve_locked(struct mi__arenas *set, size_t size, size_t needed,
                                        bool limited, int numa_node) {
  for (; size != 0; size = mi__policy_smaller_reservation(size, needed)) {
    /* Aligned to granules an arena needs no records that nobody uses, but the alignment may cost as
     * much again. */
    size_t align = limited || size < MI_GRANULE_SIZE ? MI_CHUNK_SIZE : MI_GRANULE_SIZE;
    struct mi__memory memory;
    if (!map_any(&memory, size, align)) continue;
    memory.numa_node = numa_node;
    struct mi__arena *arena = mi__arena_add(set, &memory);
    if (arena != NULL) return arena;
    (void)mi__os_unmap(memory.start, memory.size);
  }
  return NULL;
}

bool mi__arena_reserve(struct mi__arenas *set, size_t needed, uint32_t seen, int numa_node) {
  if (mi__option_get(mi_option_disallow_os_alloc) != 0 || needed > PTRDIFF_MAX / MI_SLICE_SIZE)
    return false;
  bool ok = true;
  mi__lock_acquire(&mi__arena_reserve_lock);
  if (mi__load(&set->xn_arenas, relaxed) == seen) {
    size_t left = mi__os_address_space_left();
    size_t reserve = mi__option_get_size(mi_option_arena_reserve);
    size_t size = mi__policy_reservation(reserve, set->n_reserved, needed * MI_SLICE_SIZE, left);
    ok = reserve_locked(set, size, needed * MI_SLICE_SIZE, left != SIZE_MAX, numa_node) != NULL;
    if (ok) set->n_reserved++;
  }
  mi__lock_release(&mi__arena_reserve_lock);
  return ok;
}

/* What the options ask for. Failures are no errors: the program gets its memory as it needs it. */
void mi__arenas_init(void) {
  struct mi__arenas *set = mi__arenas_main();
  size_t size = mi__option_get_size(mi_option_reserve_os_memory);
  if (size != 0 && size <= PTRDIFF_MAX - MI_GRANULE_SIZE) {
    size = mi__align_up(size, MI_CHUNK_SIZE);
    mi__lock_acquire(&mi__arena_reserve_lock);
    (void)reserve_locked(set, size, size, mi__os_address_space_left() != SIZE_MAX, -1);
    mi__lock_release(&mi__arena_reserve_lock);
  }
  /* Who wants to be told hears it now, not some time after the first allocation. */
  if (mi__option_get(mi_option_allow_large_os_pages) > 1) (void)mi__arena_reserve(set, 1, 0, -1);
  mi__area_init(set);
}
