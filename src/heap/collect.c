/* SPDX-License-Identifier: MIT */
#include "heap/collect.h"
#include "base/track.h"
#include "heap/account.h"
#include "heap/damage.h"
#include "heap/process.h"
#include "heap/slot.h"
#include "heap/teardown.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/counter.h"
#include "rt/option.h"
#include <errno.h>

/* Published by the release of `deferred_fun`, read after its acquire. */
static _Atomic(mi_deferred_free_fun *) deferred_fun;
static _Atomic(void *) deferred_arg;
_Atomic(uint32_t) mi__requests_served;
void (*mi__on_offer)(const void *caller, bool is_malloc);

void mi__set_deferred_free(mi_deferred_free_fun *fun, void *arg) {
  mi__store(&deferred_arg, arg, relaxed);
  mi__store(&deferred_fun, fun, release); /* pairs with the acquire in mi__deferred_free */
  if (fun != NULL) mi__fetch_or(&mi__wants, MI_WANTS_DEFERRED, relaxed);
  else mi__fetch_and(&mi__wants, ~MI_WANTS_DEFERRED, relaxed);
}

void mi__deferred_free(struct mi_thread *self, bool force) {
  mi_deferred_free_fun *fun = mi__load(&deferred_fun, acquire);
  if (mi__likely(fun == NULL) || self->in_callback) return;
  int saved = errno;
  self->in_callback = true;
  unsigned depth = mi__track_pause();
  fun(force, self->main.n_refills, mi__load(&deferred_arg, relaxed));
  mi__track_resume(depth);
  self->in_callback = false;
  errno = saved;
}

void mi__theap_hand_on(struct mi_theap_s *theap) {
  struct mi_theap_s *first = &mi__theap_thread(theap)->main;
  mi__theap_merge_counters(theap);
  if (theap != first) mi__faults_move(&first->faults, &theap->faults);
}

static void collect_softly(struct mi_theap_s *theap) {
  mi__theap_collect(theap, false);
  mi__theap_hand_on(theap);
}

static void collect_and_verify(struct mi_theap_s *theap) {
  mi__theap_collect(theap, true);
  mi__theap_verify(theap);
  mi__theap_hand_on(theap);
  mi__theap_check(theap);
}

/* ---- requests of other threads ---- */

/* Seq_cst, with that of the thread's end: it sees the request, or we see that it has ended. Else
 * the count in mi__wants would never go, and each refill of all threads take the slow path. */
void mi__request_set(struct mi_thread *thread, uint32_t number) {
  if (mi__exchange(&thread->xrequest, number, seq_cst) == 0)
    mi__fetch_add(&mi__wants, MI_WANTS_SWEEP, relaxed);
  if (!mi__load(&thread->in_use, seq_cst)) mi__request_take_back(thread, number);
}

void mi__request_take_back(struct mi_thread *thread, uint32_t number) {
  if (mi__cas(&thread->xrequest, &number, 0, relaxed))
    mi__fetch_sub(&mi__wants, MI_WANTS_SWEEP, relaxed);
}

static void note_served(void) {
  mi__fetch_sub(&mi__wants, MI_WANTS_SWEEP, relaxed);
  mi__fetch_add(&mi__requests_served, 1, release);
  mi__os_wake(&mi__requests_served, INT32_MAX);
}

void mi__request_serve(struct mi_thread *self) {
  uint32_t number = mi__load(&self->xrequest, relaxed);
  if (mi__likely(number == 0)) return;
  (void)mi__thread_sweep(self, number % 2 != 0 ? MI_SWEEP_FORCE : MI_SWEEP_OWN, NULL);
  /* Only now, for who has asked takes it for the answer. A newer request stays, and comes next.
   * Release: who reads it (acquire) sees the counters of what was given back. */
  if (mi__cas(&self->xrequest, &number, 0, release)) note_served();
}

void mi__request_drop(struct mi_thread *self) {
  if (mi__exchange(&self->xrequest, 0, seq_cst) != 0) note_served();
}

void mi__request_fork_child(void) {
  mi__fetch_and(&mi__wants, MI_WANTS_SWEEP - 1, relaxed);
  struct mi_thread *thread = mi__thread_each(NULL);
  for (; thread != NULL; thread = mi__thread_each(thread)) mi__store(&thread->xrequest, 0, relaxed);
}

/* ---- refill ---- */

void mi__tick(struct mi__arenas *arenas) {
  uint64_t grace = 0; /* how long the background thread has for what is due */
  if (mi__load(&mi__alarm_has_sleeper, relaxed)) {
    long delay = mi__option_get(mi_option_purge_delay);
    if (delay > 0) grace = (uint64_t)delay;
  }
  mi__arenas_tick(arenas, grace);
}

mi__cold void mi__offer_slow(const void *caller, bool is_malloc) {
  if (mi__on_offer != NULL) mi__on_offer(caller, is_malloc);
}

void mi__on_refill_slow(struct mi_thread *self, const void *caller) {
  struct mi_theap_s *theap = &self->main;
  uint32_t n_refills = theap->n_refills; /* the function below may cause others */
  mi__run_flush(self);
  mi__request_serve(self);
  mi__offer(caller, true);
  mi__deferred_free(self, false);
  if (mi__likely(n_refills % MI_TICK_REFILLS != 0)) return;
  mi__thread_note_number(self);
  mi__tick(mi__heap_arenas(mi__theap_heap(theap)));
  mi__arenas_ask(mi__heap_arenas(mi__theap_heap(theap)));
  mi__slots_tick(self);
  long every = mi__option_get(mi_option_generic_collect);
  theap->n_since_collect += MI_TICK_REFILLS;
  if (every > 0 && (long)theap->n_since_collect >= every) {
    theap->n_since_collect = 0;
    collect_softly(theap);
    if (self->has_theaps) mi__thread_each_theap(self, collect_softly);
    mi__theap_report(theap);
  }
}

void mi__thread_merge_counters(struct mi_thread *self) {
  if (self == NULL) return;
  mi__theap_recount(&self->main);
  if (self->has_theaps) mi__thread_each_theap(self, mi__theap_recount);
}

void mi__collect(bool force) {
  mi__process_init();
  mi__track_begin();
  struct mi_thread *self = mi__thread_self(false);
  if (self != NULL) {
    mi__run_flush(self);
    mi__deferred_free(self, force);
    void (*collect)(struct mi_theap_s *) = force ? collect_and_verify : collect_softly;
    collect(&self->main);
    if (self->has_theaps) mi__thread_each_theap(self, collect);
    mi__theap_report(&self->main);
  }
  mi__shared_collect();
  enum mi__purge how = force ? MI_PURGE_EVERYTHING : MI_PURGE_DUE;
  mi__arenas_purge(mi__heap_arenas(&mi__heap_main), how);
  if (self != NULL) {
    struct mi__arenas *own = mi__heap_arenas(mi__theap_heap(&self->main));
    if (own != mi__heap_arenas(&mi__heap_main)) mi__arenas_purge(own, how);
  }
  mi__track_end();
}
