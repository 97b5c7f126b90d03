/* SPDX-License-Identifier: MIT */
/* Fork with parks, sweeps and passes going on: the child has no background thread until it needs
 * one, its memory goes back by itself, nothing hangs, blocks stay whole. */
#include "idle/idle.h"

/* ---- a thread is parked ---- */

static struct herd h;
static atomic_int state; /* 1: make and park, 2: it is parked, 3: come back, 4: end */

static void *park_often(void *arg) {
  (void)arg;
  for (;;) {
    while (state != 1 && state != 4) usleep(20);
    if (state == 4) return NULL;
    herd_fill(&h);
    herd_thin(&h);
    CHECK(mi_on_thread_idle_start());
    state = 2;
    while (state != 3) usleep(20);
    mi_on_thread_idle_end();
    herd_verify(&h);
    state = 0;
  }
}

static void in_child(size_t round) {
  CHECK(look_at_tasks().n_scavengers == 0);
  herd_verify(&h);
  herd_fill(&h);
  for (size_t i = 0; i < h.n; i++) { /* no two are the same */
    memset(h.block[i], (int)(i % 250), h.size);
    memcpy(h.block[i], &i, sizeof i);
  }
  for (size_t i = 0; i < h.n; i++) {
    CHECK(memcmp(h.block[i], &i, sizeof i) == 0);
    CHECK(((unsigned char *)h.block[i])[h.size - 1] == i % 250);
  }
  if (round % 4 != 0) return;
  for (size_t i = 0; i < h.n; i++) free(h.block[i]);
  size_t before = purged();
  void *p = malloc(4 * BEHAVE_MiB);
  CHECK(p != NULL);
  touch(p, 4 * BEHAVE_MiB);
  free(p);
  CHECK(mi_on_thread_idle_start());
  EXPECT_PURGED(before + 4 * BEHAVE_MiB, "a park in a child is not swept");
  CHECK(look_at_tasks().n_scavengers == 1);
  mi_on_thread_idle_end();
}

static void check_parked(void) {
  h = herd_make(6000, 512, 11);
  pthread_t t = start(park_often, NULL);
  for (size_t round = 0; round < mi_test_scale(6, 64); round++) {
    state = 1;
    while (state != 2) usleep(20);
    usleep((useconds_t)(150 + 37 * round % 400));
    pid_t pid = fork_for(20);
    if (pid == 0) {
      in_child(round);
      _exit(0);
    }
    expect_exit(pid, "fork while a thread is parked");
    state = 3;
    while (state != 0) usleep(20);
  }
  state = 4;
  join(t);
  herd_end(&h);
}

/* The forking thread itself is parked: the park goes on in the child. */
static void check_self_parked(void) {
  void *p = malloc(4 * BEHAVE_MiB);
  CHECK(p != NULL);
  touch(p, 4 * BEHAVE_MiB);
  CHECK(mi_on_thread_idle_start());
  pid_t pid = fork_for(20);
  if (pid == 0) {
    mi_on_thread_idle_end();
    size_t before = purged();
    free(p);
    behave_sleep_ms(105); /* the thread was swept just before the fork, maybe */
    CHECK(mi_on_thread_idle_start());
    EXPECT_PURGED(before + 4 * BEHAVE_MiB, "the child's next park is not swept");
    mi_on_thread_idle_end();
    free(malloc(100));
    exit(0);
  }
  mi_on_thread_idle_end();
  expect_exit(pid, "fork in a park");
  free(p);
}

/* ---- memory of a child ---- */

static void check_memory(bool idle_point) {
  mi_option_set(mi_option_purge_delay, 100);
  pid_t pid = fork_for(20);
  if (pid == 0) {
    void *p[400];
    for (int i = 0; i < 400; i++) {
      CHECK((p[i] = malloc(256 * BEHAVE_KiB)) != NULL);
      touch(p[i], 256 * BEHAVE_KiB);
    }
    size_t resident = behave_resident();
    for (int i = 0; i < 400; i++) free(p[i]);
    if (idle_point) mi_on_thread_idle();
    size_t now = wait_resident(resident - 80 * BEHAVE_MiB);
    if (now > resident - 80 * BEHAVE_MiB)
      FAIL("a child's memory stays: %zu of %zu KiB", now / 1024, resident / 1024);
    _exit(0);
  }
  expect_exit(pid, idle_point ? "memory of a child, idle point" : "memory of a child");
}

