/* SPDX-License-Identifier: MIT */
/* The allocation forms of a heap: those of mi_malloc with the calling thread's theap of that heap.
 * A NULL heap gives NULL and EINVAL. A realloc that stays where it is stays in the heap that it is
 * in. */
#include "api/heap.h"
#include <errno.h>
#include <string.h>

#define THEAP(name, heap)                          \
  mi_theap_t *name = mi__theap_for(heap);          \
  if (mi__unlikely(name == NULL)) return NULL

/* ---- count and size ---- */

mi__export void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  THEAP(theap, heap);
  return mi__zalloc_in(theap, total);
}
mi__export void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  THEAP(theap, heap);
  return mi__malloc_in(theap, total);
}

/* ---- realloc ---- */

mi__export void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t newsize) {
  THEAP(theap, heap);
  return mi__realloc_in(theap, p, newsize, 0, 0, false);
}
mi__export void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  return mi_heap_realloc(heap, p, total);
}
mi__export void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t newsize) {
  void *q = mi_heap_realloc(heap, p, newsize);
  if (mi__unlikely(q == NULL && p != NULL && mi__is_owned(p))) mi__free(p);
  return q;
}
mi__export void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t newsize) {
  THEAP(theap, heap);
  return mi__realloc_in(theap, p, newsize, 0, 0, true);
}
mi__export void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t newcount, size_t size) {
  MI_TOTAL(total, newcount, size);
  return mi_heap_rezalloc(heap, p, total);
}

/* ---- aligned ---- */

static void *aligned(mi_heap_t *heap, size_t size, size_t alignment, size_t offset, bool zero) {
  THEAP(theap, heap);
  return mi__malloc_aligned_in(theap, size, alignment, offset, zero);
}
mi__export void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t size, size_t alignment) {
  return aligned(heap, size, alignment, 0, false);
}
mi__export void *mi_heap_malloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment,
                                           size_t offset) {
  return aligned(heap, size, alignment, offset, false);
}
mi__export void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t size, size_t alignment) {
  return aligned(heap, size, alignment, 0, true);
}
mi__export void *mi_heap_zalloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment,
                                           size_t offset) {
  return aligned(heap, size, alignment, offset, true);
}
mi__export void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count, size_t size,
                                        size_t alignment) {
  MI_TOTAL(total, count, size);
  return aligned(heap, total, alignment, 0, true);
}
mi__export void *mi_heap_calloc_aligned_at(mi_heap_t *heap, size_t count, size_t size,
                                           size_t alignment, size_t offset) {
  MI_TOTAL(total, count, size);
  return aligned(heap, total, alignment, offset, true);
}

/* An alignment of 0 was asked for here, and is none. */
static void *realloc_aligned(mi_heap_t *heap, void *p, size_t newsize, size_t alignment,
                             size_t offset, bool zero) {
  THEAP(theap, heap);
  if (alignment == 0) return mi__malloc_aligned_in(theap, newsize, 0, offset, zero);
  return mi__realloc_in(theap, p, newsize, alignment, offset, zero);
}
mi__export void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p, size_t newsize,
                                         size_t alignment) {
  return realloc_aligned(heap, p, newsize, alignment, 0, false);
}
mi__export void *mi_heap_realloc_aligned_at(mi_heap_t *heap, void *p, size_t newsize,
                                            size_t alignment, size_t offset) {
  return realloc_aligned(heap, p, newsize, alignment, offset, false);
}
mi__export void *mi_heap_rezalloc_aligned(mi_heap_t *heap, void *p, size_t newsize,
                                          size_t alignment) {
  return realloc_aligned(heap, p, newsize, alignment, 0, true);
}
mi__export void *mi_heap_rezalloc_aligned_at(mi_heap_t *heap, void *p, size_t newsize,
                                             size_t alignment, size_t offset) {
  return realloc_aligned(heap, p, newsize, alignment, offset, true);
}
mi__export void *mi_heap_recalloc_aligned(mi_heap_t *heap, void *p, size_t newcount, size_t size,
                                          size_t alignment) {
  MI_TOTAL(total, newcount, size);
  return realloc_aligned(heap, p, total, alignment, 0, true);
}
mi__export void *mi_heap_recalloc_aligned_at(mi_heap_t *heap, void *p, size_t newcount, size_t size,
                                             size_t alignment, size_t offset) {
  MI_TOTAL(total, newcount, size);
  return realloc_aligned(heap, p, total, alignment, offset, true);
}

/* ---- strings ---- */

mi__export char *mi_heap_strdup(mi_heap_t *heap, const char *s) {
  THEAP(theap, heap);
  return s != NULL ? mi__copy_bytes_in(theap, s, strlen(s), 1) : NULL;
}
mi__export char *mi_heap_strndup(mi_heap_t *heap, const char *s, size_t n) {
  THEAP(theap, heap);
  return s != NULL ? mi__copy_bytes_in(theap, s, strnlen(s, n), 1) : NULL;
}
mi__export char *mi_heap_realpath(mi_heap_t *heap, const char *fname, char *resolved_name) {
  THEAP(theap, heap);
  return mi__realpath_in(theap, fname, resolved_name);
}
