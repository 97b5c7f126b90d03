/* SPDX-License-Identifier: MIT */
/* Giving back many ranges at once: process_madvise, which takes MADV_DONTNEED from Linux 6.13 on,
 * and "this process" for its file descriptor from 6.14 on. One call flushes the translations of
 * addresses once, where as many calls of madvise do so each.
 * Threads: any; the switch is atomic. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/bits.h"
#include "os/linux.h"
#include "os/os.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define SELF_PIDFD (-10000) /* PIDFD_SELF_THREAD: newer than most <linux/pidfd.h> */
#define MAX_VECTOR 64u      /* more of them at a time gain little */

static _Atomic(bool) refused, may_ask;

void mi__os_allow_asking(void) {
  if (mi__unlikely(!mi__load(&may_ask, relaxed))) mi__store(&may_ask, true, relaxed);
}

#ifdef SYS_process_madvise
/* How many of the first ranges are done; not all for one of them is refused, or the call is. */
static unsigned discard_vector(const struct mi__os_range *ranges, unsigned n) {
  struct iovec vector[MAX_VECTOR];
  for (unsigned i = 0; i < n; i++) vector[i] = (struct iovec){ranges[i].start, ranges[i].size};
  long left = syscall(SYS_process_madvise, SELF_PIDFD, vector, (size_t)n, MADV_DONTNEED, 0u);
  unsigned n_done = 0;
  while (n_done < n && left >= (long)ranges[n_done].size) left -= (long)ranges[n_done++].size;
  return n_done;
}

/* Filters of system calls let madvise pass, for every allocator calls it; not all know this one,
 * and some of them end the process. */
bool mi__os_discards_at_once(void) {
  if (!mi__load(&may_ask, relaxed) || mi__load(&refused, relaxed)) return false;
  if (mi__os_calls.advise != NULL) return false;
  int saved = errno;
  bool may = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
  errno = saved;
  return may;
}
#else
static unsigned discard_vector(const struct mi__os_range *ranges, unsigned n) {
  (void)ranges;
  (void)n;
  return 0;
}
bool mi__os_discards_at_once(void) { return false; }
#endif

/* The call itself is refused, and not one of its ranges: an old kernel, or a filter. */
static bool is_refused(int error) { return error == EBADF || error == ENOSYS || error == EPERM; }

void mi__os_discard_ranges(struct mi__os_range *ranges, unsigned n, bool at_once) {
  int saved = errno;
  for (unsigned i = 0; i < n;) {
    unsigned n_asked = at_once && n > 1 ? mi__min(n - i, MAX_VECTOR) : 0, n_done = 0;
    if (n_asked > 0) {
      errno = 0;
      n_done = discard_vector(&ranges[i], n_asked);
      if (n_done == 0 && is_refused(errno)) {
        mi__store(&refused, true, relaxed);
        at_once = false;
      }
    }
    for (unsigned k = 0; k < n_done; k++) ranges[i++].done = true;
    if (n_asked > 0 && n_done == n_asked) continue;
    ranges[i].done = mi__os_discard(ranges[i].start, ranges[i].size, false);
    i++;
  }
  errno = saved;
}
