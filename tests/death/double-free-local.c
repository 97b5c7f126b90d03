/* SPDX-License-Identifier: MIT */
/* A thread frees its own block twice. It is seen at once in a debug build, else at the latest when the page is about to go
 * back; the page stays, and the program goes on. */
#include "death/death.h"

static void *blocks[100];

static void misuse(void) {
  for (int i = 0; i < 100; i++) blocks[i] = malloc(200);
  void *volatile twice = blocks[40];
  free(twice);
  free(twice);
  for (int i = 0; i < 100; i++) {
    if (i != 40) free(blocks[i]);
  }
  behave_collect(true);
}

int main(void) { return death_test("double free"); }
