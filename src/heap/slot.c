/* SPDX-License-Identifier: MIT */
#include "heap/slot.h"
#include "heap/account.h"
#include "heap/damage.h"
#include "heap/queue.h"
#include "heap/registry.h"
#include "heap/theap.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/option.h"

/* A page that nothing refers to any more. False: it is broken, and stays. */
static bool give_back(struct mi_page *page) {
  struct mi_heap_s *heap = mi__page_heap(page);
  if (!mi__page_release(page)) return false;
  mi__count(&heap->counters.pages_retire, 1);
  return true;
}

_Atomic(uint32_t) mi__slots_n_looks;

static uint64_t after_half(int64_t delay) { return mi__os_clock_ms() + (uint64_t)delay / 2; }

void mi__slots_arm(struct mi_thread *thread) {
  long delay = mi__option_get(mi_option_purge_delay);
  if (delay <= 0) return;
  uint64_t when = after_half(delay);
  if (mi__due_set(&thread->xslots_due, when)) mi__alarm_set(when);
}

/* ---- the owner ---- */

void mi__slot_release(struct mi_theap_s *theap, struct mi__theap_bin *b, struct mi_page *page) {
  if (give_back(page)) return;
  mi__faults_note(&theap->faults, page);
  b->n_pages++;
  mi__put_full(b, page);
}

void mi__slots_end_slow(struct mi_theap_s *theap) {
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    struct mi_page *page = mi__slot_take(theap, &theap->bins[mi__ctz64(bins)]);
    if (page != NULL && !give_back(page)) (void)mi__page_abandon(page);
  }
}

/* ---- any thread ---- */

/* Into the slot again. What has come there meanwhile is younger, and one of the two goes. */
static struct mi_page *put_again(struct mi__theap_bin *b, struct mi_page *page) {
  struct mi_page *none = NULL;
  if (mi__cas(&b->slot, &none, page, seq_cst)) return NULL;
  if (!mi__page_flag(page, MI_PAGE_BROKEN)) return page;
  return mi__exchange(&b->slot, page, seq_cst); /* that one must be found by its theap */
}

/* True: the slot holds a page that is to be looked at again. */
static bool look(struct mi__theap_bin *b) {
  if (mi__load(&b->slot, seq_cst) == NULL) return false;
  struct mi_page *page = mi__exchange(&b->slot, NULL, seq_cst);
  if (page == NULL) return false;
  bool broken = mi__page_flag(page, MI_PAGE_BROKEN), young = !mi__page_flag(page, MI_PAGE_OLD);
  if (young) {
    mi__page_set_flag(page, MI_PAGE_OLD, true);
    page = put_again(b, page);
  } else if (broken) {
    page = put_again(b, page);
  }
  while (page != NULL) {
    if (give_back(page)) break;
    page = put_again(b, page);
  }
  return young && !broken;
}

static bool look_at(struct mi_theap_s *theap) {
  bool again = false;
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    again |= look(&theap->bins[mi__ctz64(bins)]);
  }
  return again;
}

void mi__slots_look(struct mi_thread *thread, uint64_t now_ms) {
  uint64_t due = mi__load(&thread->xslots_due, relaxed);
  if (due == 0 || due > now_ms) return;
  (void)mi__exchange(&thread->xslots_due, 0, seq_cst);
  mi__store(&thread->slot_bytes, 0, relaxed);
  mi__fence_after_rmw(); /* which bins were ever used is a plain load */
  bool again = look_at(&thread->main);
  for (struct mi_theap_s *theap = thread->theaps; theap != NULL; theap = theap->tnext) {
    again |= look_at(theap);
  }
  /* Release: pairs with the acquire of mi__slots_looks. */
  mi__store(&mi__slots_n_looks, mi__load(&mi__slots_n_looks, relaxed) + 1, release);
  if (again) mi__slots_arm(thread);
}

void mi__slots_tick(struct mi_thread *self) {
  uint64_t due = mi__load(&self->xslots_due, relaxed);
  if (due == 0 || due > mi__os_clock_ms()) return;
  mi__lock_acquire(&mi__heaps_lock);
  mi__slots_look(self, mi__os_clock_ms());
  mi__lock_release(&mi__heaps_lock);
}
