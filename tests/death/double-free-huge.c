/* SPDX-License-Identifier: MIT */
/* A block that has pages of its own is freed twice: the second time its address is nobody's. */
#include "death/death.h"

static void misuse(void) {
  char *other = malloc(5 * BEHAVE_MiB);
  void *volatile p = malloc(6 * BEHAVE_MiB);
  CHECK(other != NULL && p != NULL);
  behave_fill(other, 5 * BEHAVE_MiB, 4);
  free(p);
  free(p);
  char *volatile inside = other + 4096;
  free(inside);
  CHECK(behave_verify(other, 5 * BEHAVE_MiB, 4) == 5 * BEHAVE_MiB);
  free(other);
  death_work_on();
}

int main(void) { return death_test("invalid pointer"); }
