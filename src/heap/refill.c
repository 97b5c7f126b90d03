/* SPDX-License-Identifier: MIT */
/* Refill: where a ready list gets its blocks from. In this order: what others freed into the
 * current page; its blocks that were never formed; the fullest of the first pages with room; full
 * pages into which others freed; abandoned pages of the heap; the empty page in the slot; holes; a
 * fresh page. So holes come back when no resident block of the size is left. */
#include "heap/account.h"
#include "heap/damage.h"
#include "heap/epoch.h"
#include "heap/queue.h"
#include "heap/slot.h"
#include "heap/theap.h"
#include "rt/counter.h"
#include "rt/option.h"

/* The list begins with no block of the page: somebody wrote to a free block, or freed one twice. */
static mi__cold struct mi_block *broken(struct mi_theap_s *theap, struct mi_page *page,
                                        enum mi__fault fault) {
  mi__page_mark_broken(page, fault);
  mi__faults_note(&theap->faults, page);
  return NULL;
}

/* A small page more than page_full_retain is given up, so that frees by others that empty it give
 * it back at once. False: there is none. */
static mi__noinline bool abandon_oldest(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  struct mi_page *oldest = b->full.head;
  while (oldest != NULL && mi__page_flag(oldest, MI_PAGE_BROKEN)) oldest = oldest->next;
  if (oldest == NULL) return false;
  mi__list_remove(b, oldest);
  b->n_pages--;
  mi__account_used(theap, b, oldest, mi__page_used(oldest));
  mi__store(&oldest->owner, MI_OWNER_NONE, relaxed); /* so it counts as abandoned, here */
  theap->n_given_up++;
  mi__account_abandoned(theap, 1);
  if (!mi__page_abandon(oldest)) mi__faults_note(&theap->faults, oldest);
  return true;
}

/* A thread that replaces its blocks at random frees into most pages soon after they were full, and
 * giving them up and taking them back was a seventh of the time of such a load. So each page that
 * comes back by a free of its own thread lets the bin keep one more. What others empty meanwhile
 * waits for the thread's next refill of the bin, hence a bound for all bins: 4 MiB, less than two
 * full pages of each size come to. It saves two thirds of it (bench/rptest). A thread whose blocks
 * others free does not get there, and what it learned is forgotten at each collection. */
#define MI_EXTRA_FULL_MAX 64

void mi__theap_took_back(struct mi_theap_s *theap, const struct mi_page *page) {
  if (page->kind != MI_PAGE_SMALL || theap->extra_full >= MI_EXTRA_FULL_MAX) return;
  if (mi__option_get(mi_option_page_full_retain) == 0) return;
  theap->extra_full++;
  theap->n_extra_full[page->bin]++;
}

/* How many full pages of the bin are more than page_full_retain; <= 0: none. */
mi__inline int64_t n_beyond(const struct mi__theap_bin *b) {
  return (int64_t)b->n_full - mi__option_get(mi_option_page_full_retain);
}

void mi__theap_keep_fewer(struct mi_theap_s *theap, unsigned bin) {
  struct mi__theap_bin *b = &theap->bins[bin];
  theap->extra_full = (uint8_t)(theap->extra_full - theap->n_extra_full[bin]);
  theap->n_extra_full[bin] = 0;
  while (n_beyond(b) > 0 && abandon_oldest(theap, b)) {}
}

/* The current page has nothing left. */
static void retire_current(struct mi_theap_s *theap, struct mi__theap_bin *b,
                           struct mi_page *page) {
  mi__account_end(b, page);
  mi__page_end_current(page);
  b->current = NULL;
  mi__put_by_room(b, page); /* there is some where memory for it could not be committed */
  if (page->kind != MI_PAGE_SMALL) {
    if (page->kind == MI_PAGE_LARGE) mi__epoch_stamp(page);
  } else if (mi__unlikely(n_beyond(b) > 0) && n_beyond(b) > theap->n_extra_full[page->bin]) {
    (void)abandon_oldest(theap, b);
  }
}

/* Of the first pages with room the fullest: the others may become empty. */
static mi__noinline struct mi_page *best_of_several(struct mi_theap_s *theap,
                                                    struct mi__theap_bin *b) {
  struct mi_page *best = b->avail.head;
  long n = mi__option_get(mi_option_page_max_candidates);
  struct mi_page *page = best->next;
  theap->n_searches++;
  for (long i = 1; i < n && page != NULL; i++, page = page->next) {
    if (mi__page_used(page) > mi__page_used(best)) best = page;
    theap->n_searched++;
  }
  return best;
}

mi__inline struct mi_page *best_avail(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  struct mi_page *head = b->avail.head;
  return head == NULL || mi__likely(head->next == NULL) ? head : best_of_several(theap, b);
}

/* One that needs no memory to be committed. */
static mi__cold struct mi_page *avail_with_blocks(struct mi__theap_bin *b) {
  struct mi_page *page = b->avail.head;
  while (page != NULL && page->free == NULL && mi__remote_is_empty(page)) page = page->next;
  return page;
}

