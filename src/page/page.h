/* SPDX-License-Identifier: MIT */
/* Pages: runs of slices that hold blocks of one size, and their records.
 *
 *   small   1 slice    blocks up to 8 KiB        large  64 slices  blocks up to 512 KiB
 *   medium  8 slices   blocks up to 64 KiB       huge   one block with a page of its own
 *
 * The record of a page is that of its first slice, two cache lines. Line 1 belongs to the owner of
 * the page; line 2 holds
 * what other threads write and what is rarely read. The record of an inner slice of a medium or
 * large page leads back.
 *
 * Who owns a page: the bit MI_REMOTE_OWNED of `xremote` says whether anybody does. A thread's page
 * has the thread in `owner`
 * too, so that its own frees need one compare. A page nobody owns is abandoned: whoever sets the
 * bit (by CAS) owns it.
 * All but `owner`, `xremote` and what is marked x is touched by the owner only.
 *
 * Invariants (mi__page_check walks them in the debug build):
 *   PAGE-1  used + |free| = n_formed at every quiet point of an owned page; blocks on a ready
 *           list, in a run and on xremote
 *           count as used. Blocks in holes (holes.h) count neither as used nor as formed: a page
 *           with holes looks like one that has blocks to form.
 *   PAGE-2  used = until + held. A full page has until = 1, so that the first free into it takes
 *           the slow path.
 *   PAGE-3  push is a ready list only while the page is the current one of its bin; then all that
 *           is formed counts as used,
 *           free = NULL, and until is far from 0 and says nothing (MI_UNTIL_CURRENT). Else push is
 *           &page->free.
 *   PAGE-4  while nobody owns the page, the number in xremote is `used` less the blocks on the
 *           remote list. */
#ifndef MI_PAGE_PAGE_H
#define MI_PAGE_PAGE_H

#include "arena/arena.h"
#include "arena/pagemap.h"
#include "base/atomic.h"
#include "base/check.h"
#include "page/bin.h"

struct mi_heap_s;
struct mi_theap_s;

struct mi_block { struct mi_block *next; };

enum mi__page_kind { MI_PAGE_NONE, MI_PAGE_SMALL, MI_PAGE_MEDIUM, MI_PAGE_LARGE, MI_PAGE_HUGE };
/* On which list of its theap, or its heap, a page is. Written by its owner. */
enum mi__page_list { MI_LIST_NONE, MI_LIST_AVAIL, MI_LIST_FULL, MI_LIST_HOLLOW, MI_LIST_POOL,
                     /* see heap/pool.c: of a huge page; linked in a pool, for nobody to take */
                     MI_LIST_MOVING, MI_LIST_BROKEN };
enum mi__page_flags {
  MI_PAGE_INTERIOR = 1, /* x: some returned pointers are not block starts (offset alignment) */
  MI_PAGE_ZERO = 2,     /* blocks that were never formed read as zeros */
  /* its lists did not add up (double free): reported once, kept, never released */
  MI_PAGE_BROKEN = 4,
  /* no holes: huge OS pages, which are never purged, and memory with a commit function */
  MI_PAGE_PINNED = 8,
  MI_PAGE_OLD = 16,     /* in the empty-page slot since before the last look */
  MI_PAGE_IN_PARTS = 32, /* its memory is committed as blocks are formed */
  /* on its theap's list of pages whose free blocks are all in holes */
  MI_PAGE_HOLLOW = 64,
  MI_PAGE_TAIL_GONE = 128, /* some of what was never formed was given back (holes.h) */
  MI_PAGE_DRAINS = 256,  /* of a deleted heap's exclusive arena: nothing is allocated there again */
  MI_PAGE_HAS_HOLES = 512, /* n_holes > 0 */
};

/* What is wrong with the free blocks of a broken page: a link that was overwritten, in which list;
 * or a block that is on one twice. */
