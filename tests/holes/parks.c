/* SPDX-License-Identifier: MIT */
/* Holes made in parks, by the background thread: that every park has its own, blocks stay whole, others free meanwhile, the
 * process forks; and holes in mi_purge_all: of running, parked and ended threads. */
#include "holes/holes.h"

enum { N_BLOCKS = 20000, BLOCK = 512, N_THREADS = 4 };

static unsigned interval_ms(void) { return (unsigned)mi_option_get(mi_option_purge_holes_min_interval); }

/* Wait until holes were made since `before`. With holes off: a moment. */
static void expect_holes(const counts *before, const char *what) {
  uint64_t end = now_ms() + MI_TEST_PATIENCE_MS;
  if (!holes_on()) {
    behave_sleep_ms(20);
    check_nothing_moved();
    return;
  }
  while (look().discard_calls == before->discard_calls) {
    if (now_ms() > end) FAIL("%s: nothing was discarded", what);
    behave_sleep_ms(1);
  }
}

static struct batch thinned(uint64_t tag) {
  struct batch b = batch_new(N_BLOCKS, BLOCK, tag);
  (void)batch_keep_each(&b, keep_every(BLOCK));
  return b;
}

/* ---- parks ---- */

static void check_park(void) {
  idle_skip_without_parks();
  struct batch b = thinned(1);
  behave_sleep_ms(interval_ms() + 5);
  counts before = look();
  CHECK(mi_on_thread_idle_start());
  expect_holes(&before, "a park");
  mi_on_thread_idle_end();
  batch_verify(&b);
  batch_fill(&b);
  batch_verify(&b);
  batch_end(&b);
}

static void check_spaced(void) {
  idle_skip_without_parks();
  for (size_t round = 0; round < mi_test_scale(2, 20); round++) {
    struct batch b = thinned(round);
    behave_sleep_ms(interval_ms() + 5);
    counts before = look();
    CHECK(mi_on_thread_idle_start());
    expect_holes(&before, "a spaced park");
    mi_on_thread_idle_end();
    batch_fill(&b);
    (void)batch_keep_each(&b, keep_every(BLOCK));
    before = look();
    CHECK(mi_on_thread_idle_start());
    expect_holes(&before, "a park within the interval");
    mi_on_thread_idle_end();
    batch_end(&b);
  }
}

/* Others free every other survivor while the owner is parked and swept. */
static void *free_even(void *arg) {
  struct batch *b = arg;
  for (size_t i = 0; i < b->n; i += 2)
    if (b->block[i] != NULL) batch_free(b, i);
  return NULL;
}
static void check_third_party(void) {
  idle_skip_without_parks();
  for (size_t round = 0; round < mi_test_scale(3, 20); round++) {
    struct batch b = batch_new(N_BLOCKS / 4, BLOCK, round);
    (void)batch_keep_each(&b, 3);
    CHECK(mi_on_thread_idle_start());
    in_thread(free_even, &b);
    mi_on_thread_idle_end();
    batch_verify(&b);
    batch_fill(&b);
    batch_end(&b);
  }
}

/* Fork while parked and swept: the child fills all that is free, and nothing is given out twice. */
static void check_fork(void) {
  idle_skip_without_parks();
  if (BEHAVE_SANITIZED) SKIP("a sanitizer has threads of its own");
  for (unsigned round = 0; round < mi_test_scale(3, 16); round++) {
    struct batch b = thinned(round);
    CHECK(mi_on_thread_idle_start());
    usleep(150 + 37 * round % 400);
    pid_t pid = fork_for(60);
    if (pid == 0) {
      mi_on_thread_idle_end();
      batch_verify(&b);
      batch_fill(&b);
      batch_verify(&b);
      mi_on_thread_idle();
      batch_verify(&b);
      _exit(0);
    }
    expect_exit(pid, "a child of a parked thread");
    mi_on_thread_idle_end();
    batch_verify(&b);
    batch_end(&b);
  }
}

/* ---- mi_purge_all ---- */

static struct worker {
  struct batch b;
  pthread_t thread;
  atomic_bool ready;
} workers[N_THREADS];
static atomic_bool go, stop;
enum how { BY_ITSELF, BUSY, PARKED };
static enum how how;
static atomic_int n_idled;

