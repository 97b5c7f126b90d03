/* SPDX-License-Identifier: MIT */
/* Idle points, and purging for all threads. */
#include "api/core.h"
#include "arena/arena.h"
#include "base/track.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/park.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "idle/purge_all.h"
#include "idle/scavenger.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/message.h"

/* It is made where that was asked for; slow paths that cannot do it may have been the last ones. */
static bool has_background(void) {
  if ((mi__load(&mi__wants, relaxed) & MI_WANTS_BACKGROUND) != 0) return mi__scavenger_ensure();
  return mi__load(&mi__alarm_has_sleeper, relaxed);
}

mi__export void mi_on_thread_idle(void) {
  struct mi_thread *self = mi__thread_self(false);
  if (self == NULL) return;
  mi__os_allow_asking();
  mi__track_begin();
  mi__request_serve(self);
  mi__deferred_free(self, false);
  (void)mi__thread_sweep(self, MI_SWEEP_OWN, NULL);
  mi__theap_report(&self->main);
  /* Nobody may call anything for long. Surely: who is purging has perhaps been where we freed. */
  if (!has_background())
    (void)mi__arenas_purge(mi__heap_arenas(mi__theap_heap(&self->main)), MI_PURGE_DUE_SURELY);
  mi__track_end();
}

mi__export bool mi_on_thread_idle_start(void) {
  struct mi_thread *self = mi__thread_data();
  /* Not from the program's function for deferred frees: a refill goes on after it. */
  if (self == NULL || self->in_callback) return false;
  mi__os_allow_asking();
  bool swept = mi__scavenger_ensure();
  if (mi__is_parked() && swept) return true;
  mi__park_end(); /* it was stopped meanwhile */
  if (!swept) return false;
  mi__track_begin();
  mi__request_serve(self);
  mi__park_begin(self);
  mi__track_end();
  return true;
}

mi__export bool mi_on_thread_idle_pending(void) {
  const struct mi_thread *self = mi__thread_data();
  return self != NULL && mi__load(&self->is_pending, relaxed);
}

mi__export void mi_on_thread_idle_end(void) { mi__park_end(); }

mi__export void mi_scavenger_stop(void) { mi__scavenger_stop(false); }

mi__export int mi_purge_all_ex(unsigned flags, size_t wait_msecs, mi_purge_all_report_t *report) {
  mi_purge_all_report_t unused;
  bool force = (flags & MI_PURGE_FORCE) != 0;
  return mi__purge_all(force, wait_msecs, report != NULL ? report : &unused);
}

mi__export int mi_purge_all(bool force) {
  mi_purge_all_report_t unused;
  return mi__purge_all(force, MI_PURGE_WAIT_MS, &unused);
}
