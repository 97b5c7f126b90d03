/* SPDX-License-Identifier: MIT */
/* A thread of the real-time class (SCHED_FIFO) waits for the background thread, on the only processor
 * that both have: the end of a park, a forced collect during a pass, a fork. Nobody may wait by
 * spinning: the other would not run until the kernel takes the processor from the real-time class,
 * which it does for 50 ms in each second.
 *
 * On a busy machine the background thread gets its share of that processor only, so a few calls may be slow; where they
 * spin, all are that meet it at work. */
#include "idle/idle.h"
#include <pthread.h>
#include <sched.h>

enum { N = 20000, HUGE_BLOCKS = 64, MOST_MS = 400 };
static void *block[N];

/* All threads of the process. */
static bool pin(void) {
  cpu_set_t one, mine;
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return false;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &mine)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  pid_t other = look_at_tasks().scavenger;
  return sched_setaffinity(0, sizeof(one), &one) == 0 && other > 0 &&
         sched_setaffinity(other, sizeof(one), &one) == 0;
}

static uint64_t began;
static unsigned n_calls, n_slow;
static void begin(void) { began = now_ms(); }
static void end(const char *what) {
  uint64_t ms = now_ms() - began;
  n_calls++;
  if (ms <= MOST_MS) return;
  behave_say("%s took %u ms", what, (unsigned)ms);
  n_slow++;
}

static void check_park(int round) {
  for (int i = 0; i < N; i++) CHECK((block[i] = mi_malloc(512)) != NULL);
  for (int i = 0; i < N; i += 2) mi_free(block[i]);
  CHECK(mi_on_thread_idle_start());
  struct timespec t = {0, 1000 * (20 + round * 37 % 600)}; /* the sweep has begun, or is over */
  nanosleep(&t, NULL);
  begin();
  mi_on_thread_idle_end();
  end("the end of a park");
  for (int i = 1; i < N; i += 2) mi_free(block[i]);
}

static void check_collect(void) {
  static void *huge[HUGE_BLOCKS];
  for (int i = 0; i < HUGE_BLOCKS; i++) {
    CHECK((huge[i] = mi_malloc(BEHAVE_MiB)) != NULL);
    memset(huge[i], 1, BEHAVE_MiB);
  }
  size_t before = purged();
  for (int i = 0; i < HUGE_BLOCKS; i++) mi_free(huge[i]);
  /* The pass begins while this thread sleeps, and is cut off by its end. */
  for (uint64_t until = now_ms() + 1000; purged() == before && now_ms() < until;) {
    struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
  }
  begin();
  mi_collect(true);
  end("a forced collect");
}

static void check_fork(void) {
  CHECK(mi_on_thread_idle_start());
  begin();
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  end("a fork");
  mi_on_thread_idle_end();
  int status;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
}

int main(void) {
  behave_limit(120);
  idle_skip_without_parks();
  struct sched_param first = {.sched_priority = 1};
  if (!pin() || sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
    behave_say("skipped: no right to the real-time class");
    return MI_TEST_SKIP;
  }
  int rounds = (int)mi_test_scale(40, 200);
  mi_option_set(mi_option_purge_holes_min_interval, 0);
  for (int i = 0; i < rounds; i++) {
    check_park(i);
    check_fork();
    if (i % 10 == 0) check_collect();
  }
  if (!BEHAVE_SANITIZED && n_slow > n_calls / 20) FAIL("%u of %u calls were slow", n_slow, n_calls);
  return 0;
}
