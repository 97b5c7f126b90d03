/* SPDX-License-Identifier: MIT */
/* mi_purge_all: the free memory of all threads, from any of them. Idle, busy, parked, stuck and
 * spinning threads; two callers; calls from within the library's own calls; callers all the time
 * while threads come and go. Purge delay -1, so nothing goes by itself, or as long as it takes. */
#include "idle/idle.h"

enum { N_WORKERS = 4, N = 20000, SIZE = 512 };

static mi_purge_all_report_t report;
static int purge_all(bool force, size_t wait_ms) {
  memset(&report, 0xff, sizeof report);
  return mi_purge_all_ex(force ? MI_PURGE_FORCE : 0, wait_ms, &report);
}
static void expect(int got, int want, size_t swept, size_t pending, const char *what) {
  if (got == want && report.theaps_swept == swept && report.theaps_pending == pending &&
      report.complete == (pending == 0) && report.theaps_orphaned == 0)
    return;
  FAIL("%s: result %d, swept %zu, pending %zu, orphaned %zu, complete %d", what, got,
       report.theaps_swept, report.theaps_pending, report.theaps_orphaned, report.complete);
}

/* ---- four workers ---- */

struct worker {
  pthread_t thread;
  atomic_bool ready;
  uint64_t worst_ns; /* of its own calls */
  struct herd h;
};
static struct worker workers[N_WORKERS];
static atomic_bool go, stop;
static pthread_barrier_t all_full; /* nobody fills what another has freed */

static uint64_t timed_free_and_malloc(void *volatile *p, size_t size) {
  uint64_t begin = behave_now_ns();
  free(*p);
  *p = malloc(size);
  CHECK(*p != NULL);
  return behave_now_ns() - begin;
}

static void *work(void *arg) {
  struct worker *w = arg;
  w->h = herd_make(N, SIZE, (uintptr_t)arg);
  herd_fill(&w->h);
  pthread_barrier_wait(&all_full);
  herd_thin(&w->h);
  w->ready = true;
  while (!go) behave_sleep_ms(1);
  void *volatile p[200] = {0};
  for (size_t i = 0; !stop; i++) {
    uint64_t took = timed_free_and_malloc(&p[i % 200], 3000); /* of another bin than the herd */
    if (took > w->worst_ns) w->worst_ns = took;
  }
  for (int i = 0; i < 200; i++) free(p[i]);
  herd_end(&w->h);
  return NULL;
}
static void start_workers(void *(*act)(void *)) {
  go = stop = false;
  for (int i = 0; i < N_WORKERS; i++) {
    workers[i].ready = false;
    workers[i].worst_ns = 0;
    workers[i].thread = start(act, &workers[i]);
  }
  for (int i = 0; i < N_WORKERS; i++)
    while (!workers[i].ready) behave_sleep_ms(1);
}
static void join_workers(void) {
  stop = true;
  for (int i = 0; i < N_WORKERS; i++) join(workers[i].thread);
}

static atomic_int n_idled;
static void *idle_by_itself(void *arg) {
  struct worker *w = arg;
  w->h = herd_make(N, SIZE, 1);
  herd_fill(&w->h);
  pthread_barrier_wait(&all_full);
  herd_thin(&w->h);
  w->ready = true;
  while (!go) behave_sleep_ms(1);
  mi_on_thread_idle();
  n_idled++;
  while (!stop) behave_sleep_ms(1);
  herd_end(&w->h);
  return NULL;
}

/* What the workers can give when each does it by itself. */
static size_t reference(void) {
  mi_collect(true);
  size_t before = purged();
  start_workers(idle_by_itself);
  go = true;
  while (n_idled < N_WORKERS) behave_sleep_ms(1);
  mi_collect(true);
  size_t result = purged() - before;
  join_workers();
  CHECK(result >= 16 * BEHAVE_MiB);
  return result;
}

