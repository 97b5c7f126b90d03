/* SPDX-License-Identifier: MIT */
/* The program of secure.sh: says what it sees of the environment's options. */
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
  void *volatile p = malloc(100);
  free(p);
  printf("secure %d delay %ld\n", getauxval(AT_SECURE) != 0, mi_option_get(mi_option_purge_delay));
  return 0;
}
