/* SPDX-License-Identifier: MIT */
/* What a test program needs to know of the run that it is part of, and a few helpers that do not allocate.
 * tests/README has the conventions: exit codes, sizes, repetition, environment.
 * Threads: every function may be called by any thread; a failed CHECK ends the process. */
#ifndef MI_TESTS_COMMON_H
#define MI_TESTS_COMMON_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MI_TEST_SKIP 77  /* exit code: this machine or build lacks what the test needs */
#define MI_TEST_ERROR 99 /* exit code: the test itself could not be set up */

enum mi_test_size { MI_TEST_SHORT, MI_TEST_LONG, MI_TEST_STRESS };

/* MI_TEST_SIZE: unset or short (make check), long (make check-long), stress (make stress). */
static inline enum mi_test_size mi_test_size(void) {
  const char *s = getenv("MI_TEST_SIZE");
  if (s == NULL || *s == 0 || strcmp(s, "short") == 0) return MI_TEST_SHORT;
  if (strcmp(s, "long") == 0) return MI_TEST_LONG;
  if (strcmp(s, "stress") == 0) return MI_TEST_STRESS;
  fprintf(stderr, "MI_TEST_SIZE=%s is none of short, long, stress\n", s);
  exit(MI_TEST_ERROR);
}

/* Is this a build with the sanitizer ("thread", "address", "undefined")? They keep books of their own and map terabytes, so what
 * measures memory, limits it, or starts threads in a fork child asks first. */
static inline bool mi_test_under(const char *sanitizer) {
  const char *list = getenv("MI_TEST_SANITIZE");
  return list != NULL && strstr(list, sanitizer) != NULL;
}
static inline void mi_test_not_under(const char *sanitizer) {
  if (!mi_test_under(sanitizer)) return;
  printf("skipped under the %s sanitizer\n", sanitizer);
  exit(MI_TEST_SKIP);
}

/* The tracking build: blocks have a trailer, so sizes and places of blocks are others. */
static inline bool mi_test_tracked(void) {
  const char *s = getenv("MI_TEST_VALGRIND");
  return s != NULL && strcmp(s, "1") == 0;
}
static inline void mi_test_not_tracked(void) {
  if (!mi_test_tracked()) return;
  printf("skipped in the tracking build\n");
  exit(MI_TEST_SKIP);
}

/* A count for this size of run. A stress run repeats the program so often that its counts are those of a short one. */
static inline size_t mi_test_scale(size_t short_count, size_t long_count) {
  return mi_test_size() == MI_TEST_LONG ? long_count : short_count;
}

/* How long a load without an end of its own may run: MI_STRESS_SECONDS in a stress run. */
static inline unsigned mi_test_seconds(unsigned short_seconds, unsigned long_seconds) {
  const char *s = getenv("MI_STRESS_SECONDS");
  if (mi_test_size() == MI_TEST_STRESS && s != NULL && atoi(s) > 0) return (unsigned)atoi(s);
  return mi_test_size() == MI_TEST_LONG ? long_seconds : short_seconds;
}

/* How long a test waits for what another thread does by itself, in ms. It is done much sooner; but on a
 * busy machine a process may get a small share of a processor for seconds, and the end of the wait is
 * a failure. Less than the 30 s after which the background thread looks at everything, so a wake-up that is lost is seen. */
#define MI_TEST_PATIENCE_MS 10000

#ifndef CHECK
#define CHECK(cond) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
      _exit(1); \
    } \
  } while (0)
#endif

/* A field of /proc/self/smaps_rollup, such as "Rss:" or "Private_Dirty:", in KiB; 0 where it cannot be read. Raw
 * system calls and a static buffer, so that the figure holds nothing of the measuring. One thread at a time. */
static inline size_t mi_test_memory_kib(const char *field) {
  static char text[4096];
  int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t length = 0;
  ssize_t n;
  while (length < sizeof(text) - 1 && (n = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
    length += (size_t)n;
  close(fd);
  text[length] = 0;
  const char *at = strstr(text, field);
  return at == NULL ? 0 : (size_t)strtoul(at + strlen(field), NULL, 10);
}
static inline size_t mi_test_rss_kib(void) { return mi_test_memory_kib("Rss:"); }

#endif
