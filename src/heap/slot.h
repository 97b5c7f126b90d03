/* SPDX-License-Identifier: MIT */
/* The slot of a bin: an empty page that is kept for quick reuse until it is older than the purge
 * delay.
 *
 * The word of the slot is the only part of a running thread's theap that the background thread
 * touches: whoever takes the page out by exchange has it to himself, record and all. So the owner
 * gets it back without a lock, and a thread that blocks does not keep it for ever. A page in a slot
 * is in no list, counts in no theap, and waits to be purged as free slices do.
 *
 *   put     fill the slot (seq_cst); read the thread's xslots_due (seq_cst); 0: set it, tell
 *   look    take xslots_due by exchange (seq_cst); read the slots (seq_cst)
 * so a page that the look has not seen finds xslots_due 0 and sets it. A look takes what was there
 * at the look before; what is younger goes back with a mark, and xslots_due is set again: a page
 * goes between half a delay and a delay after it was put there.
 *
 * A look holds mi__heaps_lock until all that it took out is given back or in the slot again. So the
 * theap is what it was meanwhile, and its heap's counters are where they were.
 *
 * Threads: what says so, any; the rest the owner of the theap. */
#ifndef MI_HEAP_SLOT_H
#define MI_HEAP_SLOT_H

#include "heap/heap.h"
#include "rt/option.h"

mi__inline bool mi__slot_is_empty(const struct mi__theap_bin *b) {
  return mi__load(&b->slot, relaxed) == NULL;
}
mi__inline int64_t mi__slot_bytes(const struct mi_page *page) {
  return (int64_t)((size_t)page->n_slices * MI_SLICE_SIZE);
}
/* For the question whether much waits: who empties the theap of another thread may get in
 * between. */
mi__inline int64_t mi__slot_count(struct mi_thread *thread, int64_t bytes) {
  bytes += mi__load(&thread->slot_bytes, relaxed);
  mi__store(&thread->slot_bytes, bytes, relaxed);
  return bytes;
}
/* NULL: empty. The page may be broken. */
mi__inline struct mi_page *mi__slot_take(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  if (mi__slot_is_empty(b)) return NULL;
  struct mi_page *page = mi__exchange(&b->slot, NULL, acquire); /* pairs with mi__slot_put */
  if (page != NULL) (void)mi__slot_count(mi__theap_thread(theap), -mi__slot_bytes(page));
  return page;
}

void mi__slot_release(struct mi_theap_s *theap, struct mi__theap_bin *b, struct mi_page *page);
void mi__slots_arm(struct mi_thread *thread);
/* An empty page of the theap, in no list and not counted. What was in the slot is given back; the
 * page itself, where the purge delay is 0. */
mi__inline void mi__slot_put(struct mi_theap_s *theap, struct mi__theap_bin *b,
                             struct mi_page *page) {
  if (mi__unlikely(mi__option_get(mi_option_purge_delay) == 0)) {
    mi__slot_release(theap, b, page);
    return;
  }
  struct mi_thread *thread = mi__theap_thread(theap);
  mi__page_set_flag(page, MI_PAGE_OLD, false);
  int64_t bytes = mi__slot_count(thread, mi__slot_bytes(page));
  /* Release: who takes the page out (acquire) sees its record. Seq_cst: see above. */
  struct mi_page *before = mi__exchange(&b->slot, page, seq_cst);
  if (mi__unlikely(mi__load(&thread->xslots_due, seq_cst) == 0)) mi__slots_arm(thread);
  if (mi__unlikely(bytes >= mi__load(&mi__purge_ask_at, relaxed))) mi__purge_ask();
  if (mi__likely(before == NULL)) return;
  (void)mi__slot_count(thread, -mi__slot_bytes(before));
  mi__slot_release(theap, b, before);
}
/* Give the page back. */
mi__inline void mi__slot_empty(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  struct mi_page *page = mi__slot_take(theap, b);
  if (page != NULL) mi__slot_release(theap, b, page);
}

extern _Atomic(uint32_t) mi__slots_n_looks; /* that have ended; written under mi__heaps_lock */
/* Acquire: who takes pages out of slots afterwards gets what a look before has put back. */
mi__inline uint32_t mi__slots_looks(void) { return mi__load(&mi__slots_n_looks, acquire); }
void mi__slots_end_slow(struct mi_theap_s *theap);
/* With mi__heaps_lock held, when the theap has been emptied and is about to end: what a look has
 * put back meanwhile, that is, since mi__slots_looks() was n_looks, before the theap was
 * emptied. */
mi__inline void mi__slots_end(struct mi_theap_s *theap, uint32_t n_looks) {
  if (mi__unlikely(mi__load(&mi__slots_n_looks, relaxed) != n_looks)) mi__slots_end_slow(theap);
}

/* Look at the slots of the calling thread's theaps where that is due. */
void mi__slots_tick(struct mi_thread *self);
/* Any thread: at those of another thread, with mi__heaps_lock held. */
void mi__slots_look(struct mi_thread *thread, uint64_t now_ms);

#endif
