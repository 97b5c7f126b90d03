/* SPDX-License-Identifier: MIT */
/* Aligned allocation. A block is a multiple of its size away from the start of its page, which is
 * aligned to a slice: so a block size that is a multiple of the alignment gives aligned blocks,
 * with no pointer inside a block. Only offsets that are no multiple of the alignment need one.
 * Alignments above a slice get a page of their own. */
#include "api/alloc.h"
#include "api/core.h"
#include "heap/huge.h"
#include "heap/process.h"
#include "heap/thread.h"
#include "page/trailer.h"
#include "rt/message.h"
#include <errno.h>
#include <string.h>

static mi__cold void *bad_alignment(size_t alignment) {
  mi__error(EINVAL, "alignment %zu is not a power of two\n", alignment);
  errno = EINVAL;
  return NULL;
}

/* The smallest bin of at least `size` whose blocks are multiples of the alignment; 0: none. */
static unsigned aligned_bin(size_t size, size_t alignment) {
  unsigned bin = mi__bin_of(mi__max(size, alignment));
  while (bin <= MI_BIN_LAST && (mi__bin_size(bin) & (alignment - 1)) != 0) bin++;
  while (bin <= MI_BIN_LAST && mi__bin_size(bin) == 0)
    bin++; /* unused numbers pass the test above */
  return bin <= MI_BIN_LAST && (mi__bin_size(bin) & (alignment - 1)) == 0 ? bin : 0;
}

static void *aligned_huge(mi_theap_t *theap, size_t size, size_t alignment, size_t offset,
                          bool zero) {
  mi__process_init();
  struct mi_heap_s *heap = mi__thread_heap_of(theap);
  bool is_zero;
  char *p = mi__huge_alloc(heap, size, alignment, offset, &is_zero);
  if (p == NULL && mi__theap_thread(theap) != NULL) {
    mi__theap_collect(theap, true);
    p = mi__huge_alloc(heap, size, alignment, offset, &is_zero);
  }
  if (p == NULL) return mi__no_memory(size);
  if (zero && !is_zero) {
    mi__track_show(p, size);
    memset(p, 0, MI_VALGRIND ? size : mi__usable_size(p));
  }
  return p;
}

/* A pointer inside a block, for an offset that is no multiple of the alignment. */
static void *aligned_inside(mi_theap_t *theap, size_t size, size_t alignment, size_t offset,
                            bool zero) {
  size_t room = size + alignment - 1;
  /* The shared theap's pages must not be marked without its lock; a huge page belongs to nobody. */
  if (room < size || room > MI_BLOCK_MAX || mi__thread_self(true) == NULL) {
    return aligned_huge(theap, size, alignment, offset, zero);
  }
  if (mi__theap_thread(theap) == NULL) theap = mi__theap_default(); /* the thread has begun now */
  char *block = mi__alloc_bin(theap, mi__bin_of(room), zero);
  if (block == NULL) return NULL;
  size_t misfit = offset & (alignment - 1);
  char *p = mi__ptr_align_up(block + misfit, alignment) - misfit;
  if (p != block) mi__page_set_interior(mi__page_of(block), p);
  return p;
}

mi__inline void *take_aligned(mi_theap_t *theap, size_t size, size_t alignment, size_t offset,
                              bool zero) {
  if (mi__unlikely(!mi__is_power_of_two(alignment))) return bad_alignment(alignment);
  if (mi__unlikely(size > PTRDIFF_MAX || alignment > PTRDIFF_MAX)) return mi__too_large(size);
  if ((offset & (alignment - 1)) != 0) return aligned_inside(theap, size, alignment, offset, zero);
  if (size <= MI_BLOCK_MAX && alignment <= MI_SLICE_SIZE) {
    unsigned bin = aligned_bin(size, alignment);
    if (bin != 0) return mi__alloc_bin(theap, bin, zero);
  }
  return aligned_huge(theap, size, alignment, 0, zero);
}

void *mi__malloc_aligned_in(mi_theap_t *theap, size_t size, size_t alignment, size_t offset,
                            bool zero) {
  if (!MI_VALGRIND) return take_aligned(theap, size, alignment, offset, zero);
  mi__track_begin();
  void *p = take_aligned(theap, mi__trailer_room(size), alignment, offset, zero);
  mi__trailer_give(p, size, zero);
  mi__track_end();
  return p;
}

mi__export void *mi_malloc_aligned(size_t size, size_t alignment) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
}
mi__export void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, offset, false);
}
mi__export void *mi_zalloc_aligned(size_t size, size_t alignment) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, true);
}
mi__export void *mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) {
  return mi__malloc_aligned_in(mi__theap_default(), size, alignment, offset, true);
}
