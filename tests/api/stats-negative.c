/* SPDX-License-Identifier: MIT */
/* H01 no-negative-current. Symptom: committed of -906.8 MiB with purge delay 0. Right: 0 <= current
 * <= peak for each figure that has them, as numbers, in JSON and in mi_process_info; committed after
 * a collect at most 64 MiB, and within 16 MiB of what is resident. By one thread, and by threads that
 * come and go; with purge delay 0 and the default. */
#include "stats.h"

#define MIB ((size_t)1 << 20)
enum { BLOCKS = 1000, SIZE = 50000, THREADS = 8 };

static void allocate_and_free(int n) {
  static __thread void *p[BLOCKS];
  for (int i = 0; i < n; i++) {
    p[i] = mi_malloc(SIZE);
    CHECK(p[i] != NULL);
    memset(p[i], 1, SIZE);
    if (i % 10 == 9) {
      for (int k = i - 9; k <= i; k++) mi_free(p[k]);
    }
  }
  for (int i = 0; i < n / 4; i++) p[i] = mi_malloc(SIZE);
  for (int i = 0; i < n / 4; i++) mi_free(p[i]);
}

static void *in_thread(void *arg) {
  allocate_and_free(BLOCKS / 4);
  return arg;
}

/* Each number behind "current": in the text. */
static void check_json(void) {
  char *text = mi_stats_get_json(0, NULL);
  CHECK(text != NULL);
  int n = 0;
  CHECK(strchr(text, '-') == NULL);
  for (const char *at = text; (at = strstr(at, "\"peak\":")) != NULL; at++, n++) {
    long long peak = strtoll(at + 7, NULL, 10);
    const char *behind = strstr(at, "\"current\":");
    CHECK(behind != NULL && strtoll(behind + 10, NULL, 10) <= peak);
  }
  CHECK(n > 100);
  mi_free(text);
}

static void check(void) {
  static mi_stats_t stats;
  size_t commit, peak, rss;
  get_stats(&stats);
  check_sane(&stats);
  mi_stats_init(&stats);
  CHECK(mi_subproc_stats_get_exclusive(mi_subproc_main(), &stats));
  check_sane(&stats);
  check_json();
  mi_process_info(NULL, NULL, NULL, &rss, NULL, &commit, &peak, NULL);
  CHECK(commit <= peak && peak < 1024 * MIB);
}

/* Sanitizers have much memory of their own. */
static bool is_sanitized(void) {
  const char *list = getenv("MI_TEST_SANITIZE");
  return list != NULL && *list != 0;
}

static void check_collected(const char *when) {
  static mi_stats_t stats;
  mi_collect(true);
  check();
  get_stats(&stats);
  size_t committed = (size_t)stats.committed.current, rss = mi_test_rss_kib() * 1024, commit;
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &commit, NULL, NULL);
  if (committed > 64 * MIB || commit != committed || committed > rss + 16 * MIB ||
      (!is_sanitized() && rss > committed + 16 * MIB)) {
    fprintf(stderr, "%s: committed %zu, resident %zu, mi_process_info %zu\n", when, committed, rss,
            commit);
    _exit(1);
  }
}

/* What is held and written is committed, and not much more is: a figure that lost a part of what came
 * would read as 0 in the end, which is no less right there. */
static void check_held(const char *when) {
  static void *p[BLOCKS];
  static mi_stats_t stats;
  for (int i = 0; i < BLOCKS; i++) {
    CHECK((p[i] = mi_malloc(SIZE)) != NULL);
    memset(p[i], 1, SIZE);
  }
  get_stats(&stats);
  size_t held = (size_t)BLOCKS * SIZE, committed = (size_t)stats.committed.current;
  if (committed < held || committed > held + 64 * MIB) {
    fprintf(stderr, "%s: %zu bytes are held, %zu committed\n", when, held, committed);
    _exit(1);
  }
  for (int i = 0; i < BLOCKS; i++) mi_free(p[i]);
}

static void run(const char *when) {
  allocate_and_free(BLOCKS);
  check();
  check_collected(when);
  check_held(when);
  check_collected(when);
  pthread_t thread[THREADS];
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < THREADS; i++)
      CHECK(pthread_create(&thread[i], NULL, in_thread, NULL) == 0);
    for (int i = 0; i < 20; i++) check();
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    check();
  }
  check_collected(when);
}

int main(void) {
  mi_option_set(mi_option_purge_delay, 0);
  run("purge delay 0");
  mi_option_set(mi_option_purge_delay, 100);
  run("purge delay 100");
  return 0;
}
