/* SPDX-License-Identifier: MIT */
#include "heap/theap.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/epoch.h"
#include "heap/park.h"
#include "heap/queue.h"
#include "heap/slot.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "page/holes.h"
#include "page/trailer.h"
#include "rt/counter.h"
#include "rt/option.h"

void mi__theap_init(struct mi_theap_s *theap, struct mi_heap_s *heap, struct mi_thread *thread) {
  mi__store(&theap->thread, thread, relaxed);
  mi__store(&theap->heap, heap, relaxed);
  mi__gauge_add(&heap->counters.theaps, 1);
}

/* ---- pages come and go ---- */

void mi__theap_attach(struct mi_theap_s *theap, struct mi_page *page) {
  struct mi__theap_bin *b = mi__theap_bin_of(theap, page);
  if (mi__theap_of(page) != NULL) mi__account_abandoned(theap, -1);
  mi__store(&page->theap, theap, relaxed);
  mi__store(&page->owner, mi__theap_owner_word(theap, page), relaxed);
  b->n_pages++;
  uint64_t used = mi__load(&theap->used_bins, relaxed);
  mi__store(&theap->used_bins, used | (uint64_t)1 << page->bin, relaxed);
  mi__account_used(theap, b, page, mi__page_used(page));
  mi__put_by_room(b, page);
}

/* Off the counts of its heap. */
static void leave_counts(struct mi_heap_s *heap, struct mi_page *page) {
  mi__trailer_take_all(page);
  if (page->kind != MI_PAGE_HUGE) mi__account_unowned(heap, page, 0);
  mi__account_page(heap, page, -1);
}

/* And out of its pool. */
static void give_back(struct mi_page *page, bool abandoned) {
  struct mi_heap_s *heap = mi__pool_hold(page);
  struct mi__arenas *arenas = mi__heap_arenas(heap);
  if (abandoned) mi__gauge_add(&heap->counters.pages_abandoned, -1);
  leave_counts(heap, page);
  if (mi__pool_leave(heap, page) && mi__remote_end(page)) mi__page_delete(arenas, page);
}

void mi__page_give_back(struct mi_page *page) { give_back(page, false); }
void mi__page_give_back_abandoned(struct mi_page *page) { give_back(page, true); }

/* A page of a theap that the caller owns: it is in no pool, and nobody else moves it. */
static void give_back_owned(struct mi_page *page) {
  struct mi_heap_s *heap = mi__page_heap(page);
  leave_counts(heap, page);
  if (mi__remote_end(page)) mi__page_delete(mi__heap_arenas(heap), page);
}

static bool may_release(struct mi_page *page) {
  if (!mi__page_flag(page, MI_PAGE_BROKEN) && mi__page_is_whole(page)) return true;
  mi__page_mark_broken(page, mi__page_free_fault(page));
  return false;
}

bool mi__page_release(struct mi_page *page) {
  if (!may_release(page)) return false;
  give_back_owned(page);
  return true;
}

/* Of the main heap, which never ends, pages without room need not be found. */
static bool belongs_to_pool(const struct mi_heap_s *heap, const struct mi_page *page) {
  if (!mi__heap_is_main(heap)) return true;
  return mi__page_has_room(page) && !mi__page_flag(page, MI_PAGE_DRAINS);
}

/* A page that was abandoned is empty, or broken: then it is owned by nobody for good; frees into it
 * are lost, its live blocks are not. It stays with its heap, which may end and then has to find it:
 * no page may name the record of a heap that has ended, for that is used again. */
static bool end_abandoned(struct mi_page *page, bool broken) {
  if (!broken && may_release(page)) {
    give_back(page, true);
    return true;
  }
  mi__holes_end(page);
  struct mi_heap_s *heap = mi__pool_hold(page);
  if (!mi__heap_is_main(heap)) {
    mi__pool_keep(heap, page);
    return false;
  }
  mi__gauge_add(&heap->counters.pages_abandoned, -1);
  (void)mi__pool_leave(heap, page);
  return false;
}