/* T1, G1, FORCE, G2 */
static void check_busy(void) {
  size_t want = reference() / 10 * 9;
  mi_collect(true);
  start_workers(work);
  size_t before = purged();
  go = true;
  behave_sleep_ms((unsigned)mi_test_scale(100, 200));
  if (purged() != before) FAIL("%zu bytes went by themselves", purged() - before);
  int result = purge_all(true, 60000);
  expect(result, MI_PURGE_OK, N_WORKERS + 1, 0, "busy workers");
  if (report.arena_bytes < want || purged() - before < want)
    FAIL("%zu KiB went, %zu KiB wanted", report.arena_bytes / 1024, want / 1024);
  for (int i = 0; i < N_WORKERS; i++) herd_verify(&workers[i].h); /* nobody writes to it */
  behave_sleep_ms(50); /* they go on */
  join_workers();
  if (BEHAVE_SANITIZED) return;
  for (int i = 0; i < N_WORKERS; i++)
    if (workers[i].worst_ns / 1000000 > MI_TEST_PATIENCE_MS) FAIL("a worker's call took %llu ms",
                                               (unsigned long long)workers[i].worst_ns / 1000000);
}

/* T2: what an ended thread left, and memory of heaps and of other sub-processes. */
static mi_heap_t *left_heap;
static struct herd left_herd;
static void *leave_blocks(void *arg) {
  mi_heap_t *heap = arg;
  left_herd = herd_make(N, SIZE, 3);
  for (size_t i = 0; i < left_herd.n; i++) {
    CHECK((left_herd.block[i] = mi_heap_malloc(heap, SIZE)) != NULL);
    behave_fill(left_herd.block[i], SIZE, left_herd.tag + i);
  }
  return NULL;
}
static void *use_subproc(void *arg) {
  mi_subproc_id_t subproc = mi_subproc_new();
  (void)arg;
  mi_subproc_add_current_thread(subproc);
  void *p = malloc(8 * BEHAVE_MiB);
  CHECK(p != NULL);
  touch(p, 8 * BEHAVE_MiB);
  free(p);
  int result = purge_all(true, 0);
  CHECK(result != MI_PURGE_BUSY && report.arena_bytes >= 8 * BEHAVE_MiB);
  return NULL;
}
static void check_abandoned(void) {
  left_heap = new_heap();
  in_thread(leave_blocks, left_heap);
  herd_thin(&left_herd);
  size_t before = purged();
  CHECK(purge_all(true, 0) == MI_PURGE_OK);
  CHECK(purged() - before >= 4 * BEHAVE_MiB && report.arena_bytes >= 4 * BEHAVE_MiB);
  herd_end(&left_herd);
  mi_heap_delete(left_heap);
  in_thread(use_subproc, NULL);
}

/* T3: calls from the library's own calls. */
static int inner_result, n_inner;
static void purge_within(void) {
  mi_purge_all_report_t inner;
  inner_result = mi_purge_all_ex(MI_PURGE_FORCE, 100, &inner);
  CHECK(inner.theaps_swept == 0 && inner.hole_bytes == 0 && inner.arena_bytes == 0);
  n_inner++;
}
static void deferred(bool force, unsigned long long beat, void *arg) {
  (void)force;
  (void)beat;
  (void)arg;
  purge_within();
}
static void check_within(void) {
  mi_register_deferred_free(deferred, NULL);
  CHECK(purge_all(true, 100) == MI_PURGE_OK);
  mi_register_deferred_free(NULL, NULL);
  CHECK(n_inner == 1 && inner_result == MI_PURGE_BUSY);
  CHECK(report.theaps_swept == 1 && report.complete);
}

/* G3, G6: a thread that is stuck in a function that the library has called. */
static atomic_bool stuck, released;
static __thread bool gets_stuck;
static void stick(bool force, unsigned long long beat, void *arg) {
  (void)force;
  (void)beat;
  (void)arg;
  if (!gets_stuck) return;
  stuck = true;
  while (!released) behave_sleep_ms(1);
}
static void *be_stuck(void *arg) {
  (void)arg;
  free(malloc(100));
  gets_stuck = true;
  mi_collect(false);
  gets_stuck = false;
  while (!stop) {
    void *p = malloc(4000);
    CHECK(p != NULL);
    mi_on_thread_idle();
    free(p);
    behave_sleep_ms(1);
  }
  return NULL;
}
static void check_stuck(void) {
  mi_register_deferred_free(stick, NULL);
  stop = stuck = released = false;
  pthread_t t = start(be_stuck, NULL);
  while (!stuck) behave_sleep_ms(1);
  uint64_t begin = now_ms();
  int result = purge_all(true, 100);
  uint64_t took = now_ms() - begin;
  expect(result, MI_PURGE_PARTIAL, 1, 1, "a thread in a callback");
  CHECK(took >= 100 && took <= 100 + MI_TEST_PATIENCE_MS);
  result = purge_all(true, 0);
  expect(result, MI_PURGE_PARTIAL, 1, 1, "no wait");
  released = true;
  behave_sleep_ms(20);
  result = purge_all(true, 60000);
  expect(result, MI_PURGE_OK, 2, 0, "a thread that has come out of it");
  stop = true;
  join(t);
  mi_register_deferred_free(NULL, NULL);
}

