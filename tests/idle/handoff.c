/* SPDX-License-Identifier: MIT */
/* Parks of one thread: when the background thread is made, what it blocks, that every park is swept
 * in its time, that blocks stay whole, calls out of order, and the end of it all.
 *
 * The purge delay is so long that nothing goes by itself here: what goes, a sweep has brought
 * forward. */
#include "idle/idle.h"

enum { N = 20000, SIZE = 512 };
#define SOME ((size_t)4 * BEHAVE_MiB) /* of what a thinned herd leaves free */

static unsigned interval = 100;
static bool parks; /* there is a background thread */

static void check_start(void) {
  free(malloc(100));
  CHECK(look_at_tasks().n_scavengers == 0);
  parks = mi_on_thread_idle_start();
  if (!parks) {
    CHECK(look_at_tasks().n_scavengers == 0);
    return;
  }
  wait_scavenger();
  CHECK(look_at_tasks().n_scavengers == 1);
  char text[64];
  CHECK(scavenger_field("\nSigBlk:", text, sizeof text));
  unsigned long long blocked = strtoull(text, NULL, 16);
#define IS_BLOCKED(signal) ((blocked >> ((signal) - 1) & 1) != 0)
  CHECK(IS_BLOCKED(SIGTERM) && IS_BLOCKED(SIGINT) && IS_BLOCKED(SIGUSR1) && IS_BLOCKED(SIGALRM));
  CHECK(!IS_BLOCKED(SIGSEGV) && !IS_BLOCKED(SIGBUS));
  mi_on_thread_idle_end();
  sigset_t mine;
  CHECK(sigprocmask(SIG_BLOCK, NULL, &mine) == 0 && !sigismember(&mine, SIGTERM));
}

static void check_sweep_and_survivors(void) {
  struct herd h = herd_make(N, SIZE, 1);
  size_t before = purged_at_rest();
  herd_fill(&h);
  herd_thin(&h);
  behave_sleep_ms(interval + 5);
  bool parked = mi_on_thread_idle_start();
  CHECK(parked == parks);
  if (parked) {
    EXPECT_PURGED(before + SOME, "a park was not swept");
    mi_on_thread_idle_end();
  } else {
    behave_sleep_ms(50);
    CHECK(purged() == before); /* it does not sweep in secret */
    mi_on_thread_idle();
    EXPECT_PURGED(before + SOME, "an idle point gave nothing back");
  }
  herd_verify(&h);
  herd_fill(&h);
  herd_verify(&h);
  herd_end(&h);
}

static void check_unbalanced(void) {
  mi_on_thread_idle_end();
  CHECK(mi_on_thread_idle_start() == parks);
  CHECK(mi_on_thread_idle_start() == parks);
  mi_on_thread_idle_end();
  mi_on_thread_idle_end();
  void *p = malloc(64);
  CHECK(p != NULL);
  CHECK(mi_on_thread_idle_start() == parks);
  void *q = malloc(64); /* the promise is broken, no block is */
  CHECK(q != NULL && q != p);
  free(p);
  CHECK(mi_on_thread_idle_start() == parks);
  free(q);
  mi_on_thread_idle_end();
}

static void *never_allocated(void *arg) {
  (void)arg;
  size_t before = purged();
  mi_on_thread_idle();
  CHECK(purged() == before);
  bool parked = mi_on_thread_idle_start();
  mi_on_thread_idle_end();
  return (void *)(uintptr_t)(parked ? 1 : 0);
}

/* Memory that only a sweep gives back: one block stays in its thread until then. */
static void make_work(struct herd *h) {
  herd_fill(h);
  herd_thin(h);
}

static void check_spaced(void) {
  struct herd h = herd_make(N, SIZE, 2);
  size_t rounds = mi_test_scale(5, 20);
  for (size_t round = 0; round < rounds; round++) {
    size_t before = purged_at_rest();
    make_work(&h);
    behave_sleep_ms(interval + 5);
    CHECK(mi_on_thread_idle_start());
    EXPECT_PURGED(before + SOME, "park %zu of %zu was not swept", round, rounds);
    mi_on_thread_idle_end();
  }
  herd_end(&h);
}