enum mi__fault { MI_FAULT_NONE, MI_FAULT_READY, MI_FAULT_FREE, MI_FAULT_REMOTE, MI_FAULT_TWICE };

/* Values of `owner` besides addresses of thread data (multiples of 64). */
#define MI_OWNER_NONE ((uintptr_t)0)
/* bit: owned, but every free takes the slow path (interior pointers) */
#define MI_OWNER_SPECIAL ((uintptr_t)1)
/* the record of an inner slice; block_size is the distance back in bytes */
#define MI_OWNER_INNER ((uintptr_t)2)

struct mi_page {
  /* line 1: what free touches */
  _Atomic(uintptr_t) owner;
  /* where a free puts its block: the ready list that this page feeds, or `free` */
  struct mi_block **push;
  struct mi_block *free;  /* free blocks, pushed by the owner */
  size_t block_size;      /* bytes; huge: of the whole block */
  /* local frees until the slow path must look: used, or 1 where the page is full */
  uint32_t until;
  uint16_t held;          /* used - until */
  /* used + 1 when a sweep left it, 0 when it has been current since: equal means unchanged, for
   * frees alone make `used` less. Beside `held`, so that one store clears both. */
  uint16_t swept;
  char *start;            /* first block */
  struct mi_page *next;   /* of its theap's or its pool's list */
  struct mi_page *prev;
  /* line 2 */
  _Atomic(uint64_t) xremote mi__aligned(MI_CACHE_LINE); /* see remote.h */
  /* x: changes once, when its heap is deleted */
  _Atomic(struct mi_heap_s *) heap;
  /* owner's theap; of an abandoned page: whose it was (never followed by others) */
  _Atomic(struct mi_theap_s *) theap;
  /* blocks ever formed, from index `first` upward, wrapping, less those in holes */
  uint32_t n_formed;
  uint32_t n_blocks;         /* room */
  uint32_t n_slices;
  uint32_t arena;            /* as in struct mi__span */
  /* index of the block formed first; huge: slice of the returned pointer */
  uint32_t first;
  uint8_t bin, kind;
  _Atomic(uint16_t) flags;
  _Atomic(uint32_t) n_counted; /* blocks of it that the statistics count as live */
  uint16_t n_pins;           /* visits that look at the page; under the lock of heap/visit.c */
  uint8_t fault;             /* enum mi__fault; of a broken page */
  uint8_t list;
  uint32_t reserved;
  /* x: blocks in holes; written by the owner under the lock of holes.h, read by all */
  _Atomic(uint16_t) n_holes;
  _Atomic(uint16_t) holes;   /* of a page of one slice: a bit for each unit, see holes.h */
};
/* The record of an inner slice. That of a page's second slice has besides what the page's own has
 * no room for. */
struct mi__page_inner {
  _Atomic(uintptr_t) owner; /* MI_OWNER_INNER */
  uint32_t epoch;           /* of a large page: see heap/epoch.h */
  uint32_t kept;            /* of a large page: bytes of it that the floor counts (holes.h) */
#if UINTPTR_MAX > UINT32_MAX
  void *unused;
#endif
  size_t block_size;        /* distance to the page's record in bytes */
  _Atomic(uint64_t) holes[4]; /* a bit for each unit, see holes.h */
};
_Static_assert(offsetof(struct mi__page_inner, block_size) == offsetof(struct mi_page, block_size),
               "free reads the distance where the block size is");
_Static_assert(sizeof(struct mi__page_inner) <= offsetof(struct mi_page, xremote),
               "line 2 of an inner record stays zero");
_Static_assert(sizeof(void *) != 8 || sizeof(struct mi_page) == MI_RECORD_SIZE,
               "a record is two cache lines");
_Static_assert(sizeof(struct mi_page) <= MI_RECORD_SIZE, "a record is two cache lines");
_Static_assert(sizeof(void *) != 8 || offsetof(struct mi_page, xremote) == 64,
               "line 2 starts at xremote");

