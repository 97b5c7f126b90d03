/* SPDX-License-Identifier: MIT */
/* turnover own|main [THREADS] - THREADS (default 20000) threads one after the other.
 *
 * Each allocates 1 KiB and 64 KiB and frees both (own), or leaves both to the main thread, which
 * frees them when the thread has ended (main). Prints by how many KiB the resident and the virtual
 * size grew between the thread at a tenth of the count and the last one. */
#include "resident.h"

#include <pthread.h>

static struct {
  unsigned char *small, *big;
} held;
static int own;

static void free_held(void) {
  if (held.small[0] != 1 || held.small[1023] != 2 || held.big[0] != 3 || held.big[65535] != 4) {
    _exit(3);
  }
  free(held.small);
  free(held.big);
}

static void *run(void *arg) {
  (void)arg;
  held.small = malloc(1024);
  held.big = malloc(65536);
  if (held.small == NULL || held.big == NULL) _exit(1);
  held.small[0] = 1;
  held.small[1023] = 2;
  held.big[0] = 3;
  held.big[65535] = 4;
  if (own) free_held();
  return NULL;
}

int main(int argc, char **argv) {
  long n = argc > 2 ? atol(argv[2]) : 20000, resident = 0, size = 0;
  if (argc < 2 || n < 10 || (strcmp(argv[1], "own") != 0 && strcmp(argv[1], "main") != 0)) {
    fprintf(stderr, "usage: turnover own|main [THREADS]\n");
    return 2;
  }
  own = strcmp(argv[1], "own") == 0;
  for (long i = 1; i <= n; i++) {
    pthread_t t;
    if (pthread_create(&t, NULL, run, NULL) != 0) return 1;
    pthread_join(t, NULL);
    if (!own) free_held();
    if (i == n / 10) {
      resident = resident_kib();
      size = virtual_kib();
    }
  }
  resident = resident_kib() - resident;
  size = virtual_kib() - size;
  printf("%ld %ld\n", resident, size);
  return 0;
}
