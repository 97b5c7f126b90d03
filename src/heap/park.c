/* SPDX-License-Identifier: MIT */
#include "heap/park.h"
#include "base/check.h"
#include "heap/thread.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/option.h"

/* As for locks (rt/lock.c). */
#define SPINS 100

struct mi_thread mi__thread_parked;
struct mi__lock mi__sweep_lock = MI_LOCK_INIT(MI_LOCK_SWEEP);
_Atomic(uint32_t) mi__sweep_hurry;

/* A destructor of thread-specific data cannot ask for its own key's value, so the key does not
 * do. */
static mi__thread_local struct mi_thread *parked;

struct mi_thread *mi__park_self(void) { return mi__is_parked() ? parked : NULL; }

int64_t mi__sweep_interval(void) {
  long interval = mi__option_get(mi_option_purge_holes_min_interval);
  return interval > 0 ? interval : 0;
}

void mi__park_make_due(struct mi_thread *thread, uint64_t when_ms) {
  if (mi__due_set(&thread->xsweep_due, when_ms)) mi__alarm_set(when_ms);
}

/* 0: it was never swept. Parks that are over before somebody comes are not worth a wake each. */
static uint64_t next_sweep(const struct mi_thread *thread) {
  uint64_t swept = mi__load(&thread->xswept_ms, relaxed);
  uint64_t missed = mi__load(&thread->xmissed_ms, relaxed);
  uint64_t last = mi__max(swept, missed);
  return last == 0 ? 0 : last + (uint64_t)mi__sweep_interval();
}

/* Nothing is moved across it that a handler which runs on this thread may see. */
#define HANDLERS_SEE() atomic_signal_fence(memory_order_seq_cst)

static void use_dummy(struct mi_thread *self) {
  parked = self;
  HANDLERS_SEE();
  mi__tls.self = &mi__thread_parked;
  mi__tls.theap = &mi__thread_parked.main;
  HANDLERS_SEE();
}

void mi__park_begin(struct mi_thread *self) {
  mi__assert(mi__tls.self == self && mi__load(&self->xpark, relaxed) == MI_PARK_RUNNING);
  mi__run_flush(self);
  uint64_t next = next_sweep(self);
  self->plan = (struct mi__park_plan){0};
  mi__store(&self->xfloor_ms, 0, relaxed);
  self->parked_theap = mi__tls.theap;
  use_dummy(self);
  /* Release: pairs with the acquire of mi__park_claim. Seq_cst: PARK-3, PARK-4. */
  (void)mi__exchange(&self->xpark, MI_PARK_PARKED, seq_cst);
  HANDLERS_SEE();
  if (mi__unlikely(!mi__is_parked())) { /* a signal handler has allocated, and ended the park */
    use_dummy(self);
    mi__park_end();
    return;
  }
  uint64_t now = mi__os_clock_ms();
  mi__park_make_due(self, next > now ? next : now);
}

static mi__cold void wait_for_sweep(struct mi_thread *self) {
  uint32_t state;
  for (int i = 0; i < SPINS; i++) {
    if ((mi__load(&self->xpark, acquire) & MI_PARK_SWEEPING) == 0) return;
    mi__relax();
  }
  while (((state = mi__load(&self->xpark, acquire)) & MI_PARK_SWEEPING) != 0) {
    mi__os_wait(&self->xpark, state, -1);
  }
}

void mi__park_end(void) {
  struct mi_thread *self = mi__park_self();
  if (self == NULL) return;
  /* Acquire, here and in wait_for_sweep: pairs with the release of mi__park_leave. */
  uint32_t before = mi__fetch_or(&self->xpark, MI_PARK_BACK, acquire);
  if (mi__unlikely((before & MI_PARK_SWEEPING) != 0)) wait_for_sweep(self);
  mi__store(&self->xpark, MI_PARK_RUNNING, relaxed);
  /* In this order: a handler that comes in between does the same. */
  HANDLERS_SEE();
  mi__tls.theap = self->parked_theap;
  HANDLERS_SEE();
  mi__tls.self = self;
}

bool mi__park_claim(struct mi_thread *thread) {
  uint32_t expected = MI_PARK_PARKED;
  if (!mi__cas(&thread->xpark, &expected, MI_PARK_SWEEPING, seq_cst)) return false;
  mi__fence_after_rmw(); /* PARK-4: the loads of the lists come behind */
  return true;
}

void mi__park_leave(struct mi_thread *thread) {
  /* SWEEPING to PARKED, and BACK as it is. The exchange is a release and at the same time the look
   * for a sleeper. */
  uint32_t before = mi__fetch_xor(&thread->xpark, MI_PARK_SWEEPING ^ MI_PARK_PARKED, release);
  mi__assert((before & (MI_PARK_SWEEPING | MI_PARK_PARKED)) == MI_PARK_SWEEPING);
  if (mi__unlikely((before & MI_PARK_BACK) != 0)) mi__os_wake(&thread->xpark, 1);
}

void mi__park_freed_slow(struct mi_thread *owner) {
  /* Due already, but for the time when the floor is given up, which is far. */
  uint64_t due = mi__load(&owner->xsweep_due, seq_cst);
  if (due != 0 && due != mi__load(&owner->xfloor_ms, relaxed)) return;
  uint64_t interval = (uint64_t)mi__sweep_interval();
  mi__park_make_due(owner, mi__os_clock_ms() + (interval > 0 ? interval : 1));
}
