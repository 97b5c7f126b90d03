/* SPDX-License-Identifier: MIT */
/* The lists of a theap's bin, for theap.c and refill.c. All for the owner of the theap. */
#ifndef MI_HEAP_QUEUE_H
#define MI_HEAP_QUEUE_H

#include "heap/heap.h"

mi__inline struct mi__theap_bin *mi__theap_bin_of(struct mi_theap_s *theap,
                                                  const struct mi_page *page) {
  return &theap->bins[page->bin];
}
mi__inline struct mi_theap_s *mi__theap_of(const struct mi_page *page) {
  return mi__load(&page->theap, relaxed);
}

mi__inline void mi__queue_push(struct mi__page_queue *q, struct mi_page *page,
                               enum mi__page_list list) {
  struct mi_page *tail = q->tail;
  page->list = (uint8_t)list;
  page->next = NULL;
  page->prev = tail;
  q->tail = page;
  if (tail != NULL) tail->next = page;
  else q->head = page;
}

mi__inline void mi__queue_remove(struct mi__page_queue *q, struct mi_page *page) {
  struct mi_page *next = page->next, *prev = page->prev;
  if (prev != NULL) prev->next = next;
  else q->head = next;
  if (next != NULL) next->prev = prev;
  else q->tail = prev;
  page->list = MI_LIST_NONE;
}

mi__inline void mi__list_remove(struct mi__theap_bin *b, struct mi_page *page) {
  if (page->list == MI_LIST_FULL) {
    b->n_full--;
    mi__queue_remove(&b->full, page);
  } else if (page->list == MI_LIST_AVAIL) {
    mi__queue_remove(&b->avail, page);
  } else if (page->list == MI_LIST_HOLLOW) {
    mi__queue_remove(&mi__theap_of(page)->hollow[page->bin], page);
    mi__page_set_flag(page, MI_PAGE_HOLLOW, false);
  }
}

/* Nothing is on its list: the first free into it must take the slow path (PAGE-2). */
mi__inline void mi__page_watch_first_free(struct mi_page *page) {
  page->held = (uint16_t)(mi__page_used(page) - 1);
  page->until = 1;
}
/* n_full is the caller's. */
mi__inline void mi__queue_push_full(struct mi__theap_bin *b, struct mi_page *page) {
  mi__page_watch_first_free(page);
  mi__queue_push(&b->full, page, MI_LIST_FULL);
}
mi__inline void mi__put_full(struct mi__theap_bin *b, struct mi_page *page) {
  b->n_full++;
  mi__queue_push_full(b, page);
}

/* Nothing free but in holes: as for a full page. */
mi__inline void mi__put_hollow(struct mi_page *page) {
  mi__page_watch_first_free(page);
  mi__page_set_flag(page, MI_PAGE_HOLLOW, true);
  mi__queue_push(&mi__theap_of(page)->hollow[page->bin], page, MI_LIST_HOLLOW);
}

mi__inline void mi__put_by_room(struct mi__theap_bin *b, struct mi_page *page) {
  if (!mi__page_has_room(page)) {
    mi__put_full(b, page);
  } else if (mi__unlikely(mi__page_is_hollow(page))) {
    mi__put_hollow(page);
  } else {
    mi__page_set_used(page, mi__page_used(page));
    mi__queue_push(&b->avail, page, MI_LIST_AVAIL);
  }
}

#endif
