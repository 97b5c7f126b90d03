/* SPDX-License-Identifier: MIT */
/* threads64 [THREADS] - THREADS (default 64) threads that each hold one block in each of the 40
 * size classes from 16 bytes to 32 KiB, first byte written. Prints the resident memory in KiB
 * while all of them hold their blocks. */
#include "resident.h"

#include <pthread.h>

enum { N_BINS = 40, MAX_THREADS = 1024 };

static pthread_barrier_t filled, measured;
static size_t sizes[N_BINS];

static void list_sizes(void) { /* 16, 32, 48, 64, then four for each doubling */
  size_t n = 0;
  for (size_t s = 16; s <= 64; s += 16) sizes[n++] = s;
  for (size_t base = 64; base < 32768; base *= 2) {
    for (size_t quarter = 1; quarter <= 4; quarter++) sizes[n++] = base + base / 4 * quarter;
  }
  if (n != N_BINS || sizes[N_BINS - 1] != 32768) abort();
}

static void *hold(void *arg) {
  unsigned char mark = (unsigned char)(size_t)arg;
  unsigned char *blocks[N_BINS];
  for (size_t i = 0; i < N_BINS; i++) {
    blocks[i] = malloc(sizes[i]);
    if (blocks[i] == NULL) _exit(1);
    blocks[i][0] = mark;
  }
  pthread_barrier_wait(&filled);
  pthread_barrier_wait(&measured);
  for (size_t i = 0; i < N_BINS; i++) {
    if (blocks[i][0] != mark) _exit(3);
    free(blocks[i]);
  }
  return NULL;
}

int main(int argc, char **argv) {
  static pthread_t threads[MAX_THREADS];
  size_t n = argc > 1 ? (size_t)atol(argv[1]) : 64;
  if (n == 0 || n > MAX_THREADS) return 2;
  list_sizes();
  pthread_barrier_init(&filled, NULL, (unsigned)n + 1);
  pthread_barrier_init(&measured, NULL, (unsigned)n + 1);
  for (size_t k = 0; k < n; k++) {
    if (pthread_create(&threads[k], NULL, hold, (void *)k) != 0) return 1;
  }
  pthread_barrier_wait(&filled);
  long resident = resident_kib();
  pthread_barrier_wait(&measured);
  for (size_t k = 0; k < n; k++) pthread_join(threads[k], NULL);
  printf("%ld\n", resident);
  return 0;
}
