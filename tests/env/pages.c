/* SPDX-License-Identifier: MIT */
/* The options about what becomes of pages: page_full_retain, page_max_candidates,
 * page_reclaim_on_free, page_max_reclaim, page_cross_thread_max_reclaim, generic_collect, and
 * purge_delay for empty pages that wait to be used again. A page holds 8 blocks of 8 KiB and is
 * 64 KiB of address space; the statistics tell what happened. */
#include "env/frame.h"
#include <mimalloc-stats.h>
#include <pthread.h>

enum { BLOCK = 8 * 1024, PER_PAGE = 8, MOST = 16 };

static struct env_run run;
static char *blocks[MOST][PER_PAGE];

static char text[16384];
static void add_text(const char *line, void *arg) {
  (void)arg;
  if (strlen(text) + strlen(line) < sizeof(text)) strcat(text, line);
}

/* The number behind a name. */
static long statistic(const char *name) {
  text[0] = 0;
  mi_stats_print_out(add_text, NULL);
  const char *at = strstr(text, name);
  if (at == NULL) {
    fprintf(stderr, "no \"%s\" in the statistics:\n%s", name, text);
    exit(1);
  }
  return strtol(at + strlen(name), NULL, 10);
}
#define GIVEN_UP "full pages abandoned"
#define BY_FREE "abandoned pages taken over by a free"
#define BY_REFILL "abandoned pages taken over by a refill"
#define GIVEN_BACK "empty pages given back"

static char *take(size_t size) {
  char *p = mi_malloc(size);
  CHECK(p != NULL);
  p[0] = 1;
  return p;
}
static void take_pages(int n) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < PER_PAGE; k++) {
      blocks[i][k] = take(BLOCK);
      CHECK(((uintptr_t)blocks[i][k] ^ (uintptr_t)blocks[i][0]) >> 16 == 0);
    }
  }
}
static void free_page(int i) {
  for (int k = 0; k < PER_PAGE; k++) mi_free(blocks[i][k]);
}

static int n_pages; /* what the thread takes, or frees */
static void *take_in_thread(void *arg) {
  take_pages(n_pages);
  return arg;
}
static void *free_in_thread(void *arg) {
  for (int i = 0; i < n_pages; i++) free_page(i);
  return arg;
}
static void in_thread(void *(*act)(void *), int n) {
  pthread_t thread;
  n_pages = n;
  if (pthread_create(&thread, NULL, act, NULL) != 0) exit(MI_TEST_ERROR);
  pthread_join(thread, NULL);
}
/* Slow paths of another size class, enough for the clock to be looked at. */
static void pass_time(int n) {
  for (int i = 0; i < n; i++) take(64 * 1024);
}

/* ---- the second runs ---- */

static int show_retain(void) {
  take_pages(10); /* 9 full ones, and the one in use */
  printf("%ld", statistic(GIVEN_UP));
  return 0;
}

/* Ten pages of which each block is replaced in turn: what was given up comes back by this thread's
 * own frees, and is kept then. */
static int show_replace(void) {
  take_pages(10);
  for (int k = 0; k < PER_PAGE; k++) {
    for (int i = 0; i < 10; i++) mi_free(blocks[i][k]);
    for (int i = 0; i < 10; i++) blocks[i][k] = take(BLOCK);
  }
  printf("%s", statistic(GIVEN_UP) <= 2 * 10 ? "few" : "many");
  return 0;
}

/* Pages with 3, 2, 4, 5, 1, 6 free blocks: which of them is next? */
static int show_candidates(void) {
  static const int n_free[] = { 3, 2, 4, 5, 1, 6 };
  take_pages(6);
  take(BLOCK);
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < n_free[i]; k++) mi_free(blocks[i][k]);
  for (int k = 1; k < PER_PAGE; k++) take(BLOCK);
  uintptr_t p = (uintptr_t)take(BLOCK);
  for (int i = 0; i < 6; i++)
    if (p >> 16 == (uintptr_t)blocks[i][0] >> 16) printf("%d", i);
  return 0;
}

/* Pages that this thread gave up because they were full. */
static int show_own(void) {
  take_pages(5);
  for (int i = 0; i < 4; i++) mi_free(blocks[i][0]);
  printf("%ld", statistic(BY_FREE));
  return 0;
}

/* Pages that another thread left behind. */
static int show_foreign(void) {
  take(16);
  in_thread(take_in_thread, 4);
  for (int i = 0; i < 4; i++) mi_free(blocks[i][0]);
  mi_collect(false);
  printf("%ld", statistic(BY_FREE));
  return 0;
}

static int show_refill(void) {
  take(16);
  in_thread(take_in_thread, 4);
  for (int i = 0; i < 4; i++) mi_free(blocks[i][0]);
  mi_collect(false);
  for (int i = 0; i < 4; i++) take(BLOCK);
  printf("%ld", statistic(BY_REFILL));
  return 0;
}

