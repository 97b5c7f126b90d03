/* SPDX-License-Identifier: MIT */
#include "rt/alarm.h"
#include "os/os.h"

static _Atomic(uint32_t) word;
static _Atomic(uint64_t) until; /* 0: nobody sleeps */
_Atomic(bool) mi__alarm_has_sleeper;
_Atomic(uint32_t) mi__wants;

void mi__alarm_set(uint64_t when_ms) {
  mi__fetch_add(&word, 1, seq_cst);
  if (mi__load(&until, seq_cst) > when_ms) mi__os_wake(&word, 1);
}

uint32_t mi__alarm_read(void) { return mi__load(&word, acquire); }

void mi__alarm_sleep(uint32_t seen, uint64_t now_ms, uint64_t until_ms) {
  if (until_ms <= now_ms) return;
  /* An exchange and not a store: nothing of it may be late when the kernel reads the word. */
  (void)mi__exchange(&until, until_ms, seq_cst);
  mi__os_wait(&word, seen, (int64_t)(until_ms - now_ms));
  mi__store(&until, 0, relaxed);
}

void mi__alarm_fork_child(void) {
  mi__store(&until, 0, relaxed);
  mi__store(&mi__alarm_has_sleeper, false, relaxed);
}

bool mi__due_set(_Atomic(uint64_t) *due, uint64_t when) {
  uint64_t seen = mi__load(due, seq_cst);
  do {
    if (seen != 0 && seen <= when) return false;
  } while (!mi__cas_weak(due, &seen, when, seq_cst));
  return true;
}