static void *work(void *arg) {
  struct worker *w = arg;
  w->b = thinned((uintptr_t)(w - workers));
  w->ready = true;
  if (how == PARKED && !mi_on_thread_idle_start()) SKIP("there is no background thread");
  while (!go) behave_sleep_ms(1);
  if (how == BY_ITSELF) mi_on_thread_idle();
  n_idled++;
  while (!stop) {
    if (how == BUSY) {
      void *p[64];
      for (int i = 0; i < 64; i++) CHECK((p[i] = malloc(3000)) != NULL);
      for (int i = 0; i < 64; i++) free(p[i]);
    } else {
      behave_sleep_ms(1);
    }
  }
  mi_on_thread_idle_end();
  batch_verify(&w->b);
  batch_end(&w->b);
  return NULL;
}
static void start_workers(enum how as) {
  how = as;
  go = stop = false;
  n_idled = 0;
  for (int i = 0; i < N_THREADS; i++) {
    workers[i].ready = false;
    workers[i].thread = start(work, &workers[i]);
  }
  for (int i = 0; i < N_THREADS; i++)
    while (!workers[i].ready) behave_sleep_ms(1);
}
static void join_workers(void) {
  stop = true;
  for (int i = 0; i < N_THREADS; i++) join(workers[i].thread);
}

static size_t ever(void) {
  counts now = look();
  return now.purged_bytes_total;
}

static void check_purge_all(void) {
  start_workers(BY_ITSELF); /* what they can give */
  size_t before = ever();
  go = true;
  while (n_idled < N_THREADS) behave_sleep_ms(1);
  size_t reference = ever() - before;
  if (holes_on()) CHECK(reference >= BEHAVE_MiB);
  join_workers();
  for (enum how as = BUSY; as <= PARKED; as++) {
    before = ever(); /* parks may be swept before they are asked for it */
    start_workers(as);
    go = true;
    mi_purge_all_report_t report;
    int result = mi_purge_all_ex(MI_PURGE_FORCE, 60000, &report);
    CHECK(result == MI_PURGE_OK);
    size_t went = ever() - before;
    if (holes_on() && went < reference / 10 * 9)
      FAIL("%s: %zu KiB in holes, %zu by themselves", as == BUSY ? "busy" : "parked", went / 1024, reference / 1024);
    if (holes_on() && as == BUSY) CHECK(report.hole_bytes >= went / 10 * 9);
    if (!holes_on()) CHECK(report.hole_bytes == 0);
    join_workers();
  }
}

static struct batch left;
static void *leave(void *arg) {
  mi_heap_t *heap = arg;
  left = batch_make(N_BLOCKS, BLOCK, 9);
  for (size_t i = 0; i < left.n; i++) {
    CHECK((left.block[i] = heap == NULL ? malloc(BLOCK) : mi_heap_malloc(heap, BLOCK)) != NULL);
    behave_fill(left.block[i], BLOCK, left.tag + i);
  }
  (void)batch_keep_each(&left, keep_every(BLOCK));
  return NULL;
}

/* What ended threads left, in the main heap and in another, is no matter of a collection. */
static void check_abandoned(void) {
  for (int own = 0; own < 2; own++) {
    mi_heap_t *heap = own ? mi_heap_new() : NULL;
    counts before = look();
    in_thread(leave, heap);
    mi_collect(true);
    counts after = look();
    SAME(before, after, purged_bytes_total);
    CHECK(mi_purge_all(true) == MI_PURGE_OK);
    after = look();
    MORE_BY(before, after, purged_bytes_total, BEHAVE_MiB);
    batch_verify(&left);
    if (own) {
      mi_heap_destroy(heap);
      after = look();
      SAME(before, after, purged_bytes);
      SAME(before, after, purged_blocks);
      batch_forget(&left);
    } else {
      batch_end(&left);
      mi_collect(true);
    }
  }
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {
      {"park", check_park, {0}, false},
      {"spaced", check_spaced, {0}, false},
      {"eager", check_spaced, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"}, false},
      {"third party", check_third_party, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"}, false},
      {"fork", check_fork, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"}, false},
      {"purge all", check_purge_all, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"}, false},
      {"abandoned", check_abandoned, {0}, false},
  };
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all), WITH("MIMALLOC_PURGE_DELAY=100000"));
}
