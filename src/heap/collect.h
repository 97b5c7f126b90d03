/* SPDX-License-Identifier: MIT */
/* What slow paths do besides: deferred frees, periodic collection, purging what is due. */
#ifndef MI_HEAP_COLLECT_H
#define MI_HEAP_COLLECT_H

#include "heap/heap.h"
#include "mimalloc.h"
#include "rt/alarm.h"

/* Every so many refills the clock is looked at: a clock read costs about as much as one malloc. */
#define MI_TICK_REFILLS 32u

/* `caller`: as for mi__offer. */
void mi__on_refill_slow(struct mi_thread *self, const void *caller);
/* Once for each refill of the calling thread, with nothing held. */
mi__inline void mi__on_refill(struct mi_thread *self, const void *caller) {
  uint32_t n = ++self->main.n_refills;
  if (mi__unlikely(n % MI_TICK_REFILLS == 0 || self->run.page != NULL ||
                   mi__load(&mi__wants, relaxed) != 0)) {
    mi__on_refill_slow(self, caller);
  }
}
/* At the end of slow paths, with nothing held. `caller`: the return address of the public function,
 * or one in this library where it is not known; NULL: not the C library for certain, or it holds
 * nothing. */
void mi__offer_slow(const void *caller, bool is_malloc);
mi__inline void mi__offer(const void *caller, bool is_malloc) {
  if (mi__unlikely((mi__load(&mi__wants, relaxed) & MI_WANTS_BACKGROUND) != 0))
    mi__offer_slow(caller, is_malloc);
}
/* Makes the background thread. Registered by the layer above; NULL: nobody does. */
extern void (*mi__on_offer)(const void *caller, bool is_malloc);

/* In slow paths, with nothing held: purge what is due, where no background thread does it. */
void mi__tick(struct mi__arenas *arenas);

/* Any thread: ask a thread to sweep at its next refill or idle point. `number` is not 0; odd: by
 * force (MI_SWEEP_FORCE). */
void mi__request_set(struct mi_thread *thread, uint32_t number);
/* The thread need not serve it any more. */
void mi__request_take_back(struct mi_thread *thread, uint32_t number);
/* The calling thread: serve what it was asked for. */
void mi__request_serve(struct mi_thread *self);
/* The calling thread has ended: in_use says so (seq_cst). */
void mi__request_drop(struct mi_thread *self);
/* In a fork child. */
void mi__request_fork_child(void);
/* Counts the requests that were served; a futex word. */
extern _Atomic(uint32_t) mi__requests_served;

/* What is counted in a theap goes to its heap; what was found in it is reported by its thread's
 * first one. */
void mi__theap_hand_on(struct mi_theap_s *theap);

/* The program's function for deferred frees runs, if there is one and it does not run already. */
void mi__deferred_free(struct mi_thread *self, bool force);
/* Bring the statistics of the calling thread's heaps up to date. */
void mi__thread_merge_counters(struct mi_thread *self);
/* mi_collect: give back what the calling thread can give; force: also what is kept for reuse, and
 * purge at once. */
void mi__collect(bool force);
/* The program's function for deferred frees; NULL: none. */
void mi__set_deferred_free(mi_deferred_free_fun *fun, void *arg);

#endif