/* A fork of a fork, and so on, with heaps from before and after each. */
static void nest(int depth, mi_heap_t *above) {
  mi_heap_t *mine = new_heap();
  void *p = mi_heap_malloc(mine, 1000), *q = above != NULL ? mi_heap_malloc(above, 1000) : NULL;
  CHECK(p != NULL && mi_heap_of(p) == mine);
  if (q != NULL) CHECK(mi_heap_of(q) == above);
  if (depth > 0) {
    pid_t pid = fork_for(10);
    if (pid == 0) {
      nest(depth - 1, mine);
      mi_heap_collect(mine, true);
      mi_heap_delete(mine); /* of before the fork */
      expect_heap(p, mi_heap_main());
      free(p);
      mi_heap_t *later = new_heap(); /* of after it */
      void *r = mi_heap_malloc(later, 5000);
      CHECK(r != NULL && mi_heap_of(r) == later);
      mi_heap_delete(later);
      expect_heap(r, mi_heap_main());
      free(r);
      CHECK(mi_on_thread_idle_start());
      mi_on_thread_idle_end();
      exit(0);
    }
    expect_exit(pid, "a nested fork");
  }
  free(q);
  mi_heap_destroy(mine);
}

/* ---- 200 forks under load ---- */

static atomic_bool stop_load;
static void *load(void *arg) {
  uint64_t rng = behave_seed() + (uintptr_t)arg;
  void *held[32] = {0};
  while (!stop_load) {
    size_t i = behave_random(&rng) % 32;
    free(held[i]);
    held[i] = malloc(behave_random_size(&rng, 8, 2 * BEHAVE_MiB));
    CHECK(held[i] != NULL);
    *(char *)held[i] = 1;
    uint64_t dice = behave_random(&rng) % 256;
    if (dice == 0) mi_on_thread_idle();
    if (dice == 1) mi_collect(true);
    if (dice == 2) mi_purge_all_ex(0, 1, NULL);
    if (dice > 5) continue;
    CHECK(mi_on_thread_idle_start());
    usleep((useconds_t)(dice * 100));
    mi_on_thread_idle_end();
  }
  for (int i = 0; i < 32; i++) free(held[i]);
  return NULL;
}
static void *come_and_go(void *arg) {
  while (!stop_load) {
    pthread_t t;
    if (arg != NULL) {
      void *p = malloc(70000);
      CHECK(p != NULL && mi_on_thread_idle_start());
      return NULL; /* leaks p: its page is abandoned */
    }
    if (pthread_create(&t, NULL, come_and_go, (void *)1) == 0) pthread_join(t, NULL);
  }
  return NULL;
}
static void check_load(void) {
  pthread_t t[4];
  for (uintptr_t i = 0; i < 3; i++) t[i] = start(load, (void *)(i + 1));
  t[3] = start(come_and_go, NULL);
  for (size_t i = 0; i < mi_test_scale(40, 400); i++) {
    pid_t pid = fork_for(10);
    if (pid == 0) {
      struct herd mine = herd_make(500, 1 + i * 20, i);
      herd_fill(&mine);
      herd_end(&mine);
      if (i % 4 == 0) mi_collect(true);
      if (i % 4 == 1) mi_purge_all(true);
      if (i % 4 == 2) {
        CHECK(mi_on_thread_idle_start());
        usleep(500);
      }
      exit(0);
    }
    expect_exit(pid, "fork under load");
  }
  stop_load = true;
  for (int i = 0; i < 4; i++) join(t[i]);
}

static atomic_int n_prepared;
static void count_prepare(void) { n_prepared++; }

int main(int argc, char **argv) {
  mi_test_not_under("thread");  /* it allows no threads in a child */
  mi_test_not_under("address"); /* its own malloc may stay locked in the child of a process with threads */
  if (argc > 1) {
    behave_limit(200);
    if (strcmp(argv[1], "memory") == 0) {
      check_memory(false); /* the parent never had a second thread */
      check_memory(true);
      return 0;
    }
    idle_skip_without_parks();
    check_parked();
    check_self_parked();
    check_load();
    return 0;
  }
  behave_limit(300);
  run_with(WITH("MIMALLOC_VERBOSE=0"), "memory");
  run_with(WITH("MIMALLOC_SHOW_ERRORS=0"), "parked");
  run_with(WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"), "parked-eager");
  for (int i = 0; i < 1000; i++) mi_heap_delete(new_heap());
  CHECK(pthread_atfork(count_prepare, NULL, NULL) == 0);
  idle_skip_without_parks();
  nest(4, NULL);
  CHECK(n_prepared == 1);
  check_memory(false);
  return 0;
}
