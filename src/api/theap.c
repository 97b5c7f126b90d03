/* SPDX-License-Identifier: MIT */
/* Theaps, for programs that look up the calling thread's part of a heap once; and sub-processes.
 * Threads: a theap is for the thread that it belongs to. */
#include "api/heap.h"
#include "base/track.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/process.h"
#include "heap/subproc.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "rt/message.h"
#include <errno.h>

/* ---- theaps ---- */

mi__export mi_theap_t *mi_heap_theap(mi_heap_t *heap) { return mi__theap_for(heap); }

mi__export mi_theap_t *mi_theap_get_default(void) {
  if (mi__theap_thread(mi__tls.theap) != NULL) return mi__tls.theap;
  return mi__thread_theap();
}

/* A thread that is past its end has no theaps, and keeps what it has. */
mi__export mi_theap_t *mi_theap_set_default(mi_theap_t *theap) {
  mi_theap_t *before = mi_theap_get_default();
  struct mi_thread *self = mi__thread_self(true);
  if (self == NULL) return before;
  if (theap == NULL) theap = &self->main;
  if (mi__theap_thread(theap) != self) {
    mi__error(EINVAL, "mi_theap_set_default: %p is no theap of this thread: ignored\n",
              (void *)theap);
    return before;
  }
  mi__tls.theap = theap;
  if (before != theap && before != &self->main) mi__theap_not_default(before);
  if (theap != &self->main) mi__store(&theap->is_default, true, relaxed);
  return before;
}

mi__export void mi_theap_collect(mi_theap_t *theap, bool force) {
  if (theap == NULL || mi__theap_thread(theap) == NULL) return;
  struct mi_thread *self = mi__thread_self(false);
  if (self == NULL || mi__theap_thread(theap) != self) return;
  mi__track_begin();
  mi__run_flush(self);
  mi__theap_collect(theap, force);
  if (force) mi__theap_verify(theap);
  mi__theap_merge_counters(theap);
  mi__theap_report(theap);
  mi__track_end();
}

static mi__cold void *no_theap(void) {
  mi__error(EINVAL, "a theap is NULL\n");
  errno = EINVAL;
  return NULL;
}
#define CHECK_THEAP(theap) \
  if (mi__unlikely((theap) == NULL)) return no_theap()

mi__export void *mi_theap_malloc(mi_theap_t *theap, size_t size) {
  CHECK_THEAP(theap);
  return mi__malloc_in(theap, size);
}
mi__export void *mi_theap_malloc_small(mi_theap_t *theap, size_t size) {
  return mi_theap_malloc(theap, size);
}
mi__export void *mi_theap_wmalloc_small(mi_theap_t *theap, size_t wsize) {
  return mi_theap_malloc(theap, wsize * sizeof(void *));
}
mi__export void *mi_theap_zalloc(mi_theap_t *theap, size_t size) {
  CHECK_THEAP(theap);
  return mi__zalloc_in(theap, size);
}
mi__export void *mi_theap_zalloc_small(mi_theap_t *theap, size_t size) {
  return mi_theap_zalloc(theap, size);
}
mi__export void *mi_theap_wzalloc_small(mi_theap_t *theap, size_t wsize) {
  return mi_theap_zalloc(theap, wsize * sizeof(void *));
}
mi__export void *mi_theap_calloc(mi_theap_t *theap, size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  return mi_theap_zalloc(theap, total);
}
mi__export void *mi_theap_malloc_aligned(mi_theap_t *theap, size_t size, size_t alignment) {
  CHECK_THEAP(theap);
  return mi__malloc_aligned_in(theap, size, alignment, 0, false);
}
mi__export void *mi_theap_realloc(mi_theap_t *theap, void *p, size_t newsize) {
  CHECK_THEAP(theap);
  return mi__realloc_in(theap, p, newsize, 0, 0, false);
}
mi__export void *mi_theap_rezalloc(mi_theap_t *theap, void *p, size_t newsize) {
  CHECK_THEAP(theap);
  return mi__realloc_in(theap, p, newsize, 0, 0, true);
}

/* ---- sub-processes ---- */

static struct mi_subproc *from_id(mi_subproc_id_t id) { return id._mi_subproc; }
static mi_subproc_id_t to_id(struct mi_subproc *subproc) {
  mi_subproc_id_t id = {subproc};
  return id;
}

mi__export mi_subproc_id_t mi_subproc_main(void) {
  mi__process_init();
  return to_id(&mi__subproc_main);
}
mi__export mi_subproc_id_t mi_subproc_current(void) {
  mi__process_init();
  struct mi_thread *self = mi__thread_self(false);
  return to_id(self == NULL ? &mi__subproc_main : mi__theap_heap(&self->main)->subproc);
}
mi__export mi_subproc_id_t mi_subproc_new(void) {
  mi__process_init();
  struct mi_subproc *subproc = mi__subproc_new();
  if (subproc == NULL) (void)mi__no_memory(sizeof *subproc);
  return to_id(subproc);
}
/* Its record stays one for ever. */
static bool is_bad(const struct mi_subproc *subproc, const char *what) {
  if (subproc->main != NULL) return false;
  mi__error(EINVAL, "%s: the sub-process has ended: ignored\n", what);
  return true;
}
mi__export void mi_subproc_destroy(mi_subproc_id_t id) {
  struct mi_subproc *subproc = from_id(id);
  if (subproc == NULL) return;
  if (is_bad(subproc, "mi_subproc_destroy")) return;
  struct mi_thread *self = mi__thread_self(false);
  bool inside = self != NULL && mi__theap_heap(&self->main)->subproc == subproc;
  if (subproc == &mi__subproc_main || inside || mi__load(&subproc->threads.current, relaxed) > 0) {
    mi__error(EINVAL,
              "mi_subproc_destroy: the sub-process is the main one or has threads: ignored\n");
    return;
  }
  mi__track_begin();
  mi__subproc_end(subproc);
  mi__track_end();
}
mi__export void mi_subproc_add_current_thread(mi_subproc_id_t id) {
  struct mi_subproc *subproc = from_id(id);
  mi__process_init();
  struct mi_thread *self = mi__thread_self(true);
  if (subproc == NULL || self == NULL || mi__theap_heap(&self->main)->subproc == subproc) return;
  if (is_bad(subproc, "mi_subproc_add_current_thread")) return;
  if (mi__theap_heap(&self->main)->subproc != &mi__subproc_main) {
    mi__error(EINVAL, "mi_subproc_add_current_thread: the thread is in another one: ignored\n");
    return;
  }
  mi__track_begin();
  mi__thread_join_subproc(self, subproc);
  mi__track_end();
}

struct heap_visit {
  mi_heap_visit_fun *visitor;
  void *arg;
};
static bool visit_heap(struct mi_heap_s *heap, void *arg) {
  struct heap_visit *visit = arg;
  return visit->visitor(heap, visit->arg);
}
mi__export bool mi_subproc_visit_heaps(mi_subproc_id_t id, mi_heap_visit_fun *visitor, void *arg) {
  if (from_id(id) == NULL || visitor == NULL) return false;
  struct heap_visit visit = {visitor, arg};
  return mi__subproc_each_heap(from_id(id), visit_heap, &visit);
}
