/* SPDX-License-Identifier: MIT */
#include "heap/teardown.h"
#include "heap/account.h"
#include "heap/damage.h"
#include "heap/registry.h"
#include "heap/slot.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "os/os.h"

/* As for locks: a claim is held for the emptying of some pages; longer waits are for a holder that
 * does not run. */
#define SPINS 100

/* ---- the claim word ---- */

bool mi__claim_try(struct mi_theap_s *theap) {
  uint32_t word = mi__load(&theap->xclaim, relaxed);
  if ((word & MI_CLAIM_STATE) != MI_CLAIM_FREE) return false;
  return mi__cas(&theap->xclaim, &word, word | MI_CLAIM_WORK, acquire);
}

/* The exchange is a release, and at the same time the look for sleepers: a store followed by a load
 * could pass one that marks itself between the two. */
static void leave(struct mi_theap_s *theap, uint32_t to) {
  uint32_t before = mi__exchange(&theap->xclaim, to, release);
  if (mi__unlikely(before & MI_CLAIM_SLEEPERS)) mi__os_wake(&theap->xclaim, INT32_MAX);
}

void mi__claim_release(struct mi_theap_s *theap) {
  uint32_t word = mi__load(&theap->xclaim, relaxed); /* only the sleepers' bit may change */
  leave(theap, (word & ~(MI_CLAIM_STATE | MI_CLAIM_SLEEPERS)) | MI_CLAIM_FREE);
}

static mi__cold void wait_for_change(struct mi_theap_s *theap, uint32_t word) {
  for (int i = 0; i < SPINS; i++) {
    if (mi__load(&theap->xclaim, relaxed) != word) return;
    mi__relax();
  }
  if (!(word & MI_CLAIM_SLEEPERS)) {
    uint32_t marked = word | MI_CLAIM_SLEEPERS;
    if (!mi__cas(&theap->xclaim, &word, marked, relaxed)) return;
    word = marked;
  }
  mi__os_wait(&theap->xclaim, word, -1);
}

/* Become the one who tears the theap down. False: it is another theap by now, or none; somebody
 * else has done it. */
static bool claim_dying(struct mi_theap_s *theap, uint32_t seq) {
  for (;;) {
    /* Acquire: pairs with the release of `leave`: what the one before did is done. */
    uint32_t word = mi__load(&theap->xclaim, acquire);
    if (mi__claim_seq(word) != seq) return false;
    if ((word & MI_CLAIM_STATE) != MI_CLAIM_FREE) {
      wait_for_change(theap, word);
    } else if (mi__cas(&theap->xclaim, &word, word | MI_CLAIM_DYING, acquire)) {
      return true;
    }
  }
}

/* ---- the end of a theap ---- */

/* True: the list that begins at *first is empty now. */
static bool tear_down(struct mi_theap_s *theap, enum mi__fate fate,
                      struct mi_theap_s *const *first) {
  struct mi_heap_s *heap = mi__theap_heap(theap);
  bool own = mi__tls.theap == theap;
  uint32_t n_looks = mi__slots_looks();
  mi__theap_empty(theap, fate);
  /* Where the heap ends, straight to where its counters go. */
  mi__theap_merge_counters_to(theap, fate == MI_FATE_ABANDON ? &heap->counters
                                                             : &heap->subproc->ended);
  union mi__faults faults = theap->faults;
  theap->faults.any = 0;
  mi__gauge_add(&heap->counters.theaps, -1);
  if (own) {
    mi__tls.theap = &mi__tls.self->main;
    mi__store(&theap->is_default, false, relaxed);
  }
  mi__lock_acquire(&mi__heaps_lock);
  mi__slots_end(theap, n_looks);
  mi__theap_unlink(theap);
  leave(theap, 0);
  mi__theap_free_record(theap);
  bool was_last = *first == NULL;
  mi__lock_release(&mi__heaps_lock);
  if (mi__unlikely(faults.any != 0)) mi__report_faults(faults);
  return was_last;
}

/* Until the list is empty. Nothing is added to it meanwhile: a thread that ends, or a heap that
 * does, is not allocated from any more. */
