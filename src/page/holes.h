/* SPDX-License-Identifier: MIT */
/* Holes: memory of free blocks that is given back to the OS while its page is in use.
 *
 * A page is divided into units: OS pages, or the smallest power-of-two multiple of them of which
 * the page has at most 256 (16 KiB in a page of 4 MiB where OS pages have 4 KiB). A unit is given
 * back when it lies wholly inside the blocks that were ever formed, and each block that overlaps it
 * is free. A block shares a hole when one of its units is given back; it is on no list then, for
 * lists run through the blocks. So which blocks are in holes follows from the units alone: the
 * bitmap is all that is kept, and n_holes is how many blocks that are.
 *
 * To the rest of the allocator a block in a hole looks like one that was never formed: n_formed is
 * less by n_holes, so that used + |free| = n_formed as ever, and the page has room. Allocation
 * alone brings holes back (heap/refill.c), when no resident block is left.
 *
 * The part of a page that was never formed (its tail) may hold what was there before, and is given
 * back likewise, with counters of its own. A unit that is partly tail stays. Bits of both stand in
 * the same bitmap: what overlaps formed blocks is a hole, all else tail; forming takes bits of the
 * tail back first, so no bit ever turns from one into the other.
 *
 * HOLES-1  No block that overlaps a unit of the bitmap is used or on a list.
 * HOLES-2  n_holes is the number of formed blocks that overlap a unit of the bitmap.
 * HOLES-3  The gauges purged_bytes, purged_blocks and unformed_bytes are the sums over all pages
 *          that are not broken; what a page has leaves them before its record is cleared.
 *
 * The memory stays committed: contents alone are given up.
 *
 * Threads: the owner of the page, which is not current, where nothing else is said. What changes
 * holes, or makes the free list anew, holds the page's lock, and so does who looks at the lists of
 * a page that is not its own (heap/visit.c). */
#ifndef MI_PAGE_HOLES_H
#define MI_PAGE_HOLES_H

#include "os/os.h"
#include "page/page.h"
#include "rt/lock.h"

/* By address of the page's record; for the fork handlers. */
#define MI_HOLES_LOCKS 16
extern struct mi__lock mi__holes_locks[MI_HOLES_LOCKS];
struct mi__lock *mi__holes_lock(const struct mi_page *page);

/* log2 of the bytes of a unit. */
unsigned mi__holes_unit_shift(const struct mi_page *page);

/* May it have holes? Not pages of one block, huge OS pages, memory with a commit function. */
mi__inline bool mi__holes_may(const struct mi_page *page) {
  return page->n_blocks > 1 && !mi__page_flag(page, MI_PAGE_PINNED | MI_PAGE_BROKEN);
}

/* Memory that is about to be given back, for many calls of the OS cost more than one: it is in
 * holes already, of pages that the caller owns until it has flushed them. What the OS refuses then
 * (locked memory) comes out of its hole again; `undone` is called for its page, which may have been
 * hollow. Where the OS takes one range at a time nothing waits. */
#define MI_DISCARDS 64u
#define MI_DISCARD_BYTES ((size_t)MI_MIB) /* or so many bytes: who wants the page waits for them */
struct mi__discards {
  unsigned n;
  bool is_known; /* whether the OS takes several at once; it is not asked before there is one */
  bool at_once;
  size_t bytes;
  void (*undone)(struct mi_page *page, void *arg); /* NULL: nothing */
  void *arg;
  struct mi_page *page[MI_DISCARDS];
  struct mi__os_range range[MI_DISCARDS];
};
void mi__discards_begin(struct mi__discards *discards,
                        void (*undone)(struct mi_page *page, void *arg), void *arg);
void mi__discards_flush(struct mi__discards *discards);

/* Give back what is free, and note that the page was swept: what is refused is not tried again
 * until the page changes. Not MI_FAULT_NONE: the lists do not add up; nothing was done. */
enum mi__fault mi__holes_make(struct mi_page *page, struct mi__discards *discards);
/* Nothing has changed since mi__holes_make. */
mi__inline bool mi__holes_is_swept(const struct mi_page *page) {
  return page->swept == mi__page_used(page) + 1;
}
/* Is there more than the tail's memory to give back, or that? */
bool mi__holes_has_tail(const struct mi_page *page);

/* Bring holes back onto `free`, which is empty: about so many bytes of blocks, at least one. The
 * blocks may hold anything. False: there is no hole. */
bool mi__holes_bring_back(struct mi_page *page, size_t bytes);
/* Blocks are about to be formed in this part of the tail. The page may be current. */
void mi__holes_before_form(struct mi_page *page, const char *at, size_t size);
/* The page, a large one, has no share of the floor any more (see below). */
void mi__holes_unkeep(struct mi_page *page);
void mi__holes_end_slow(struct mi_page *page);
/* The page is about to go, or is broken: it has no holes any more, and no share of the floor. */
mi__inline void mi__holes_end(struct mi_page *page) {
  if (mi__unlikely(mi__page_flag(page, MI_PAGE_TAIL_GONE | MI_PAGE_HAS_HOLES)))
    mi__holes_end_slow(page);
  if (mi__unlikely(page->n_slices > 1 && page->kind == MI_PAGE_LARGE)) mi__holes_unkeep(page);
}

/* Any thread that holds a block of the page: is this block in a hole? Live blocks never are. */
bool mi__holes_has(const struct mi_page *page, const void *block);
/* Is one of these blocks (a bit each) in a hole? */
bool mi__holes_overlap(const struct mi_page *page, const uint64_t *blocks);
/* Set the bits of the blocks in holes; returns how many were not set before. Any thread, with the
 * lock. */
uint32_t mi__holes_mark(const struct mi_page *page, uint64_t *blocks);

/* Bytes of the page that are in holes, without its tail. Any thread, with the lock. */
size_t mi__holes_bytes(const struct mi_page *page);

/* ---- the floor: free memory of large pages that stays resident, over all threads ---- */
extern _Atomic(int64_t) mi__holes_kept; /* bytes: sum of `kept` of all large pages */
/* Count so many bytes of the page; it has none so far. False: that is more than `floor` in all. */
bool mi__holes_keep(struct mi_page *page, size_t bytes, size_t floor);

#endif
