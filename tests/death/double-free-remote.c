/* SPDX-License-Identifier: MIT */
/* A thread frees a block of another thread twice, once right away and once with other frees in between. It is seen at the
 * latest when the owner of the page collects; the blocks that are still live keep their bytes. */
#include "death/death.h"
#include <pthread.h>

static void *blocks[100];

static void *free_twice(void *arg) {
  void *volatile again = blocks[7];
  free(blocks[3]);
  free(again);
  if (arg == NULL) free(blocks[5]);
  free(again);
  return NULL;
}

static void run(void *arg, uint64_t tag) {
  pthread_t t;
  for (size_t i = 0; i < 100; i++) {
    blocks[i] = malloc(500);
    CHECK(blocks[i] != NULL);
    behave_fill(blocks[i], 500, tag + i);
  }
  CHECK(pthread_create(&t, NULL, free_twice, arg) == 0);
  pthread_join(t, NULL);
  behave_collect(true);
  for (size_t i = 10; i < 100; i++) CHECK(behave_verify(blocks[i], 500, tag + i) == 500);
  for (size_t i = 10; i < 99; i++) free(blocks[i]);
  behave_collect(true);
  CHECK(behave_verify(blocks[99], 500, tag + 99) == 500);
}

static void misuse(void) {
  run(blocks, 100);
  run(NULL, 300);
}

int main(void) { return death_test("double free"); }
