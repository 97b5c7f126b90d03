/* SPDX-License-Identifier: MIT */
/* heap MODE N - what first-class heaps cost, for counting instructions; linked with the library.
 *
 *   plain   mi_malloc and mi_free of 64 bytes
 *   last    mi_heap_malloc and mi_free, always from the same heap
 *   other   the same, from two heaps in turn
 *   cycle   a new heap, 50 blocks of 64 bytes, destroyed
 */
#include "mimalloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mi_heap_t *heaps[2];

static void alloc_plain(long n, long mask) {
  for (long i = 0; i < n; i++) {
    mi_heap_t *volatile heap = heaps[i & mask]; /* what the other loop does too */
    (void)heap;
    mi_free(mi_malloc(64));
  }
}
static void alloc_from_heaps(long n, long mask) {
  for (long i = 0; i < n; i++) mi_free(mi_heap_malloc(heaps[i & mask], 64));
}
static void cycle(long n) {
  for (long i = 0; i < n; i++) {
    mi_heap_t *heap = mi_heap_new();
    for (int k = 0; k < 50; k++) {
      if (mi_heap_malloc(heap, 64) == NULL) exit(1);
    }
    mi_heap_destroy(heap);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const char *mode = argv[1];
  long n = atol(argv[2]);
  heaps[0] = mi_heap_new();
  heaps[1] = mi_heap_new();
  if (strcmp(mode, "plain") == 0) alloc_plain(n, 1);
  else if (strcmp(mode, "last") == 0) alloc_from_heaps(n, 0);
  else if (strcmp(mode, "other") == 0) alloc_from_heaps(n, 1);
  else if (strcmp(mode, "cycle") == 0) cycle(n);
  else return 2;
  return 0;
}
