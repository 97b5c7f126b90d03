/* SPDX-License-Identifier: MIT */
/* Counting blocks without touching the fast paths.
 *
 * Each malloc pops a block that was put on a ready list: by refill, or by a free into the current
 * page. The latter are counted by the page's countdown (`until`), the former by refill; what a
 * collection puts back from a ready list was not malloc'ed after all. So
 *
 *   mallocs = handed out by refill + frees into current pages - put back     (less what is ready)
 *
 * is exact. Live blocks are the sum of `used` of all pages; a page's share in the statistics is
 * n_counted, brought up to date at each page event. Blocks on ready lists and in runs count as live
 * until they are put back, so all is exact for a thread that has just collected or ended.
 *
 * A theap counts without atomics and adds to its heap now and then (mi__theap_merge_counters).
 * Threads: the owner of the theap; what says so, any. */
#ifndef MI_HEAP_ACCOUNT_H
#define MI_HEAP_ACCOUNT_H

#include "heap/heap.h"

/* The page's `used` has changed, but for frees by nobody's notice. The page is the theap's. */
mi__inline void mi__account_used(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                 struct mi_page *page, uint32_t used) {
  int32_t change = (int32_t)(used - mi__load(&page->n_counted, relaxed));
  /* A page that was current is still counted as wholly used when it becomes current again. */
  if (mi__likely(change == 0)) return;
  mi__store(&page->n_counted, used, relaxed);
  b->n_live += change;
  theap->live += (int64_t)change * (int64_t)page->block_size;
  if (theap->live > theap->peak) theap->peak = theap->live;
}

/* The page is about to feed the ready list with its free blocks. */
mi__inline void mi__account_begin(struct mi_theap_s *theap, struct mi__theap_bin *b,
                                  struct mi_page *page, uint32_t n_handed) {
  b->n_taken += n_handed;
  mi__account_used(theap, b, page, page->n_formed);
}

/* The page has fed the ready list: frees meanwhile went there. */
mi__inline void mi__account_end(struct mi__theap_bin *b, const struct mi_page *page) {
  b->n_taken += MI_UNTIL_CURRENT - page->until;
}

/* All blocks of a current page may come back to the ready list, and nobody would know: a thread
 * that blocks then would keep up to 4 MiB for each size. So while a large page is current `until`
 * is the number of blocks that lived in it when somebody looked: after so many frees the page is
 * looked at again. n_taken is less meanwhile by what mi__account_end will count too much. Small and
 * medium pages are left alone, and so is a page with little memory: a loop of malloc and free of
 * one block stays as fast as it is. */
#define MI_WATCH_FROM (128 * MI_KIB)
/* A current large page, of which mi__account_end has counted the frees; `live` of its formed blocks
 * are not on the ready list. */
mi__inline void mi__account_watch(struct mi__theap_bin *b, struct mi_page *page, uint32_t live) {
  bool little = page->n_formed * page->block_size <= MI_WATCH_FROM;
  page->until = little ? MI_UNTIL_CURRENT : mi__max(live, 1);
  b->n_taken -= MI_UNTIL_CURRENT - page->until;
}

/* Any thread: n blocks of an abandoned page of the main heap were freed. Pages of other heaps are
 * in a pool and looked at there when somebody asks. */
void mi__account_left(struct mi_heap_s *heap, unsigned bin, size_t block_size, uint32_t n);
/* Any thread, owner of the page: a page comes and goes. */
void mi__account_page(struct mi_heap_s *heap, const struct mi_page *page, int n);
/* Owner of a page that is no theap's: take it from the counts of `from` and add it to those of
 * `to`. */
void mi__account_move(struct mi_heap_s *from, struct mi_heap_s *to, struct mi_page *page);
/* Owner of a page that is no theap's: it has `used` live blocks. */
void mi__account_unowned(struct mi_heap_s *heap, struct mi_page *page, uint32_t used);

/* A full page of the theap is given up (1), or a page that nobody owned becomes the theap's (-1).
 * Where threads free at random that happens in most refills, and mostly the one soon after the
 * other for the same page: counters that all threads write would be the dearest part of it. What
 * has gathered is added when it comes to so many pages. */
#define MI_ABANDONED_SLACK 16
void mi__account_abandoned_slow(struct mi_theap_s *theap, struct mi__heap_counters *c);
mi__inline void mi__account_abandoned(struct mi_theap_s *theap, int32_t n) {
  theap->n_abandoned += n;
  if (mi__likely((uint32_t)(theap->n_abandoned + MI_ABANDONED_SLACK) < 2 * MI_ABANDONED_SLACK))
    return;
  mi__account_abandoned_slow(theap, &mi__theap_heap(theap)->counters);
}

/* Add the theap's own counts to those of its heap. */
void mi__theap_merge_counters(struct mi_theap_s *theap);
void mi__theap_merge_counters_to(struct mi_theap_s *theap, struct mi__heap_counters *c);
/* The same, when the live blocks of all its pages have been counted anew: exact but for what others
 * free meanwhile. */
void mi__theap_recount(struct mi_theap_s *theap);

#endif
