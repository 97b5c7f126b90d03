/* SPDX-License-Identifier: MIT */
/* thread-parks: threads that park, come back, free each other's blocks and end, while heaps of theirs are deleted, all is
 * purged, and the process forks. Blocks keep what was written to them. */
#include "common.h"
#include "mimalloc.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

enum { THREADS = 6, SHARED = 256, OWN = 64 };

static _Atomic(uint64_t *) shared[SHARED];
static _Atomic(bool) over;

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}
static uint64_t *make(mi_heap_t *heap, size_t size) {
  uint64_t *p = mi_heap_malloc(heap, size);
  CHECK(p != NULL);
  p[0] = size;
  p[size / 8 - 1] = size ^ (uintptr_t)p;
  return p;
}
static void give(uint64_t *p) {
  if (p == NULL) return;
  CHECK(p[p[0] / 8 - 1] == (p[0] ^ (uintptr_t)p));
  p[0] = 0;
  mi_free(p);
}
static size_t some_size(uint64_t *state) {
  static const size_t most[] = {64, 512, 4096, 40000, 300000};
  size_t n = most[next(state) % 5];
  return (16 + next(state) % n) / 8 * 8 + 16;
}
static void nap(uint64_t us) {
  struct timespec t = {0, (long)us * 1000};
  nanosleep(&t, NULL);
}

static void live(uint64_t *state) {
  uint64_t *own[OWN] = {NULL};
  mi_heap_t *heap = mi_heap_new();
  CHECK(heap != NULL);
  for (int round = 0; round < 20 && !over; round++) {
    for (int i = 0; i < 100; i++) {
      uint64_t **p = &own[next(state) % OWN];
      give(*p);
      *p = make(next(state) % 4 == 0 ? heap : mi_heap_main(), some_size(state));
      give(atomic_exchange(&shared[next(state) % SHARED], make(mi_heap_main(), some_size(state))));
    }
    switch (next(state) % 4) {
      case 0: mi_on_thread_idle(); break;
      case 1: mi_on_thread_idle_start(); mi_on_thread_idle_end(); break;
      case 2:
        mi_on_thread_idle_start();
        nap(next(state) % 3000);
        mi_on_thread_idle_end();
        break;
      default: mi_collect(next(state) % 8 == 0); break;
    }
  }
  for (int i = 0; i < OWN; i++) give(own[i]);
  if (next(state) % 2 == 0) mi_on_thread_idle_start(); /* and ends, or deletes, so */
  mi_heap_delete(heap);
}

static void *run(void *arg) {
  uint64_t state = (uintptr_t)arg;
  live(&state);
  return (void *)(uintptr_t)(state >> 8);
}

static void *run_many(void *arg) {
  uint64_t state = (uintptr_t)arg;
  while (!over) {
    pthread_t t;
    void *more;
    CHECK(pthread_create(&t, NULL, run, (void *)(uintptr_t)(next(&state) + 1)) == 0);
    CHECK(pthread_join(t, &more) == 0);
  }
  return NULL;
}

static void fork_once(uint64_t *state) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(60);
    over = false;
    for (int i = 0; i < 20; i++) give(make(mi_heap_main(), some_size(state)));
    mi_on_thread_idle_start();
    mi_on_thread_idle_end();
    for (int i = 0; i < 20; i++) give(make(mi_heap_main(), some_size(state)));
    mi_purge_all(true);
    exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void) {
  pthread_t threads[THREADS];
  uint64_t state = 1;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, run_many, (void *)(i + 1)) == 0);
  /* They keep locks of their own in a fork child, or allow no threads there. */
  bool may_fork = !mi_test_under("thread") && !mi_test_under("address");
  size_t n = mi_test_scale(80, 1500);
  for (size_t i = 0; i < n; i++) {
    if (i % 3 == 0) mi_purge_all_ex(i % 2 == 0 ? MI_PURGE_FORCE : 0, i % 7, NULL);
    if (i % 5 == 0 && may_fork) fork_once(&state);
    if (i % 4 == 0) mi_on_thread_idle_start();
    nap(2000);
    if (i % 8 == 0) mi_on_thread_idle_end();
  }
  over = true;
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < SHARED; i++) give(atomic_exchange(&shared[i], NULL));
  return 0;
}
