/* SPDX-License-Identifier: MIT */
/* resident.h - figures of this process from /proc, without allocating while they are read. */
#ifndef BENCH_RESIDENT_H
#define BENCH_RESIDENT_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind KEY ("Rss:") in FILE (KiB where the file says kB); the program ends without it. */
static inline long proc_number(const char *file, const char *key) {
  static char text[16384];
  size_t n = 0;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  for (ssize_t got = 1; fd >= 0 && got > 0 && n < sizeof text - 1; n += (size_t)got) {
    got = read(fd, text + n, sizeof text - 1 - n);
    if (got < 0) break;
  }
  if (fd >= 0) close(fd);
  text[n] = 0;
  const char *at = strstr(text, key);
  if (at == NULL) {
    fprintf(stderr, "bench: no %s in %s\n", key, file);
    _exit(4);
  }
  return atol(at + strlen(key));
}

/* smaps_rollup walks the page tables: exact, where statm lags behind by some pages per thread. */
static inline long resident_kib(void) {
  return proc_number("/proc/self/smaps_rollup", "\nRss:");
}
static inline long dirty_kib(void) {
  return proc_number("/proc/self/smaps_rollup", "\nPrivate_Dirty:");
}
static inline long virtual_kib(void) { return proc_number("/proc/self/status", "\nVmSize:"); }
static inline long thread_count(void) { return proc_number("/proc/self/status", "\nThreads:"); }

#endif
