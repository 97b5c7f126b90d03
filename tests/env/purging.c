/* SPDX-License-Identifier: MIT */
/* The options about when freed memory goes back: purge_delay, arena_purge_mult, purge_decommits,
 * minimal_purge_size. The program makes the passes itself (mi_collect), so nothing here depends on
 * a background thread. */
#include "env/frame.h"
#include <time.h>

enum { N_BLOCKS = 48 };
#define MIB ((size_t)1 << 20)
#define NEARLY_ALL (N_BLOCKS * 1024 * 3 / 4) /* KiB */
#define LITTLE (N_BLOCKS * 1024 / 8)

static struct env_run run;
static char *block[N_BLOCKS];
static uint64_t freed_at_ms;

static uint64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void nap_until(uint64_t ms_after_free) {
  while (now_ms() < freed_at_ms + ms_after_free) usleep(2000);
}

static void take_blocks(void) {
  for (int i = 0; i < N_BLOCKS; i++) {
    CHECK((block[i] = mi_malloc(MIB)) != NULL);
    memset(block[i], 1, MIB);
  }
}

static void free_blocks(int first, int step) {
  freed_at_ms = now_ms();
  for (int i = first; i < N_BLOCKS; i += step) mi_free(block[i]);
}

/* Memory that is gone since `before`, in KiB, in words that do not change from run to run. */
static void say_gone(const char *when, size_t before) {
  size_t now = mi_test_rss_kib();
  size_t gone = before > now ? before - now : 0;
  const char *what = gone >= NEARLY_ALL ? "gone" : gone <= LITTLE ? "here" : "partly";
  printf("%s %s\n", when, what);
}

/* ---- the second runs ---- */

/* Free all; look at once, after a pass 300 ms later, and after a forced one. A machine that took
 * its time to free says nothing about "at once". */
static int show_schedule(void) {
  take_blocks();
  size_t before = mi_test_rss_kib();
  free_blocks(0, 1);
  if (now_ms() > freed_at_ms + 40) printf("slow\n");
  else say_gone("at-once", before);
  nap_until(300);
  mi_collect(false);
  say_gone("later", before);
  mi_collect(true);
  say_gone("forced", before);
  return 0;
}

/* What can only be given back in pieces of one block; then all of it. */
static int show_pieces(void) {
  take_blocks();
  size_t before = mi_test_rss_kib();
  free_blocks(1, 2);
  nap_until(150);
  mi_collect(false);
  size_t now = mi_test_rss_kib();
  printf("pieces %s\n", before >= now + NEARLY_ALL / 2 ? "gone" : before <= now + LITTLE ? "here" :
    "partly");
  free_blocks(0, 2);
  nap_until(150);
  mi_collect(false);
  say_gone("all", before);
  return 0;
}

/* Marked as reclaimable only: still resident, but free for the kernel to take. */
static int show_lazy(void) {
  take_blocks();
  free_blocks(0, 1);
  nap_until(150);
  mi_collect(false);
  printf("lazy %s\n", mi_test_memory_kib("LazyFree:") >= NEARLY_ALL ? "yes" : "no");
  return 0;
}

/* ---- the first run ---- */

static void check(const char *const *entries, const char *mode, const char *want) {
  env_run(&run, entries, mode, NULL);
  ENV_CHECK(&run, run.status == 0 && strstr(run.out, want) != NULL, "%s %s: want %s", entries[0],
    mode, want);
}

static void check_schedule(const char *const *entries, const char *at_once, const char *rest) {
  char want[64];
  snprintf(want, sizeof(want), "at-once %s\n", at_once);
  check(entries, "schedule", rest);
  if (strstr(run.out, "slow") == NULL) ENV_CHECK(&run, strstr(run.out, want) != NULL, "%s",
    entries[0]);
}

int main(int argc, char **argv) {
  (void)argc;
  const char *mode = argv[1] != NULL ? argv[1] : "";
  if (strcmp(mode, "schedule") == 0) return show_schedule();
  if (strcmp(mode, "pieces") == 0) return show_pieces();
  if (strcmp(mode, "lazy") == 0) return show_lazy();
  if (mi_test_rss_kib() == 0) return MI_TEST_SKIP; /* no smaps_rollup */
  const char *sanitizers = getenv("MI_TEST_SANITIZE");
  if (sanitizers != NULL && *sanitizers != 0) return MI_TEST_SKIP;
    /* they keep memory of their own */
#define ALONE "MIMALLOC_SCAVENGER=0"

  check_schedule(ENV("MIMALLOC_PURGE_DELAY=0", ALONE), "gone", "later gone\nforced gone\n");
  check_schedule(ENV("MIMALLOC_PURGE_DELAY=100", ALONE), "here", "later gone\nforced gone\n");
  check_schedule(ENV("MIMALLOC_VERBOSE=0", ALONE), "here", "later gone\nforced gone\n");
  check_schedule(ENV("MIMALLOC_PURGE_DELAY=-1", ALONE), "here", "later here\nforced gone\n");
  check_schedule(ENV("MIMALLOC_PURGE_DELAY=100000", ALONE), "here", "later here\nforced gone\n");
  check_schedule(ENV("MIMALLOC_PURGE_DELAY=100", "MIMALLOC_ARENA_PURGE_MULT=1000", ALONE), "here",
                 "later here\nforced gone\n");
  check(ENV("MIMALLOC_PURGE_DELAY=10", ALONE), "pieces", "pieces gone\nall gone\n");
  check(ENV("MIMALLOC_MINIMAL_PURGE_SIZE=8M", "MIMALLOC_PURGE_DELAY=10", ALONE), "pieces",
    "pieces here\nall gone\n");
  check(ENV("MIMALLOC_PURGE_DECOMMITS=0", "MIMALLOC_PURGE_DELAY=10", ALONE), "lazy", "lazy yes\n");
  check(ENV("MIMALLOC_PURGE_DELAY=10", ALONE), "lazy", "lazy no\n");
  return 0;
}