mi__inline struct mi_heap_s *mi__page_heap(const struct mi_page *page) {
  return mi__load(&page->heap, relaxed);
}
mi__inline uint32_t mi__page_used(const struct mi_page *page) { return page->until + page->held; }
/* A free need not know whether its page is current: that would be a branch that no processor can
 * predict. */
#define MI_UNTIL_CURRENT ((uint32_t)1 << 31)
mi__inline void mi__page_set_used(struct mi_page *page, uint32_t used) {
  page->until = used;
  page->held = 0;
}
/* In holes too. */
mi__inline bool mi__page_has_room(const struct mi_page *page) {
  return page->free != NULL || page->n_formed < page->n_blocks;
}
mi__inline uint32_t mi__page_n_holes(const struct mi_page *page) {
  return mi__load(&page->n_holes, relaxed);
}
/* Blocks ever formed: those from index `first` up, wrapping, have been handed out. */
mi__inline uint32_t mi__page_n_reached(const struct mi_page *page) {
  return page->n_formed + mi__page_n_holes(page);
}
/* All that is free is in holes. */
mi__inline bool mi__page_is_hollow(const struct mi_page *page) {
  return mi__page_n_holes(page) > 0 && page->free == NULL &&
         mi__page_n_reached(page) == page->n_blocks;
}
/* What a page's own record has no room for; the page has more than one slice. */
mi__inline struct mi__page_inner *mi__page_more(const struct mi_page *page) {
  return (struct mi__page_inner *)(uintptr_t)(page + 1);
}
mi__inline bool mi__page_flag(const struct mi_page *page, unsigned flag) {
  return (mi__load(&page->flags, relaxed) & flag) != 0;
}
mi__inline void mi__page_set_flag(struct mi_page *page, unsigned flag, bool on) {
  unsigned flags = mi__load(&page->flags, relaxed);
  mi__store(&page->flags, (uint16_t)(on ? flags | flag : flags & ~flag), relaxed);
}

mi__inline enum mi__page_kind mi__page_kind_of_bin(unsigned bin) {
  size_t size = mi__bin_size(bin);
  if (size <= MI_SMALL_PAGE_BLOCK_MAX) return MI_PAGE_SMALL;
  return size <= MI_MEDIUM_PAGE_BLOCK_MAX ? MI_PAGE_MEDIUM : MI_PAGE_LARGE;
}
/* Slices that a page of this kind wants. */
mi__inline size_t mi__page_slices(enum mi__page_kind kind) {
  return kind == MI_PAGE_SMALL ? 1 : kind == MI_PAGE_MEDIUM ? 8 : 64;
}

/* Make a page of bin `bin` of the span: record and inner records. Owned by the caller
 * (MI_REMOTE_OWNED), `owner` not set. */
struct mi_page *mi__page_new(const struct mi__span *span, unsigned bin, struct mi_heap_s *heap);
/* Make a huge page of the span: one block, used. */
struct mi_page *mi__page_new_huge(const struct mi__span *span, struct mi_heap_s *heap);
/* The caller, who owns the page, is about to return p, which is no block start: frees of the page
 * take the slow path now. */
void mi__page_set_interior(struct mi_page *page, const void *p);
/* Clear the records of a huge page whose memory has moved. */
void mi__page_forget_huge(struct mi_page *page);
/* Clear all records of the page and give its slices back. Nobody refers to it any more. */
void mi__page_delete(struct mi__arenas *arenas, struct mi_page *page);

/* Form blocks, at least min_bytes of them where there is room, onto `free`, which is empty.
 * Returns how many.
 * The first blocks of a page end at the border of an OS page, so that one block costs one OS page
 * of memory. 0 also where memory for them could not be committed. */
