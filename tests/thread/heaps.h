/* SPDX-License-Identifier: MIT */
/* What the tests of heaps that many threads use have in common. Threads: any. */
#ifndef MI_TESTS_THREAD_HEAPS_H
#define MI_TESTS_THREAD_HEAPS_H

#include "thread/behave.h"
#include <pthread.h>

static inline pthread_t start(void *(*act)(void *), void *arg) {
  pthread_t t;
  int err = pthread_create(&t, NULL, act, arg);
  if (err != 0) FAIL("pthread_create gave %d", err);
  return t;
}
static inline void join(pthread_t t) { CHECK(pthread_join(t, NULL) == 0); }
static inline void in_thread(void *(*act)(void *), void *arg) { join(start(act, arg)); }

static inline mi_heap_t *new_heap(void) {
  mi_heap_t *heap = mi_heap_new();
  if (heap == NULL) FAIL("mi_heap_new gave NULL (errno %d)", errno);
  return heap;
}
/* For in_thread. */
static inline void *delete_heap(void *heap) {
  mi_heap_delete(heap);
  return NULL;
}
static inline void *destroy_heap(void *heap) {
  mi_heap_destroy(heap);
  return NULL;
}

/* A block with its size, its tag and a pattern, so that it needs no record elsewhere. */
struct stamped {
  size_t size;
  uint64_t tag;
  struct stamped *next;
};
static inline struct stamped *stamp(void *p, size_t size, uint64_t tag) {
  struct stamped *s = p;
  s->size = size;
  s->tag = tag;
  s->next = NULL;
  behave_fill(s + 1, size - sizeof *s, tag ^ size);
  return s;
}
static inline struct stamped *stamped_in(mi_heap_t *heap, size_t size, uint64_t tag) {
  if (size < sizeof(struct stamped)) size = sizeof(struct stamped);
  void *p = mi_heap_malloc(heap, size);
  if (p == NULL) FAIL("mi_heap_malloc of %zu bytes gave NULL", size);
  return stamp(p, size, tag);
}
static inline void verify(const struct stamped *s) {
  size_t size = s->size - sizeof *s;
  size_t at = behave_verify(s + 1, size, s->tag ^ s->size);
  if (at != size) FAIL("block %p of %zu bytes is changed at byte %zu", (const void *)s, s->size, at + sizeof *s);
}
static inline void verify_and_free(struct stamped *s) {
  verify(s);
  free(s);
}
static inline void expect_heap(const void *p, const mi_heap_t *heap) {
  if (mi_heap_of(p) != heap) FAIL("block %p lies in heap %p, not in %p", p, (void *)mi_heap_of(p), (const void *)heap);
}

/* A place where threads leave blocks for each other. */
struct mailbox {
  pthread_mutex_t mutex;
  struct stamped *first;
};
static inline void post(struct mailbox *box, struct stamped *s) {
  pthread_mutex_lock(&box->mutex);
  s->next = box->first;
  box->first = s;
  pthread_mutex_unlock(&box->mutex);
}
static inline struct stamped *fetch_all(struct mailbox *box) {
  pthread_mutex_lock(&box->mutex);
  struct stamped *s = box->first;
  box->first = NULL;
  pthread_mutex_unlock(&box->mutex);
  return s;
}
static inline void free_list(struct stamped *s) {
  for (struct stamped *next; s != NULL; s = next) {
    next = s->next;
    verify_and_free(s);
  }
}

#endif
