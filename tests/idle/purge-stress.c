/* SPDX-License-Identifier: MIT */
/* Nothing that was freed stays. Threads work in rounds, and then just stop. Nobody calls anything, and within moments all
 * of the arenas must be free, purged, without a mark, and without a time that nobody will look at.
 *   load   each thread allocates and frees blocks of 1 to 8 MiB, with and without collects and parks
 *   parks  the threads park with small blocks, which another thread frees while one more forks, so that sweeps are cut
 *          short
 *   quick  each thread frees one block, some then collect or are idle, at about the same time: what is freed last meets
 *          the last pass. Many of these; only the times are looked at, at once
 *
 * Linked with the library's internals, which tell these apart. purge-faults.sh shows that it finds the faults of
 * MI_BAD_PURGE (src/base/check.h).
 *
 * MI_STRESS_SECONDS  how long, in a stress run; MI_STRESS_THREADS  how many (8 to 16 by the seed)
 * MI_TEST_SEED       the choices of each thread follow from it
 * Threads: worker i owns row i of `blocks` but for the middle of a round with parks, when the main thread has all. */
#include "arena/types.h"
#include "heap/thread.h"
#include "os/os.h"
#include "thread/behave.h"
#include "common.h"
#include <pthread.h>
#include <sys/wait.h>

enum { MOST_THREADS = 16, HELD = 4, N_SMALL = 400, SMALL = 8 * 1024, DELAY_MS = 10, WAIT_MS = 10000, N_ARENAS = 200 };

struct worker {
  pthread_t thread;
  uint64_t rng;
  void *held[HELD];
  void *small[N_SMALL];
};

static struct worker workers[MOST_THREADS];
static unsigned n_threads;
static pthread_barrier_t gate;
static enum { LOAD, PARKS, QUICK } kind;
static bool is_last;
static _Atomic bool forking;
static _Atomic unsigned long n_steps;

/* ---- what is left ---- */

struct left {
  size_t used, marked, unpurged, armed, unscheduled; /* slices; arenas */
};

/* With the guard, so that no pass is on its way. What is read of frees on their way is looked at again. */
static struct left what_is_left(void) {
  struct left left = {0, 0, 0, 0, 0};
  mi__purge_keep_out();
  struct mi__arenas *set = mi__arenas_main();
  struct mi__arena *arena = mi__arenas_first(set);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    for (size_t c = 0; c < arena->slices.n_chunks; c++) {
      const struct mi__chunk *chunk = &arena->slices.chunks[c];
      uint64_t used = mi__load(&chunk->xused, relaxed), free_ = ~used;
      uint64_t marked = (mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed)) & free_;
      left.used += (size_t)__builtin_popcountll(used & ~chunk->outside);
      left.marked += (size_t)__builtin_popcountll(marked);
      left.unpurged += (size_t)__builtin_popcountll(mi__load(&chunk->xcommitted, relaxed) & free_ & ~marked);
    }
    left.armed += mi__load(&arena->xexpire, relaxed) != 0;
  }
  if (mi__load(&set->xexpire, relaxed) == 0) left.unscheduled = left.armed;
  mi__purge_let_in();
  return left;
}

static bool is_clean(struct left left) { return left.used + left.marked + left.unpurged + left.armed == 0; }

static bool is_scheduled(struct left left) { return left.unscheduled == 0; }

static void wait_until(bool (*is_good)(struct left), uint64_t most_ms, unsigned long round) {
  struct left left;
  uint64_t end = mi__os_clock_ms() + most_ms;
  while (!is_good(left = what_is_left())) {
    if (mi__os_clock_ms() < end) {
      usleep(1000);
      continue;
    }
    static const char *const names[] = {"load", "parks", "quick"};
    fprintf(stderr,
            "round %lu, %s, %u threads: after %d ms %zu slices are used, %zu are free and marked, %zu are free and neither "
            "marked nor purged; %zu arenas are armed, %zu of them with a schedule of 0\n",
            round, names[kind], n_threads, (int)most_ms, left.used, left.marked, left.unpurged, left.armed,
            left.unscheduled);
    exit(1);
  }
}

/* ---- the threads ---- */

static void replace(struct worker *w, size_t most) {
  void **at = &w->held[behave_random(&w->rng) % HELD];
  mi_free(*at);
  size_t size = behave_random_size(&w->rng, 1 * BEHAVE_MiB, most);
  char *p = *at = behave_random(&w->rng) % 3 == 0 ? NULL : mi_malloc(size);
  if (p == NULL) return;
  for (size_t i = 0; i < size; i += 16 * MI_SLICE_SIZE) p[i] = 1;
}

static void idle(struct worker *w) {
  switch (behave_random(&w->rng) % 4) {
  case 0: mi_collect(true); break;
  case 1: mi_collect(false); break;
  case 2: mi_on_thread_idle(); break;
  default:
    (void)mi_on_thread_idle_start();
    usleep((useconds_t)(behave_random(&w->rng) % 2000));
    mi_on_thread_idle_end();
  }
}

