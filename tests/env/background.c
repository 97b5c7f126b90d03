/* SPDX-License-Identifier: MIT */
/* The options about the background thread: scavenger, and what purge_delay and
 * purge_holes_min_interval mean to it. */
#include "env/frame.h"
#include "mimalloc-stats.h"
#include <dirent.h>
#include <pthread.h>
#include <time.h>

enum { N_BLOCKS = 20, N_SMALL = 32768 };
#define MIB ((size_t)1 << 20)

static struct env_run run;

static void nap(long ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

static bool has_scavenger(void) {
  bool found = false;
  DIR *dir = opendir("/proc/self/task");
  if (dir == NULL) exit(MI_TEST_ERROR);
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof(name), file) != NULL) found |= strcmp(name, "mi-scavenger\n") == 0;
    fclose(file);
  }
  closedir(dir);
  return found;
}

/* Wait for the memory to go: as long as a busy machine may take where it must, and half a second where it must not, which is
 * far from when it would. */
static const char *what_becomes(size_t before, size_t kib, bool goes) {
  for (long ms = goes ? MI_TEST_PATIENCE_MS : 500; ms > 0; ms -= 20) {
    if (mi_test_rss_kib() + kib * 3 / 4 <= before) return "gone";
    nap(20);
  }
  return mi_test_rss_kib() + kib / 8 >= before ? "here" : "partly";
}

/* ---- the second runs ---- */

/* Free much and make no further call of the library. */
static int show_free(bool goes) {
  static char *block[N_BLOCKS];
  for (int i = 0; i < N_BLOCKS; i++) {
    CHECK((block[i] = mi_malloc(MIB)) != NULL);
    memset(block[i], 1, MIB);
  }
  size_t before = mi_test_rss_kib();
  for (int i = 0; i < N_BLOCKS; i++) mi_free(block[i]);
  printf("free %s\n", what_becomes(before, N_BLOCKS * 1024, goes));
  printf("thread %s\n", has_scavenger() ? "yes" : "no");
  printf("start %s\n", mi_on_thread_idle_start() ? "true" : "false");
  mi_on_thread_idle_end();
  printf("then %s\n", has_scavenger() ? "yes" : "no");
  return 0;
}

static bool was_swept(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &stats));
  return stats.purged.total >= (int64_t)MIB;
}

/* A parked thread, of which another one frees the blocks. Nothing but a sweep has memory go here. */
static char *small[N_SMALL];
static pthread_barrier_t barrier;
static void *park(void *arg) {
  for (int i = 0; i < N_SMALL; i++) CHECK((small[i] = mi_malloc(512)) != NULL);
  for (int i = 0; i < N_SMALL; i++) memset(small[i], 1, 512);
  for (int i = 0; i < N_SMALL; i += 8) mi_free(small[i]); /* no page is full */
  char *mark = mi_malloc(MIB);
  CHECK(mark != NULL);
  memset(mark, 1, MIB);
  mi_free(mark);
  CHECK(mi_on_thread_idle_start());
  for (int i = 0; i < MI_TEST_PATIENCE_MS && !was_swept(); i++) nap(1);
  CHECK(was_swept());
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  mi_on_thread_idle_end();
  return arg;
}
static int show_park(bool goes) {
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  CHECK(pthread_create(&thread, NULL, park, NULL) == 0);
  pthread_barrier_wait(&barrier);
  size_t before = mi_test_rss_kib();
  for (int i = 0; i < N_SMALL; i++)
    if (i % 8 != 0) mi_free(small[i]);
  mi_free(mi_malloc(10)); /* the last of them leave this thread's hands */
  printf("park %s\n", what_becomes(before, N_SMALL / 2, goes));
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  return 0;
}

/* ---- the first run ---- */

static void check(const char *const *entries, const char *mode, const char *want) {
  env_run(&run, entries, mode, NULL);
  ENV_CHECK(&run, run.status == 0 && strcmp(run.out, want) == 0, "%s %s: want %s", entries[0], mode,
            want);
}

int main(int argc, char **argv) {
  (void)argc;
  const char *mode = argv[1] != NULL ? argv[1] : "";
  if (strncmp(mode, "free", 4) == 0) return show_free(strcmp(mode, "free-gone") == 0);
  if (strncmp(mode, "park", 4) == 0) return show_park(strcmp(mode, "park-gone") == 0);
  if (mi_test_rss_kib() == 0) return MI_TEST_SKIP; /* no smaps_rollup */
  const char *sanitizers = getenv("MI_TEST_SANITIZE");
  if (sanitizers != NULL && *sanitizers != 0) return MI_TEST_SKIP; /* they keep memory of their own */

  check(ENV("MIMALLOC_VERBOSE=0"), "free-gone", "free gone\nthread yes\nstart true\nthen yes\n");
  check(ENV("MIMALLOC_SCAVENGER=1"), "free-gone", "free gone\nthread yes\nstart true\nthen yes\n");
  check(ENV("MIMALLOC_SCAVENGER=0"), "free-here", "free here\nthread no\nstart false\nthen no\n");
  check(ENV("MIMALLOC_PURGE_DELAY=0"), "free-gone", "free gone\nthread no\nstart false\nthen no\n");
  check(ENV("MIMALLOC_PURGE_DELAY=-1"), "free-here", "free here\nthread no\nstart false\nthen no\n");
  check(ENV("MIMALLOC_PURGE_DELAY=100000"), "free-here", "free here\nthread yes\nstart true\nthen yes\n");
#define LATE "MIMALLOC_PURGE_DELAY=100000"
  check(ENV("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=20", LATE), "park-gone", "park gone\n");
  check(ENV("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", LATE), "park-gone", "park gone\n");
  check(ENV("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=100000", LATE), "park-here", "park here\n");
  return 0;
}
