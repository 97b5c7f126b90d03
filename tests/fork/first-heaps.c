/* SPDX-License-Identifier: MIT */
/* tls-key-race: in a fork child that is the first of its line to use heaps, 8 threads do so at the
 * same moment: each its own heap, then one that all share. A thread's handle of a heap (its theap) is
 * the same each time, no two threads have the same one, and each block lies in its heap. Then in
 * children of a process that has used heaps. */
#include "thread/heaps.h"
#include <mimalloc-stats.h>
#include <sys/wait.h>

enum { N = 8, N_BLOCKS = 64 };
static pthread_barrier_t barrier;
static mi_heap_t *shared, *own[N];
static mi_theap_t *handles[N][2]; /* of its own heap, of the shared one */

static mi_theap_t *use(mi_heap_t *heap, uint64_t tag) {
  struct stamped *all = NULL;
  struct stamped *first = stamped_in(heap, 100, tag); /* before anybody asks for the handle */
  mi_theap_t *theap = mi_heap_theap(heap);
  CHECK(theap != NULL && mi_heap_contains(heap, first));
  for (size_t k = 0; k < N_BLOCKS; k++) {
    struct stamped *s = stamped_in(heap, 40 + k * 100, tag + k);
    CHECK(mi_heap_contains(heap, s) && mi_heap_theap(heap) == theap);
    s->next = all;
    all = s;
  }
  free_list(all);
  verify_and_free(first);
  return theap;
}
static void *first_use(void *arg) {
  size_t id = (size_t)(uintptr_t)arg;
  pthread_barrier_wait(&barrier);
  own[id] = new_heap();
  handles[id][0] = use(own[id], id);
  pthread_barrier_wait(&barrier);
  handles[id][1] = use(shared, id);
  CHECK(mi_heap_theap(own[id]) == handles[id][0]);
  pthread_barrier_wait(&barrier); /* all handles are in use at once */
  return NULL;
}

static void be_child(bool with_shared) {
  pthread_t t[N];
  behave_limit(30);
  CHECK(pthread_barrier_init(&barrier, NULL, N + 1) == 0);
  for (uintptr_t i = 0; i < N; i++) t[i] = start(first_use, (void *)i);
  pthread_barrier_wait(&barrier);
  if (!with_shared) shared = new_heap(); /* while the threads make theirs */
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < N; i++) join(t[i]);
  for (int i = 0; i < 2 * N; i++) {
    for (int k = 0; k < i; k++) CHECK(handles[i / 2][i % 2] != handles[k / 2][k % 2]);
  }
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < i; k++) CHECK(own[i] != own[k] && mi_heap_get_seq(own[i]) != mi_heap_get_seq(own[k]));
    mi_heap_destroy(own[i]);
  }
  mi_heap_destroy(shared);
  _exit(0);
}

int main(void) {
  mi_test_not_under("thread"); /* it starts no threads in a fork child */
  behave_limit(250);
  size_t n = mi_test_scale(20, 200);
  for (size_t i = 0; i < n; i++) {
    /* The last quarter: the parent has a heap, and this thread uses it. */
    if (i == n - n / 4) CHECK(use(shared = new_heap(), 7) != NULL);
    pid_t pid = fork();
    if (pid < 0) exit(MI_TEST_ERROR);
    if (pid == 0) be_child(shared != NULL);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) FAIL("child %zu: status %x", i, (unsigned)status);
  }
  mi_heap_destroy(shared);
  return 0;
}
