/* SPDX-License-Identifier: MIT */
/* What a fork child does to show that the allocator works in it, and how its parent waits for it.
 * Threads: any; the child of a fork has one. */
#ifndef MI_TESTS_FORK_WORKLOAD_H
#define MI_TESTS_FORK_WORKLOAD_H

#include "thread/behave.h"
#include <pthread.h>
#include <sys/wait.h>

/* Live blocks with a pattern. */
struct set {
  size_t n;
  void **blocks;
  size_t *sizes;
  uint64_t tag;
};

static inline struct set set_make(size_t n, size_t low, size_t high, uint64_t tag) {
  struct set s = {.n = n, .tag = tag, .blocks = calloc(n, sizeof(void *)), .sizes = calloc(n, sizeof(size_t))};
  if (s.blocks == NULL || s.sizes == NULL) FAIL("no memory for a set of %zu blocks", n);
  uint64_t rng = tag;
  for (size_t i = 0; i < n; i++) {
    s.sizes[i] = behave_random_size(&rng, low, high);
    s.blocks[i] = malloc(s.sizes[i]);
    if (s.blocks[i] == NULL) FAIL("malloc(%zu) gave NULL", s.sizes[i]);
    behave_fill(s.blocks[i], s.sizes[i], tag + i);
  }
  return s;
}

static inline void set_verify(const struct set *s) {
  for (size_t i = 0; i < s->n; i++) {
    if (s->blocks[i] == NULL) continue;
    size_t at = behave_verify(s->blocks[i], s->sizes[i], s->tag + i);
    if (at != s->sizes[i]) FAIL("block %zu at %p of %zu bytes is changed at byte %zu", i, s->blocks[i], s->sizes[i], at);
  }
}

/* Free every `step`-th block, from the first one on. */
static inline void set_free_some(struct set *s, size_t step) {
  for (size_t i = 0; i < s->n; i += step) {
    free(s->blocks[i]);
    s->blocks[i] = NULL;
  }
}

static inline void set_free(struct set *s) {
  set_verify(s);
  set_free_some(s, 1);
  free(s->blocks);
  free(s->sizes);
  memset(s, 0, sizeof(*s));
}

static inline void *work_in_thread(void *arg) {
  (void)arg;
  struct set s = set_make(100, 8, 4096, 77);
  set_free(&s);
  return NULL;
}

/* A thousand mixed blocks, then a thread that allocates too. */
static inline void work(void) {
  struct set s = set_make(1000, 8, 8 * BEHAVE_KiB, 99);
  set_free_some(&s, 3);
  struct set more = set_make(300, 16, 64 * BEHAVE_KiB, 98);
  set_free(&s);
  set_free(&more);
  void *zero = calloc(1, 100000);
  if (zero == NULL || !behave_is_zero(zero, 100000)) FAIL("calloc in a fork child is not zero");
  free(zero);
  pthread_t t;
  int err = pthread_create(&t, NULL, work_in_thread, NULL);
  if (err != 0) FAIL("pthread_create in a fork child gave %d", err);
  pthread_join(t, NULL);
}

static inline pid_t fork_limited(unsigned seconds) {
  pid_t pid = fork();
  if (pid < 0) FAIL("fork failed, errno %d", errno);
  if (pid == 0) behave_limit(seconds);
  return pid;
}

static inline void wait_for(pid_t pid, const char *what) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) FAIL("waitpid failed, errno %d", errno);
  }
  if (WIFSIGNALED(status)) FAIL("%s: the child was ended by signal %d", what, WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) FAIL("%s: the child left with exit code %d", what, WEXITSTATUS(status));
}

/* Four threads that allocate and free 8 B to 256 KiB without pause and hand blocks to each other, until told to stop. */
struct churn {
  pthread_t threads[4];
  pthread_mutex_t locks[64];
  void *slots[64];
  bool stop;
};

static inline void *churn_run(void *arg) {
  struct churn *c = arg;
  uint64_t rng = behave_now_ns() ^ (uintptr_t)&rng;
  while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
    size_t size = behave_random_size(&rng, 8, 256 * BEHAVE_KiB);
    unsigned char *p = malloc(size);
    if (p == NULL) FAIL("malloc(%zu) gave NULL", size);
    p[0] = p[size - 1] = 1;
    size_t i = behave_random(&rng) % 64;
    pthread_mutex_lock(&c->locks[i]);
    void *other = c->slots[i];
    c->slots[i] = p;
    pthread_mutex_unlock(&c->locks[i]);
    free(other);
  }
  return NULL;
}

static inline void churn_start(struct churn *c) {
  memset(c, 0, sizeof(*c));
  for (int i = 0; i < 64; i++) pthread_mutex_init(&c->locks[i], NULL);
  for (int i = 0; i < 4; i++) {
    int err = pthread_create(&c->threads[i], NULL, churn_run, c);
    if (err != 0) FAIL("pthread_create gave %d", err);
  }
}

static inline void churn_stop(struct churn *c) {
  __atomic_store_n(&c->stop, true, __ATOMIC_RELAXED);
  for (int i = 0; i < 4; i++) pthread_join(c->threads[i], NULL);
  for (int i = 0; i < 64; i++) free(c->slots[i]);
}

#endif
