/* SPDX-License-Identifier: MIT */
/* Arenas that the program asks for: reserved ones, memory that it hands over, huge OS pages.
 *
 * Owns: nothing; memory that was handed over stays the program's. Locks: mi__arena_reserve_lock,
 * for the step that makes an arena of the memory. Threads: any.
 *
 * Memory that was handed over differs from our own in three ways. Only its whole slices are used.
 * It is never mapped anew or unmapped: what is committed by us stays so, or is committed and taken
 * away by the program's function. And discarded memory is not taken to read as zeros, since a file
 * may lie behind it. */
#include "arena/policy.h"
#include "arena/types.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/message.h"
#include "rt/option.h"
#include <errno.h>

static struct mi__arena *add(struct mi__arenas *set, const struct mi__memory *memory) {
  mi__lock_acquire(&mi__arena_reserve_lock);
  struct mi__arena *arena = mi__arena_add(set, memory);
  mi__lock_release(&mi__arena_reserve_lock);
  return arena;
}

/* The same for memory that was just mapped; unmapped on failure. */
static struct mi__arena *add_mapped(struct mi__arenas *set, struct mi__memory *memory,
                                    bool exclusive, int numa_node) {
  memory->exclusive = exclusive;
  memory->numa_node = numa_node;
  struct mi__arena *arena = add(set, memory);
  if (arena == NULL) (void)mi__os_unmap(memory->start, memory->size);
  return arena;
}

/* ---- reserved ---- */

static _Atomic(bool) no_large;

void mi__area_note_no_large(void) { mi__store(&no_large, true, relaxed); }

void mi__area_tell(void) {
  if (mi__likely(!mi__load(&no_large, relaxed)) || !mi__exchange(&no_large, false, relaxed)) return;
  mi__warning("no large OS pages for an arena: it has ordinary ones\n");
}

static bool map_reserved(struct mi__memory *memory, size_t size, bool commit, bool large) {
  long allow = mi__option_get(mi_option_allow_large_os_pages);
  size_t unit = mi__os_facts.large_page_size;
  if (large && allow > 0 && unit != 0) {
    if (mi__memory_map(memory, mi__align_up(size, unit), MI_CHUNK_SIZE, true, true)) return true;
    if (allow > 1) mi__area_note_no_large();
  }
  size_t align = size >= MI_GRANULE_SIZE ? MI_GRANULE_SIZE : MI_CHUNK_SIZE;
  return mi__memory_map(memory, size, align, commit, false) ||
         mi__memory_map(memory, size, MI_SLICE_SIZE, commit, false);
}

int mi__area_reserve(struct mi__arenas *set, size_t size, bool commit, bool large, bool exclusive,
                     struct mi__arena **out) {
  *out = NULL;
  if (size == 0) return EINVAL;
  if (size > PTRDIFF_MAX - 2 * MI_GRANULE_SIZE) return ENOMEM;
  size = mi__align_up(mi__max(size, MI_ARENA_MIN_SIZE), MI_SLICE_SIZE);
  struct mi__memory memory;
  if (map_reserved(&memory, size, commit, large)) *out = add_mapped(set, &memory, exclusive, -1);
  mi__area_tell();
  return *out != NULL ? 0 : ENOMEM;
}

/* ---- handed over ---- */

static bool overlaps_free(const struct mi__arena *arena, uintptr_t start, uintptr_t end) {
  uintptr_t from = mi__max((uintptr_t)arena->map_start, start);
  uintptr_t to = mi__min((uintptr_t)arena->map_start + arena->map_size, end);
  if (arena->set == NULL || mi__load(&arena->xgone, relaxed) || from >= to) return false;
  size_t at = (from - (uintptr_t)arena->base) / MI_SLICE_SIZE;
  size_t last = mi__div_up(to - (uintptr_t)arena->base, MI_SLICE_SIZE);
  struct mi__chunk_part part;
  for (; at < last; at = part.next) {
    part = mi__chunk_part(at, last);
    uint64_t used = mi__load(&arena->slices.chunks[part.chunk].xused, relaxed);
    if ((used & part.mask) != part.mask) return true;
  }
  return false;
}

/* Is part of it the free memory of an arena? Then it was handed over twice, or is not the
 * program's. (Memory inside of a live block is; its arena just lies in another one.) */
static bool is_taken(uintptr_t start, uintptr_t end) {
  bool taken = false;
  mi__lock_acquire(&mi__arena_reserve_lock);
  uint32_t n = mi__load(&mi__arena_count, relaxed);
  for (uint32_t i = 0; i < n && !taken; i++)
    taken = overlaps_free(mi__arena_table[i], start, end);
  mi__lock_release(&mi__arena_reserve_lock);
  return taken;
}

/* A block of this library that is handed over has the record of its first slice. */
static bool has_record(uintptr_t slice) {
  const uint64_t *words = (const uint64_t *)(const void *)mi__record_of((const void *)slice);
  uint64_t any = 0;
  for (size_t i = 0; i < MI_RECORD_SIZE / sizeof *words; i++) any |= words[i];
  return any != 0;
}

