/* SPDX-License-Identifier: MIT */
/* malloc and free: the fast paths, and the few steps behind them.
 *
 * malloc(size), size <= 1024: 13 instructions (x86-64, with the return)
 *   1. size <= 1024?  else out of line: bin by arithmetic, the same pop up to 512 KiB; a page of
 *      its own above
 *   2. the thread's theap (thread-local), bin by table, ready list not empty?  else refill
 *   3. pop
 * free(p): 20 instructions
 *   1. record of p by the page table, owner word == this thread?  else mi__free_slow
 *   2. the page feeds a ready list?  push there; else onto the page's list, `until` - 1, and the
 *      slow path when it is 0
 * tests/tree/budget_test.sh counts them. */
#include "api/alloc.h"
#include "api/core.h"
#include "api/heap.h"
#include "api/override.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/free.h"
#include "heap/huge.h"
#include "heap/process.h"
#include "heap/thread.h"
#include "page/page.h"
#include "page/trailer.h"
#include "rt/message.h"
#include <errno.h>
#include <string.h>

/* ---- the way down: nothing on the ready list ---- */

mi__cold void *mi__no_memory(size_t size) {
  mi__error(ENOMEM, "out of memory: %zu bytes\n", size);
  errno = ENOMEM;
  return NULL;
}

mi__cold void *mi__too_large(size_t size) {
  mi__error(EOVERFLOW, "size too large: %zu bytes\n", size);
  errno = ENOMEM;
  return NULL;
}

mi__cold void *mi__overflow(size_t count, size_t size) {
  mi__error(EOVERFLOW, "size too large: %zu times %zu bytes\n", count, size);
  errno = ENOMEM;
  return NULL;
}

/* A block of the bin, by refill. `theap` may be a dummy. */
mi__inline struct mi_block *refill(struct mi_theap_s *theap, unsigned bin, bool *zero) {
  if (mi__unlikely(mi__theap_thread(theap) == NULL)) {
    struct mi_heap_s *heap = mi__theap_heap(theap);
    /* No heap: a dummy, the thread is new or has ended. Else the gate of a heap, for a thread that
     * has ended. */
    theap = heap == NULL ? mi__thread_theap() : NULL;
    if (theap == NULL) return mi__shared_alloc(heap, bin, zero);
  }
  mi__on_refill(mi__theap_thread(theap), __builtin_return_address(0));
  struct mi_block *block = theap->ready[bin]; /* a deferred free may have filled it */
  if (block != NULL) {
    theap->ready[bin] = block->next;
    *zero = false;
  } else {
    block = mi__theap_refill(theap, bin, zero);
    if (mi__unlikely(block == NULL)) { /* what the thread keeps for reuse may be enough */
      mi__theap_collect(theap, true);
      block = mi__theap_refill(theap, bin, zero);
    }
  }
  if (mi__unlikely(theap->faults.any != 0)) mi__theap_report(theap);
  return block;
}

/* `head` tells the bin: the fast path need not keep the number. */
static mi__noinline void *malloc_refill(struct mi_theap_s *theap, struct mi_block **head) {
  unsigned bin = (unsigned)(head - theap->ready);
  bool zero;
  void *p = refill(theap, bin, &zero);
  if (mi__unlikely(p == NULL)) return mi__no_memory(mi__bin_size(bin));
  mi__free_mark(p, mi__bin_size(bin), false);
  return p;
}

mi__inline void *clear(void *block, size_t size) {
  mi__track_show(block, size);
  return memset(block, 0, size);
}

/* The whole block is cleared, so that mi_rezalloc may grow into it. Of one formed on zero memory
 * only the link is not zero. */
static mi__noinline void *zalloc_refill(struct mi_theap_s *theap, struct mi_block **head) {
  unsigned bin = (unsigned)(head - theap->ready);
  bool zero;
  struct mi_block *block = refill(theap, bin, &zero);
  if (mi__unlikely(block == NULL)) return mi__no_memory(mi__bin_size(bin));
  if (zero) block->next = NULL;
  else clear(block, mi__bin_size(bin));
  return block;
}

static mi__noinline void *malloc_huge(struct mi_theap_s *theap, size_t size, bool want_zero) {
  if (size > PTRDIFF_MAX) return mi__too_large(size);
  mi__process_init();
  struct mi_heap_s *heap = mi__thread_heap_of(theap);
  bool zero;
  void *p = mi__huge_alloc(heap, size, 1, 0, &zero);
  if (p == NULL && mi__theap_thread(theap) != NULL) {
    mi__theap_collect(theap, true);
    p = mi__huge_alloc(heap, size, 1, 0, &zero);
  }
  if (p == NULL) return mi__no_memory(size);
  if (want_zero && !zero) clear(p, mi__align_up(size, MI_SLICE_SIZE));
  mi__tick(mi__heap_arenas(heap));
  mi__offer(__builtin_return_address(0), true);
  return p;
}

/* The head is addressed by a plain base register: with an indexed address the processor does not
 * forward the last free's store to this load, and batches of mallocs take 20 % longer. */
mi__inline struct mi_block **ready_head(struct mi_theap_s *theap, unsigned bin) {
  struct mi_block **head = &theap->ready[bin];
  mi__pin_pointer(head);
  return head;
}

mi__inline void *pop_or_refill(struct mi_theap_s *theap, unsigned bin) {
  struct mi_block **head = ready_head(theap, bin);
  struct mi_block *block = *head;
  if (mi__unlikely(block == NULL)) return malloc_refill(theap, head);
  *head = block->next;
  mi__free_mark(block, mi__bin_size(bin), false);
  return block;
}

