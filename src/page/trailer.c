/* SPDX-License-Identifier: MIT */
#include "page/trailer.h"

#if MI_VALGRIND
static char *block_of(const struct mi_page *page, const void *p) {
  return page->kind == MI_PAGE_HUGE ? page->start : mi__page_block_of(page, p);
}

static struct mi__trailer *trailer_of(const struct mi_page *page, const void *p) {
  return (struct mi__trailer *)(void *)(block_of(page, p) + page->block_size) - 1;
}

void mi__trailer_write(void *p, size_t size, bool zero) {
  const struct mi_page *page = mi__page_of(p);
  char *block = block_of(page, p);
  *trailer_of(page, p) = (struct mi__trailer){(uintptr_t)p, size};
  mi__track_hide(block, page->block_size);
  mi__track_give(p, size, zero);
}

void mi__trailer_strike(const struct mi_page *page, void *p) {
  trailer_of(page, p)->holder = ~(uintptr_t)p;
  mi__track_take(p);
}

/* Who holds a block that is live points into it; what no block's trailer was written to yet is as
 * likely to look so as any word. */
static void strike_live(const struct mi_page *page, const char *block) {
  uintptr_t holder = mi__trailer_read(page, block).holder;
  if (holder - (uintptr_t)block < page->block_size) mi__trailer_strike(page, (void *)holder);
}

void mi__trailer_strike_all(const struct mi_page *page) {
  if (page->kind == MI_PAGE_HUGE) {
    strike_live(page, page->start);
    return;
  }
  if (mi__page_used(page) == 0) return;
  uint32_t index = page->first;
  for (uint32_t i = 0; i < mi__page_n_reached(page); i++, index++) {
    if (index == page->n_blocks) index = 0;
    strike_live(page, page->start + (size_t)index * page->block_size);
  }
}

struct mi__trailer mi__trailer_read(const struct mi_page *page, const void *p) {
  return *trailer_of(page, p);
}

size_t mi__trailer_size(const struct mi_page *page, const void *p, size_t usable) {
  struct mi__trailer trailer = mi__trailer_read(page, p);
  bool known = trailer.holder == (uintptr_t)p || trailer.holder == ~(uintptr_t)p;
  size_t most = usable < MI_TRAILER_ROOM ? 0 : usable - MI_TRAILER_ROOM;
  return known && trailer.size <= most ? trailer.size : most;
}

#endif
