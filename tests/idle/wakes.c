/* SPDX-License-Identifier: MIT */
/* What the background thread costs: a thousand parks of 1 ms wake it at most four times in each
 * interval, and with nothing left to do it sleeps. */
#include "idle/idle.h"

static void check_parks(unsigned interval, size_t n_parks) {
  mi_option_set(mi_option_purge_holes_min_interval, (long)interval);
  unsigned long wakes = 0, allowed = 0;
  for (int attempt = 0; attempt < 3; attempt++) {
    unsigned long before = scavenger_switches();
    uint64_t begin = now_ms();
    for (size_t i = 0; i < n_parks; i++) {
      free(malloc(1000));
      CHECK(mi_on_thread_idle_start());
      behave_sleep_ms(1);
      mi_on_thread_idle_end();
    }
    uint64_t n_intervals = (now_ms() - begin) / interval + 1;
    wakes = scavenger_switches() - before;
    allowed = 4 * n_intervals + 4;
    if (wakes <= allowed) return;
  }
  FAIL("%zu parks woke it %lu times, more than %lu", n_parks, wakes, allowed);
}

static void check_silence(const char *when) {
  unsigned long wakes = 0;
  for (int attempt = 0; attempt < 3; attempt++) {
    /* What is due now is done first; then the last is swept and purged: later than this where it gets no processor. */
    behave_sleep_ms(700);
    unsigned long before = scavenger_switches();
    behave_sleep_ms(2500);
    wakes = scavenger_switches() - before;
    if (wakes <= 1) return;
  }
  FAIL("%s: %lu wakes in 2.5 s with nothing to do", when, wakes);
}

int main(void) {
  mi_test_not_under("thread"); /* it wakes threads for purposes of its own */
  behave_limit(120);
  idle_skip_without_parks();
  check_parks(100, 1000);
  if (mi_test_size() != MI_TEST_SHORT) check_parks(300, 1000);
  mi_option_set(mi_option_purge_holes_min_interval, 100);
  void *p = malloc(8 * BEHAVE_MiB), *rest = malloc(100000);
  CHECK(p != NULL && rest != NULL);
  touch(p, 8 * BEHAVE_MiB);
  free(p);
  if (mi_test_size() != MI_TEST_SHORT) check_silence("after a free");
  CHECK(mi_on_thread_idle_start());
  check_silence("in a park");
  mi_on_thread_idle_end();
  free(rest);
  return 0;
}
