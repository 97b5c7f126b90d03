/* SPDX-License-Identifier: MIT */
/* footprint [m] - a program that calls malloc(100) once and writes to the block.
 *
 * Without an argument it does just that, for counting its system calls. With one it then prints
 * its private dirty memory and resident memory in KiB, and its number of threads. */
#include "resident.h"

int main(int argc, char **argv) {
  (void)argv;
  char *volatile p = malloc(100);
  if (p == NULL) return 1;
  for (size_t i = 0; i < 100; i++) p[i] = (char)i;
  if (argc > 1) {
    long dirty = dirty_kib(), resident = resident_kib(), threads = thread_count();
    printf("%ld %ld %ld\n", dirty, resident, threads);
  }
  return p[99] == 99 ? 0 : 3;
}