/* Threads that block: without a call pending, parked swept. A request outlives the call. */
static atomic_int blocked_step;
static void *block_here(void *arg) {
  struct herd h = herd_make(N, SIZE, 4);
  herd_fill(&h);
  herd_thin(&h);
  free(malloc(3000));
  if (arg != NULL && !mi_on_thread_idle_start()) FAIL("no park");
  blocked_step = 1;
  while (blocked_step != 2) behave_sleep_ms(1);
  mi_on_thread_idle_end();
  mi_on_thread_idle();
  blocked_step = 3;
  while (blocked_step != 4) behave_sleep_ms(1);
  herd_end(&h);
  return NULL;
}
static void check_blocked(bool parks) {
  blocked_step = 0;
  pthread_t t = start(block_here, parks ? &t : NULL);
  while (blocked_step != 1) behave_sleep_ms(1);
  int result = purge_all(true, 20);
  if (parks) expect(result, MI_PURGE_OK, 2, 0, "a parked thread");
  else expect(result, MI_PURGE_PARTIAL, 1, 1, "a thread that blocks");
  blocked_step = 2;
  while (blocked_step != 3) behave_sleep_ms(1);
  blocked_step = 4;
  join(t);
}

/* G4: purges without pause against threads that churn, and threads that come and go. */
static uint64_t deadline_ms;
static void *churn(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *p[100] = {0};
  while (now_ms() < deadline_ms) {
    for (int k = 0; k < 100; k++) {
      size_t i = behave_random(&rng) % 100;
      free(p[i]);
      p[i] = malloc(behave_random_size(&rng, 8, 300000));
      CHECK(p[i] != NULL);
      *(char *)p[i] = 1;
    }
    if ((uintptr_t)arg % 2 == 0 && mi_on_thread_idle_start()) {
      usleep(100);
      mi_on_thread_idle_end();
    }
  }
  for (int i = 0; i < 100; i++) free(p[i]);
  return NULL;
}
static void *once(void *arg) {
  (void)arg;
  void *p = malloc(50000);
  CHECK(p != NULL);
  if (mi_on_thread_idle_start()) usleep(50);
  return p;
}
static void *spawn(void *arg) {
  (void)arg;
  while (now_ms() < deadline_ms) {
    void *p;
    CHECK(pthread_join(start(once, NULL), &p) == 0);
    free(p);
  }
  return NULL;
}
static void check_all_the_time(void) {
  deadline_ms = now_ms() + mi_test_scale(250, 1500);
  pthread_t t[6];
  for (uintptr_t i = 0; i < 6; i++) t[i] = start(i < 4 ? churn : spawn, (void *)(i + 1));
  while (now_ms() < deadline_ms) {
    uint64_t begin = now_ms();
    int result = purge_all(begin % 2 == 0, 20);
    if (result == MI_PURGE_BUSY) FAIL("busy with one caller");
    if (now_ms() - begin > 10000) FAIL("a call took %llu ms", (unsigned long long)(now_ms() - begin));
  }
  for (int i = 0; i < 6; i++) join(t[i]);
}

