/* SPDX-License-Identifier: MIT */
/* The public functions for arenas. Threads: any. errno is kept. */
#include "arena/arena.h"
#include "arena/policy.h"
#include "base/track.h"
#include "heap/process.h"
#include "heap/thread.h"
#include "mimalloc.h"
#include "rt/message.h"
#include "rt/option.h"
#include <errno.h>

/* The set that the calling thread's memory comes from. */
static struct mi__arenas *arenas_here(void) {
  mi__process_init();
  struct mi_thread *self = mi__thread_self(false);
  return self == NULL ? mi__arenas_main() : mi__heap_arenas(mi__theap_heap(&self->main));
}

static void give_id(mi_arena_id_t *arena_id, struct mi__arena *arena) {
  if (arena_id != NULL) *arena_id = arena;
}

/* ---- reserve ---- */

mi__export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive,
                                       mi_arena_id_t *arena_id) {
  struct mi__arena *arena;
  mi__track_begin();
  int err = mi__area_reserve(arenas_here(), size, commit, allow_large, exclusive, &arena);
  mi__track_end();
  give_id(arena_id, arena);
  return err;
}

mi__export int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) {
  return mi_reserve_os_memory_ex(size, commit, allow_large, false, NULL);
}

mi__export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
                                              bool exclusive,
                                              mi_arena_id_t *arena_id) {
  struct mi__arena *arena;
  mi__track_begin();
  size_t got = mi__area_reserve_huge(arenas_here(), pages, numa_node, timeout_msecs, exclusive,
                                     &arena);
  mi__track_end();
  give_id(arena_id, arena);
  return pages == 0 || got > 0 ? 0 : ENOMEM;
}

mi__export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node,
                                           size_t timeout_msecs) {
  return mi_reserve_huge_os_pages_at_ex(pages, numa_node, timeout_msecs, false, NULL);
}

mi__export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
                                                   size_t timeout_msecs) {
  mi__track_begin();
  size_t got = mi__area_interleave_huge(arenas_here(), pages, numa_nodes, timeout_msecs);
  mi__track_end();
  return pages == 0 || got > 0 ? 0 : ENOMEM;
}

/* A limit that is no number, or too large, is none. */
static uint64_t to_ms(double secs) {
  if (!(secs > 0) || secs > 1e9) return 0;
  return (uint64_t)(secs * 1000) + 1;
}

mi__export int mi_reserve_huge_os_pages(size_t pages, double max_secs,
                                        size_t *pages_reserved) {
  mi__track_begin();
  size_t got = mi__area_interleave_huge(arenas_here(), pages, 0, to_ms(max_secs));
  mi__track_end();
  if (pages_reserved != NULL) *pages_reserved = got;
  return pages == 0 || got > 0 ? 0 : ENOMEM;
}

/* ---- hand over ---- */

mi__export bool mi_manage_memory(void *start, size_t size, bool is_committed, bool is_pinned,
                                 bool is_zero, int numa_node, bool exclusive,
                                 mi_commit_fun_t *commit_fun, void *commit_fun_arg,
                                 mi_arena_id_t *arena_id) {
  struct mi__area area = {.start = start,
                          .size = size,
                          .is_committed = is_committed,
                          .is_pinned = is_pinned,
                          .is_zero = is_zero,
                          .exclusive = exclusive,
                          .numa_node = numa_node,
                          .commit_fun = commit_fun,
                          .commit_arg = commit_fun_arg};
  struct mi__arena *arena;
  mi__track_begin();
  bool ok = mi__area_manage(arenas_here(), &area, &arena);
  mi__track_end();
  give_id(arena_id, arena);
  return ok;
}

mi__export bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed, bool is_pinned,
                                       bool is_zero, int numa_node, bool exclusive,
                                       mi_arena_id_t *arena_id) {
  return mi_manage_memory(start, size, is_committed, is_pinned, is_zero, numa_node, exclusive, NULL,
                          NULL, arena_id);
}

mi__export bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_pinned,
                                    bool is_zero, int numa_node) {
  return mi_manage_memory(start, size, is_committed, is_pinned, is_zero, numa_node, false, NULL,
                          NULL, NULL);
}

/* ---- ask ---- */

mi__export size_t mi_arena_min_alignment(void) { return MI_SLICE_SIZE; }
mi__export size_t mi_arena_min_size(void) { return MI_ARENA_MIN_SIZE; }

mi__export size_t mi_arena_max_object_size(void) {
  mi__option_init();
  return mi__option_get_size(mi_option_arena_max_object_size);
}

mi__export void *mi_arena_area(mi_arena_id_t arena_id, size_t *size) {
  size_t bytes = 0;
  mi__track_begin();
  const struct mi__arena *arena = mi__arena_of_id(arena_id);
  char *start = arena == NULL ? NULL : mi__arena_range(arena, &bytes);
  mi__track_end();
  if (size != NULL) *size = bytes;
  return start;
}

mi__export bool mi_arena_contains(mi_arena_id_t arena_id, const void *p) {
  size_t size;
  const char *start = mi_arena_area(arena_id, &size);
  return start != NULL && (uintptr_t)p - (uintptr_t)start < size;
}

static void print_line(void *arg, const char *line) {
  (void)arg;
  mi__print(NULL, NULL, "%s", line);
}

mi__export void mi_arenas_print(void) {
  mi__process_init();
  mi__track_begin();
  mi__arenas_print(print_line, NULL);
  mi__track_end();
}

mi__export void mi_debug_show_arenas(void) { mi_arenas_print(); }