/* Full pages of this theap into which others have freed. A few at a time, oldest first, so that a
 * long list costs no more than a short one; those that were looked at go to the end. */
static struct mi_page *full_with_remote(struct mi__page_queue *q) {
  enum { LOOK_AT = 4 };
  for (int i = 0; i < LOOK_AT && q->head != NULL; i++) {
    struct mi_page *page = q->head;
    enum mi__page_list list = page->list;
    if (mi__remote_has_batch(page) && !mi__page_flag(page, MI_PAGE_BROKEN)) return page;
    if (page->next == NULL) break;
    mi__queue_remove(q, page);
    mi__queue_push(q, page, list);
  }
  return NULL;
}

/* A page of this theap all of whose free blocks are in holes; some are back on its list. */
static struct mi_page *from_holes(struct mi_theap_s *theap, unsigned bin) {
  struct mi_page *page = theap->hollow[bin].tail; /* the same until it has none */
  if (mi__likely(page == NULL) || !mi__holes_bring_back(page, 4 * MI_KIB)) return NULL;
  return page;
}

static bool may_take(const struct mi__theap_bin *b, bool own) {
  long max = mi__option_get(own ? mi_option_page_max_reclaim
                                : mi_option_page_cross_thread_max_reclaim);
  return max < 0 || (long)b->n_pages < max;
}

bool mi__theap_may_take(struct mi_theap_s *theap, const struct mi_page *page) {
  return may_take(mi__theap_bin_of(theap, page), mi__theap_of(page) == theap);
}

static struct mi_page *take_abandoned(struct mi_theap_s *theap, unsigned bin) {
  struct mi_heap_s *heap = mi__theap_heap(theap);
  if (mi__load(&heap->pools[bin].n, relaxed) == 0 || !may_take(&theap->bins[bin], false)) {
    return NULL;
  }
  struct mi_page *page = mi__pool_take(heap, bin);
  if (page == NULL) return NULL;
  if (mi__page_flag(page, MI_PAGE_BROKEN)) {
    if (!mi__page_abandon(page)) mi__faults_note(&theap->faults, page);
    return NULL;
  }
  mi__count(&heap->counters.pages_reclaim_on_alloc, 1);
  /* Frees into an abandoned page of the main heap were counted when they came. */
  if (mi__heap_is_main(heap)) mi__store(&page->n_counted, mi__page_used(page), relaxed);
  mi__theap_attach(theap, page);
  return page->list != MI_LIST_HOLLOW ? page : NULL; /* what has only holes comes last */
}

/* A block of a large page is formed where abandoned pages and holes have none, for that costs the
 * most memory. True: there is one on the avail list now. */
static mi__noinline bool has_elsewhere(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                       unsigned bin) {
  struct mi_page *taken = take_abandoned(theap, bin);
  if (taken != NULL && (taken->free != NULL || !mi__remote_is_empty(taken))) return true;
  struct mi_page *hollow = from_holes(theap, bin);
  if (hollow == NULL) return false;
  mi__list_remove(b, hollow);
  mi__put_by_room(b, hollow);
  return true;
}

/* Fresh blocks. NULL: there are only holes, or no memory could be committed. */
mi__inline struct mi_block *form(struct mi_theap_s *theap, struct mi_page *page, bool *zero,
                                 uint32_t *n) {
  *n = mi__page_form(page, 4 * MI_KIB);
  if (mi__unlikely(*n == 0)) return NULL;
  theap->n_extended++;
  *zero = mi__page_flag(page, MI_PAGE_ZERO);
  return mi__page_take_list(page);
}

/* Blocks of the page's own holes, or fresh ones. NULL also where others are rather used. */
static mi__noinline struct mi_block *form_large(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                                struct mi_page *page, bool *zero, uint32_t *live) {
  struct mi_block *list = NULL;
  uint32_t before = page->n_formed, n = 0;
  if (!has_elsewhere(theap, b, page->bin)) {
    if (!mi__holes_bring_back(page, 1)) {
      list = form(theap, page, zero, &n);
    } else {
      n = page->n_formed - before;
      list = mi__page_take_list(page);
    }
  }
  mi__account_begin(theap, b, page, n);
  *live = page->n_formed - n;
  return list;
}

/* A list from the page that is neither taken nor formed yet: remote frees, or fresh blocks. Both
 * count as used. *live: the other formed blocks. */
static mi__noinline struct mi_block *take_or_form(struct mi_theap_s *theap,
                                                  struct mi__theap_bin *b, struct mi_page *page,
                                                  bool *zero, uint32_t *live) {
  uint32_t n;
  struct mi_block *list = mi__remote_take(page, &n);
  if (list == NULL && page->n_formed < page->n_blocks) {
    if (mi__unlikely(page->kind == MI_PAGE_LARGE)) return form_large(theap, b, page, zero, live);
    list = form(theap, page, zero, &n);
  }
  mi__account_begin(theap, b, page, n);
  *live = page->n_formed - n;
  return list;
}