mi__inline void *pop_or_refill_zero(struct mi_theap_s *theap, unsigned bin) {
  struct mi_block **head = ready_head(theap, bin);
  struct mi_block *block = *head;
  if (mi__unlikely(block == NULL)) return zalloc_refill(theap, head);
  *head = block->next;
  return clear(block, mi__bin_size(bin));
}

static mi__noinline void *malloc_large(struct mi_theap_s *theap, size_t size) {
  if (mi__unlikely(size > MI_BLOCK_MAX)) return malloc_huge(theap, size, false);
  return pop_or_refill(theap, mi__bin_of_large(size));
}

mi__inline void *take(struct mi_theap_s *theap, size_t size) {
  if (mi__unlikely(size > MI_SMALL_MAX)) return malloc_large(theap, size);
  return pop_or_refill(theap, mi__bin_of_small(size));
}

/* ---- zeroed ---- */

static mi__noinline void *zalloc_large(struct mi_theap_s *theap, size_t size) {
  if (mi__unlikely(size > MI_BLOCK_MAX)) return malloc_huge(theap, size, true);
  return pop_or_refill_zero(theap, mi__bin_of_large(size));
}

mi__inline void *take_zero(struct mi_theap_s *theap, size_t size) {
  if (mi__unlikely(size > MI_SMALL_MAX)) return zalloc_large(theap, size);
  return pop_or_refill_zero(theap, mi__bin_of_small(size));
}

/* ---- the tracking build ---- */

static mi__noinline void *take_tracked(struct mi_theap_s *theap, size_t size, bool zero) {
  mi__track_begin();
  size_t room = mi__trailer_room(size);
  void *p = zero ? take_zero(theap, room) : take(theap, room);
  mi__trailer_give(p, size, zero);
  mi__track_end();
  return p;
}

mi__inline void *malloc_in(struct mi_theap_s *theap, size_t size) {
  return MI_VALGRIND ? take_tracked(theap, size, false) : take(theap, size);
}

mi__inline void *zalloc_in(struct mi_theap_s *theap, size_t size) {
  return MI_VALGRIND ? take_tracked(theap, size, true) : take_zero(theap, size);
}

void *mi__alloc_bin(mi_theap_t *theap, unsigned bin, bool zero) {
  return zero ? pop_or_refill_zero(theap, bin) : pop_or_refill(theap, bin);
}
mi_theap_t *mi__theap_default(void) { return mi__tls.theap; }
void *mi__malloc_in(mi_theap_t *theap, size_t size) { return malloc_in(theap, size); }
void *mi__zalloc_in(mi_theap_t *theap, size_t size) { return zalloc_in(theap, size); }

/* Here, since every program that links statically has this object. */
__attribute__((constructor)) static void register_exit(void) {
  mi__process_on_exit = mi__at_exit;
}

/* ---- the public names ---- */

mi__export void *mi_malloc(size_t size) { return malloc_in(mi__tls.theap, size); }
mi__export void *mi_malloc_small(size_t size) { return malloc_in(mi__tls.theap, size); }
mi__export void *mi_zalloc(size_t size) { return zalloc_in(mi__tls.theap, size); }
mi__export void *mi_zalloc_small(size_t size) { return zalloc_in(mi__tls.theap, size); }
mi__export void *mi_wmalloc_small(size_t wsize) {
  return malloc_in(mi__tls.theap, wsize * sizeof(void *));
}
mi__export void *mi_wzalloc_small(size_t wsize) {
  return zalloc_in(mi__tls.theap, wsize * sizeof(void *));
}

/* The first use of a heap by this thread, or the next after that of others. */
static mi__noinline void *heap_malloc_slow(struct mi_heap_s *heap, size_t size, bool zero) {
  struct mi_theap_s *theap = mi__heap_theap_or_report(heap);
  if (theap == NULL) return NULL;
  return zero ? mi__zalloc_in(theap, size) : mi__malloc_in(theap, size);
}
mi__export void *mi_heap_malloc(mi_heap_t *heap, size_t size) {
  struct mi_theap_s *theap = mi__heap_theap_quick(heap);
  if (mi__unlikely(theap == NULL)) return heap_malloc_slow(heap, size, false);
  return malloc_in(theap, size);
}
mi__export void *mi_heap_malloc_small(mi_heap_t *heap, size_t size) {
  return mi_heap_malloc(heap, size);
}
mi__export void *mi_heap_zalloc(mi_heap_t *heap, size_t size) {
  struct mi_theap_s *theap = mi__heap_theap_quick(heap);
  if (mi__unlikely(theap == NULL)) return heap_malloc_slow(heap, size, true);
  return zalloc_in(theap, size);
}
mi__export void *mi_heap_zalloc_small(mi_heap_t *heap, size_t size) {
  return mi_heap_zalloc(heap, size);
}

mi__export void *mi_calloc(size_t count, size_t size) {
  MI_TOTAL(total, count, size);
  return zalloc_in(mi__tls.theap, total);
}

mi__export void mi_free(void *p) {
  struct mi_page *page = mi__record_of(p);
  if (mi__likely(!MI_FREE_CHECKED && mi__load(&page->owner, relaxed) == (uintptr_t)mi__tls.self)) {
    mi__free_local(page, p);
  } else {
    mi__free_slow(page, p);
  }
}
mi__export void mi_free_small(void *p) { mi_free(p); }
mi__export void mi_free_small_nonnull(void *p) { mi_free(p); }
extern __typeof(mi_free) mi__free __attribute__((alias("mi_free")));

MI_ALIAS(malloc, mi_malloc);
MI_ALIAS(calloc, mi_calloc);
MI_ALIAS(free, mi_free);
MI_OVERRIDE_ANCHORED;
