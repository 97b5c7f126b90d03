/* SPDX-License-Identifier: MIT */
/* Names of threads, from the file FILE.meta.json beside a snapshot. */
#ifndef MI_TOOLS_NAMES_H
#define MI_TOOLS_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct name {
  uint64_t tid;
  char *text; /* UTF-8 without control characters */
};
struct names {
  struct name *all; /* sorted by tid */
  size_t n;
};

/* No file, or one without names: none. Of a damaged file: the names before the damage. */
void names_read(const char *snapshot_path, struct names *names);
void names_free(struct names *names);
/* NULL: it has none. */
const char *names_find(const struct names *names, uint64_t tid);

#endif
