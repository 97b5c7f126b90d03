/* SPDX-License-Identifier: MIT */
/* What a theap does with its pages. All functions are for the thread that the theap belongs to (or
 * the holder of the shared lock), and keep errno.
 *
 *               take            exhausted              a free (until = 0)
 *   avail/slot ------> current -----------> full -----------------------> avail
 *                                             | more small ones than it may keep: abandoned
 *   avail -- last block freed (until = 0) --> slot (the page there before is given back) */
#ifndef MI_HEAP_THEAP_H
#define MI_HEAP_THEAP_H

#include "heap/heap.h"
#include "heap/teardown.h"

void mi__theap_init(struct mi_theap_s *theap, struct mi_heap_s *heap, struct mi_thread *thread);
mi__inline uintptr_t mi__theap_owner_word(const struct mi_theap_s *theap,
                                          const struct mi_page *page) {
  uintptr_t special = mi__page_flag(page, MI_PAGE_INTERIOR) ? MI_OWNER_SPECIAL : 0;
  return (uintptr_t)mi__theap_thread(theap) | special;
}

/* The ready list of the bin is empty: get more blocks. Returns one, the others are on the ready
 * list. *zero: all but its first word is known to be zero. NULL: no memory. */
struct mi_block *mi__theap_refill(struct mi_theap_s *theap, unsigned bin, bool *zero);

/* `until` of a page of this theap became 0 by a local free. */
void mi__theap_page_event(struct mi_page *page);
/* Take a page that the calling thread owns (OWNED, in no list) into the theap. */
void mi__theap_attach(struct mi_theap_s *theap, struct mi_page *page);
/* May the theap take one more page that nobody owns (the options page_max_reclaim,
 * page_cross_thread_max_reclaim)? */
bool mi__theap_may_take(struct mi_theap_s *theap, const struct mi_page *page);
/* The calling thread has taken back a page that its theap had given up, by a free of its own: the
 * theap keeps one full page more of that size from now on. */
void mi__theap_took_back(struct mi_theap_s *theap, const struct mi_page *page);
/* And no longer: page_full_retain, as in the beginning. */
void mi__theap_keep_fewer(struct mi_theap_s *theap, unsigned bin);
/* Own a page no longer: into its heap's pool where it has room; back to its arena where it is
 * empty. In no list of a theap. False: it was found broken, and is kept; page->fault says how. */
bool mi__page_abandon(struct mi_page *page);
/* Give an empty page that is in no list back to its arena. False: its lists do not add up; it is
 * marked broken and stays. */
bool mi__page_release(struct mi_page *page);
/* Give an empty page back whatever its lists say; what lives in it is lost. Of huge pages too. */
void mi__page_give_back(struct mi_page *page);
void mi__page_give_back_abandoned(struct mi_page *page);
/* A page of a heap that is deleted, owned by the caller and in no list, goes to the main heap. */
void mi__page_move(struct mi_heap_s *from, struct mi_page *page);

/* Put the ready lists back, take in what others freed, give back empty pages. slots: also those
 * kept for reuse. */
void mi__theap_collect(struct mi_theap_s *theap, bool slots);
/* The same with the slots; parked: for who has claimed the park of the theap's thread (park.h).
 * False: it left early, for it is waited for. */
bool mi__theap_collect_slots(struct mi_theap_s *theap, const struct mi_thread *parked);
/* Every page of the theap leaves it: the theap is as new. */
void mi__theap_empty(struct mi_theap_s *theap, enum mi__fate fate);
/* PAGE and list invariants of all pages; debug build. */
void mi__theap_check(struct mi_theap_s *theap);

#endif
