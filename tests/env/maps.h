/* SPDX-License-Identifier: MIT */
/* What the kernel says of the mapping around an address. Does not allocate. Threads: one at a
 * time. */
#ifndef MI_TESTS_ENV_MAPS_H
#define MI_TESTS_ENV_MAPS_H

#include "env/frame.h"

struct env_region {
  size_t mib, rw_mib; /* mappings that touch each other, and what of them can be written;
    rounded down */
};

static inline const char *env_read_maps(const char *path) {
  static char text[1 << 20];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  ssize_t n;
  while (fd >= 0 && (n = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
    length += (size_t)n;
  if (fd >= 0) close(fd);
  text[length] = 0;
  return text;
}

static inline struct env_region env_region_of(const void *p) {
  const char *line = env_read_maps("/proc/self/maps");
  unsigned long first = 0, last = 0, rw = 0;
  for (; line != NULL && *line != 0; line = strchr(line, '\n') + 1) {
    char *end;
    unsigned long start = strtoul(line, &end, 16), stop = strtoul(end + 1, &end, 16);
    if (start != last) {
      if (first <= (uintptr_t)p && (uintptr_t)p < last) break;
      first = start;
      rw = 0;
    }
    last = stop;
    if (end[2] == 'w') rw += stop - start;
    if (strchr(line, '\n') == NULL) break;
  }
  if ((uintptr_t)p < first || (uintptr_t)p >= last) return (struct env_region){ 0, 0 };
  return (struct env_region){ (last - first) >> 20, rw >> 20 };
}

/* Has the mapping of p the flag (two letters) in its VmFlags line? */
static inline bool env_has_flag(const void *p, const char *flag) {
  const char *line = env_read_maps("/proc/self/smaps");
  bool inside = false;
  for (; *line != 0; line = strchr(line, '\n') + 1) {
    char *end;
    unsigned long start = strtoul(line, &end, 16);
    if (*end == '-' && end > line + 4) inside = start <= (uintptr_t)p &&
      (uintptr_t)p < strtoul(end + 1, NULL, 16);
    if (inside && strncmp(line, "VmFlags:", 8) == 0) {
      const char *at = strstr(line, flag);
      return at != NULL && at < strchr(line, '\n');
    }
    if (strchr(line, '\n') == NULL) break;
  }
  return false;
}

static inline bool env_is_mapped(void *p) {
  unsigned char resident;
  uintptr_t page = (uintptr_t)p & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1);
  return mincore((void *)page, 1, &resident) == 0;
}

#endif
