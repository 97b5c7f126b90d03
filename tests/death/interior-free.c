/* SPDX-License-Identifier: MIT */
/* A04 foreign-free (d): an address inside a live block but not its start is freed, by a thread that does not own the block.
 * It is reported like a foreign one, and the block stays live and whole. */
#include "death/death.h"
#include <pthread.h>

static char *blocks[64];

static void *free_inside(void *arg) {
  size_t size = *(size_t *)arg;
  for (size_t i = 0; i < 64; i += 8) {
    char *volatile inside = blocks[i] + size / 2 + i % 3;
    free(inside);
  }
  return NULL;
}

static void run(size_t size) {
  pthread_t t;
  for (size_t i = 0; i < 64; i++) {
    blocks[i] = malloc(size);
    CHECK(blocks[i] != NULL);
    behave_fill(blocks[i], size, i);
  }
  CHECK(pthread_create(&t, NULL, free_inside, &size) == 0);
  pthread_join(t, NULL);
  behave_collect(true);
  for (size_t i = 0; i < 64; i++) {
    CHECK(behave_verify(blocks[i], size, i) == size);
    free(blocks[i]);
  }
}

static void misuse(void) {
  static const size_t sizes[] = {24, 100, 1000, 7000, 20000, 200000};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) run(sizes[i]);
  death_work_on();
}

int main(void) { return death_test("invalid pointer"); }
