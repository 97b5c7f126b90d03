/* SPDX-License-Identifier: MIT */
/* The allocation functions of POSIX, C11 and older Unix systems, the free functions with hints, and
 * the questions about a block that other systems' C libraries offer. */
#include "api/alloc.h"
#include "api/override.h"
#include "base/bits.h"
#include "heap/process.h"
#include "os/os.h"
#include "rt/message.h"

#include <errno.h>

MI_OVERRIDE_ANCHORED;

/* ---- aligned allocation ---- */

/* *p changes only on success. errno is left alone: the result tells. */
mi__export int mi_posix_memalign(void **p, size_t alignment, size_t size) {
  if (p == NULL || !mi__is_power_of_two(alignment) || alignment % sizeof(void *) != 0) {
    return EINVAL;
  }
  int kept = errno;
  void *q = mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
  errno = kept;
  if (mi__unlikely(q == NULL)) return ENOMEM;
  *p = q;
  return 0;
}
MI_ALIAS(posix_memalign, mi_posix_memalign);

mi__export void *mi_memalign(size_t alignment, size_t size) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
}
MI_ALIAS(memalign, mi_memalign);

/* Any size, multiple of the alignment or not: C17 dropped that rule. */
mi__export void *mi_aligned_alloc(size_t alignment, size_t size) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
}
MI_ALIAS(aligned_alloc, mi_aligned_alloc);

/* Known for certain once the process is set up, which the first allocation may come before. */
static size_t os_page_size(void) {
  mi__process_init();
  return mi__os_facts.page_size;
}

mi__export void *mi_valloc(size_t size) {
  return mi__malloc_aligned_in(mi__theap_default(), size, os_page_size(), 0, false);
}
MI_ALIAS(valloc, mi_valloc);

/* Whole OS pages, at least one. A size that would overflow fails as it is: above the limit. */
mi__export void *mi_pvalloc(size_t size) {
  size_t page = os_page_size();
  if (size <= PTRDIFF_MAX - page) size = mi__align_up(mi__max(size, 1), page);
  return mi__malloc_aligned_in(mi__theap_default(), size, page, 0, false);
}
MI_ALIAS(pvalloc, mi_pvalloc);

/* ---- free with hints ---- */

/* In the debug build a wrong hint is reported; elsewhere it is not looked at. */
static void check_hints(const void *p, size_t size, size_t alignment) {
  if (!MI_DEBUG || p == NULL || !mi__is_owned(p)) return;
  size_t usable = mi__usable_size(p);
  if (size > usable) {
    mi__error(EINVAL, "block %p of %zu bytes is freed as one of %zu bytes", p, usable, size);
  }
  if (!mi__is_power_of_two(alignment) || ((uintptr_t)p & (alignment - 1)) != 0) {
    mi__error(EINVAL, "block %p is freed as one with alignment %zu", p, alignment);
  }
}

mi__export void mi_free_size(void *p, size_t size) {
  check_hints(p, size, 1);
  mi__free(p);
}

mi__export void mi_free_size_aligned(void *p, size_t size, size_t alignment) {
  check_hints(p, size, alignment);
  mi__free(p);
}

mi__export void mi_free_aligned(void *p, size_t alignment) {
  check_hints(p, 0, alignment);
  mi__free(p);
}

/* True: p was ours and is freed. */
mi__export bool mi_cfree(void *p) {
  if (p == NULL || !mi__is_owned(p)) return false;
  mi__free(p);
  return true;
}
MI_ALIAS(cfree, mi_cfree);

/* ---- questions ---- */

mi__export size_t mi_malloc_size(const void *p) { return mi__usable_size(p); }

mi__export size_t mi_malloc_usable_size(const void *p) { return mi__usable_size(p); }
MI_ALIAS(malloc_usable_size, mi_malloc_usable_size);

mi__export size_t mi_malloc_good_size(size_t size) { return mi__good_size(size); }

/* As on Windows: a failure sets errno, which mi_expand keeps. */
mi__export void *mi__expand(void *p, size_t newsize) {
  void *q = mi_expand(p, newsize);
  if (q == NULL) errno = ENOMEM;
  return q;
}

/* Asked by doing: whatever the program calls by the name malloc, does its block come from here? */
extern void *malloc(size_t size);
extern void free(void *p);
mi__export bool mi_is_redirected(void) {
  int kept = errno;
  void *p = malloc(1);
  bool ours = p != NULL && mi__is_owned(p);
  free(p);
  errno = kept;
  return ours;
}
