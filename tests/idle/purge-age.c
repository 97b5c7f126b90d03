/* SPDX-License-Identifier: MIT */
/* How old memory is when it goes: the passes are made here, half a delay apart, for the process has
 * one thread and no background thread. What was freed since the pass before stays for the next one;
 * a pass that comes late takes all; large units go as a whole, whenever their parts were freed. */
#include "idle/idle.h"

enum { MOST = 64 };
static void *block[MOST];

static void take(int n) {
  for (int i = 0; i < n; i++) {
    CHECK((block[i] = malloc(BEHAVE_MiB)) != NULL);
    touch(block[i], BEHAVE_MiB);
  }
}
static void give(int first, int step, int end) {
  for (int i = first; i < end; i += step) free(block[i]);
}
static void sleep_until(uint64_t ms) {
  while (now_ms() < ms) behave_sleep_ms((unsigned)(ms - now_ms()));
}

/* False: the machine was too slow for the times to mean anything. */
static bool two_passes(unsigned delay) {
  take(16);
  size_t before = purged();
  uint64_t begin = now_ms();
  free(block[0]); /* the first pass is due half a delay from now */
  sleep_until(begin + delay / 2 + delay / 40);
  give(1, 1, 16);
  mi_collect(false);
  size_t first = purged() - before;
  bool in_time = now_ms() < begin + delay * 9 / 10;
  if (in_time && first >= BEHAVE_MiB) FAIL("%zu KiB went in the pass after their free", first / 1024);
  sleep_until(now_ms() + delay / 2 + delay / 40);
  mi_collect(false);
  if (purged() < before + 15 * BEHAVE_MiB) FAIL("only %zu KiB went", (purged() - before) / 1024);
  return in_time;
}

static void late_pass(void) {
  take(16);
  size_t before = purged();
  give(0, 1, 16);
  behave_sleep_ms(300);
  mi_collect(false);
  if (purged() < before + 15 * BEHAVE_MiB) FAIL("only %zu KiB went", (purged() - before) / 1024);
}

static void coarse_units(void) {
  take(64);
  size_t before = purged();
  give(0, 2, 64);
  behave_sleep_ms(60);
  mi_collect(false);
  give(1, 2, 64);
  for (int i = 0; i < 4; i++) {
    behave_sleep_ms(60);
    mi_collect(false);
  }
  if (purged() < before + 56 * BEHAVE_MiB) FAIL("only %zu KiB went", (purged() - before) / 1024);
}

int main(int argc, char **argv) {
  behave_limit(120);
  if (argc > 1) {
    unsigned delay = (unsigned)mi_option_get(mi_option_purge_delay);
    if (strcmp(argv[1], "late") == 0) late_pass();
    else if (strcmp(argv[1], "units") == 0) coarse_units();
    else {
      for (int i = 0; i < 3 && !two_passes(delay); i++) mi_collect(true);
    }
    CHECK(look_at_tasks().n_scavengers == 0);
    return 0;
  }
#define ALONE "MIMALLOC_SCAVENGER=0", "MIMALLOC_ARENA_PURGE_MULT=1"
  const char *delay = mi_test_size() == MI_TEST_SHORT ? "MIMALLOC_PURGE_DELAY=1200"
                                                      : "MIMALLOC_PURGE_DELAY=4000";
  run_with(WITH(delay, ALONE, "MIMALLOC_MINIMAL_PURGE_SIZE=64K"), "two-passes");
  run_with(WITH("MIMALLOC_PURGE_DELAY=100", ALONE, "MIMALLOC_MINIMAL_PURGE_SIZE=64K"), "late");
  run_with(WITH("MIMALLOC_PURGE_DELAY=100", ALONE, "MIMALLOC_MINIMAL_PURGE_SIZE=2048K"), "units");
  return 0;
}
