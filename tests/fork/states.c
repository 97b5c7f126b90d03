/* SPDX-License-Identifier: MIT */
/* Fork in many states of the allocator: a child must find its parent's blocks whole, may free and resize them, and allocates
 * on; the parent must not see any of it. Each state is forked from once. */
#include "fork/workload.h"

static struct set blocks;

/* The child works on the blocks in its way; the parent waits, and must find its own unchanged. */
static void fork_and_check(const char *state) {
  pid_t pid = fork_limited(20);
  if (pid == 0) {
    set_verify(&blocks);
    set_free_some(&blocks, 2);
    work();
    set_free(&blocks);
    work();
    exit(0); /* with all exit handlers */
  }
  wait_for(pid, state);
  set_verify(&blocks);
}

static void *free_every_second(void *arg) {
  (void)arg;
  set_free_some(&blocks, 2);
  return NULL;
}

static void *make_blocks(void *arg) {
  blocks = set_make(2000, 8, 64 * BEHAVE_KiB, *(uint64_t *)arg);
  return NULL;
}

static void *fork_here(void *arg) {
  (void)arg;
  fork_and_check("forked by a thread that never allocated");
  work();
  fork_and_check("forked by a thread that allocated");
  return NULL;
}

static void run_in_thread(void *(*run)(void *), void *arg) {
  pthread_t t;
  int err = pthread_create(&t, NULL, run, arg);
  if (err != 0) FAIL("pthread_create gave %d", err);
  pthread_join(t, NULL);
}

/* Each generation frees a part of what all before it made, and forks the next. */
static void nest(int depth) {
  struct set mine = set_make(200, 16, 32 * BEHAVE_KiB, 1000 + (uint64_t)depth);
  if (depth > 0) {
    pid_t pid = fork_limited(20);
    if (pid == 0) {
      set_verify(&mine);
      nest(depth - 1);
      set_free(&mine);
      _exit(0);
    }
    wait_for(pid, "a fork in a fork child");
  }
  set_free(&mine);
}

static void resize_in_child(void) {
  size_t size = 3 * BEHAVE_MiB;
  unsigned char *p = malloc(size);
  CHECK(p != NULL);
  behave_fill(p, size, 9);
  pid_t pid = fork_limited(20);
  if (pid == 0) {
    p = realloc(p, 12 * BEHAVE_MiB);
    CHECK(p != NULL && behave_verify(p, size, 9) == size);
    memset(p, 1, 12 * BEHAVE_MiB);
    p = realloc(p, BEHAVE_KiB);
    CHECK(p != NULL && p[0] == 1 && p[BEHAVE_KiB - 1] == 1);
    free(p);
    _exit(0);
  }
  wait_for(pid, "a huge block resized in the child");
  CHECK(behave_verify(p, size, 9) == size);
  free(p);
}

static bool work_in_handlers;
static void in_prepare(void) { if (work_in_handlers) free(malloc(1000)); }
static void in_parent(void) { if (work_in_handlers) free(malloc(2000)); }
static void in_child(void) {
  if (!work_in_handlers) return;
  void *p = malloc(3000), *q = malloc(300000);
  CHECK(p != NULL && q != NULL);
  free(p);
  free(q);
}

int main(void) {
  mi_test_not_under("thread");
  behave_limit(60);
  if (pthread_atfork(in_prepare, in_parent, in_child) != 0) FAIL("pthread_atfork failed");
  fork_and_check("before the first allocation"); /* an empty set */
  uint64_t tag = 42;
  make_blocks(&tag);
  fork_and_check("with live blocks");
  set_free_some(&blocks, 3);
  fork_and_check("with half empty pages");
  run_in_thread(free_every_second, NULL);
  fork_and_check("with frees by another thread that its owner has not seen");
  behave_collect(true);
  fork_and_check("after a collection");
  set_free(&blocks);
  fork_and_check("with everything freed");
  tag = 43;
  run_in_thread(make_blocks, &tag);
  fork_and_check("with blocks of a thread that has ended");
  run_in_thread(fork_here, NULL);
  work_in_handlers = true;
  fork_and_check("with fork handlers that allocate");
  work_in_handlers = false;
  set_free(&blocks);
  nest(5);
  resize_in_child();
  return 0;
}
