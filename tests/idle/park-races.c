/* SPDX-License-Identifier: MIT */
/* Everything at once with parks: other threads free, threads end and are cancelled in a park or in a
 * sweep, heaps go while their thread is parked, parks of any length, exit of the process. */
#include "idle/idle.h"

/* ---- another thread frees while the owner is parked ---- */

static struct herd shared;

static void *free_evens(void *arg) {
  (void)arg;
  for (size_t i = 0; i < shared.n; i += 2) {
    free(shared.block[i]);
    shared.block[i] = NULL;
  }
  return NULL;
}

static void check_foreign_frees(void) {
  for (size_t round = 0; round < mi_test_scale(4, 20); round++) {
    shared = herd_make(4000, 512, round);
    herd_fill(&shared);
    herd_thin(&shared);
    CHECK(mi_on_thread_idle_start());
    in_thread(free_evens, NULL);
    mi_on_thread_idle_end();
    herd_verify(&shared);
    herd_fill(&shared);
    herd_end(&shared);
  }
}

/* ---- ends of threads ---- */

static pthread_key_t key;
struct late {
  void *block[500];
};
static void free_late(void *value) {
  struct late *late = value;
  for (int i = 0; i < 500; i++) free(late->block[i]);
  free(late);
}

struct ender {
  bool cancelled, ends_in_sweep, with_heap;
  atomic_bool parked;
  mi_heap_t *heap;
};

/* It ends without mi_on_thread_idle_end. */
static void *end_parked(void *arg) {
  struct ender *e = arg;
  struct herd h = herd_make(500, 200, 3);
  herd_fill(&h);
  if (e->with_heap) {
    e->heap = new_heap();
    struct late *late = malloc(sizeof *late);
    CHECK(late != NULL);
    for (int i = 0; i < 500; i++) CHECK((late->block[i] = mi_heap_malloc(e->heap, 96)) != NULL);
    pthread_setspecific(key, late);
  }
  herd_end(&h);
  if (!mi_on_thread_idle_start()) FAIL("no park");
  e->parked = true;
  if (e->cancelled) {
    for (;;) behave_sleep_ms(1000); /* a cancellation point */
  }
  if (!e->ends_in_sweep) usleep(200);
  pthread_exit(NULL);
}

static void check_ends(bool with_heap) {
  static struct ender enders[8];
  pthread_t t[8];
  for (size_t round = 0; round < mi_test_scale(10, 100); round++) {
    memset(enders, 0, sizeof enders);
    for (int i = 0; i < 8; i++) {
      /* The thread sanitizer does not see what a thread does after its cancellation in a call that
       * blocks; that of addresses takes the stack that was left so for in use. */
      bool sees_it = !mi_test_under("thread") && !mi_test_under("address");
      enders[i].cancelled = i % 2 == 1 && sees_it;
      enders[i].ends_in_sweep = i % 4 == 2;
      enders[i].with_heap = with_heap;
      t[i] = start(end_parked, &enders[i]);
    }
    for (int i = 0; i < 8; i++) {
      if (enders[i].cancelled) {
        while (!enders[i].parked) usleep(50);
        CHECK(pthread_cancel(t[i]) == 0);
      }
      join(t[i]);
      if (enders[i].heap != NULL) {
        if (i % 4 < 2) mi_heap_delete(enders[i].heap);
        else mi_heap_destroy(enders[i].heap);
      }
    }
  }
}

/* Ends in a park that is on the schedule already; a park of the main thread is swept all the same. */
static void *end_scheduled(void *arg) {
  (void)arg;
  free(malloc(100000));
  CHECK(mi_on_thread_idle_start());
  behave_sleep_ms(20); /* swept */
  mi_on_thread_idle_end();
  free(malloc(100000));
  CHECK(mi_on_thread_idle_start()); /* due when the interval ends */
  return NULL;
}
static void check_scheduled(void) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) t[i] = start(end_scheduled, NULL);
  for (int i = 0; i < 4; i++) join(t[i]);
  struct herd h = herd_make(20000, 512, 6);
  size_t before = purged_at_rest();
  herd_fill(&h);
  herd_thin(&h);
  CHECK(mi_on_thread_idle_start());
  EXPECT_PURGED(before + 2 * BEHAVE_MiB, "not swept after parked threads ended");
  mi_on_thread_idle_end();
  herd_end(&h);
}

/* ---- heaps that go while their thread is parked ---- */

struct owner {
  mi_heap_t *volatile heap;
  void *left[64];
  atomic_int turn; /* 0: the owner's, 1: parked, 2: the heap is gone */
};

