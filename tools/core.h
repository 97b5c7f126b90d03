/* SPDX-License-Identifier: MIT */
/* Memory out of a core file: an ELF file of the kind that this machine writes. */
#ifndef MI_TOOLS_CORE_H
#define MI_TOOLS_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct segment {
  uint64_t address, size, offset;
};
struct core {
  FILE *file;
  struct segment *segments; /* those that have bytes of the range, by address */
  size_t n, current;
};

/* Open a file for reads in [address, address + size). False: `error` tells why. */
bool core_open(const char *path, uint64_t address, uint64_t size, struct core *core, char *error,
               size_t error_size);
void core_close(struct core *core);

/* The bytes from `address` on, `size` at most and at most to the end of a segment; 0: the core
 * has none there, and *next is where it may have some again. Addresses must not go down. */
size_t core_bytes(struct core *core, uint64_t address, void *to, size_t size, uint64_t *next);

#endif
