/* SPDX-License-Identifier: MIT */
#include "heap/huge.h"
#include "heap/account.h"
#include "heap/theap.h"
#include "page/trailer.h"
#include "rt/message.h"
#include <errno.h>

/* A heap that may end must find its huge pages. before: what was counted of it until now; NULL:
 * nothing. */
static struct mi_page *add_page(const struct mi__span *span, struct mi_heap_s *heap,
                                const struct mi_page *before) {
  struct mi_page *page = mi__page_new_huge(span, heap);
  if (before == NULL || before->block_size != page->block_size) {
    if (before != NULL) mi__account_page(heap, before, -1);
    mi__account_page(heap, page, 1);
  }
  if (!mi__heap_is_main(heap)) mi__pool_put(page);
  return page;
}

/* Its heap may be another one when this returns: the one that it had was deleted meanwhile. */
static void remove_page(struct mi_page *page) {
  if (!mi__heap_is_main(mi__load(&page->heap, acquire))) mi__pool_remove(page);
}

void *mi__huge_alloc(struct mi_heap_s *heap, size_t size, size_t align, size_t offset, bool *zero) {
  size_t misfit = offset & (align - 1);
  /* An offset that is no multiple of the alignment is met by a pointer inside the block. */
  size_t extra = misfit == 0 ? 0 : align;
  if (size > PTRDIFF_MAX - extra) return NULL;
  size_t n = mi__div_up(mi__max(size + extra, 1),
                        MI_SLICE_SIZE); /* a block of 0 bytes is one, too */
  struct mi__span_request request = {
      .n_slices = n,
      .min_slices = n,
      .align_slices = extra == 0 && align > MI_SLICE_SIZE ? align / MI_SLICE_SIZE : 1,
      .side = MI_SIDE_HIGH,
      .cross_granules = true,
      .only = heap->only,
      .numa_node = heap->numa_node,
  };
  struct mi__span span;
  if (!mi__span_alloc(mi__heap_arenas(heap), &request, &span)) return NULL;
  struct mi_page *page = add_page(&span, heap, NULL);
  *zero = span.zero;
  if (extra == 0) return span.start;
  char *p = mi__ptr_align_up(span.start + misfit, align) - misfit;
  mi__page_set_interior(page, p);
  return p;
}

void mi__huge_free(struct mi_page *page, void *p) {
  if (mi__unlikely((p != page->start && !mi__page_flag(page, MI_PAGE_INTERIOR)) ||
                   mi__trailer_is_astray(page, p))) {
    mi__error(EINVAL, "free: invalid pointer %p (inside a block, not its start): ignored\n", p);
    return;
  }
  mi__trailer_take(page, p);
  mi__page_give_back(page);
}

static void set_size(struct mi_page *page, size_t n_slices) {
  mi__account_page(mi__page_heap(page), page, -1);
  page->n_slices = (uint32_t)n_slices;
  page->block_size = n_slices * MI_SLICE_SIZE;
  page->bin = (uint8_t)mi__bin_for_stats(page->block_size);
  mi__account_page(mi__page_heap(page), page, 1);
}

bool mi__huge_resize(struct mi_page *page, void *p, size_t size, bool *zero) {
  *zero = false;
  if (p != page->start || size > PTRDIFF_MAX) return false;
  size_t n = mi__div_up(size, MI_SLICE_SIZE);
  struct mi__arenas *arenas = mi__heap_arenas(mi__page_heap(page));
  bool done = n == page->n_slices;
  if (n > page->n_slices)
    done = mi__span_grow(arenas, page->start, page->n_slices, n, page->arena, zero);
  if (n < page->n_slices)
    done = mi__span_shrink(arenas, page->start, page->n_slices, n, page->arena);
  if (done && n != page->n_slices) set_size(page, n);
  return done;
}

void *mi__huge_remap(struct mi_page *page, void *p, size_t size) {
  if (p != page->start || page->arena != 0 || size > PTRDIFF_MAX) return NULL;
  remove_page(page);
  struct mi_heap_s *heap = mi__page_heap(page);
  struct mi_page before = {.bin = page->bin, .kind = page->kind, .block_size = page->block_size};
  struct mi__span span = {
      .start = page->start,
      .n_slices = page->n_slices,
      .zero = mi__page_flag(page, MI_PAGE_ZERO),
  };
  /* The record goes first: once the memory has moved, another thread may map something at the old
   * address. */
  mi__page_forget_huge(page);
  size_t n = mi__div_up(size, MI_SLICE_SIZE);
  char *start = mi__span_remap(span.start, span.n_slices, n, 1);
  if (start != NULL) {
    span.start = start;
    span.n_slices = n;
  }
  add_page(&span, heap, &before);
  return start;
}
