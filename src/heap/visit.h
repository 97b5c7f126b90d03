/* SPDX-License-Identifier: MIT */
/* Visits: every page of a heap, and every live block of it, shown to a function of the program,
 * with no lock held.
 *
 * A visit walks the page table and pins each page before it looks at it (page/remote.h), so that
 * the page is not given back while it is shown; who would give it back leaves that to the visitor.
 *
 * Which blocks are free is read from lists that their owner may be pushing to. A list grows at its
 * head only, for as long as nobody allocates from the heap, so what is behind a head that was seen
 * stays; each link is checked before it is followed. So
 *   VISIT-1  while no thread allocates from the heap, each block that is live all the time is shown
 *            once, and none that was free before the visit; a block in another thread's run of
 *            frees counts as live.
 *   VISIT-2  whatever else goes on, no memory but that of the page is read, and each block is shown
 *            once at most.
 * The function may free blocks of the page that it is shown: those are not shown any more.
 * Locks: MI_LOCK_VISIT, for the numbers of pins. Threads: any, several at a time. */
#ifndef MI_HEAP_VISIT_H
#define MI_HEAP_VISIT_H

#include "heap/heap.h"
#include "mimalloc.h"

struct mi__visit {
  struct mi_heap_s *heap;
  const struct mi_theap_s *theap; /* not NULL: its pages only */
  bool abandoned;                 /* only pages that nobody owns */
  bool blocks;                    /* also the blocks of each page */
  mi_block_visit_fun *visitor;
  void *arg;
  bool direct;                    /* only pages that are mappings of their own */
};
/* False: the function returned false, and nothing is shown any more. */
bool mi__visit(const struct mi__visit *visit);
/* The pages, without blocks, of all heaps, of an arena of the set. The function gets NULL as the
 * heap. */
bool mi__visit_arena(struct mi__arenas *set, const struct mi__arena_facts *arena,
                     mi_block_visit_fun *visitor, void *arg);
/* For the function that a visit calls, of the page that it is shown (not huge): set the bits of the
 * blocks that are free, and of those that were ever formed. Returns the bytes in holes. */
size_t mi__visit_map(const struct mi_page *page, uint64_t *free, uint64_t *formed);
extern struct mi__lock mi__visit_lock; /* for the fork handlers */

#endif
