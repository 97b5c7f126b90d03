/* SPDX-License-Identifier: MIT */
/* test-fork-user-heap, A to D: forks while a thread allocates from a heap of the program, while
 * threads end and heaps go; memory in a child; and the program's own fork handlers. */
#include "fork/workload.h"
#include <mimalloc-stats.h>
#include <sched.h>

static mi_heap_t *heap;
static _Atomic(bool) stopped;

static void *allocate_and_free(void *arg) {
  (void)arg;
  while (!stopped) {
    void *p[8];
    for (int i = 0; i < 8; i++) CHECK((p[i] = mi_heap_malloc(heap, 32)) != NULL);
    for (int i = 0; i < 8; i++) free(p[i]);
  }
  return NULL;
}
static pthread_t start_with(void *(*act)(void *), void *arg) {
  pthread_t t;
  CHECK(pthread_create(&t, NULL, act, arg) == 0);
  return t;
}
static pthread_t start(void *(*act)(void *)) { return start_with(act, NULL); }

/* What a child does with the heap: it has no thread but this one. */
static void use_and_end(mi_heap_t *h, bool destroy) {
  void *p = mi_heap_malloc(h, 32), *q = mi_heap_malloc(h, 5000), *huge = mi_heap_malloc(h, 2 << 20);
  CHECK(p != NULL && q != NULL && huge != NULL && mi_heap_of(p) == h && mi_heap_of(huge) == h);
  memset(huge, 1, 2 << 20);
  mi_heap_collect(h, true);
  free(q);
  if (destroy) {
    mi_heap_destroy(h);
  } else {
    mi_heap_delete(h);
    CHECK(mi_heap_of(p) == mi_heap_main() && mi_heap_of(huge) == mi_heap_main());
    free(p);
    free(huge);
  }
  mi_heap_t *another = mi_heap_new();
  p = mi_heap_malloc(another, 32);
  CHECK(another != NULL && mi_heap_of(p) == another);
  mi_heap_destroy(another);
}

static void check_a(void) {
  heap = mi_heap_new();
  void *own = mi_heap_malloc(heap, 32);
  CHECK(own != NULL);
  pthread_t t = start(allocate_and_free);
  for (size_t i = 0; i < mi_test_scale(20, 200); i++) {
    pid_t pid = fork_limited(5);
    if (pid == 0) {
      use_and_end(heap, i % 2 == 1);
      _exit(0);
    }
    wait_for(pid, "fork while a thread allocates from a heap");
  }
  stopped = true;
  pthread_join(t, NULL);
  stopped = false;
  CHECK(mi_heap_of(own) == heap);
  mi_heap_destroy(heap);
}

/* ---- B: threads end, heaps go ---- */

/* A fork takes longer to walk the list of heaps, in which others come and go; and a thread's table
 * of heaps grows for them, several times. */
enum { N_MORE = 300 };
static mi_heap_t *more[N_MORE];
static void *use_once(void *arg) {
  void *p[20];
  int n = 0;
  for (int i = 8; i < N_MORE; i *= 2) CHECK((p[n++] = mi_heap_malloc(more[i], 16)) != NULL);
  for (int i = 0; i < 10; i++) CHECK((p[n++] = mi_heap_malloc(heap, 100 * (size_t)i)) != NULL);
  while (arg == NULL && n > 0) free(p[--n]);
  return NULL;
}
/* The first of them leave their blocks behind. What all leave would grow for as long as the children take, and a child
 * that ends the heap takes longer the more there is. */
static void *come_and_go(void *arg) {
  (void)arg;
  for (size_t i = 0; !stopped; i++) pthread_join(start_with(use_once, i < 1000 ? heap : NULL), NULL);
  return NULL;
}
static void *make_and_end(void *arg) {
  (void)arg;
  for (size_t i = 0; !stopped; i++) {
    mi_heap_t *h = mi_heap_new();
    void *p = mi_heap_malloc(h, 200), *q = mi_heap_malloc(h, 1 << 20);
    CHECK(p != NULL && q != NULL);
    if (i % 2 == 0) {
      mi_heap_destroy(h);
    } else {
      mi_heap_delete(h);
      free(p);
      free(q);
    }
  }
  return NULL;
}
/* Without a page: nothing but the list of heaps holds them up. */
static void *make_and_end_empty(void *arg) {
  (void)arg;
  while (!stopped) mi_heap_destroy(mi_heap_new());
  return NULL;
}
static void check_b(void) {
  heap = mi_heap_new();
  for (size_t i = 0; i < N_MORE; i++) CHECK((more[i] = mi_heap_new()) != NULL);
  pthread_t a = start(come_and_go), b = start(make_and_end), c = start(make_and_end_empty);
  for (size_t i = 0; i < mi_test_scale(16, 200); i++) {
    pid_t pid = fork_limited(5);
    if (pid == 0) {
      CHECK(mi_heap_malloc(more[N_MORE - 1], 16) != NULL); /* and here */
      use_and_end(heap, i % 2 == 1);
      mi_collect(true);
      _exit(0);
    }
    wait_for(pid, "fork while threads end and heaps go");
  }
  stopped = true;
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  pthread_join(c, NULL);
  stopped = false;
  for (size_t i = 0; i < N_MORE; i++) mi_heap_destroy(more[i]);
  mi_heap_destroy(heap);
}

