/* SPDX-License-Identifier: MIT */
#include "heap/epoch.h"
#include "os/os.h"

_Atomic(uint32_t) mi__epoch_now;
static _Atomic(uint64_t) began_ms; /* 0: with the process */
static _Atomic(bool) moving;

static bool is_over(uint64_t interval) {
  return mi__os_clock_ms() - mi__load(&began_ms, relaxed) >= interval;
}

uint32_t mi__epoch_move(uint64_t interval) {
  bool nobody = false;
  /* Acquire: pairs with the release below, so that the time is that of the last move. */
  if (is_over(interval) && mi__cas(&moving, &nobody, true, acquire)) {
    if (is_over(interval)) {
      mi__fetch_add(&mi__epoch_now, 1, seq_cst);
      mi__store(&began_ms, mi__os_clock_ms(), relaxed);
    }
    mi__store(&moving, false, release);
  }
  return mi__load(&mi__epoch_now, relaxed);
}

void mi__epoch_fork_child(void) {
  mi__store(&began_ms, mi__os_clock_ms(), relaxed);
  mi__store(&moving, false, relaxed);
}
