/* SPDX-License-Identifier: MIT */
/* For runs-at-once.sh: every other slice of 16 MiB is free, and goes back by a forced collect: 128 pieces of memory. With an argument the
 * program declares an idle point before. */
#include "idle/idle.h"

enum { N = 32 * 1024, SIZE = 512 };
static void *block[N];

int main(int argc, char **argv) {
  (void)argv;
  behave_limit(20);
  for (int i = 0; i < N; i++) CHECK((block[i] = malloc(SIZE)) != NULL);
  size_t before = purged();
  if (argc > 1) mi_on_thread_idle();
  for (int i = 0; i < N; i++)
    if (((uintptr_t)block[i] >> 16 & 1) != 0) free(block[i]);
  mi_collect(true);
  size_t back = (purged() - before) >> 16;
  if (back < 100) FAIL("only %zu slices are back", back);
  return 0;
}
