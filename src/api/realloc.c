/* SPDX-License-Identifier: MIT */
/* realloc and its kin, expand, and the questions about a block. */
#include "api/alloc.h"
#include "api/core.h"
#include "api/override.h"
#include "heap/huge.h"
#include "heap/process.h"
#include "page/trailer.h"
#include "rt/message.h"
#include <errno.h>
#include <string.h>

static mi__cold void report_foreign(const char *what, const void *p) {
  mi__error(EINVAL, "%s: invalid pointer %p (not a block of this allocator): ignored\n", what, p);
}

/* Bytes from p to the end of its block; 0 where p is no pointer that was handed out. */
static size_t usable_in(const struct mi_page *page, const void *p) {
  bool interior = mi__page_flag(page, MI_PAGE_INTERIOR);
  if (page->kind == MI_PAGE_HUGE) {
    if (p != page->start && !interior) return 0;
    return page->block_size - (size_t)((const char *)p - page->start);
  }
  if (mi__likely(!interior)) return mi__page_is_block(page, p) ? page->block_size : 0;
  const char *block = mi__page_block_of(page, p);
  return block == NULL ? 0 : page->block_size - (size_t)((const char *)p - block);
}

size_t mi__usable_size(const void *p) {
  if (p == NULL) return 0;
  mi__track_begin();
  const struct mi_page *page = mi__page_of(p);
  size_t usable = page == NULL ? 0 : usable_in(page, p);
  if (mi__unlikely(usable == 0)) report_foreign("usable_size", p);
  else if (MI_VALGRIND) usable = mi__trailer_size(page, p, usable);
  mi__track_end();
  return usable;
}

size_t mi__good_size(size_t size) {
  if (MI_VALGRIND) return size;
  if (size <= MI_BLOCK_MAX) return mi__bin_size(mi__bin_of(size == 0 ? 1 : size));
  return size > PTRDIFF_MAX ? size : mi__align_up(size, MI_SLICE_SIZE);
}

/* Resize where the block is. Bytes between the old and the new end are cleared where zero asks for
 * it. */
static bool resize_in_place(struct mi_page *page, void *p, size_t old, size_t newsize, bool zero) {
  bool is_zero;
  if (!mi__huge_resize(page, p, newsize, &is_zero)) return false;
  size_t now = page->block_size;
  if (zero && !is_zero && now > old) memset((char *)p + old, 0, now - old);
  return true;
}

/* What a block that has to move asks for: a huge one an eighth more, so that growing step by step
 * stays linear. */
static size_t roomy(size_t newsize, size_t old) {
  size_t more = newsize / 8;
  if (MI_VALGRIND || newsize <= MI_BLOCK_MAX || newsize <= old) return newsize;
  if (newsize > PTRDIFF_MAX - more) return newsize;
  return newsize + more;
}

static void *move(mi_theap_t *theap, void *p, size_t old, size_t newsize, size_t alignment,
                  size_t offset, bool zero) {
  size_t ask = alignment == 0 ? roomy(newsize, old) : newsize;
  void *q = alignment == 0 ? mi__malloc_in(theap, ask)
                           : mi__malloc_aligned_in(theap, ask, alignment, offset, false);
  if (mi__unlikely(q == NULL)) {
    if (ask == newsize) return NULL;
    q = mi__malloc_in(theap, newsize);
    if (q == NULL) return NULL;
  }
  size_t keep = mi__min(old, newsize);
  memcpy(q, p, keep);
  if (zero) {
    size_t usable = mi__usable_size(q);
    memset((char *)q + keep, 0, usable - keep);
  }
  mi__free(p);
  return q;
}

mi__inline void *resize(mi_theap_t *theap, void *p, size_t newsize, size_t alignment,
                        size_t offset, bool zero) {
  if (mi__unlikely(alignment != 0 && !mi__is_power_of_two(alignment))) {
    return mi__malloc_aligned_in(theap, newsize, alignment, offset, zero); /* NULL and EINVAL */
  }
  if (p == NULL) {
    if (alignment != 0) return mi__malloc_aligned_in(theap, newsize, alignment, offset, zero);
    return zero ? mi__zalloc_in(theap, newsize) : mi__malloc_in(theap, newsize);
  }
  struct mi_page *page = mi__page_of(p);
  size_t old = page == NULL ? 0 : usable_in(page, p);
  if (mi__unlikely(old == 0)) {
    report_foreign("realloc", p);
    errno = EINVAL;
    return NULL;
  }
  bool aligned = alignment == 0 || (((uintptr_t)p + offset) & (alignment - 1)) == 0;
  if (MI_VALGRIND) { /* a block of another size is another block */
    old = mi__trailer_size(page, p, old);
    if (aligned && newsize == old) return p;
    return move(theap, p, old, newsize, alignment, offset, zero);
  }
  if (aligned && newsize <= old && newsize >= old - old / 2 && newsize > 0) {
    if (page->kind != MI_PAGE_HUGE) return p;
  }
  if (page->kind == MI_PAGE_HUGE && aligned && newsize > MI_BLOCK_MAX) {
    if (newsize > PTRDIFF_MAX) return mi__too_large(newsize);
    if (resize_in_place(page, p, old, newsize, zero)) return p;
    if (alignment == 0 || alignment <= MI_SLICE_SIZE) {
      void *q = mi__huge_remap(page, p, roomy(newsize, old));
      if (q == NULL) q = mi__huge_remap(page, p, newsize);
      if (q != NULL) return q; /* what the OS added is zero */
    }
  }
  return move(theap, p, old, newsize, alignment, offset, zero);
}

