/* SPDX-License-Identifier: MIT */
/* B15 realloc-one-more-element. Symptom: growing a vector by one element with realloc turns
 * quadratic above an internal size class. Recipe: p grows by 8 bytes from 8 B to 8 MiB, then to
 * 64 MiB in 4 KiB steps. Right: within 5x of glibc on the same machine and below 3 s for the first
 * part; second part at most 5 times glibc + 0.5 s.
 *
 * glibc's own functions stay reachable under other names, and are measured in the same process. */
#include "family.h"
#include <time.h>

extern void *__libc_realloc(void *p, size_t size) __attribute__((weak));
extern void __libc_free(void *p) __attribute__((weak));

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct times {
  double by_8, by_4096;
};

static struct times grow(void *(*resize)(void *, size_t), void (*release)(void *)) {
  struct times times;
  size_t size = 0;
  char *p = NULL;
  double start = now();
  while (size < (size_t)8 << 20) {
    size += 8;
    p = resize(p, size);
    CHECK(p != NULL);
    p[size - 1] = (char)(size / 8);
  }
  times.by_8 = now() - start;
  for (size_t i = 8; i <= size; i += 8 * 1021) CHECK(p[i - 1] == (char)(i / 8));
  start = now();
  while (size < (size_t)64 << 20) {
    size += 4096;
    p = resize(p, size);
    CHECK(p != NULL);
    p[size - 1] = 1;
  }
  times.by_4096 = now() - start;
  CHECK(p[7] == 1 && p[15] == 2);
  release(p);
  return times;
}

int main(void) {
  mi_test_not_tracked(); /* every step moves */
  struct times ours = grow(mi_realloc, mi_free);
  printf("ours:  %.3f s by 8 bytes, %.3f s by 4 KiB\n", ours.by_8, ours.by_4096);
  const char *sanitizers = getenv("MI_TEST_SANITIZE");
  if (sanitizers != NULL && *sanitizers != 0) return 0; /* no fair race */
  CHECK(ours.by_8 < 3);
  if (__libc_realloc == NULL || __libc_free == NULL) return 0;
  struct times libc = grow(__libc_realloc, __libc_free);
  printf("glibc: %.3f s by 8 bytes, %.3f s by 4 KiB\n", libc.by_8, libc.by_4096);
  CHECK(ours.by_8 <= 5 * libc.by_8);
  CHECK(ours.by_4096 <= 5 * libc.by_4096 + 0.5);
  return 0;
}
