/* SPDX-License-Identifier: MIT */
/* Frees by other threads, and who owns a page: one atomic word per page, `xremote`.
 *
 *   bit 63  COUNTED   bits 62..48  number   bits 47..3  list of freed blocks
 *   bit 2  PINNED   bit 1  POOLED   bit 0  OWNED
 *
 * OWNED: somebody owns the page: a thread that allocates from it, or one that is just looking
 * after it. `number` counts the
 *   blocks on the list.
 * Not OWNED: the page is abandoned. `number` counts the blocks that are still live (PAGE-4), so
 * that the free that makes it 0
 *   is known without reading the record. POOLED: the page is (or is just being) linked in the pool
 *   of its heap and bin.
 * COUNTED: of an abandoned page: who frees a block of it tells the statistics. (The page's heap
 *   does not say so: it may change at any time.)
 * PINNED: somebody is looking at the page (a visit of the heap's blocks), and it must not be given
 *   back meanwhile. Every transition keeps the bit; who would give the page back leaves that to the
 *   visitor (OWNED, POOLED and PINNED together: dead).
 * A word of 0 is no page: it can be neither pushed to nor claimed nor pinned.
 *
 *            push, page abandoned: the last live block, or enough frees for the pool
 *            (mi__remote_batch) and not POOLED
 *            -> push and claim in the same CAS; else -> push only
 *     ABANDONED ------------------------------------------------------------------> OWNED
 *               <------------------------------------------------------------------
 *                          mi__remote_disown (CAS; fails where blocks came in meanwhile)
 *
 * Which operations may run at the same time:
 *   push / push         yes: CAS on the word.
 *   push / take         yes: take exchanges the list away; what comes later stays for the next
 *                       take.
 *   push / disown       yes: disown fails on a non-empty list and is tried again after a take.
 *   pin, unpin / all    read-modify-writes of one bit. A pin of a word that is not 0 keeps the
 *                       page.
 *   claim / claim       one wins the CAS. A claim needs POOLED or a block of the page in hand, so
 *                       the page is alive.
 *   disown / anything of the record: excluded by OWNED; the release of disown pairs with the
 *   acquire of claim.
 * Everything written to blocks and record before a push or disown (release) is seen after the take
 * or claim (acquire). */
#ifndef MI_PAGE_REMOTE_H
#define MI_PAGE_REMOTE_H

#include "page/page.h"

#define MI_REMOTE_OWNED ((uint64_t)1)
#define MI_REMOTE_POOLED ((uint64_t)2)
#define MI_REMOTE_PINNED ((uint64_t)4)
#define MI_REMOTE_DEAD (MI_REMOTE_OWNED | MI_REMOTE_POOLED | MI_REMOTE_PINNED)
#define MI_REMOTE_LIST (((uint64_t)1 << 48) - 8)
#define MI_REMOTE_SHIFT 48
#define MI_REMOTE_COUNTED ((uint64_t)1 << 63)
/* Of any word; one that is OWNED needs no mask. */
mi__inline uint32_t mi__remote_number(uint64_t word) {
  return (uint32_t)(word >> MI_REMOTE_SHIFT) & 0x7fff;
}

/* How many frees make a page worth a visit: an eighth of it. Fewer would have owner and freers
 * hand the word to and fro for a
 * few blocks each time. */
mi__inline uint32_t mi__remote_batch(const struct mi_page *page) { return page->n_blocks / 8; }

/* A run: blocks of one page, linked from head to tail. */
struct mi__run {
  struct mi_page *page;
  struct mi_block *head, *tail;
  uint32_t n;
};

enum mi__push_result {
  MI_PUSHED,  /* the run belongs to the page's owner */
  MI_LEFT,    /* it waits in an abandoned page */
  MI_LEFT_COUNTED, /* likewise, and the caller counts the blocks as freed */
  MI_CLAIMED, /* the caller owns the page now, and has put all blocks on its `free` list */
  MI_REFUSED, /* more frees than live blocks: a double free; the run is dropped */
};
/* Push a run (n >= 1). want: claim the page also where it is pooled (the caller means to keep
 * it). */
enum mi__push_result mi__remote_push(const struct mi__run *run, bool want);

/* Owner: the list, and how many blocks are on it; they still count as used. */
mi__inline struct mi_block *mi__remote_take(struct mi_page *page, uint32_t *n) {
  *n = 0;
  uint64_t w = mi__load(&page->xremote, relaxed);
  do {
    if ((w & MI_REMOTE_LIST) == 0) return NULL;
    /* pairs with the release of mi__remote_push */
  } while (!mi__cas_weak(&page->xremote, &w, MI_REMOTE_OWNED | (w & MI_REMOTE_PINNED), acquire));
  *n = (uint32_t)(w >> MI_REMOTE_SHIFT);
  return (struct mi_block *)(uintptr_t)(w & MI_REMOTE_LIST);
}
mi__inline bool mi__remote_has_batch(const struct mi_page *page) {
  uint64_t n = mi__load(&page->xremote, relaxed) >> MI_REMOTE_SHIFT;
  return n > 0 && n >= mi__remote_batch(page);
}
/* Owner: how many blocks are on the list. */
mi__inline uint32_t mi__remote_n(const struct mi_page *page) {
  return (uint32_t)(mi__load(&page->xremote, relaxed) >> MI_REMOTE_SHIFT);
}
mi__inline bool mi__remote_is_empty(const struct mi_page *page) {
  return (mi__load(&page->xremote, relaxed) & MI_REMOTE_LIST) == 0;
}
/* Of a page that is linked in a pool, with the lock held. */
mi__inline bool mi__remote_may_have_room(const struct mi_page *page) {
  uint64_t w = mi__load(&page->xremote, relaxed);
  return (w & MI_REMOTE_OWNED) == 0 && mi__remote_number(w) < page->n_blocks;
}
/* How many of the blocks that the statistics count as live are free: 0 where somebody owns it. */
uint32_t mi__remote_count_freed(const struct mi_page *page);
/* Owner: take the list and put it on `free`. Where a link is damaged the page is marked broken. */
void mi__remote_collect(struct mi_page *page);

/* Somebody who found the page in the pool, with the pool's lock held: own it. *list and *n: its
 * remote frees, which still count
 * as used and which mi__remote_settle puts on `free`. False: somebody else owns it just now. */
bool mi__remote_claim(struct mi_page *page, struct mi_block **list, uint32_t *n);
void mi__remote_settle(struct mi_page *page, struct mi_block *list, uint32_t n);
/* Owner: own it no longer. The page is linked in the pool before (pooled) or not at all; counted:
 * who frees blocks of it from now on tells the statistics. False: blocks came in; take them and try
 * again. */
bool mi__remote_disown(struct mi_page *page, bool pooled, bool counted);

/* Owner of an empty page, about to give it back. False: it is pinned, and who pinned it gives it
 * back. */
bool mi__remote_end(struct mi_page *page);
/* Keep a page, any that may be one, from being given back. False: there is none, or it is dead. It
 * may be pinned already (heap/visit.c counts). */
bool mi__remote_pin(struct mi_page *page);
/* By the last who has it pinned. True: it has died meanwhile, is no page for anybody else any more,
 * and the caller gives it back. */
bool mi__remote_unpin(struct mi_page *page);

#endif
