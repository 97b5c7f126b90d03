/* SPDX-License-Identifier: MIT */
/* Allocation by count and size, realloc in its variants, and the forms that report block sizes.
 * A count * size that overflows gives NULL and ENOMEM, whatever the form. */
#include "api/alloc.h"
#include "api/override.h"

#include <errno.h>
#include <string.h>

MI_OVERRIDE_ANCHORED;

/* ---- count and size ---- */

mi__export void *mi_mallocn(size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  return mi__malloc_in(mi__theap_default(), total);
}

mi__export void *mi_reallocn(void *p, size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  return mi__realloc_in(mi__theap_default(), p, total, 0, 0, false);
}

mi__export void *mi_recalloc(void *p, size_t newcount, size_t size) {
  MI_TOTAL(total, newcount, size);
  return mi__realloc_in(mi__theap_default(), p, total, 0, 0, true);
}

mi__export void *mi_calloc_aligned_at(size_t count, size_t size, size_t alignment, size_t offset) {
  MI_TOTAL(total, count, size);
  return mi__malloc_aligned_in(mi__theap_default(), total, alignment, offset, true);
}

mi__export void *mi_calloc_aligned(size_t count, size_t size, size_t alignment) {
  MI_TOTAL(total, count, size);
  return mi__malloc_aligned_in(mi__theap_default(), total, alignment, 0, true);
}

/* Alignment 0 means "none" to mi__realloc_in, and is a mistake here. */
static void *recalloc_aligned(void *p, size_t newcount, size_t size, size_t alignment,
                              size_t offset) {
  MI_TOTAL(total, newcount, size);
  if (mi__unlikely(!mi__is_power_of_two(alignment))) {
    errno = EINVAL;
    return NULL;
  }
  return mi__realloc_in(mi__theap_default(), p, total, alignment, offset, true);
}

mi__export void *mi_recalloc_aligned(void *p, size_t newcount, size_t size, size_t alignment) {
  return recalloc_aligned(p, newcount, size, alignment, 0);
}

mi__export void *mi_recalloc_aligned_at(void *p, size_t newcount, size_t size, size_t alignment,
                                        size_t offset) {
  return recalloc_aligned(p, newcount, size, alignment, offset);
}

mi__export void *mi_aligned_recalloc(void *p, size_t newcount, size_t size, size_t alignment) {
  return recalloc_aligned(p, newcount, size, alignment, 0);
}

mi__export void *mi_aligned_offset_recalloc(void *p, size_t newcount, size_t size,
                                            size_t alignment, size_t offset) {
  return recalloc_aligned(p, newcount, size, alignment, offset);
}

/* ---- realloc in its variants ---- */

/* On failure the old block is freed: `p = mi_reallocf(p, n)` does not leak. */
mi__export void *mi_reallocf(void *p, size_t newsize) {
  void *q = mi__realloc_in(mi__theap_default(), p, newsize, 0, 0, false);
  if (mi__unlikely(q == NULL && p != NULL && mi__is_owned(p))) mi__free(p);
  return q;
}

mi__export void *mi_reallocarray(void *p, size_t count, size_t size) {
  return mi_reallocn(p, count, size);
}
MI_ALIAS(reallocarray, mi_reallocarray);

/* ptrp is the address of a pointer to a block, of any type: read and written bytewise. */
mi__export int mi_reallocarr(void *ptrp, size_t count, size_t size) {
  if (ptrp == NULL) return EINVAL;
  int kept = errno;
  void *p;
  memcpy(&p, ptrp, sizeof p);
  size_t total;
  void *q = NULL;
  if (mi__mul_overflow(count, size, &total)) {
    mi__overflow(count, size);
  } else {
    q = mi__realloc_in(mi__theap_default(), p, total, 0, 0, false);
  }
  int result = q != NULL ? 0 : errno;
  if (q != NULL) memcpy(ptrp, &q, sizeof q);
  errno = kept;
  return result;
}

/* ---- forms that report the size of the block ---- */

/* Store what p really holds; NULL holds nothing. */
static void *report_size(void *p, size_t *block_size) {
  if (block_size != NULL) *block_size = mi__usable_size(p);
  return p;
}

mi__export void *mi_umalloc(size_t size, size_t *block_size) {
  return report_size(mi__malloc_in(mi__theap_default(), size), block_size);
}

mi__export void *mi_ucalloc(size_t count, size_t size, size_t *block_size) {
  size_t total;
  void *p = NULL;
  if (mi__unlikely(mi__mul_overflow(count, size, &total))) {
    mi__overflow(count, size);
  } else {
    p = mi__zalloc_in(mi__theap_default(), total);
  }
  return report_size(p, block_size);
}

mi__export void *mi_urealloc(void *p, size_t newsize, size_t *block_size_pre,
                             size_t *block_size_post) {
  report_size(p, block_size_pre);
  return report_size(mi__realloc_in(mi__theap_default(), p, newsize, 0, 0, false),
                     block_size_post);
}

mi__export void mi_ufree(void *p, size_t *block_size) {
  report_size(p, block_size);
  mi__free(p);
}

mi__export void *mi_umalloc_aligned(size_t size, size_t alignment, size_t *block_size) {
  return report_size(mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false),
                     block_size);
}

mi__export void *mi_uzalloc_aligned(size_t size, size_t alignment, size_t *block_size) {
  return report_size(mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, true),
                     block_size);
}

mi__export void *mi_umalloc_small(size_t size, size_t *block_size) {
  return report_size(mi__malloc_in(mi__theap_default(), size), block_size);
}

mi__export void *mi_uzalloc_small(size_t size, size_t *block_size) {
  return report_size(mi__zalloc_in(mi__theap_default(), size), block_size);
}
