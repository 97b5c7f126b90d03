/* SPDX-License-Identifier: MIT */
/* Frees. The fast path of mi_free is mi__free_local after one compare of the owner word;
 * everything else comes here.
 * All keep errno; a foreign pointer is ignored and reported. */
#ifndef MI_HEAP_FREE_H
#define MI_HEAP_FREE_H

#include "heap/heap.h"
#include "heap/theap.h"

/* Every free takes the slow path in the builds that look at each. */
#define MI_FREE_CHECKED (MI_DEBUG || MI_VALGRIND)

/* Does what the fast path cannot check, in the debug build: is the block free already? */
bool mi__free_is_double(struct mi_page *page, const void *block);

/* Debug build: a free block of 16 bytes and more carries a mark behind its link, so that every
 * free, by any thread, knows a block
 * that is free already. The key makes it unlikely that a program's data looks like it. */
#define MI_FREE_MARK ((uintptr_t)UINT64_C(0x6d61726b66726565))
mi__inline void mi__free_mark(void *block, size_t block_size, bool free) {
  if (MI_DEBUG && block_size >= 2 * sizeof(uintptr_t)) {
    ((uintptr_t *)block)[1] = free ? (uintptr_t)block ^ MI_FREE_MARK : 0;
  }
}
mi__inline bool mi__free_is_marked(const void *block, size_t block_size) {
  return MI_DEBUG && block_size >= 2 * sizeof(uintptr_t) &&
         ((const uintptr_t *)block)[1] == ((uintptr_t)block ^ MI_FREE_MARK);
}

/* A block of a page of this thread: to the head of the ready list that the page feeds, or of the
 * page's own list. */
mi__inline void mi__free_local(struct mi_page *page, void *p) {
  struct mi_block *block = p;
  struct mi_block **push = page->push;
  block->next = *push;
  *push = block;
  if (mi__unlikely(--page->until == 0)) mi__theap_page_event(page);
}
/* Any pointer; `page` is the record of its slice. */
void mi__free_slow(struct mi_page *page, void *p);
/* The calling thread has claimed this page by a free of n_run blocks: keep it, or give it up
 * again. */
void mi__page_claimed(struct mi_thread *self, struct mi_page *page, uint32_t n_run);

#endif