/* G5: the first caller waits for a stuck thread, the second one is told so at once. */
static int first_result;
static atomic_bool first_done;
static void *call_first(void *arg) {
  (void)arg;
  do {
    first_result = mi_purge_all_ex(MI_PURGE_FORCE, 60000, NULL);
  } while (first_result == MI_PURGE_BUSY); /* while the other thread tries */
  first_done = true;
  return NULL;
}
static void check_two_callers(void) {
  mi_register_deferred_free(stick, NULL);
  stop = stuck = released = first_done = false;
  pthread_t t = start(be_stuck, NULL);
  while (!stuck) behave_sleep_ms(1);
  pthread_t first = start(call_first, NULL);
  uint64_t begin = now_ms();
  while (purge_all(true, 0) != MI_PURGE_BUSY) {
    if (now_ms() > begin + MI_TEST_PATIENCE_MS) FAIL("the first caller does not call");
    behave_sleep_ms(5);
  }
  begin = now_ms();
  int result = purge_all(true, 60000); /* the first caller is in it until the thread is released */
  uint64_t took = now_ms() - begin;
  if (result != MI_PURGE_BUSY) FAIL("the second caller was told %d", result);
  CHECK(report.theaps_swept == 0 && report.arena_bytes == 0 && !report.complete);
  if (took >= MI_TEST_PATIENCE_MS) FAIL("it took %llu ms to say so", (unsigned long long)took);
  released = true;
  while (!first_done) { /* the first caller asks this thread as well */
    mi_on_thread_idle();
    behave_sleep_ms(1);
  }
  join(first);
  if (first_result != MI_PURGE_OK) FAIL("the first caller was told %d", first_result);
  stop = true;
  join(t);
  mi_register_deferred_free(NULL, NULL);
}

/* G7: a thread in a tight loop, which never needs a refill. */
static void *loop_tightly(void *arg) {
  (void)arg;
  stuck = true;
  while (!stop) free(malloc(64));
  return NULL;
}
static void check_tight_loop(void) {
  stop = stuck = false;
  pthread_t t = start(loop_tightly, NULL);
  while (!stuck) behave_sleep_ms(1);
  uint64_t begin = now_ms();
  int result = purge_all(true, 100);
  CHECK(result == MI_PURGE_OK || (result == MI_PURGE_PARTIAL && report.theaps_pending == 1));
  CHECK(now_ms() - begin <= 100 + MI_TEST_PATIENCE_MS);
  stop = true;
  join(t);
}

/* C1: allocation paths against purges, with an output function that allocates. C2 is in it: they go
 * on after a sweep by another thread. */
static void allocate_in_output(const char *text, void *arg) {
  (void)arg;
  free(malloc(strlen(text) + 100));
}
static void *use_path(void *arg) {
  uintptr_t path = (uintptr_t)arg;
  mi_heap_t *heap = path == 3 ? new_heap() : NULL;
  while (now_ms() < deadline_ms) {
    void *p[50];
    for (size_t i = 0; i < 50; i++) {
      size_t size = path == 4 ? 1000000 + i : 100 + i * 200;
      p[i] = path == 0 ? malloc(size) : path == 1 ? mi_zalloc(size)
           : path == 2 ? memalign(256, size) : path == 3 ? mi_heap_malloc(heap, size)
           : realloc(malloc(50), size);
      CHECK(p[i] != NULL);
      behave_fill(p[i], 100, i);
    }
    for (size_t i = 0; i < 50; i++) {
      CHECK(behave_verify(p[i], 100, i) == 100);
      free(p[i]);
    }
    if (path == 0) mi_stats_print_out(allocate_in_output, NULL);
  }
  if (heap != NULL) mi_heap_destroy(heap);
  return NULL;
}
static void check_paths(void) {
  mi_register_output(allocate_in_output, NULL);
  deadline_ms = now_ms() + mi_test_scale(200, 1500);
  pthread_t t[5];
  for (uintptr_t i = 0; i < 5; i++) t[i] = start(use_path, (void *)i);
  while (now_ms() < deadline_ms) CHECK(mi_purge_all(true) != MI_PURGE_BUSY);
  for (int i = 0; i < 5; i++) join(t[i]);
  mi_register_output(NULL, NULL);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    behave_limit(120);
    free(malloc(10));
    bool parks = mi_on_thread_idle_start();
    mi_on_thread_idle_end();
    CHECK(pthread_barrier_init(&all_full, NULL, N_WORKERS) == 0);
    check_busy();
    check_abandoned();
    check_within();
    check_stuck();
    check_blocked(false);
    if (parks) check_blocked(true);
    check_two_callers();
    check_tight_loop();
    check_all_the_time();
    check_paths();
    return 0;
  }
  run_with(WITH("MIMALLOC_PURGE_DELAY=-1"), "never");
  run_with(WITH("MIMALLOC_PURGE_DELAY=100000"), "late");
  return 0;
}
