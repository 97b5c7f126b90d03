/* SPDX-License-Identifier: MIT */
/* From Linux all but the memory itself: facts about the machine, waiting, random numbers, small
 * files,
 * the process.
 *
 * Raw system calls where the C library's wrapper is a cancellation point, may be hooked by another
 * preloaded library, or needs more of the C library than is set up when the loader calls malloc. */
#include "os/os.h"
#include "base/bits.h"
#include "os/linux.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* GRND_NONBLOCK: early in boot the pool may be empty, and no program's start may wait for it. */
#define GETRANDOM_NONBLOCK 1
#define THP_MODE "/sys/kernel/mm/transparent_hugepage/enabled"
#define OVERCOMMIT "/proc/sys/vm/overcommit_memory"
#define NUMA_NODES "/sys/devices/system/node/online"

#define MPOL_PREFER 1 /* MPOL_PREFERRED of <numaif.h>, which belongs to libnuma */

static uint64_t start_ms;

/* ---- small files ---- */

size_t mi__os_read_file(const char *path, char *buf, size_t size) {
  size_t length = 0;
  if (mi__os_calls.read_file != NULL) {
    length = mi__os_calls.read_file(path, buf, size - 1);
    buf[length] = 0;
    return length;
  }
  int saved = errno;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && length < size - 1) {
    long n = syscall(SYS_read, fd, buf + length, size - 1 - length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) length = 0;
    if (n <= 0) break;
    length += (size_t)n;
    /* Files of /proc and /sys come whole; asking for the end would cost a call more at each start
     * of a program. */
    if (buf[length - 1] == '\n') break;
  }
  if (fd >= 0) (void)syscall(SYS_close, fd);
  buf[length] = 0;
  errno = saved;
  return length;
}

/* ---- facts ---- */

static bool read_overcommit(void) {
  char text[16];
  (void)mi__os_read_file(OVERCOMMIT, text, sizeof(text));
  return text[0] != '2';
}

/* One entry of a page directory covers an OS page full of 8-byte entries: 2 MiB with pages of 4
 * KiB, 512 MiB with 64 KiB. */
static size_t large_page_of(size_t page) { return page * (page / 8); }

void mi__os_init(void) {
  static _Atomic(bool) done;
  if (mi__exchange(&done, true, relaxed)) return;
  size_t page = getauxval(AT_PAGESZ);
  if (page >= 4096) mi__os_facts.page_size = page;
  mi__os_facts.large_page_size = large_page_of(mi__os_facts.page_size);
  start_ms = mi__os_clock_ms();
  mi__os_facts.overcommits = read_overcommit();
}

/* What follows is read where it is first asked for: each file costs three system calls, which a
 * small program need not pay.
 * Threads that ask at the same time read the same. */

enum mi__thp mi__os_thp(void) {
  static _Atomic(int) known = -1;
  int mode = mi__load(&known, relaxed);
  if (mode >= 0) return (enum mi__thp)mode;
  char text[128];
  (void)mi__os_read_file(THP_MODE, text, sizeof(text));
  mode = MI_THP_ALWAYS;
  if (strstr(text, "[madvise]") != NULL) mode = MI_THP_MADVISE;
  if (strstr(text, "[never]") != NULL) mode = MI_THP_NEVER;
  mi__store(&known, mode, relaxed);
  return (enum mi__thp)mode;
}

/* The list reads "0" or "0-3,6": the last number is the highest node. */
unsigned mi__os_numa_nodes(void) {
  static _Atomic(unsigned) known;
  unsigned n = mi__load(&known, relaxed);
  if (n > 0) return n;
  char text[256];
  size_t length = mi__os_read_file(NUMA_NODES, text, sizeof(text));
  unsigned last = 0;
  for (size_t i = 0; i < length; i++) {
    bool digit = text[i] >= '0' && text[i] <= '9';
    if (digit) last = last * 10 + (unsigned)(text[i] - '0');
    else if (text[i] == '-' || text[i] == ',') last = 0;
  }
  n = last < 4096 ? last + 1 : 1;
  mi__store(&known, n, relaxed);
  return n;
}

unsigned mi__os_cpu_numa_node(void) {
  int saved = errno;
  unsigned cpu = 0, node = 0;
  if (syscall(SYS_getcpu, &cpu, &node, NULL) != 0) node = 0;
  errno = saved;
  return node;
}

/* ---- pages ---- */

int mi__os_is_resident(const void *start) {
  int saved = errno;
  unsigned char resident = 0;
  uintptr_t page = mi__align_down((uintptr_t)start, mi__os_facts.page_size);
  bool ok = syscall(SYS_mincore, page, mi__os_facts.page_size, &resident) == 0;
  errno = saved;
  return ok ? resident & 1 : -1;
}

void mi__os_bind_numa(void *start, size_t size, int node) {
  unsigned long mask[16] = { 0 };
  unsigned bits = 8 * sizeof(mask[0]);
  if (node < 0 || (unsigned)node >= bits * 16) return;
  int saved = errno;
  mask[(unsigned)node / bits] = 1UL << ((unsigned)node % bits);
  (void)syscall(SYS_mbind, start, size, MPOL_PREFER, mask, (unsigned long)bits * 16, 0);
  errno = saved;
}

/* ---- time and random numbers ---- */