uint32_t mi__page_form(struct mi_page *page, size_t min_bytes);
/* The page begins, or ends, to feed a ready list. All its formed blocks count as used. */
mi__inline void mi__page_begin_current(struct mi_page *page, struct mi_block **ready) {
  page->push = ready;
  page->until = MI_UNTIL_CURRENT;
  page->held = page->swept = 0;
}
mi__inline void mi__page_end_current(struct mi_page *page) {
  page->push = &page->free;
  mi__page_set_used(page, page->n_formed);
}
mi__inline struct mi_block *mi__page_take_list(struct mi_page *page) {
  struct mi_block *list = page->free;
  page->free = NULL;
  return list;
}
/* Take all free blocks: they count as used from now on. */
mi__inline struct mi_block *mi__page_take_free(struct mi_page *page) {
  mi__page_set_used(page, page->n_formed);
  return mi__page_take_list(page);
}
/* Put a list of `max` used blocks (a ready list: at most `max`) back on `free`; *n: how many. None,
 * and no block is written to, where something is wrong: a link leaves the page, is no block start,
 * leads to its own block or ends the list too early (`kind` names the list); or the list goes on
 * behind `max` blocks, for a block is on it twice. */
enum mi__fault mi__page_put_back(struct mi_page *page, struct mi_block *list, uint32_t max,
                                 enum mi__fault kind, uint32_t *n);
/* The same question about `free` of a page that is not current; reads each free block. */
enum mi__fault mi__page_free_fault(const struct mi_page *page);
/* Note each block of `free` in a bitmap of the page's blocks, MI_PAGE_MAX_BLOCKS bits, which is
 * cleared first. *n: how many there are. False: a link leads out of the page, into a block, or to a
 * block that is there already or in a hole. */
#define MI_PAGE_MAX_BLOCKS (MI_SLICE_SIZE / 8) /* a small page of the smallest size */
bool mi__page_mark_free(const struct mi_page *page, uint64_t *bits, uint32_t *n);
/* Is every formed block on `free`, once each? The last check before an empty page is given away. */
bool mi__page_is_whole(const struct mi_page *page);
/* A broken page is never empty and has nothing to give: its live blocks stay, and nothing of it is
 * used again. The first fault stays. */
void mi__page_set_fault(struct mi_page *page, enum mi__fault fault);
void mi__page_mark_broken(struct mi_page *page, enum mi__fault fault);
/* Is this block among the first `look_at` of the list? (debug build and slow frees) */
bool mi__page_list_has(const struct mi_page *page, const struct mi_block *list, const void *block,
                       uint32_t look_at);
/* PAGE-1 and the links; debug build. */
void mi__page_check(const struct mi_page *page);

/* Index of the block that holds p, in a page that is not huge. 32-bit division is several times
 * faster than 64-bit. */
mi__inline uint32_t mi__page_index(const struct mi_page *page, const void *p) {
  return (uint32_t)((const char *)p - page->start) / (uint32_t)page->block_size;
}
/* The block that holds p, any address in it; NULL where p lies behind the last block. */
mi__inline void *mi__page_block_of(const struct mi_page *page, const void *p) {
  uint32_t index = mi__page_index(page, p);
  return index < page->n_blocks ? page->start + (size_t)index * page->block_size : NULL;
}
/* Is this a block start of a page that is not huge? */
mi__inline bool mi__page_is_block(const struct mi_page *page, const void *p) {
  size_t offset = (size_t)((const char *)p - page->start);
  return offset < page->n_slices * MI_SLICE_SIZE &&
         (uint32_t)offset % (uint32_t)page->block_size == 0 &&
         mi__page_index(page, p) < page->n_blocks;
}
/* The page of any address, inner slices included; NULL where there is none. */
mi__inline struct mi_page *mi__page_of(const void *p) {
  struct mi_page *page = mi__record_of_any(p);
  if (mi__load(&page->owner, relaxed) == MI_OWNER_INNER) {
    page = (struct mi_page *)(void *)((char *)page - page->block_size);
  }
  return page->kind == MI_PAGE_NONE ? NULL : page;
}

#endif