void *mi__realloc_in(mi_theap_t *theap, void *p, size_t newsize, size_t alignment, size_t offset,
                     bool zero) {
  mi__track_begin();
  void *q = resize(theap, p, newsize, alignment, offset, zero);
  mi__track_end();
  return q;
}

mi__export void *mi_realloc(void *p, size_t newsize) {
  return mi__realloc_in(mi__theap_default(), p, newsize, 0, 0, false);
}
mi__export void *mi_rezalloc(void *p, size_t newsize) {
  return mi__realloc_in(mi__theap_default(), p, newsize, 0, 0, true);
}
/* An alignment of 0 was asked for here, and is none. */
static void *realloc_aligned(void *p, size_t newsize, size_t alignment, size_t offset, bool zero) {
  mi_theap_t *theap = mi__theap_default();
  if (alignment == 0)
    return mi__malloc_aligned_in(theap, newsize, 0, offset, zero); /* NULL and EINVAL */
  return mi__realloc_in(theap, p, newsize, alignment, offset, zero);
}
mi__export void *mi_realloc_aligned(void *p, size_t newsize, size_t alignment) {
  return realloc_aligned(p, newsize, alignment, 0, false);
}
mi__export void *mi_realloc_aligned_at(void *p, size_t newsize, size_t alignment, size_t offset) {
  return realloc_aligned(p, newsize, alignment, offset, false);
}
mi__export void *mi_rezalloc_aligned(void *p, size_t newsize, size_t alignment) {
  return realloc_aligned(p, newsize, alignment, 0, true);
}
mi__export void *mi_rezalloc_aligned_at(void *p, size_t newsize, size_t alignment, size_t offset) {
  return realloc_aligned(p, newsize, alignment, offset, true);
}

static void *expand(void *p, size_t newsize) {
  struct mi_page *page = p == NULL ? NULL : mi__page_of(p);
  size_t old = page == NULL ? 0 : usable_in(page, p);
  if (old == 0) return NULL;
  if (MI_VALGRIND) return newsize <= mi__trailer_size(page, p, old) ? p : NULL;
  if (newsize <= old) return p;
  if (page->kind == MI_PAGE_HUGE && resize_in_place(page, p, old, newsize, false)) return p;
  return NULL;
}

mi__export void *mi_expand(void *p, size_t newsize) {
  mi__track_begin();
  void *q = expand(p, newsize);
  mi__track_end();
  return q;
}

mi__export size_t mi_usable_size(const void *p) { return mi__usable_size(p); }
mi__export size_t mi_good_size(size_t size) { return mi__good_size(size); }

/* Inside a huge page only the first slice has a record: look back for it, within memory that is
 * known to be ours. */
static struct mi_page *huge_with(const void *p) {
  uintptr_t slice = (uintptr_t)p & ~(uintptr_t)(MI_SLICE_SIZE - 1);
  for (; mi__arenas_contain((const void *)slice); slice -= MI_SLICE_SIZE) {
    struct mi_page *page = mi__page_of((const void *)slice);
    if (page == NULL) continue;
    bool inside = (uintptr_t)p - (uintptr_t)page->start < page->block_size;
    return page->kind == MI_PAGE_HUGE && inside ? page : NULL;
  }
  return NULL;
}

struct mi_page *mi__page_with(const void *p) {
  struct mi_page *page = mi__page_of(p);
  if (page != NULL) return page;
  mi__track_begin();
  page = huge_with(p);
  mi__track_end();
  return page;
}

bool mi__is_owned(const void *p) { return mi__page_with(p) != NULL; }

mi__export bool mi_check_owned(const void *p) { return mi__is_owned(p); }
mi__export bool mi_is_in_heap_region(const void *p) { return mi__is_owned(p); }
mi__export bool mi_any_heap_contains(const void *p) { return mi__is_owned(p); }

MI_ALIAS(realloc, mi_realloc);
MI_OVERRIDE_ANCHORED;