static uint64_t clock_ns(void) {
  struct timespec now = { 0, 0 };
  int saved = errno;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  errno = saved;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t mi__os_clock_ms(void) {
  uint64_t now = mi__os_calls.clock_ms != NULL ? mi__os_calls.clock_ms() : clock_ns() / 1000000u;
  return now != 0 ? now : 1;
}

/* The finaliser of splitmix64: each input bit changes about half of the output bits. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Without getrandom: the 16 random bytes the kernel gave the program at its start, the clock, and a
 * count. */
static uint64_t random_fallback(void) {
  static _Atomic(uint32_t) n_calls;
  uint64_t x = clock_ns() ^ ((uint64_t)(uintptr_t)&n_calls << 16);
  const void *bytes = (const void *)getauxval(AT_RANDOM);
  if (bytes != NULL) {
    uint64_t seed;
    memcpy(&seed, bytes, sizeof(seed));
    x ^= mix(seed);
  }
  uint64_t count = mi__fetch_add(&n_calls, 1, relaxed);
  return mix(x + (count + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t mi__os_random(void) {
  uint64_t x = 0;
  int saved = errno;
  long n = syscall(SYS_getrandom, &x, sizeof(x), GETRANDOM_NONBLOCK);
  if (n != (long)sizeof(x)) x = random_fallback();
  errno = saved;
  return x;
}

/* ---- waiting ---- */

/* A filter may refuse the futex: then the waiter looks again each millisecond, and burns no
 * processor. */
static void nap(void) {
  struct timespec millisecond = { 0, 1000000 };
#ifdef SYS_nanosleep
  if (sizeof(millisecond.tv_nsec) == sizeof(long)) {
    struct { long seconds, nanoseconds; } time = { 0, 1000000 };
    (void)syscall(SYS_nanosleep, &time, NULL);
    return;
  }
#endif
  (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &millisecond, NULL);
}

void mi__os_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t timeout_ms) {
  int saved = errno;
  struct mi__futex_timeout timeout = { 0, 0 };
  if (timeout_ms >= 0) {
    int64_t most = INT32_MAX; /* what every kernel takes as seconds; the caller looks again */
    timeout.seconds = (mi__futex_time)(timeout_ms / 1000 < most ? timeout_ms / 1000 : most);
    timeout.nanoseconds = (mi__futex_time)(timeout_ms % 1000 * 1000000);
  }
  long r = syscall(MI__SYS_FUTEX, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, expected,
                   timeout_ms >= 0 ? &timeout : NULL, NULL, 0);
  if (r != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) nap();
  errno = saved;
}

void mi__os_wake(_Atomic(uint32_t) *word, int n) {
  int saved = errno;
  (void)syscall(MI__SYS_FUTEX, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
  errno = saved;
}

/* ---- the process ---- */

bool mi__os_is_secure(void) {
  int saved = errno;
  bool secure = getauxval(AT_SECURE) != 0;
  errno = saved;
  return secure;
}

char **mi__os_environ(void) { return mi__os_is_secure() ? NULL : environ; }

int mi__os_write(int fd, const void *data, size_t size) {
  int saved = errno, error = 0;
  const char *at = data;
  while (size > 0 && error == 0) {
    long n = syscall(SYS_write, fd, at, size);
    if (n > 0) {
      at += n;
      size -= (size_t)n;
    } else if (n == 0) {
      error = ENOSPC;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  errno = saved;
  return error;
}

void mi__os_write_stderr(const char *text, size_t length) {
  (void)mi__os_write(STDERR_FILENO, text, length);
}

int mi__os_create(const char *path, int *fd) {
  int saved = errno, error = 0;
  long n;
  do {
    n = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  } while (n < 0 && errno == EINTR);
  if (n < 0) error = errno;
  *fd = (int)n;
  errno = saved;
  return error;
}

/* Not again after EINTR: the descriptor is closed all the same, and may be somebody else's by
 * now. */
int mi__os_close(int fd) {
  int saved = errno;
  int error = syscall(SYS_close, fd) == 0 || errno == EINTR ? 0 : errno;
  errno = saved;
  return error;
}

bool mi__os_is_sandboxed(void) {
  int saved = errno;
  bool filtered =
      prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0;
  errno = saved;
  return filtered;
}

void mi__os_name_thread(const char *name) {
  int saved = errno;
  (void)prctl(PR_SET_NAME, name, 0, 0, 0);
  errno = saved;
}

uintptr_t mi__os_process_id(void) { return (uintptr_t)syscall(SYS_getpid); }
uintptr_t mi__os_thread_id(void) { return (uintptr_t)syscall(SYS_gettid); }

/* The second number of statm: resident pages. */
static size_t read_rss(void) {
  char text[128];
  (void)mi__os_read_file("/proc/self/statm", text, sizeof(text));
  const char *p = strchr(text, ' ');
  size_t pages = 0;
  if (p == NULL) return 0;
  for (p++; *p >= '0' && *p <= '9'; p++) pages = pages * 10 + (size_t)(*p - '0');
  return pages * mi__os_facts.page_size;
}

static size_t to_ms(struct timeval time) {
  return (size_t)time.tv_sec * 1000 + (size_t)time.tv_usec / 1000;
}

void mi__os_process_info(struct mi__os_process_info *out) {
  int saved = errno;
  struct rusage usage;
  memset(&usage, 0, sizeof(usage));
  (void)getrusage(RUSAGE_SELF, &usage);
  uint64_t now = mi__os_clock_ms();
  out->elapsed_ms = start_ms != 0 && now > start_ms ? (size_t)(now - start_ms) : 0;
  out->user_ms = to_ms(usage.ru_utime);
  out->system_ms = to_ms(usage.ru_stime);
  out->page_faults = (size_t)usage.ru_minflt;
  out->major_faults = (size_t)usage.ru_majflt;
  out->current_rss = read_rss();
  /* The kernel takes the two figures at different times and by different counters. */
  size_t peak = (size_t)usage.ru_maxrss * 1024;
  out->peak_rss = peak > out->current_rss ? peak : out->current_rss;
  errno = saved;
}
