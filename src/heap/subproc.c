/* SPDX-License-Identifier: MIT */
#include "heap/subproc.h"
#include "arena/arena.h"
#include "arena/meta.h"
#include "heap/registry.h"

struct mi_subproc mi__subproc_main;
static struct mi_subproc *free_subprocs; /* under mi__heaps_lock */

struct mi_subproc *mi__subproc_new(void) {
  struct mi__arenas *arenas = mi__arenas_new();
  if (arenas == NULL) return NULL;
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_subproc *subproc = free_subprocs;
  if (subproc != NULL) free_subprocs = subproc->next;
  else subproc = mi__meta_alloc(sizeof *subproc, MI_CACHE_LINE);
  if (subproc != NULL) {
    subproc->arenas = arenas;
    subproc->main = mi__heap_new_locked(subproc, NULL);
    subproc->next = mi__subproc_main.next;
    mi__subproc_main.next = subproc;
  }
  mi__lock_release(&mi__heaps_lock);
  if (subproc != NULL && subproc->main == NULL) {
    mi__subproc_end(subproc);
    subproc = NULL;
  } else if (subproc == NULL) {
    mi__arenas_delete(arenas);
  }
  return subproc;
}

static void unlink_subproc(struct mi_subproc *subproc) {
  struct mi_subproc *before = &mi__subproc_main;
  while (before->next != subproc) before = before->next;
  before->next = subproc->next;
}

void mi__subproc_end(struct mi_subproc *subproc) {
  struct mi_heap_s *heap;
  while ((heap = subproc->last) != NULL) mi__heap_end(heap, true);
  mi__arenas_delete(subproc->arenas);
  mi__lock_acquire(&mi__heaps_lock);
  unlink_subproc(subproc);
  struct mi_subproc *to = &mi__subproc_main;
  mi__heap_counters_add(&to->ended, &subproc->ended, true);
  mi__gauge_add_all(&to->heaps, &subproc->heaps, true);
  mi__gauge_add_all(&to->threads, &subproc->threads, true);
  mi__count_add_all(&to->heaps_delete_wait, &subproc->heaps_delete_wait, true);
  subproc->main = NULL;
  subproc->next = free_subprocs;
  free_subprocs = subproc;
  mi__lock_release(&mi__heaps_lock);
}

void mi__subproc_fork_child(const struct mi_thread *self) {
  for (struct mi_subproc *s = &mi__subproc_main; s != NULL; s = s->next) {
    bool here = self != NULL && mi__theap_heap(&self->main)->subproc == s;
    mi__store(&s->threads.current, here, relaxed);
  }
}

struct mi_subproc *mi__subproc_each(struct mi_subproc *after) {
  if (after == NULL) return &mi__subproc_main;
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_subproc *next = after->next;
  mi__lock_release(&mi__heaps_lock);
  return next;
}

/* ---- its heaps ---- */

/* The first heap behind *id, which becomes that of it. The one visited last usually is still there,
 * and tells. */
static struct mi_heap_s *heap_behind(struct mi_subproc *subproc, const struct mi_heap_s *last,
                                     size_t *id) {
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_heap_s *heap = subproc->first;
  if (last != NULL && mi__heap_id(last) == *id) heap = last->next;
  while (heap != NULL && mi__heap_id(heap) <= *id) heap = heap->next;
  if (heap != NULL) *id = mi__heap_id(heap);
  mi__lock_release(&mi__heaps_lock);
  return heap;
}

bool mi__subproc_each_heap(struct mi_subproc *subproc,
                           bool (*act)(struct mi_heap_s *heap, void *arg), void *arg) {
  size_t id = 0;
  struct mi_heap_s *heap = heap_behind(subproc, NULL, &id);
  while (heap != NULL) {
    if (!act(heap, arg)) return false;
    heap = heap_behind(subproc, heap, &id);
  }
  return true;
}

/* ---- counters ---- */

/* Frees of others into pages that nobody owns are not in the counters, but for the main heap. */
static void subtract_freed(struct mi_heap_s *heap, struct mi__heap_counters *out) {
  if (mi__heap_is_main(heap)) return;
  for (uint64_t bins = mi__heap_bins_with_pools(heap); bins != 0; bins &= bins - 1) {
    unsigned bin = mi__ctz64(bins);
    int64_t n = mi__pool_count_freed(heap, bin);
    if (n == 0) continue;
    mi__gauge_merge(&out->bins[bin].blocks, -n, 0, 0);
    mi__gauge_merge(&out->blocks, -n * (int64_t)mi__bin_size(bin), 0, 0);
  }
}

void mi__heap_counters(struct mi_heap_s *heap, struct mi__heap_counters *out) {
  mi__heap_counters_add(out, &heap->counters, false);
  subtract_freed(heap, out);
}

void mi__subproc_counters(struct mi_subproc *subproc, struct mi__heap_counters *out) {
  mi__lock_acquire(&mi__heaps_lock);
  mi__heap_counters_add(out, &subproc->ended, false);
  for (struct mi_heap_s *heap = subproc->first; heap != NULL; heap = heap->next) {
    mi__heap_counters(heap, out);
  }
  mi__lock_release(&mi__heaps_lock);
}

void mi__heap_counters_to_subproc(struct mi_heap_s *heap) {
  mi__lock_acquire(&mi__heaps_lock);
  if (heap->subproc != NULL) {
    mi__heap_counters_add(&heap->subproc->ended, &heap->counters, true);
  }
  mi__lock_release(&mi__heaps_lock);
}

void mi__subproc_restart_counters(struct mi_subproc *subproc) {
  mi__lock_acquire(&mi__heaps_lock);
  mi__heap_counters_restart(&subproc->ended);
  mi__gauge_restart(&subproc->heaps);
  mi__gauge_restart(&subproc->threads);
  mi__count_restart(&subproc->heaps_delete_wait);
  for (struct mi_heap_s *heap = subproc->first; heap != NULL; heap = heap->next) {
    mi__heap_counters_restart(&heap->counters);
  }
  mi__lock_release(&mi__heaps_lock);
}