bool mi__page_abandon(struct mi_page *page) {
  if (mi__load(&page->owner, relaxed) != MI_OWNER_NONE)
    mi__gauge_add(&mi__page_heap(page)->counters.pages_abandoned, 1);
  mi__store(&page->owner, MI_OWNER_NONE, relaxed);
  /* It is in no list; once it is in the pool page->list is for who holds the lock. */
  bool main_heap, pooled = false;
  do {
    mi__remote_collect(page);
    bool broken = mi__page_flag(page, MI_PAGE_BROKEN);
    if (broken || mi__page_used(page) == 0) return end_abandoned(page, broken);
    mi__page_set_used(page, mi__page_used(page));
    struct mi_heap_s *heap = mi__page_heap(page);
    mi__account_unowned(heap, page, mi__page_used(page));
    if (!pooled && belongs_to_pool(heap, page)) {
      mi__pool_put(page);
      pooled = true;
    }
    main_heap = mi__heap_is_main(heap);
  } while (!mi__remote_disown(page, pooled, main_heap));
  return true;
}

static void page_leaves(struct mi__theap_bin *b, struct mi_page *page) {
  mi__list_remove(b, page);
  b->n_pages--;
}

/* The last block of a page came back. */
static void page_emptied(struct mi_theap_s *theap, struct mi_page *page) {
  struct mi__theap_bin *b = mi__theap_bin_of(theap, page);
  if (page->kind == MI_PAGE_LARGE) mi__holes_unkeep(page);
  mi__account_used(theap, b, page, 0);
  page_leaves(b, page);
  mi__slot_put(theap, b, page);
}

/* The first free block of a full page, while the ready list is empty and the current page has
 * nothing left: the page becomes current and feeds the list, which saves the refill. */
mi__inline bool make_current(struct mi_theap_s *theap, struct mi__theap_bin *b,
                             struct mi_page *page) {
  struct mi_block **head = &theap->ready[page->bin];
  struct mi_page *current = b->current;
  if (*head != NULL || current == NULL) return false;
  if (current->n_formed < current->n_blocks || !mi__remote_is_empty(current)) return false;
  mi__account_end(b, current);
  b->n_taken++; /* of `page`: there is one free, and as a full page it is counted as wholly used */
  mi__page_end_current(current);
  mi__queue_remove(&b->full, page); /* and another comes: n_full stays */
  mi__queue_push_full(b, current);
  b->current = page;
  *head = mi__page_take_free(page);
  mi__page_begin_current(page, head);
  if (page->kind == MI_PAGE_LARGE) {
    mi__epoch_stamp(current);
    mi__epoch_begin_current(page);
    mi__account_watch(b, page, page->n_formed - 1);
  }
  return true;
}

/* Blocks on a list that lie in the page (NULL does not). */
static uint32_t count_roughly(const struct mi_page *page, const struct mi_block *b) {
  size_t size = page->n_slices * MI_SLICE_SIZE;
  uint32_t left = page->n_blocks;
  for (; left > 0 && (size_t)((const char *)b - page->start) < size; left--) b = b->next;
  return page->n_blocks - left;
}

static void put_ready_back(struct mi_theap_s *theap, unsigned bin);

/* As many blocks were freed into the current page as lived in it when somebody looked last, if it
 * is a large one: it goes where all blocks are on the ready list. */
static mi__noinline void current_event(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                       struct mi_page *page) {
  uint32_t n_ready = 0;
  bool large = page->kind == MI_PAGE_LARGE;
  if (large) n_ready = count_roughly(page, theap->ready[page->bin]);
  if (n_ready >= page->n_formed) {
    put_ready_back(theap, page->bin);
    return;
  }
  mi__account_end(b, page);
  page->until = MI_UNTIL_CURRENT;
  if (large) mi__account_watch(b, page, page->n_formed - n_ready);
}

/* The first free into a full page, or a hollow one, when `until` has become 0. */
mi__inline void leave_full(struct mi__theap_bin *b, struct mi_page *page) {
  mi__page_set_used(page, page->held);
  mi__list_remove(b, page);
  mi__queue_push(&b->avail, page, MI_LIST_AVAIL);
}

