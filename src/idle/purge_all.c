/* SPDX-License-Identifier: MIT */
#include "idle/purge_all.h"
#include "arena/arena.h"
#include "base/track.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/park.h"
#include "heap/process.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "idle/sweep.h"
#include "os/os.h"
#include "rt/counter.h"

/* Who waits for a thread that parks meanwhile is told by nobody, and looks again so often. */
#define LOOK_MS 10

static _Atomic(bool) busy;

void mi__purge_all_fork_child(void) { mi__store(&busy, false, relaxed); }

static int64_t given_back(void) {
  return mi__load(&mi__counters.purged, relaxed);
}

static int64_t holes_made(void) {
  return mi__load(&mi__hole_counters.purged_bytes_total, relaxed) +
         mi__load(&mi__hole_counters.unformed_bytes_total, relaxed);
}

static bool is_forced(uint32_t number) { return number % 2 != 0; } /* collect.h */

static void purge_sets(bool force) {
  struct mi__arenas *set = mi__arenas_each(NULL);
  for (; set != NULL; set = mi__arenas_each(set)) {
    if (!force) mi__arenas_bring_forward(set);
    (void)mi__arenas_purge(set, force ? MI_PURGE_EVERYTHING : MI_PURGE_DUE);
  }
}

static void sweep_caller(struct mi_thread *self, bool force) {
  if (self == NULL) return;
  mi__deferred_free(self, force);
  (void)mi__thread_sweep(self, force ? MI_SWEEP_FORCE : MI_SWEEP_OWN, NULL);
  mi__theap_report(&self->main);
}

static bool is_other(const struct mi_thread *thread, const struct mi_thread *self) {
  return thread != self && mi__load(&thread->in_use, relaxed);
}

/* Sweep those that are parked, ask the others. How many there are. */
static size_t sweep_or_ask(const struct mi_thread *self, uint32_t number) {
  size_t n = 0;
  struct mi_thread *thread = mi__thread_each(NULL);
  for (; thread != NULL; thread = mi__thread_each(thread)) {
    if (!is_other(thread, self)) continue;
    if (!mi__sweep_parked(thread, is_forced(number))) mi__request_set(thread, number);
    n++;
  }
  return n;
}

/* How many have not answered. Those that have parked since are swept. */
static size_t count_pending(const struct mi_thread *self, uint32_t number) {
  size_t n = 0;
  struct mi_thread *thread = mi__thread_each(NULL);
  for (; thread != NULL; thread = mi__thread_each(thread)) {
    /* Acquire: pairs with the release of mi__request_serve. */
    if (!is_other(thread, self) || mi__load(&thread->xrequest, acquire) != number) continue;
    if (!mi__sweep_parked(thread, is_forced(number))) n++;
    else mi__request_take_back(thread, number);
  }
  return n;
}

static size_t wait_for_others(const struct mi_thread *self, uint32_t number, size_t wait_ms) {
  uint64_t end = mi__os_clock_ms() + mi__min(wait_ms, (size_t)INT32_MAX);
  for (;;) {
    /* Acquire: pairs with the release of who served. */
    uint32_t seen = mi__load(&mi__requests_served, acquire);
    size_t n = count_pending(self, number);
    uint64_t now = mi__os_clock_ms();
    if (n == 0 || now >= end) return n;
    mi__os_wait(&mi__requests_served, seen, (int64_t)mi__min(end - now, (uint64_t)LOOK_MS));
  }
}

int mi__purge_all(bool force, size_t wait_ms, mi_purge_all_report_t *report) {
  *report = (mi_purge_all_report_t){0};
  mi__process_init();
  if (mi__exchange(&busy, true, acquire)) return MI_PURGE_BUSY;
  static uint32_t n_calls; /* of who is not busy */
  if (++n_calls >= UINT32_MAX / 2) n_calls = 1;
  uint32_t number = 2 * n_calls + force;
  mi__track_begin();
  struct mi_thread *self = mi__thread_self(false);
  int64_t before = given_back(), holes_before = holes_made();
  purge_sets(force);
  sweep_caller(self, force);
  mi__shared_collect();
  mi__sweep_all_pools();
  /* A caller that is parked is one of them. */
  size_t n_others = sweep_or_ask(self, number);
  size_t n_pending = wait_for_others(self, number, wait_ms);
  purge_sets(force);
  report->arena_bytes = (size_t)(given_back() - before);
  /* What the OS refuses is taken off again. */
  report->hole_bytes = (size_t)mi__max(holes_made() - holes_before, 0);
  report->theaps_swept = n_others - n_pending + (self != NULL);
  report->theaps_pending = n_pending;
  report->theaps_orphaned = mi__thread_vanished();
  report->complete = n_pending == 0 && report->theaps_orphaned == 0;
  mi__track_end();
  mi__store(&busy, false, release);
  return report->complete ? MI_PURGE_OK : MI_PURGE_PARTIAL;
}