static void tear_down_list(struct mi_theap_s *const *first, enum mi__fate fate,
                           _Atomic(int64_t) *n_waits) {
  for (;;) {
    mi__lock_acquire(&mi__heaps_lock);
    struct mi_theap_s *theap = *first;
    uint32_t word = theap == NULL ? 0 : mi__load(&theap->xclaim, relaxed);
    mi__lock_release(&mi__heaps_lock);
    if (theap == NULL) return;
    if (n_waits != NULL && (word & MI_CLAIM_STATE) != MI_CLAIM_FREE) mi__count(n_waits, 1);
    if (claim_dying(theap, mi__claim_seq(word)) && tear_down(theap, fate, first)) return;
  }
}

void mi__teardown_thread(struct mi_thread *thread) {
  tear_down_list(&thread->theaps, MI_FATE_ABANDON, NULL);
}

void mi__teardown_heap(struct mi_heap_s *heap, enum mi__fate fate) {
  tear_down_list(&heap->theaps, fate, &heap->subproc->heaps_delete_wait);
}

/* ---- work on several theaps ---- */

struct mi_theap_s *mi__thread_next_theap(struct mi_thread *thread, struct mi_theap_s *after) {
  mi__lock_acquire(&mi__heaps_lock);
  struct mi_theap_s *next = after == NULL ? thread->theaps : after->tnext;
  if (after != NULL) mi__claim_release(after);
  while (next != NULL && !mi__claim_try(next)) next = next->tnext;
  mi__lock_release(&mi__heaps_lock);
  return next;
}

void mi__thread_each_theap(struct mi_thread *thread, void (*act)(struct mi_theap_s *theap)) {
  struct mi_theap_s *theap = NULL;
  while ((theap = mi__thread_next_theap(thread, theap)) != NULL) act(theap);
}

/* ---- fork ---- */

struct survivor {
  struct mi_thread *self; /* NULL: it had not allocated */
  bool alone;             /* no other thread was there */
};

static bool has_main_theap(const struct mi_thread *thread, const struct mi_heap_s *heap) {
  return thread != NULL && mi__theap_heap(&thread->main) == heap;
}

static void lose_theaps(struct mi_heap_s *heap, void *arg) {
  const struct survivor *survivor = arg;
  struct mi_thread *self = survivor->self;
  int64_t n = has_main_theap(self, heap) + has_main_theap(&mi__thread_shared, heap);
  for (struct mi_theap_s *theap = heap->theaps, *next; theap != NULL; theap = next) {
    next = theap->next;
    struct mi_thread *thread = mi__theap_thread(theap);
    uint32_t word = mi__load(&theap->xclaim, relaxed);
    bool here = thread == &mi__thread_shared || thread == self;
    if (here && (word & MI_CLAIM_STATE) != MI_CLAIM_DYING) {
      mi__store(&theap->xclaim, word & ~(MI_CLAIM_STATE | MI_CLAIM_SLEEPERS), relaxed);
      n++;
      continue;
    }
    if (self != NULL && thread == self) { /* its heap was just being ended */
      if (mi__tls.theap == theap) mi__tls.theap = &self->main;
      if (self->parked_theap == theap) self->parked_theap = &self->main;
    }
    /* Its lists may be in the middle of a change. The record keeps its thread, whom nobody is any
     * more, so that it is found by nobody. */
    mi__theap_unlink(theap);
    if (heap->shared == theap) heap->shared = NULL;
    heap->lost = true;
  }
  /* Pages of lost theaps name the heap, and so may any page that a vanished thread had taken from
   * where it would be found, to give it back. */
  if (!survivor->alone) heap->lost = true;
  mi__store(&heap->counters.theaps.current, n, relaxed);
}

void mi__teardown_fork_child(struct mi_thread *self) {
  int64_t n_threads = 0;
  for (struct mi_subproc *s = &mi__subproc_main; s != NULL; s = s->next) {
    n_threads += mi__load(&s->threads.current, relaxed);
  }
  struct survivor survivor = {self, n_threads == (self != NULL)};
  mi__heap_each_locked(lose_theaps, &survivor);
}