static mi__noinline void special_event(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                       struct mi_page *page) {
  if (mi__page_flag(page, MI_PAGE_BROKEN)) {
    mi__list_remove(b, page);
    mi__page_mark_broken(page, MI_FAULT_NONE);
    mi__put_full(b, page);
  } else if (page->held > 0) {
    leave_full(b, page);
  } else { /* its only live block */
    page_emptied(theap, page);
  }
}

void mi__theap_page_event(struct mi_page *page) {
  struct mi_theap_s *theap = mi__theap_of(page);
  struct mi__theap_bin *b = mi__theap_bin_of(theap, page);
  mi__pin_pointer(b); /* or each access adds up the address anew */
  if (mi__unlikely(page == b->current)) {
    current_event(theap, b, page);
    mi__offer(__builtin_return_address(0), false);
  } else if (mi__unlikely(mi__page_flag(page, MI_PAGE_BROKEN | MI_PAGE_HOLLOW))) {
    special_event(theap, b, page);
  } else if (page->held > 0) { /* it was full */
    if (make_current(theap, b, page)) return;
    leave_full(b, page);
  } else {
    page_emptied(theap, page);
    mi__offer(__builtin_return_address(0), false);
  }
}

/* ---- collect and tear-down ---- */

/* The blocks of the ready list are free blocks of the current page again. */
static void put_ready_back(struct mi_theap_s *theap, unsigned bin) {
  struct mi__theap_bin *b = &theap->bins[bin];
  struct mi_page *page = b->current;
  if (page == NULL) return;
  struct mi_block *list = theap->ready[bin];
  theap->ready[bin] = NULL;
  mi__account_end(b, page);
  mi__page_end_current(page);
  b->current = NULL;
  if (page->kind == MI_PAGE_LARGE) mi__epoch_stamp(page);
  uint32_t n = 0;
  /* A list that is longer than what is in use went through a block twice. */
  enum mi__fault fault = MI_FAULT_NONE;
  if (list != NULL) fault = mi__page_put_back(page, list, mi__page_used(page), MI_FAULT_READY, &n);
  if (mi__unlikely(fault != MI_FAULT_NONE)) {
    mi__page_mark_broken(page, fault);
    mi__faults_note(&theap->faults, page);
  }
  b->n_taken -= n;
  if (mi__page_used(page) == 0) {
    page_emptied(theap, page);
  } else {
    if (!mi__page_flag(page, MI_PAGE_BROKEN)) {
      mi__account_used(theap, b, page, mi__page_used(page));
    }
    mi__put_by_room(b, page);
  }
}

/* parked: NULL for the owner; else the thread, which may want its theaps back. False: it does. */
static bool collect_queue(struct mi_theap_s *theap, struct mi__theap_bin *b,
                          struct mi__page_queue *q, const struct mi_thread *parked) {
  struct mi_page *last = q->tail;
  for (struct mi_page *page = q->head, *next; page != NULL; page = next) {
    next = page == last ? NULL : page->next;
    if (parked != NULL && mi__park_must_leave(parked)) return false;
    if (mi__page_flag(page, MI_PAGE_BROKEN)) continue;
    if (!mi__remote_is_empty(page)) {
      mi__list_remove(b, page);
      mi__page_set_used(page, mi__page_used(page));
      mi__remote_collect(page);
      if (mi__page_flag(page, MI_PAGE_BROKEN)) {
        mi__page_mark_broken(page, MI_FAULT_NONE);
        mi__faults_note(&theap->faults, page);
      }
      if (mi__page_used(page) == 0) {
        page_emptied(theap, page);
        continue;
      }
      mi__put_by_room(b, page);
    } else if (mi__page_used(page) == 0) {
      page_emptied(theap, page);
      continue;
    }
    if (!mi__page_flag(page, MI_PAGE_BROKEN)) {
      mi__account_used(theap, b, page, mi__page_used(page));
    }
  }
  return true;
}

static bool collect(struct mi_theap_s *theap, bool slots, const struct mi_thread *parked) {
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    unsigned bin = mi__ctz64(bins);
    struct mi__theap_bin *b = &theap->bins[bin];
    if (b->n_pages != 0) {
      put_ready_back(theap, bin);
      if (!collect_queue(theap, b, &b->full, parked)) return false;
      if (!collect_queue(theap, b, &b->avail, parked)) return false;
      if (!collect_queue(theap, b, &theap->hollow[bin], parked)) return false;
    }
    if (theap->n_extra_full[bin] > 0) mi__theap_keep_fewer(theap, bin);
    if (slots) mi__slot_empty(theap, b);
  }
  return true;
}