static void *own_heaps(void *arg) {
  struct owner *o = arg;
  size_t rounds = mi_test_scale(120, 2000);
  for (size_t round = 0; round < rounds; round++) {
    o->heap = new_heap();
    for (int i = 0; i < 64; i++) {
      CHECK((o->left[i] = mi_heap_malloc(o->heap, (size_t)i * 300 + 8)) != NULL);
      memset(o->left[i], i, (size_t)i * 300 + 8);
    }
    for (int i = 0; i < 64; i += 2) free(o->left[i]);
    CHECK(mi_on_thread_idle_start());
    o->turn = 1;
    if (round % 2 == 0) { /* the owner ends it right after its park */
      usleep((useconds_t)(round % 7 * 30));
      mi_on_thread_idle_end();
      int one = 1;
      if (atomic_compare_exchange_strong(&o->turn, &one, 0)) {
        for (int i = 1; i < 64; i += 2) CHECK(*(char *)o->left[i] == i);
        mi_heap_delete(o->heap);
        for (int i = 1; i < 64; i += 2) {
          expect_heap(o->left[i], mi_heap_main());
          free(o->left[i]);
        }
        continue;
      }
    }
    while (o->turn != 2) usleep(20);
    mi_on_thread_idle_end();
    for (int i = 1; i < 64; i += 2) { /* deleted: the blocks live on */
      CHECK(*(char *)o->left[i] == i);
      expect_heap(o->left[i], mi_heap_main());
      free(o->left[i]);
    }
    o->turn = 0;
    free(malloc(round % 5000));
  }
  o->turn = 3;
  return NULL;
}

static void check_heaps(void) {
  static struct owner owners[4];
  pthread_t t[4];
  memset(owners, 0, sizeof owners);
  for (int i = 0; i < 4; i++) t[i] = start(own_heaps, &owners[i]);
  for (int left = 4; left > 0;) {
    left = 4;
    for (int i = 0; i < 4; i++) {
      struct owner *o = &owners[i];
      int one = 1;
      if (o->turn == 3) left--;
      if (!atomic_compare_exchange_strong(&o->turn, &one, 4)) continue;
      mi_heap_delete(o->heap);
      o->turn = 2;
    }
    usleep(50);
  }
  for (int i = 0; i < 4; i++) join(t[i]);
}

/* The same, destroyed with all that is in them, many at once. */
static mi_heap_t *doomed[32];
static atomic_int n_doomed;
static void *fill_and_park(void *arg) {
  (void)arg;
  for (int i = 0; i < 32; i++) {
    for (int k = 0; k < 50; k++) CHECK(mi_heap_malloc(doomed[i], (size_t)k * 20 + 1) != NULL);
  }
  CHECK(mi_on_thread_idle_start());
  n_doomed++;
  while (n_doomed >= 0) usleep(100);
  mi_on_thread_idle_end();
  void *p = malloc(100);
  CHECK(p != NULL);
  free(p);
  return NULL;
}
static void check_destroy(void) {
  for (size_t round = 0; round < mi_test_scale(6, 60); round++) {
    for (int i = 0; i < 32; i++) doomed[i] = new_heap();
    n_doomed = 0;
    pthread_t t[4];
    for (int i = 0; i < 4; i++) t[i] = start(fill_and_park, NULL);
    while (n_doomed < 4 - (int)(round % 2)) usleep(20);
    while (n_doomed < 4) usleep(20);
    for (int i = 0; i < 32; i++) mi_heap_destroy(doomed[i]);
    n_doomed = -1;
    for (int i = 0; i < 4; i++) join(t[i]);
  }
}

/* ---- parks of any length under load ---- */

static void *park_and_churn(void *arg) {
  uint64_t rng = behave_seed() + (uintptr_t)arg;
  struct herd h = herd_make(400, 700, (uintptr_t)arg);
  for (size_t round = 0; round < mi_test_scale(120, 3000); round++) {
    herd_fill(&h);
    herd_thin(&h);
    CHECK(mi_on_thread_idle_start());
    if (behave_random(&rng) % 4 != 0) usleep((useconds_t)(behave_random(&rng) % 200));
    mi_on_thread_idle_end();
    void *p = malloc(behave_random_size(&rng, 8, 100000));
    CHECK(p != NULL);
    herd_verify(&h);
    free(p);
  }
  herd_end(&h);
  return NULL;
}
static void check_load(void) {
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) t[i] = start(park_and_churn, (void *)(i + 1));
  for (int i = 0; i < 4; i++) join(t[i]);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    behave_limit(200);
    idle_skip_without_parks();
    CHECK(pthread_key_create(&key, free_late) == 0);
    check_foreign_frees();
    check_ends(false);
    check_ends(true);
    if (mi_option_get(mi_option_purge_holes_min_interval) > 0) check_scheduled();
    check_heaps();
    check_destroy();
    check_load();
    return 0;
  }
  run_with(WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0"), "eager");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "default");
  return 0;
}
