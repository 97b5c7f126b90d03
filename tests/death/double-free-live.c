/* SPDX-License-Identifier: MIT */
/* A double free never takes a page with a live block away: a block is freed twice, all others but one are freed, everything
 * is allocated again, and the one that stayed live keeps its bytes and is given to nobody else. For several sizes, for the
 * owner and another thread, before and after a collection.
 * A release build sees the double free only when the page is about to leave; until then the block may be handed out twice,
 * and who writes to it writes to a free block. So there the test writes only to blocks of another size: they land on the
 * live one when its page was given away. */
#include "death/death.h"
#include <pthread.h>

enum { MOST = 4000 };

static void *blocks[MOST], *again[2 * MOST];

static void *free_in_thread(void *p) {
  free(p);
  return NULL;
}

static void free_by(bool other_thread, void *p) {
  pthread_t t;
  if (!other_thread) {
    free(p);
    return;
  }
  CHECK(pthread_create(&t, NULL, free_in_thread, p) == 0);
  pthread_join(t, NULL);
}

static void check_live(const void *live, size_t size, unsigned how, const char *when) {
  size_t at = behave_verify(live, size, 123);
  if (at != size) FAIL("%s (way %u): the live block of %zu bytes is changed at byte %zu", when, how, size, at);
}

/* Bit 0, 1: the first, second free of the pair is another thread's; bit 2: collect in between; bit 3: collect after. */
static void run(size_t size, size_t n, unsigned how) {
  for (size_t i = 0; i < n; i++) {
    blocks[i] = malloc(size);
    CHECK(blocks[i] != NULL);
  }
  void *live = blocks[n / 2];
  void *volatile twice = blocks[n / 3];
  behave_fill(live, size, 123);
  free_by((how & 1) != 0, twice);
  if ((how & 4) != 0) behave_collect(false);
  free_by((how & 2) != 0, twice);
  for (size_t i = 0; i < n; i++) {
    if (i != n / 2 && i != n / 3) free(blocks[i]);
  }
  if ((how & 8) != 0) behave_collect(true);
  check_live(live, size, how, "after all others were freed");
  for (size_t i = 0; i < 2 * n; i++) {
    size_t other = i % 2 == 0 ? size : size + size / 2;
    again[i] = malloc(other);
    CHECK(again[i] != NULL);
    if (again[i] == live) FAIL("the live block of %zu bytes was given out once more (way %u)", size, how);
    if (DEATH_DEBUG_BUILD || other != size) memset(again[i], 0xA5, other);
  }
  check_live(live, size, how, "after all were allocated again");
  /* what was allocated again may hold the twice freed block twice: it is leaked, not freed */
}

/* What one way does to the lists must not reach the next. */
static void run_in_child(size_t size, size_t n, unsigned how) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    behave_limit(20);
    run(size, n, how);
    if (BEHAVE_SANITIZED) _exit(0); /* its look for leaks at exit takes longer than all the rest */
    exit(0);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) FAIL("size %zu, way %u: status %#x", size, how, (unsigned)status);
}

static void misuse(void) {
  static const size_t sizes[] = {16, 64, 500, 2000, 8000};
  static const size_t counts[] = {MOST, MOST, 500, 150, 40};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    for (unsigned how = 0; how < 16; how += BEHAVE_SANITIZED ? 3 : 1) run_in_child(sizes[i], counts[i], how);
  }
}

int main(void) { return death_test(NULL); }