static void check_within_interval(void) {
  struct herd h = herd_make(N, SIZE, 3);
  for (size_t round = 0; round < mi_test_scale(3, 10); round++) {
    size_t before = purged_at_rest();
    make_work(&h);
    behave_sleep_ms(interval + 5);
    CHECK(mi_on_thread_idle_start());
    EXPECT_PURGED(before + SOME, "the first park was not swept");
    mi_on_thread_idle_end();
    before = purged_at_rest();
    make_work(&h);
    CHECK(mi_on_thread_idle_start());
    EXPECT_PURGED(before + SOME, "a park within the interval was dropped");
    mi_on_thread_idle_end();
  }
  herd_end(&h);
}

/* Long parks, each at another time after the one before, so that some begin just where the
 * background thread is about to sleep; parks that are over before they are swept in between. */
static void check_any_phase(void) {
  enum { SHORT_INTERVAL = 20 };
  mi_option_set(mi_option_purge_holes_min_interval, SHORT_INTERVAL);
  uint64_t rng = behave_seed();
  size_t rounds = mi_test_scale(25, 400);
  for (size_t round = 0; round < rounds; round++) {
    char *p = malloc(BEHAVE_MiB);
    CHECK(p != NULL);
    touch(p, BEHAVE_MiB);
    for (uint64_t n = behave_random(&rng) % 3; n > 0; n--) {
      CHECK(mi_on_thread_idle_start());
      usleep((useconds_t)(behave_random(&rng) % (2000 * SHORT_INTERVAL)));
      mi_on_thread_idle_end();
    }
    size_t before = purged();
    free(p);
    CHECK(mi_on_thread_idle_start());
    EXPECT_PURGED(before + BEHAVE_MiB, "long park %zu was not swept", round);
    usleep((useconds_t)(behave_random(&rng) % 2000));
    mi_on_thread_idle_end();
    usleep((useconds_t)(behave_random(&rng) % 300));
  }
  mi_option_set(mi_option_purge_holes_min_interval, interval);
}

/* A park that begins just when the background thread has looked, and is about to sleep. */
static void check_back_to_back(void) {
  mi_option_set(mi_option_purge_holes_min_interval, 0);
  size_t rounds = mi_test_scale(1500, 30000);
  for (size_t round = 0; round < rounds; round++) {
    size_t before = purged();
    char *p = malloc(BEHAVE_MiB);
    CHECK(p != NULL);
    p[0] = 1;
    free(p);
    CHECK(mi_on_thread_idle_start());
    for (uint64_t end = now_ms() + MI_TEST_PATIENCE_MS; purged() < before + BEHAVE_MiB;) {
      if (now_ms() > end) FAIL("park %zu after park was not swept", round);
    }
    for (size_t spin = round * 377 % 30000; spin > 0; spin--) __asm__ volatile("");
    mi_on_thread_idle_end();
  }
  mi_option_set(mi_option_purge_holes_min_interval, interval);
}

static void check_stop(void) {
  mi_scavenger_stop();
  CHECK(look_at_tasks().n_scavengers == 0);
  CHECK(!mi_on_thread_idle_start());
  mi_scavenger_stop();
  CHECK(!mi_on_thread_idle_start());
  mi_on_thread_idle_end();
  struct herd h = herd_make(N, SIZE, 4);
  size_t before = purged_at_rest();
  make_work(&h);
  mi_on_thread_idle();
  if (purged() < before + SOME) FAIL("an idle point gives nothing back after the thread's end");
  CHECK(look_at_tasks().n_scavengers == 0);
  herd_end(&h);
}

static int run(const char *mode) {
  behave_limit(120);
  if (strcmp(mode, "eager") == 0) interval = 0;
  check_start();
  if (strcmp(mode, "alone") == 0) CHECK(!parks);
  else if (!parks) SKIP("there is no background thread");
  (void)purged_at_rest(); /* the park above may have been swept, and left something to a pass */
  pthread_t t = start(never_allocated, NULL);
  void *was_parked;
  CHECK(pthread_join(t, &was_parked) == 0);
  if (was_parked != NULL) FAIL("a thread that never allocated was parked");
  check_sweep_and_survivors();
  check_unbalanced();
  if (parks) {
    check_spaced();
    if (interval > 0) check_within_interval();
    if (interval > 0) check_any_phase();
    if (interval == 0) check_back_to_back();
  }
  check_stop();
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1) return run(argv[1]);
#define LATE "MIMALLOC_PURGE_DELAY=100000"
  run_with(WITH(LATE), "default");
  run_with(WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", LATE), "eager");
  run_with(WITH("MIMALLOC_SCAVENGER=0", LATE), "alone");
  return 0;
}