/* A sub-process of which the threads are gone in the child. */
static mi_subproc_id_t subproc;
static pthread_barrier_t barrier;
static void *sit_in_subproc(void *arg) {
  (void)arg;
  mi_subproc_add_current_thread(subproc);
  CHECK(malloc(100) != NULL);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}
static void check_subproc(void) {
  subproc = mi_subproc_new();
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t t = start(sit_in_subproc);
  pthread_barrier_wait(&barrier);
  pid_t pid = fork_limited(5);
  if (pid == 0) {
    int n = 0;
    mi_subproc_destroy(subproc);
    mi_subproc_id_t again = mi_subproc_new(); /* where the place of the other one is free */
    n += again._mi_subproc == subproc._mi_subproc;
    _exit(n == 1 ? 0 : 1);
  }
  wait_for(pid, "end of a sub-process in a child");
  pthread_barrier_wait(&barrier);
  pthread_join(t, NULL);
  mi_subproc_destroy(subproc);
}

/* Threads that are gone have no theaps in the child; and a heap that ends there leaves a record that
 * is not used again, for a thread that is gone may have held a page of it. */
static void *use_and_sit(void *arg) {
  CHECK(malloc(100) != NULL && (arg != NULL || mi_heap_malloc(heap, 100) != NULL));
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}
static int64_t n_theaps(void) {
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_stats_get(&stats));
  return stats.theaps.current;
}
static void check_vanished(void) {
  enum { N = 4 };
  pthread_t t[N];
  heap = mi_heap_new();
  mi_heap_t *unused = mi_heap_new();
  CHECK(mi_heap_malloc(heap, 100) != NULL);
  pthread_barrier_init(&barrier, NULL, N + 1);
  int64_t before = n_theaps(); /* this thread's */
  for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], NULL, use_and_sit, i == 0 ? heap : NULL) == 0);
  pthread_barrier_wait(&barrier);
  CHECK(n_theaps() == before + N + N - 1);
  pid_t pid = fork_limited(5);
  if (pid == 0) {
    if (n_theaps() != before) FAIL("%ld theaps in the child, not %ld", (long)n_theaps(), (long)before);
    mi_heap_destroy(heap);
    CHECK(n_theaps() == before - 1);
    mi_heap_destroy(unused);
    mi_heap_t *first = mi_heap_new(), *second = mi_heap_new();
    CHECK(first != heap && first != unused && second != heap && second != unused);
    mi_heap_destroy(first); /* as usual */
    CHECK(mi_heap_new() == first);
    _exit(0);
  }
  wait_for(pid, "theaps of vanished threads");
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
  CHECK(n_theaps() == before);
  pid = fork_limited(5);
  if (pid == 0) { /* nobody is gone */
    CHECK(n_theaps() == before);
    mi_heap_destroy(unused);
    CHECK(mi_heap_new() == unused);
    _exit(0);
  }
  wait_for(pid, "heaps of a process without threads");
  mi_heap_destroy(unused);
  mi_heap_destroy(heap);
}

/* ---- C: what a child frees goes back by itself ---- */

static void check_c(void) {
  enum { N = 160 };
  static void *p[N];
  pid_t pid = fork_limited(20);
  if (pid == 0) {
    mi_heap_t *h = mi_heap_new();
    for (int i = 0; i < N; i++) {
      CHECK((p[i] = mi_heap_malloc(h, 256 << 10)) != NULL);
      memset(p[i], 1, 256 << 10);
    }
    size_t full = behave_resident(), now = full;
    for (int i = 0; i < N; i++) free(p[i]);
    mi_heap_collect(h, true);
    uint64_t end = behave_now_ns() + MI_TEST_PATIENCE_MS * 1000000ull;
    while ((now = behave_resident()) + 16 * BEHAVE_MiB > full && behave_now_ns() < end) behave_sleep_ms(20);
    if (!BEHAVE_SANITIZED && now + 16 * BEHAVE_MiB > full)
      FAIL("%zu KiB of %zu are resident in the child", now / 1024, full / 1024);
    _exit(0);
  }
  wait_for(pid, "memory of a heap in a child");
}

/* ---- D: the program's own handlers ---- */

static int n_handled;
static void handle(void) {
  n_handled++;
  free(malloc(100));
}
static void check_d(void) {
  for (int i = 0; i < 2048; i++) {
    mi_heap_t *h = mi_heap_new();
    CHECK(h != NULL && mi_heap_malloc(h, 64) != NULL);
    mi_heap_destroy(h);
  }
  CHECK(pthread_atfork(handle, handle, handle) == 0);
  pid_t pid = fork_limited(5);
  if (pid == 0) _exit(n_handled == 2 ? 0 : 1);
  wait_for(pid, "fork with a handler");
  CHECK(n_handled == 2);
}

int main(void) {
  mi_test_not_under("thread");  /* it does not support threads in a fork child */
  mi_test_not_under("address"); /* its own malloc may stay locked for ever in the child of a process with threads */
  behave_limit(200);
  check_a();
  check_b();
  check_subproc();
  check_vanished();
  check_c();
  check_d();
  return 0;
}
