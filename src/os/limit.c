/* SPDX-License-Identifier: MIT */
/* How much address space the process may still take. One system call where there is no limit. */
#include "os/os.h"
#include <errno.h>
#include <sys/resource.h>

/* The first number of /proc/self/statm is the size of the address space in OS pages. 0 where it
 * cannot be read. */
static size_t address_space_used(void) {
  char text[128];
  size_t pages = 0;
  (void)mi__os_read_file("/proc/self/statm", text, sizeof(text));
  for (const char *p = text; *p >= '0' && *p <= '9'; p++) pages = pages * 10 + (size_t)(*p - '0');
  return pages * mi__os_facts.page_size;
}

size_t mi__os_address_space_left(void) {
  int saved = errno;
  struct rlimit limit;
  bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  errno = saved;
  if (!limited || limit.rlim_cur >= SIZE_MAX) return SIZE_MAX;
  size_t used = address_space_used();
  return used < limit.rlim_cur ? (size_t)limit.rlim_cur - used : 0;
}