/* What another thread freed lies in full pages until a collection looks at them all. */
static int show_collect(void) {
  take_pages(6);
  take(BLOCK);
  in_thread(free_in_thread, 6);
  pass_time(300);
  printf("%s", statistic(GIVEN_BACK) >= 5 ? "all" : statistic(GIVEN_BACK) == 0 ? "none" : "some");
  return 0;
}

/* An empty page: at once, after a while, after a forced collection. */
static int show_slot(void) {
  take_pages(1);
  take(BLOCK);
  free_page(0);
  printf("%ld", statistic(GIVEN_BACK));
  for (int i = 0; i < 3; i++) {
    usleep(110000);
    pass_time(40);
  }
  printf(" %ld", statistic(GIVEN_BACK));
  mi_collect(true);
  printf(" %ld", statistic(GIVEN_BACK));
  return 0;
}

static const struct {
  const char *name;
  int (*show)(void);
} modes[] = {
  { "retain", show_retain },   { "candidates", show_candidates }, { "own", show_own },
  { "foreign", show_foreign }, { "refill", show_refill },         { "collect", show_collect },
  { "slot", show_slot },       { "replace", show_replace },
};

/* ---- the first run ---- */

static void check(const char *const *entries, const char *mode, const char *want) {
  env_run(&run, entries, mode, NULL);
  ENV_CHECK(&run, run.status == 0 && strcmp(run.out, want) == 0, "%s %s: want %s", entries[0],
    mode, want);
}

#define ALONE "MIMALLOC_SCAVENGER=0"
#define DEFAULT ENV(ALONE)
#define WITH(variable) ENV("MIMALLOC_" variable, ALONE)
#define BOTH(variable, other) ENV("MIMALLOC_" variable, "MIMALLOC_" other, ALONE)

int main(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
    if (strcmp(argv[1], modes[i].name) == 0) return modes[i].show();

  mi_test_not_tracked(); /* counts the blocks of a page */
  check(DEFAULT, "retain", "7");
  check(WITH("PAGE_FULL_RETAIN=0"), "retain", "9");
  check(WITH("PAGE_FULL_RETAIN=5"), "retain", "4");
  check(WITH("PAGE_FULL_RETAIN=100"), "retain", "0");

  check(DEFAULT, "replace", "few");
  check(WITH("PAGE_FULL_RETAIN=0"), "replace", "many");
  check(WITH("PAGE_RECLAIM_ON_FREE=-1"), "replace", "many"); /* by refills */

#define KEEP "PAGE_FULL_RETAIN=100"
  check(WITH(KEEP), "candidates", "1"); /* the fullest of four */
  check(BOTH("PAGE_MAX_CANDIDATES=10", KEEP), "candidates", "4");
  check(BOTH("PAGE_MAX_CANDIDATES=1", KEEP), "candidates", "0");
  check(BOTH("PAGE_MAX_CANDIDATES=0", KEEP), "candidates", "0");

#define GIVE_UP "PAGE_FULL_RETAIN=0"
  check(WITH(GIVE_UP), "own", "4");
  check(BOTH("PAGE_RECLAIM_ON_FREE=-1", GIVE_UP), "own", "0");
  check(BOTH("PAGE_RECLAIM_ON_FREE=1", GIVE_UP), "own", "4");
  check(BOTH("PAGE_MAX_RECLAIM=0", GIVE_UP), "own", "0");
  check(BOTH("PAGE_MAX_RECLAIM=3", GIVE_UP), "own", "2"); /* and the one in use */

#define TAKE_OVER "PAGE_RECLAIM_ON_FREE=1"
  check(DEFAULT, "foreign", "0");
  check(WITH("PAGE_RECLAIM_ON_FREE=-1"), "foreign", "0");
  check(WITH(TAKE_OVER), "foreign", "4");
  check(BOTH("PAGE_CROSS_THREAD_MAX_RECLAIM=0", TAKE_OVER), "foreign", "0");
  check(BOTH("PAGE_CROSS_THREAD_MAX_RECLAIM=3", TAKE_OVER), "foreign", "3");
  check(BOTH("PAGE_CROSS_THREAD_MAX_RECLAIM=-1", TAKE_OVER), "foreign", "4");

  check(DEFAULT, "refill", "4");
  check(WITH("PAGE_CROSS_THREAD_MAX_RECLAIM=0"), "refill", "0");
  check(WITH("PAGE_CROSS_THREAD_MAX_RECLAIM=2"), "refill", "2");
  check(WITH("PAGE_CROSS_THREAD_MAX_RECLAIM=-1"), "refill", "4");

  check(WITH(KEEP), "collect", "none");
  check(BOTH("GENERIC_COLLECT=64", KEEP), "collect", "all");
  check(BOTH("GENERIC_COLLECT=0", KEEP), "collect", "none");

  check(DEFAULT, "slot", "0 1 1");
  check(WITH("PURGE_DELAY=0"), "slot", "1 1 1");
  check(WITH("PURGE_DELAY=-1"), "slot", "0 0 1");
  return 0;
}
