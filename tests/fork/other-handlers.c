/* SPDX-License-Identifier: MIT */
/* Fork handlers that were registered before the library's run inside its own: their prepare step after it has taken its locks,
 * their parent and child steps before it has given them back. They may allocate all the same, also what needs those locks: pages
 * that a thread left behind, and heaps of the program's. */
#include "common.h"
#include "mimalloc.h"
#include <pthread.h>
#include <sys/wait.h>

enum { HELD = 20000, CHURNED = 4000 };
static void *held[HELD];
static void *churned[CHURNED];

static size_t size_of(int i) { return 16 + (size_t)(i % 60) * 64; }

static void churn(void) {
  for (int i = 0; i < CHURNED; i++) CHECK((churned[i] = mi_malloc(size_of(i))) != NULL);
  for (int i = 0; i < CHURNED; i++) mi_free(churned[i]);
}

/* The heap that was there is ended, or one is made where there is none. */
static mi_heap_t *heap;
static void next_heap(void) {
  mi_heap_t *next = NULL;
  if (heap == NULL) {
    next = mi_heap_new();
    CHECK(next != NULL && mi_heap_malloc(next, 2 << 20) != NULL);
  }
  mi_heap_destroy(heap);
  heap = next;
}
static void in_prepare(void) {
  churn();
  next_heap();
}

static void register_handlers(void) { pthread_atfork(in_prepare, churn, churn); }
/* Before every constructor, the library's too. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = register_handlers;

/* Ends and leaves partly free pages of every size. */
static void *leave_pages(void *arg) {
  for (int i = 0; i < HELD; i++) CHECK((held[i] = mi_malloc(size_of(i))) != NULL);
  for (int i = 0; i < HELD; i++) {
    if (i / 60 % 7 == 0) continue;
    mi_free(held[i]);
    held[i] = NULL;
  }
  return arg;
}

int main(void) {
  alarm(60);
  /* It does not support threads in a fork child. */
  if (mi_test_under("thread")) mi_option_set(mi_option_scavenger, 0);
  for (int round = 0; round < 4; round++) {
    if (round % 2 == 1) next_heap();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave_pages, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      next_heap();
      churn();
      next_heap();
      _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    for (int i = 0; i < HELD; i++) mi_free(held[i]);
    next_heap();
    if (heap != NULL) next_heap();
  }
  return 0;
}