void mi__theap_collect(struct mi_theap_s *theap, bool slots) {
  (void)collect(theap, slots, NULL);
  if (slots) mi__theap_drop_floor(theap);
}

bool mi__theap_collect_slots(struct mi_theap_s *theap, const struct mi_thread *parked) {
  return collect(theap, true, parked);
}

/* All blocks of the bin are lost. */
static void drop_current(struct mi_theap_s *theap, unsigned bin) {
  struct mi__theap_bin *b = &theap->bins[bin];
  struct mi_page *page = b->current;
  if (page == NULL) return;
  mi__account_end(b, page);
  b->n_taken -= count_roughly(page, theap->ready[bin]);
  theap->ready[bin] = NULL;
  b->current = NULL;
  b->n_pages--;
  mi__account_used(theap, b, page, 0);
  give_back_owned(page);
}

static void send_page(struct mi_theap_s *theap, struct mi_page *page, enum mi__fate fate) {
  struct mi_heap_s *heap = mi__theap_heap(theap);
  if (fate == MI_FATE_DESTROY) {
    give_back_owned(page);
    return;
  }
  if (page->kind == MI_PAGE_LARGE) mi__page_drop_floor(theap, page);
  bool broken = mi__page_flag(page, MI_PAGE_BROKEN); /* reported already */
  if (fate == MI_FATE_MOVE) mi__page_move(heap, page);
  if (!mi__page_abandon(page) && !broken) mi__faults_note(&theap->faults, page);
}

void mi__page_move(struct mi_heap_s *from, struct mi_page *page) {
  struct mi_heap_s *to = from->subproc->main;
  if (from->only != NULL) mi__page_set_flag(page, MI_PAGE_DRAINS, true);
  mi__account_move(from, to, page);
  /* Relaxed: the caller owns it, and it is in no pool. */
  mi__store(&page->heap, to, relaxed);
}

static mi__noinline void send_pages(struct mi_theap_s *theap, unsigned bin, enum mi__fate fate) {
  struct mi__theap_bin *b = &theap->bins[bin];
  while (b->n_pages > 0) {
    struct mi_page *page = b->full.head;
    if (page == NULL) page = b->avail.head;
    if (page == NULL) page = theap->hollow[bin].head;
    page_leaves(b, page);
    send_page(theap, page, fate);
  }
  if (theap->n_extra_full[bin] > 0) mi__theap_keep_fewer(theap, bin);
  mi__assert(b->n_full == 0);
}

void mi__theap_empty(struct mi_theap_s *theap, enum mi__fate fate) {
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    unsigned bin = mi__ctz64(bins);
    struct mi__theap_bin *b = &theap->bins[bin];
    if (fate == MI_FATE_DESTROY) drop_current(theap, bin);
    else put_ready_back(theap, bin);
    mi__slot_empty(theap, b);
    if (mi__unlikely(b->n_pages > 0 || theap->n_extra_full[bin] > 0)) send_pages(theap, bin, fate);
  }
}

void mi__theap_check(struct mi_theap_s *theap) {
  if (!MI_DEBUG) return;
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    struct mi__theap_bin *b = &theap->bins[bin];
    uint32_t n = 0, n_full = 0;
    for (struct mi_page *p = b->avail.head; p != NULL; p = p->next, n++) mi__page_check(p);
    for (struct mi_page *p = b->full.head; p != NULL; p = p->next, n++, n_full++) mi__page_check(p);
    for (struct mi_page *p = theap->hollow[bin].head; p != NULL; p = p->next, n++) {
      mi__page_check(p);
      mi__assert(mi__page_is_hollow(p) && mi__page_flag(p, MI_PAGE_HOLLOW));
    }
    n += b->current != NULL;
    mi__assert(n == b->n_pages && n_full == b->n_full);
    mi__assert(b->current == NULL || b->current->push == &theap->ready[bin]);
    mi__assert(b->current != NULL || theap->ready[bin] == NULL);
  }
}