static struct mi__memory describe(const struct mi__area *area, uintptr_t start, uintptr_t end) {
  struct mi__memory memory = {.start = (char *)start,
                              .size = end - start,
                              .commit = MI_COMMIT_WHOLE,
                              .pinned = area->is_pinned,
                              .zero = area->is_zero,
                              .exclusive = area->exclusive,
                              .numa_node = area->numa_node >= 0 ? area->numa_node : -1,
                              .commit_fun = area->commit_fun,
                              .commit_arg = area->commit_arg};
  if (area->commit_fun != NULL) {
    memory.commit = MI_COMMIT_SPANS;
    memory.ready = area->is_committed;
  } else if (!area->is_committed) {
    memory.commit = MI_COMMIT_STEPS;
  }
  return memory;
}

/* What is wrong with it; NULL: it is an arena. */
static const char *try_manage(struct mi__arenas *set, const struct mi__area *area,
                              struct mi__arena **out, int *err) {
  uintptr_t from = (uintptr_t)area->start;
  *err = EINVAL;
  if (area->start == NULL) return "it is at NULL";
  if (area->size < MI_ARENA_MIN_SIZE) return "it is too small";
  if (area->size > PTRDIFF_MAX || (uint64_t)from >= MI_ADDRESS_LIMIT ||
      area->size > MI_ADDRESS_LIMIT - from)
    return "it lies above the addresses that are used";
  uintptr_t start = mi__align_up(from, MI_SLICE_SIZE);
  uintptr_t end = mi__align_down(from + area->size, MI_SLICE_SIZE);
  if (is_taken(start, end)) return "it belongs to an arena";
  *err = ENOMEM;
  if (!mi__pagemap_ensure((void *)start, end - start)) return "no memory for its records";
  if (has_record(start)) start += MI_SLICE_SIZE;
  struct mi__memory memory = describe(area, start, end);
  *out = add(set, &memory);
  return *out != NULL ? NULL : "no memory for its records, or too many arenas";
}

bool mi__area_manage(struct mi__arenas *set, const struct mi__area *area, struct mi__arena **out) {
  *out = NULL;
  int err;
  const char *why = try_manage(set, area, out, &err);
  if (why == NULL) return true;
  mi__error(err, "memory at %p of %zu bytes cannot be managed: %s\n", area->start, area->size,
            why);
  return false;
}

/* ---- huge OS pages ---- */

/* As many as can be had in a row: all, or half of them, and so on. */
static size_t map_huge(struct mi__memory *memory, size_t n_pages, uint64_t deadline) {
  for (size_t n = n_pages; n > 0; n /= 2) {
    if (deadline != 0 && mi__os_clock_ms() > deadline) break;
    if (n > PTRDIFF_MAX / MI_GIB - 1) continue;
    *memory = (struct mi__memory){
        .size = n * MI_GIB, .mapped = true, .pinned = true, .zero = true, .numa_node = -1};
    mi__count(&mi__counters.mmap_calls, 1);
    memory->start = mi__os_map(memory->size, MI_GIB, MI_OS_COMMIT | MI_OS_HUGE);
    if (memory->start != NULL) return n;
  }
  return 0;
}

size_t mi__area_reserve_huge(struct mi__arenas *set, size_t n_pages, int numa_node,
                             uint64_t timeout_ms, bool exclusive, struct mi__arena **out) {
  uint64_t deadline = timeout_ms == 0 ? 0 : mi__os_clock_ms() + timeout_ms;
  if (deadline != 0 && deadline < timeout_ms) deadline = 0; /* as good as none */
  int node = numa_node < 0 ? -1 : mi__numa_node(numa_node);
  size_t got = 0, most = n_pages;
  *out = NULL;
  while (got < n_pages && most > 0) {
    struct mi__memory memory;
    size_t n = map_huge(&memory, mi__min(most, n_pages - got), deadline);
    struct mi__arena *arena = n == 0 ? NULL : add_mapped(set, &memory, exclusive, node);
    if (arena == NULL) break;
    got += n;
    most = n; /* more could not be had a moment ago */
    if (*out == NULL) *out = arena;
    if (exclusive) break;
  }
  return got;
}

size_t mi__area_interleave_huge(struct mi__arenas *set, size_t n_pages, size_t n_nodes,
                                uint64_t timeout_ms) {
  size_t there = mi__numa_nodes(), got = 0;
  if (n_nodes == 0 || n_nodes > there) n_nodes = there;
  uint64_t share_ms = timeout_ms == 0 ? 0 : timeout_ms / n_nodes + 1;
  for (size_t node = 0; node < n_nodes; node++) {
    size_t share = n_pages / n_nodes + (node < n_pages % n_nodes);
    struct mi__arena *arena;
    if (share > 0) got += mi__area_reserve_huge(set, share, (int)node, share_ms, false, &arena);
  }
  return got;
}

/* ---- options ---- */

#define MS_PER_HUGE_PAGE 500 /* a start of the process is not to wait for ever */

void mi__area_init(struct mi__arenas *set) {
  size_t n = mi__option_get_size(mi_option_reserve_huge_os_pages), got = 0;
  if (mi__likely(n == 0)) {
    mi__area_tell();
    return;
  }
  long node = mi__option_get(mi_option_reserve_huge_os_pages_at);
  uint64_t timeout = n * MS_PER_HUGE_PAGE;
  struct mi__arena *arena;
  if (node < 0) got = mi__area_interleave_huge(set, n, 0, timeout);
  else got = mi__area_reserve_huge(set, n, (int)node, timeout, false, &arena);
  if (got < n) mi__warning("only %zu of %zu huge OS pages could be reserved\n", got, n);
  mi__area_tell();
}
