/* SPDX-License-Identifier: MIT */
#include "heap/account.h"

static void add_live(struct mi_heap_s *heap, unsigned bin, size_t block_size, int64_t n) {
  if (n == 0) return;
  mi__gauge_merge(&heap->counters.bins[bin].blocks, n, n > 0 ? n : 0, 0);
  int64_t bytes = n * (int64_t)block_size;
  mi__gauge_merge(&heap->counters.blocks, bytes, bytes > 0 ? bytes : 0, 0);
}

void mi__account_left(struct mi_heap_s *heap, unsigned bin, size_t block_size, uint32_t n) {
  add_live(heap, bin, block_size, -(int64_t)n);
}

void mi__account_page(struct mi_heap_s *heap, const struct mi_page *page, int n) {
  struct mi__heap_counters *c = &heap->counters;
  mi__heap_counters_use_bin(c, page->bin);
  mi__gauge_add(&c->pages, n);
  mi__gauge_add(&c->bins[page->bin].pages, n);
  if (page->kind != MI_PAGE_HUGE) return;
  mi__gauge_add(&c->huge, n * (int64_t)page->block_size);
  mi__gauge_add(&c->bins[page->bin].blocks, n);
  if (n > 0) mi__count(&c->n_huge, n);
}

void mi__account_unowned(struct mi_heap_s *heap, struct mi_page *page, uint32_t used) {
  int64_t change = (int64_t)used - (int64_t)mi__load(&page->n_counted, relaxed);
  mi__store(&page->n_counted, used, relaxed);
  add_live(heap, page->bin, page->block_size, change);
}

/* Totals stay with the heap in which they were counted. */
static void shift(struct mi__gauge *from, struct mi__gauge *to, int64_t n) {
  mi__gauge_merge(from, -n, 0, 0);
  mi__gauge_merge(to, n, n, 0);
}

void mi__account_move(struct mi_heap_s *from, struct mi_heap_s *to, struct mi_page *page) {
  struct mi__heap_counters *a = &from->counters, *b = &to->counters;
  mi__heap_counters_use_bin(b, page->bin);
  shift(&a->pages, &b->pages, 1);
  shift(&a->bins[page->bin].pages, &b->bins[page->bin].pages, 1);
  int64_t n = mi__load(&page->n_counted, relaxed);
  if (page->kind == MI_PAGE_HUGE) {
    shift(&a->huge, &b->huge, (int64_t)page->block_size);
    n = 1;
  } else {
    shift(&a->blocks, &b->blocks, n * (int64_t)page->block_size);
  }
  shift(&a->bins[page->bin].blocks, &b->bins[page->bin].blocks, n);
}

/* ---- from a theap to its heap ---- */

/* Blocks on the ready list, up to one that is no block. */
static uint32_t n_ready(const struct mi_theap_s *theap, unsigned bin) {
  const struct mi_page *page = theap->bins[bin].current;
  uint32_t n = 0;
  for (const struct mi_block *b = theap->ready[bin]; b != NULL && n < page->n_blocks; b = b->next) {
    if (!mi__page_is_block(page, b)) break;
    n++;
  }
  return n;
}

static void count_some(_Atomic(int64_t) *counter, uint32_t n) {
  if (n > 0) mi__count(counter, n);
}

void mi__account_abandoned_slow(struct mi_theap_s *theap, struct mi__heap_counters *c) {
  int32_t n = theap->n_abandoned;
  count_some(&c->pages_reabandon_full, theap->n_given_up);
  count_some(&c->pages_reclaim_on_free, theap->n_taken_back);
  mi__gauge_merge(&c->pages_abandoned, n, n > 0 ? n : 0, theap->n_given_up);
  theap->n_given_up = theap->n_taken_back = 0;
  theap->n_abandoned = 0;
}

/* Of a page that is not current: local frees count down and are noted at its next event, those of
 * others when they are taken in. */
static void recount_queue(struct mi_theap_s *theap, struct mi__theap_bin *b,
                          const struct mi__page_queue *q) {
  for (struct mi_page *page = q->head; page != NULL; page = page->next) {
    if (mi__page_flag(page, MI_PAGE_BROKEN)) continue;
    mi__account_used(theap, b, page, mi__page_used(page) - mi__remote_n(page));
  }
}

void mi__theap_recount(struct mi_theap_s *theap) {
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    struct mi__theap_bin *b = &theap->bins[mi__ctz64(bins)];
    struct mi_page *page = b->current;
    if (page != NULL && !mi__page_flag(page, MI_PAGE_BROKEN)) {
      mi__account_used(theap, b, page, page->n_formed - mi__remote_n(page));
    }
    recount_queue(theap, b, &b->full);
    recount_queue(theap, b, &b->avail);
    recount_queue(theap, b, &theap->hollow[mi__ctz64(bins)]);
  }
  mi__theap_merge_counters(theap);
}

void mi__theap_merge_counters(struct mi_theap_s *theap) {
  mi__theap_merge_counters_to(theap, &mi__theap_heap(theap)->counters);
}

static void restart(struct mi__theap_bin *b, struct mi_page *page) {
  if (page->kind == MI_PAGE_LARGE) mi__account_watch(b, page, page->until);
  else page->until = MI_UNTIL_CURRENT;
}

void mi__theap_merge_counters_to(struct mi_theap_s *theap, struct mi__heap_counters *c) {
  count_some(&c->refills, theap->n_refills - theap->n_refills_merged);
  count_some(&c->pages_extended, theap->n_extended);
  if (theap->n_searches > 0) {
    mi__count(&c->page_searches, theap->n_searched);
    mi__count(&c->page_searches_count, theap->n_searches);
  }
  if (mi__unlikely(((uint32_t)theap->n_abandoned | theap->n_given_up | theap->n_taken_back) != 0))
    mi__account_abandoned_slow(theap, c);
  theap->n_refills_merged = theap->n_refills;
  theap->n_extended = theap->n_searched = theap->n_searches = 0;
  int64_t n_blocks = 0, bytes = 0, ready_bytes = 0;
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    unsigned bin = mi__ctz64(bins);
    struct mi__theap_bin *b = &theap->bins[bin];
    mi__heap_counters_use_bin(c, bin);
    if (b->current != NULL) mi__account_end(b, b->current);
    uint32_t ready = n_ready(theap, bin); /* is neither taken nor live, and stays on the account */
    int64_t taken = (int64_t)b->n_taken - ready, live = (int64_t)b->n_live - ready;
    int64_t size = (int64_t)mi__bin_size(bin);
    mi__gauge_merge(&c->bins[bin].blocks, live, live > 0 ? live : 0, taken);
    n_blocks += taken;
    bytes += taken * size;
    ready_bytes += ready * size;
    b->n_taken = ready;
    if (b->current != NULL) restart(b, b->current);
    b->n_live = (int32_t)ready;
  }
  if (n_blocks != 0) mi__count(&c->n_blocks, n_blocks);
  int64_t live = theap->live - ready_bytes;
  mi__gauge_merge(&c->blocks, live, theap->peak > live ? theap->peak : live, bytes);
  theap->live = ready_bytes;
  theap->peak = ready_bytes;
}