mi__inline struct mi_block *more_of(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                    struct mi_page *page, bool *zero, uint32_t *live) {
  bool nothing = mi__load(&page->xremote, relaxed) == MI_REMOTE_OWNED &&
                 page->n_formed == page->n_blocks;
  return nothing ? NULL : take_or_form(theap, b, page, zero, live);
}

static struct mi_page *fresh_page(struct mi_theap_s *theap, unsigned bin) {
  enum mi__page_kind kind = mi__page_kind_of_bin(bin);
  struct mi_heap_s *heap = mi__theap_heap(theap);
  struct mi__span_request request = {
      .n_slices = mi__page_slices(kind),
      .min_slices = mi__div_up(mi__bin_size(bin), MI_SLICE_SIZE),
      .align_slices = 1,
      .side = kind == MI_PAGE_SMALL ? MI_SIDE_LOW : MI_SIDE_HIGH,
      .only = heap->only,
      .numa_node = heap->numa_node,
      .in_parts = kind != MI_PAGE_SMALL,
  };
  struct mi__span span;
  if (!mi__span_alloc(mi__heap_arenas(heap), &request, &span)) return NULL;
  struct mi_page *page = mi__page_new(&span, bin, heap);
  mi__account_page(heap, page, 1);
  mi__theap_attach(theap, page);
  return page;
}

mi__inline struct mi_page *from_slot(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  struct mi_page *page = mi__slot_take(theap, b);
  if (page == NULL) return NULL;
  b->n_pages++;
  if (mi__likely(!mi__page_flag(page, MI_PAGE_BROKEN))) return page;
  mi__faults_note(&theap->faults, page); /* the background thread could not tell */
  mi__put_full(b, page);
  return NULL;
}

/* No page with room is left: one from elsewhere, attached. */
static mi__noinline struct mi_page *page_from_elsewhere(struct mi_theap_s *theap, unsigned bin) {
  struct mi__theap_bin *b = &theap->bins[bin];
  struct mi_page *page = NULL;
  if (b->n_pages > 0) {
    page = full_with_remote(&b->full);
    if (page == NULL) page = full_with_remote(&theap->hollow[bin]);
  }
  if (page == NULL) page = take_abandoned(theap, bin);
  if (page == NULL) page = from_slot(theap, b);
  if (page == NULL && b->n_pages > 0) page = from_holes(theap, bin);
  return page != NULL ? page : fresh_page(theap, bin);
}

/* A page that becomes current, and its list. */
mi__inline struct mi_block *next_list(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                      unsigned bin, bool *zero) {
  struct mi_block *list;
  uint32_t live = 0;
  struct mi_page *page = best_avail(theap, b);
  bool refused = false; /* no memory could be committed for a page that has room */
  for (;;) {
    if (mi__likely(page != NULL)) {
      mi__queue_remove(&b->avail, page);
    } else {
      page = page_from_elsewhere(theap, bin);
      if (mi__unlikely(page == NULL)) return NULL;
      mi__list_remove(b, page);
    }
    list = page->free;
    enum mi__fault fault = list != NULL ? MI_FAULT_FREE : MI_FAULT_REMOTE;
    if (list != NULL) {
      page->free = NULL;
      live = mi__page_used(page);
      mi__account_begin(theap, b, page, page->n_formed - live);
    } else {
      list = more_of(theap, b, page, zero, &live);
    }
    if (mi__unlikely(list != NULL && !mi__page_is_block(page, list)))
      list = broken(theap, page, fault);
    if (mi__likely(list != NULL)) break;
    refused |= mi__page_has_room(page); /* or nothing but used blocks */
    mi__put_by_room(b, page);
    page = refused ? avail_with_blocks(b) : best_avail(theap, b);
  }
  b->current = page;
  mi__page_begin_current(page, &theap->ready[bin]);
  if (page->kind == MI_PAGE_LARGE) {
    mi__epoch_begin_current(page);
    mi__account_watch(b, page, live);
  }
  return list;
}

struct mi_block *mi__theap_refill(struct mi_theap_s *theap, unsigned bin, bool *zero) {
  struct mi__theap_bin *b = &theap->bins[bin];
  mi__pin_base(b); /* or each access adds up the address anew */
  struct mi_page *page = b->current;
  struct mi_block *list = NULL;
  mi__assert(theap->ready[bin] == NULL);
  *zero = false;
  if (page != NULL) {
    uint32_t live = 0;
    list = more_of(theap, b, page, zero, &live);
    if (mi__unlikely(list != NULL && !mi__page_is_block(page, list)))
      list = broken(theap, page, MI_FAULT_REMOTE);
    if (list == NULL) {
      retire_current(theap, b, page);
    } else if (page->kind == MI_PAGE_LARGE) {
      mi__account_end(b, page);
      mi__account_watch(b, page, live);
    }
  }
  if (list == NULL) list = next_list(theap, b, bin, zero);
  if (mi__likely(list != NULL)) theap->ready[bin] = list->next;
  return list;
}
