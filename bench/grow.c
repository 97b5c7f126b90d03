/* SPDX-License-Identifier: MIT */
/* grow - one vector that grows by realloc: by 8 bytes from 8 B to 8 MiB, then by 4 KiB to 64 MiB.
 *
 * The last element is written after each step, and all of them are checked at the end. Prints the
 * seconds of the two parts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SMALL_STEP = 8, MIDDLE = 8 << 20, BIG_STEP = 4096, END = 64 << 20 };

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t *grow(uint64_t *p, size_t from, size_t to, size_t step) {
  for (size_t n = from + step; n <= to; n += step) {
    p = realloc(p, n);
    if (p == NULL) exit(1);
    p[n / 8 - 1] = n;
  }
  return p;
}

static void check(const uint64_t *p, size_t from, size_t to, size_t step) {
  for (size_t n = from + step; n <= to; n += step) {
    if (p[n / 8 - 1] != n) exit(3);
  }
}

int main(void) {
  double start = now_seconds();
  uint64_t *p = grow(NULL, 0, MIDDLE, SMALL_STEP);
  double middle = now_seconds();
  p = grow(p, MIDDLE, END, BIG_STEP);
  double end = now_seconds();
  check(p, 0, MIDDLE, SMALL_STEP);
  check(p, MIDDLE, END, BIG_STEP);
  free(p);
  printf("%.4f %.4f\n", middle - start, end - middle);
  return 0;
}
