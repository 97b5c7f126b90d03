/* SPDX-License-Identifier: MIT */
/* Heaps: made, ended, collected, asked about. Their allocation forms are in heap_forms.c, the ones
 * that are called most in alloc.c. Theaps and sub-processes are in theap.c.
 * Threads: any; a heap that is ended must not be used by another thread at the same time, but for
 * frees while it is deleted. */
#include "api/heap.h"
#include "base/track.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/process.h"
#include "heap/registry.h"
#include "heap/teardown.h"
#include "heap/thread.h"
#include "heap/visit.h"
#include "rt/message.h"
#include <errno.h>

mi__cold bool mi__heap_is_bad(const struct mi_heap_s *heap, const char *what) {
  if (heap == NULL || !mi__heap_is_live(heap)) {
    mi__error(EINVAL, "%s: %p is no heap: ignored\n", what, (const void *)heap);
    return true;
  }
  return false;
}

mi__cold static mi_theap_t *no_theap(mi_heap_t *heap) {
  if (mi__heap_is_bad(heap, "allocation")) errno = EINVAL;
  else (void)mi__no_memory(sizeof(mi_theap_t));
  return NULL;
}

mi_theap_t *mi__heap_theap_or_report(mi_heap_t *heap) {
  mi_theap_t *theap = mi__heap_theap_slow(heap);
  return mi__likely(theap != NULL) ? theap : no_theap(heap);
}

static struct mi_subproc *current_subproc(void) {
  mi__process_init();
  struct mi_thread *self = mi__thread_self(false);
  return self == NULL ? &mi__subproc_main : mi__theap_heap(&self->main)->subproc;
}

static mi_heap_t *new_heap(struct mi_subproc *subproc, struct mi__arena *only) {
  mi_heap_t *heap = mi__heap_new(subproc, only);
  if (heap == NULL) (void)mi__no_memory(sizeof(struct mi_heap_s));
  return heap;
}

mi__export mi_heap_t *mi_heap_new(void) { return new_heap(current_subproc(), NULL); }

mi__export mi_heap_t *mi_heap_new_in_arena(mi_arena_id_t arena_id) {
  struct mi__arena *arena = mi__arena_of_id(arena_id);
  if (arena == NULL) {
    mi__error(EINVAL, "mi_heap_new_in_arena: %p is no arena\n", arena_id);
    errno = EINVAL;
    return NULL;
  }
  return new_heap(current_subproc(), arena);
}

static void end_heap(mi_heap_t *heap, bool destroy, const char *what) {
  if (heap == NULL || mi__heap_is_bad(heap, what)) return;
  if (heap == heap->subproc->main) {
    mi__error(EINVAL, "%s: the main heap stays: ignored\n", what);
    return;
  }
  struct mi_thread *self = mi__thread_self(false);
  mi__track_begin();
  if (self != NULL) mi__run_flush(self);
  mi__heap_end(heap, destroy);
  mi__offer(NULL, true);
  mi__track_end();
}

mi__export void mi_heap_delete(mi_heap_t *heap) { end_heap(heap, false, "mi_heap_delete"); }
mi__export void mi_heap_destroy(mi_heap_t *heap) { end_heap(heap, true, "mi_heap_destroy"); }

mi__export void mi_heap_set_numa_affinity(mi_heap_t *heap, int numa_node) {
  if (heap == NULL || mi__heap_is_bad(heap, "mi_heap_set_numa_affinity")) return;
  heap->numa_node = numa_node < 0 ? -1 : numa_node;
}

mi__export void mi_heap_collect(mi_heap_t *heap, bool force) {
  if (heap == NULL || mi__heap_is_bad(heap, "mi_heap_collect")) return;
  struct mi_thread *self = mi__thread_self(false);
  mi__track_begin();
  if (self != NULL) {
    mi__run_flush(self);
    struct mi_theap_s *theap = mi__heap_find_theap(heap, self);
    if (theap != NULL) {
      mi__theap_collect(theap, force);
      if (force) mi__theap_verify(theap);
      mi__theap_merge_counters(theap);
      mi__theap_report(theap);
    }
  }
  mi__arenas_purge(mi__heap_arenas(heap), force ? MI_PURGE_EVERYTHING : MI_PURGE_DUE);
  mi__track_end();
}

mi__export mi_heap_t *mi_heap_main(void) { return current_subproc()->main; }

mi__export mi_heap_t *mi_heap_of(const void *p) {
  struct mi_page *page = mi__page_with(p);
  return page == NULL ? NULL : mi__page_heap(page);
}

mi__export bool mi_heap_contains(const mi_heap_t *heap, const void *p) {
  return heap != NULL && mi_heap_of(p) == heap;
}

/* ---- visits ---- */

static bool visit_heap(mi_heap_t *heap, bool abandoned, bool blocks, mi_block_visit_fun *visitor,
                       void *arg) {
  if (visitor == NULL || heap == NULL || mi__heap_is_bad(heap, "visit")) return false;
  struct mi__visit visit = {heap, NULL, abandoned, blocks, visitor, arg, false};
  return mi__visit(&visit);
}

mi__export bool mi_heap_visit_blocks(mi_heap_t *heap, bool visit_blocks,
                                     mi_block_visit_fun *visitor, void *arg) {
  return visit_heap(heap, false, visit_blocks, visitor, arg);
}
mi__export bool mi_heap_visit_abandoned_blocks(mi_heap_t *heap, bool visit_blocks,
                                               mi_block_visit_fun *visitor, void *arg) {
  return visit_heap(heap, true, visit_blocks, visitor, arg);
}
mi__export bool mi_theap_visit_blocks(const mi_theap_t *theap, bool visit_blocks,
                                      mi_block_visit_fun *visitor, void *arg) {
  if (visitor == NULL || theap == NULL || mi__theap_heap(theap) == NULL) return false;
  struct mi__visit visit = {mi__theap_heap(theap), theap, false, visit_blocks, visitor, arg, false};
  return mi__visit(&visit);
}

/* Pages of others, and such as are full or in use right now, are no candidates. */
mi__export bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t *heap, void *p,
                                                      size_t perc_threshold) {
  struct mi_page *page = p == NULL ? NULL : mi__page_of(p);
  struct mi_thread *self = mi__thread_self(false);
  if (page == NULL || heap == NULL || self == NULL || page->kind == MI_PAGE_HUGE) return false;
  if (mi__page_heap(page) != heap || page->list != MI_LIST_AVAIL) return false;
  if ((mi__load(&page->owner, relaxed) & ~MI_OWNER_SPECIAL) != (uintptr_t)self) return false;
  return (size_t)mi__page_used(page) * 100 < perc_threshold * page->n_blocks;
}
