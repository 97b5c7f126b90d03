/* SPDX-License-Identifier: MIT */
/* A page of a bin, without a theap: what the suites of this layer work on. */
#ifndef MI_TESTS_PAGE_FIXTURE_H
#define MI_TESTS_PAGE_FIXTURE_H

#include "heap/process.h"
#include "page/page.h"
#include "unit/suite.h"

static inline struct mi__span span_of(size_t n_slices) {
  mi__process_init();
  struct mi__span_request request = {.n_slices = n_slices, .align_slices = 1};
  request.min_slices = n_slices;
  request.side = n_slices == 1 ? MI_SIDE_LOW : MI_SIDE_HIGH;
  struct mi__span span;
  ck_assert(mi__span_alloc(mi__arenas_main(), &request, &span));
  return span;
}

static inline struct mi_page *page_of_bin(unsigned bin) {
  struct mi__span span = span_of(mi__page_slices(mi__page_kind_of_bin(bin)));
  return mi__page_new(&span, bin, NULL);
}
static inline struct mi_page *page_of_size(size_t size) { return page_of_bin(mi__bin_of(size)); }

static inline struct mi_block *block_at(const struct mi_page *page, uint32_t index) {
  return (struct mi_block *)(void *)(page->start + (size_t)index * page->block_size);
}
static inline uint32_t length_of(const struct mi_block *list) {
  uint32_t n = 0;
  for (; list != NULL && n < 100000; list = list->next) n++;
  return n;
}
/* Form all blocks, and take them: every one is in use. Some order. */
static inline struct mi_block *take_all(struct mi_page *page) {
  struct mi_block *all = NULL;
  while (page->n_formed < page->n_blocks) {
    ck_assert_uint_gt(mi__page_form(page, 64 * MI_KIB), 0);
    struct mi_block *list = page->free, *last = list;
    while (last->next != NULL) last = last->next;
    last->next = all;
    all = list;
    page->free = NULL;
  }
  mi__page_set_used(page, page->n_formed);
  return all;
}

#endif