/* The last steps are frees alone, spread over the time in which passes go on. */
static void load(struct worker *w) {
  static const unsigned once_in[] = {0, 3, 10, 100};
  unsigned every = once_in[behave_random(&w->rng) % 4];
  uint64_t end = mi__os_clock_ms() + 1 + behave_random(&w->rng) % (2 * DELAY_MS);
  unsigned n = 0;
  for (; mi__os_clock_ms() < end; n++) {
    replace(w, 8 * BEHAVE_MiB);
    if (every != 0 && behave_random(&w->rng) % every == 0) idle(w);
  }
  for (unsigned i = 0; i < HELD; i++) {
    if (behave_random(&w->rng) % 2 == 0) usleep((useconds_t)(behave_random(&w->rng) % 4000));
    mi_free(w->held[i]);
    w->held[i] = NULL;
  }
  n_steps += n;
}

static void spin(uint64_t n) {
  for (; n != 0; n--) mi__relax();
}

static void quick(struct worker *w) {
  uint64_t dice = behave_random(&w->rng);
  replace(w, 2 * BEHAVE_MiB);
  spin(dice >> 8 & 1023);
  if (dice % 4 == 0) mi_on_thread_idle();
  if (dice % 16 == 1) mi_collect(true);
  spin(dice >> 20 & 1023);
  for (unsigned i = 0; i < HELD; i++) {
    mi_free(w->held[i]);
    w->held[i] = NULL;
  }
}

static void park_with_blocks(struct worker *w) {
  for (unsigned i = 0; i < N_SMALL; i++) {
    char *p = w->small[i] = mi_malloc(SMALL);
    if (p != NULL) *p = 1;
  }
  CHECK(mi_on_thread_idle_start());
}

static void *work(void *arg) {
  struct worker *w = arg;
  for (;;) {
    (void)pthread_barrier_wait(&gate);
    mi_on_thread_idle_end();
    if (is_last) return NULL;
    if (kind == LOAD) load(w);
    if (kind == PARKS) park_with_blocks(w);
    if (kind == QUICK) quick(w);
    (void)pthread_barrier_wait(&gate);
  }
}

/* ---- rounds ---- */

static void *fork_on(void *arg) {
  (void)arg;
  while (forking) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
  }
  return NULL;
}

static void free_of_the_parked(uint64_t *rng) {
  pthread_t forker;
  forking = true;
  CHECK(pthread_create(&forker, NULL, fork_on, NULL) == 0);
  for (unsigned i = 0; i < N_SMALL; i++) {
    for (unsigned k = 0; k < n_threads; k++) mi_free(workers[k].small[i]);
    if (behave_random(rng) % 128 == 0) usleep(1000);
  }
  mi__run_flush(mi__thread_self(false));
  usleep(2000 * (useconds_t)mi_option_get(mi_option_purge_holes_min_interval));
  forking = false;
  CHECK(pthread_join(forker, NULL) == 0);
}

static void one_round(unsigned long round, uint64_t *rng) {
  kind = round % 256 == 0 ? LOAD : round % 256 == 128 ? PARKS : QUICK;
  (void)pthread_barrier_wait(&gate); /* they begin */
  (void)pthread_barrier_wait(&gate); /* they stop, or are parked */
  if (kind == PARKS) free_of_the_parked(rng);
  if (kind == QUICK) wait_until(is_scheduled, 2000, round); /* a free of the background thread may be on its way */
  else wait_until(is_clean, WAIT_MS, round);
}

static void set_options(void) {
  mi_option_set(mi_option_purge_delay, DELAY_MS);
  mi_option_set(mi_option_purge_holes_min_interval, DELAY_MS / 2);
  /* The first arenas are used most, and a pass takes longer from its last look at them to its end. */
  for (unsigned i = 0; i < N_ARENAS; i++) CHECK(mi_reserve_os_memory(4 * BEHAVE_MiB, true, false) == 0);
}

int main(void) {
  const char *given = getenv("MI_TEST_SEED"), *threads = getenv("MI_STRESS_THREADS");
  uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)getpid(), rng = seed | 1;
  unsigned seconds = mi_test_seconds(2, 10);
  n_threads = threads != NULL ? (unsigned)atoi(threads) : 8 + (unsigned)(behave_random(&rng) % 9);
  CHECK(n_threads >= 1 && n_threads <= MOST_THREADS);
  printf("MI_TEST_SEED=%llu, %u threads, %u s\n", (unsigned long long)seed, n_threads, seconds);
  fflush(stdout);
  set_options();
  mi_free(mi_malloc(1)); /* it has no page afterwards, and needs none for what it frees */
  mi_collect(true);
  CHECK(pthread_barrier_init(&gate, NULL, n_threads + 1) == 0);
  for (unsigned k = 0; k < n_threads; k++) {
    workers[k].rng = (seed * 64 + k) * 0x9E3779B97F4A7C15u | 1;
    CHECK(pthread_create(&workers[k].thread, NULL, work, &workers[k]) == 0);
  }
  unsigned long round = 0;
  for (uint64_t end = mi__os_clock_ms() + seconds * 1000; mi__os_clock_ms() < end; round++) one_round(round, &rng);
  is_last = true;
  (void)pthread_barrier_wait(&gate);
  for (unsigned k = 0; k < n_threads; k++) CHECK(pthread_join(workers[k].thread, NULL) == 0);
  printf("%lu rounds, %lu steps\n", round, (unsigned long)n_steps);
  return 0;
}
