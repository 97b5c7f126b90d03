/* SPDX-License-Identifier: MIT */
/* How much stays resident: a worker that frees 256 MiB (80 in a short run) and is idle; threads that use large buffers
 * and then block without a call; rounds of bursts that each end in an idle point; and that reused
 * memory reads as zeros where zeros were asked for. */
#include "idle/idle.h"

static atomic_int stage, n_ready;

static void wait_stage(int s) {
  while (stage < s) behave_sleep_ms(1);
}

/* ---- a worker that idles: inline, or parked ---- */

static size_t worker_mib(void) { return mi_test_scale(80, 256); }
static void *burst_and_idle(void *arg) {
  size_t n = worker_mib();
  bool parked = arg != NULL;
  static void *p[256];
  for (size_t i = 0; i < n; i++) {
    CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
    touch(p[i], BEHAVE_MiB);
  }
  n_ready = 1;
  wait_stage(1);
  for (size_t i = 0; i < n; i++) free(p[i]);
  if (parked) CHECK(mi_on_thread_idle_start());
  else mi_on_thread_idle();
  stage = 2;
  wait_stage(3);
  mi_on_thread_idle_end();
  return NULL;
}
static void check_idle_worker(void) {
  for (uintptr_t parked = 0; parked < 2; parked++) {
    stage = n_ready = 0;
    pthread_t t = start(burst_and_idle, (void *)parked);
    while (n_ready == 0) behave_sleep_ms(1);
    CHECK(behave_resident() > worker_mib() * BEHAVE_MiB);
    stage = 1;
    wait_stage(2);
    expect_resident(12 * BEHAVE_MiB, parked ? "parked worker" : "worker at an idle point");
    stage = 3;
    join(t);
  }
}

/* ---- threads that block without a call ---- */

static void *use_buffers(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *held[4] = {0};
  for (int i = 0; i < 60; i++) {
    int k = (int)(behave_random(&rng) % 4);
    free(held[k]);
    size_t size = 100 * BEHAVE_KiB + behave_random(&rng) % (400 * BEHAVE_KiB);
    CHECK((held[k] = malloc(size)) != NULL);
    touch(held[k], size);
  }
  for (int i = 0; i < 4; i++) free(held[i]);
  n_ready++;
  wait_stage(1);
  return NULL;
}
static void check_blocked_threads(void) {
  enum { N = 32 };
  pthread_t t[N];
  stage = n_ready = 0;
  size_t begin = behave_resident();
  for (uintptr_t i = 0; i < N; i++) t[i] = start(use_buffers, (void *)(i + 1));
  while (n_ready < N) behave_sleep_ms(1);
  expect_resident(begin + N * 2 * BEHAVE_MiB, "32 threads that block");
  stage = 1;
  for (int i = 0; i < N; i++) join(t[i]);
}

/* ---- bursts, one after the other ---- */

static int burst_mib(void) { return (int)mi_test_scale(16, 48); }
static pthread_barrier_t barrier;
static void *burst_often(void *arg) {
  (void)arg;
  for (size_t round = 0; round < mi_test_scale(4, 30); round++) {
    void *p[48];
    for (int i = 0; i < burst_mib(); i++) {
      CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
      touch(p[i], BEHAVE_MiB);
    }
    pthread_barrier_wait(&barrier); /* main: how much is held */
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < burst_mib(); i++) free(p[i]);
    mi_on_thread_idle();
    pthread_barrier_wait(&barrier); /* main: how much stays */
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}
static void check_bursts(void) {
  pthread_t t[4];
  pthread_barrier_init(&barrier, NULL, 5);
  size_t begin = behave_resident();
  for (int i = 0; i < 4; i++) t[i] = start(burst_often, NULL);
  for (size_t round = 0; round < mi_test_scale(4, 30); round++) {
    pthread_barrier_wait(&barrier);
    size_t held = behave_resident() - begin;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    expect_resident(begin + held / 4, "after a burst");
    pthread_barrier_wait(&barrier);
  }
  for (int i = 0; i < 4; i++) join(t[i]);
}

/* ---- zeros ---- */

static void check_zeros(void) {
  static const size_t sizes[] = {64, 1024, 8192, 16384, 100000, 700000};
  static void *p[512];
  size_t n_rounds = mi_test_scale(2, 40);
  for (size_t round = 0; round < n_rounds; round++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      size_t size = sizes[s], n = size > 50000 ? mi_test_scale(16, 512) : 512;
      for (size_t i = 0; i < n; i++) {
        CHECK((p[i] = malloc(size)) != NULL);
        memset(p[i], 0xA5, size);
      }
      for (size_t i = 0; i < n; i++) free(p[i]);
      if (round % 2 == 0) {
        mi_on_thread_idle();
      } else if (mi_on_thread_idle_start()) {
        behave_sleep_ms(1);
        mi_on_thread_idle_end();
      }
      for (size_t i = 0; i < n; i++) {
        CHECK((p[i] = mi_zalloc(size)) != NULL);
        if (!behave_is_zero(p[i], size)) FAIL("a block of %zu bytes is not zero", size);
      }
      for (size_t i = 0; i < n; i++) free(p[i]);
    }
    void *q = calloc(1024, 64);
    CHECK(q != NULL && behave_is_zero(q, 65536));
    free(q);
    for (int i = 0; i < 16; i++) {
      CHECK((p[i] = malloc(2 * BEHAVE_MiB)) != NULL);
      memset(p[i], 0xA5, 2 * BEHAVE_MiB);
    }
    for (int i = 0; i < 16; i++) free(p[i]);
    for (int i = 0; i < 512; i++) {
      CHECK((p[i] = mi_zalloc(4096)) != NULL);
      if (!behave_is_zero(p[i], 4096)) FAIL("a block of 4096 bytes is not zero");
    }
    for (int i = 0; i < 512; i++) free(p[i]);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    behave_limit(120);
    if (strcmp(argv[1], "zeros") == 0) {
      check_zeros();
      return 0;
    }
    idle_skip_without_parks();
    if (strcmp(argv[1], "worker") == 0) check_idle_worker();
    if (strcmp(argv[1], "blocked") == 0) check_blocked_threads();
    if (strcmp(argv[1], "bursts") == 0) check_bursts();
    return 0;
  }
  run_with(WITH("MIMALLOC_PURGE_DELAY=0"), "zeros");
  run_with(WITH("MIMALLOC_PURGE_DELAY=0", "MIMALLOC_PURGE_DECOMMITS=0"), "zeros");
  run_with(WITH("MIMALLOC_PURGE_DELAY=10"), "zeros");
  if (BEHAVE_SANITIZED) return 0; /* it keeps memory of its own */
  run_with(WITH("MIMALLOC_VERBOSE=0"), "worker");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "blocked");
  run_with(WITH("MIMALLOC_PURGE_DELAY=20"), "bursts");
  return 0;
}
