/* SPDX-License-Identifier: MIT */
#include "idle/sweep.h"
#include "base/check.h"
#include "heap/registry.h"
#include "heap/slot.h"
#include "heap/teardown.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "os/os.h"
#include "rt/alarm.h"

/* Once in a while everything is looked at, whatever is due. */
#define SAFETY_MS 30000
/* When somebody else has what is due: soon. */
#define SOON_MS 1

/* ---- parks ---- */

bool mi__sweep_parked(struct mi_thread *thread, bool force) {
  mi__lock_acquire(&mi__sweep_lock);
  bool claimed = mi__park_claim(thread), whole = false;
  if (claimed) {
    uint64_t again_ms;
    whole = mi__thread_sweep(thread, MI_SWEEP_PARKED | (force ? MI_SWEEP_FORCE : 0), &again_ms) &&
            !mi__park_must_leave(thread);
    struct mi__arenas *arenas = mi__heap_arenas(mi__theap_heap(&thread->main));
    mi__park_leave(thread);
    mi__arenas_bring_forward(arenas);
    /* PARK-3: behind what makes it PARKED. Where it came back meanwhile this is dropped. */
    if (again_ms != 0) mi__park_make_due(thread, again_ms);
  }
  mi__lock_release(&mi__sweep_lock);
  return whole;
}

/* Take what is due by exchange, and claim afterwards (PARK-3). */
static void look_at_park(struct mi_thread *thread, uint64_t now) {
  uint64_t due = mi__load(&thread->xsweep_due, relaxed);
  if (due == 0 || due > now) return;
  (void)mi__exchange(&thread->xsweep_due, 0, seq_cst);
  if (mi__sweep_parked(thread, false) || MI_BAD_PURGE == 4) return;
  /* It came back, or is about to: its next park is made due by itself. Or a fork was waiting. */
  uint32_t state = mi__load(&thread->xpark, seq_cst);
  mi__store(&thread->xmissed_ms, now, relaxed);
  if (state != MI_PARK_RUNNING && (state & MI_PARK_BACK) == 0)
    mi__park_make_due(thread, now + SOON_MS);
}

/* ---- a turn ---- */

static void look_at_threads(uint64_t now) {
  struct mi_thread *thread = mi__thread_each(NULL);
  for (; thread != NULL; thread = mi__thread_each(thread)) {
    look_at_park(thread, now);
    uint64_t slots = mi__load(&thread->xslots_due, relaxed);
    if (slots == 0 || slots > now) continue;
    mi__lock_acquire(&mi__heaps_lock);
    mi__slots_look(thread, now);
    mi__lock_release(&mi__heaps_lock);
  }
  if (mi__load(&mi__thread_shared.xslots_due, relaxed) == 0) return;
  mi__lock_acquire(&mi__heaps_lock);
  mi__slots_look(&mi__thread_shared, now);
  mi__lock_release(&mi__heaps_lock);
}

/* False: somebody else was purging. */
static bool purge_arenas(uint64_t now) {
  static uint64_t looked_ms; /* at all of them; of the background thread */
  bool all = now - looked_ms >= SAFETY_MS, done = true;
  if (all) looked_ms = now;
  struct mi__arenas *set = mi__arenas_each(NULL);
  for (; set != NULL; set = mi__arenas_each(set)) {
    uint64_t due = mi__arenas_due(set);
    if (all || (due != 0 && due <= now)) done &= mi__arenas_purge(set, MI_PURGE_DUE_QUIETLY);
  }
  return done;
}

static uint64_t next_due(void) {
  uint64_t next = mi__load(&mi__thread_shared.xslots_due, relaxed);
  struct mi_thread *thread = mi__thread_each(NULL);
  for (; thread != NULL; thread = mi__thread_each(thread)) {
    next = mi__earlier(next, mi__load(&thread->xsweep_due, relaxed));
    next = mi__earlier(next, mi__load(&thread->xslots_due, relaxed));
  }
  struct mi__arenas *set = mi__arenas_each(NULL);
  for (; set != NULL; set = mi__arenas_each(set)) next = mi__earlier(next, mi__arenas_due(set));
  return next;
}

uint64_t mi__idle_turn(void) {
  uint64_t now = mi__os_clock_ms();
  look_at_threads(now);
  bool purged = purge_arenas(now);
  now = mi__os_clock_ms();
  uint64_t next = next_due();
  if (!purged && next <= now) next = now + SOON_MS;
  return mi__earlier(next, now + SAFETY_MS);
}
