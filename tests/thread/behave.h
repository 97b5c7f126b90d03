/* SPDX-License-Identifier: MIT */
/* Helpers of the behaviour tests: time limits, memory figures, patterns, random numbers. None of them allocates.
 *
 * A program that includes this file is written with the C names (malloc, free, ...). It is built
 * - linked with the library: the names are those of the public interface (mi_malloc, ...), so that it also tests a library
 *   that does not override malloc, for example one made for a sanitizer; or
 * - with MI_TEST_PLAIN, without the library: to run under LD_PRELOAD, or on the C library for a comparison.
 * Threads: every function may be called by any thread; a failure ends the process. */
#ifndef MI_TESTS_BEHAVE_H
#define MI_TESTS_BEHAVE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef MI_TEST_PLAIN
#include <malloc.h>
static inline void behave_collect(bool force) { (void)force; }
static inline bool behave_is_ours(const void *p) { return p != NULL; }
#else
#include "mimalloc.h"
#define malloc(n) mi_malloc(n)
#define calloc(c, n) mi_calloc(c, n)
#define realloc(p, n) mi_realloc(p, n)
#define free(p) mi_free(p)
#define memalign(a, n) mi_memalign(a, n)
#define aligned_alloc(a, n) mi_aligned_alloc(a, n)
#define posix_memalign(p, a, n) mi_posix_memalign(p, a, n)
#define malloc_usable_size(p) mi_usable_size(p)
static inline void behave_collect(bool force) { mi_collect(force); }
static inline bool behave_is_ours(const void *p) { return mi_is_in_heap_region(p); }
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BEHAVE_SANITIZED 1
#else
#define BEHAVE_SANITIZED 0
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef BEHAVE_SANITIZED
#define BEHAVE_SANITIZED 1
#endif
#endif

#define BEHAVE_KiB ((size_t)1024)
#define BEHAVE_MiB ((size_t)1024 * 1024)

/* Print a line on standard error without stdio's buffers: usable in a fork child and a signal handler. */
__attribute__((format(printf, 1, 2))) static inline void behave_say(const char *fmt, ...) {
  char line[512];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(line, sizeof(line) - 1, fmt, args);
  va_end(args);
  if (n < 0) return;
  if ((size_t)n > sizeof(line) - 2) n = (int)sizeof(line) - 2;
  line[n++] = '\n';
  if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(2);
}

/* Told before a failure: where the program is, how to repeat it. */
static void (*behave_context)(void);

/* A test under a debugger stops here; MI_TEST_ABORT leaves a core. */
__attribute__((noreturn, noinline, unused)) static void behave_fail(void) {
  if (behave_context != NULL) behave_context();
  if (getenv("MI_TEST_ABORT") != NULL) abort();
  _exit(1);
}

#define FAIL(...) \
  do { \
    behave_say("FAIL %s:%d:", __FILE__, __LINE__); \
    behave_say(__VA_ARGS__); \
    behave_fail(); \
  } while (0)

#define CHECK(condition) \
  do { \
    if (!(condition)) FAIL("not true: %s (errno %d)", #condition, errno); \
  } while (0)

#define SKIP(...) \
  do { \
    behave_say("skipped: " __VA_ARGS__); \
    _exit(MI_TEST_SKIP); \
  } while (0)

#include "common.h"

static inline void behave_on_alarm(int signal_number) {
  (void)signal_number;
  static const char text[] = "FAIL: the time limit has passed\n";
  if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) _exit(2);
  if (getenv("MI_TEST_ABORT") != NULL) abort();
  _exit(1);
}

/* The calling process may run for so many seconds from now on, where it has a processor for itself; a busy machine gets
 * six times as many. A fork child calls it anew. */
static inline void behave_limit(unsigned seconds) {
  signal(SIGALRM, behave_on_alarm);
  alarm(6 * seconds);
}

static inline uint64_t behave_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void behave_sleep_ms(unsigned ms) {
  struct timespec t;
  t.tv_sec = ms / 1000;
  t.tv_nsec = (long)(ms % 1000) * 1000000;
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

/* Field 0 of /proc/self/statm is the size of the address space, field 1 what is resident; in bytes. 0: not known. */
static inline size_t behave_statm(int field) {
  char text[128];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  char *at = text;
  for (int i = 0; i < field; i++) strtoul(at, &at, 10);
  return strtoul(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t behave_virtual(void) { return behave_statm(0); }
static inline size_t behave_resident(void) { return behave_statm(1); }

/* MI_TEST_SEED, or one that differs from run to run. */
static inline uint64_t behave_seed(void) {
  const char *text = getenv("MI_TEST_SEED");
  if (text != NULL && *text != 0) return strtoull(text, NULL, 0);
  return behave_now_ns() ^ ((uint64_t)getpid() << 40);
}

/* splitmix64: small, and good enough to choose sizes. */
static inline uint64_t behave_random(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* A size from low to high whose logarithm is spread evenly (within a factor of two). */
static inline size_t behave_random_size(uint64_t *state, size_t low, size_t high) {
  unsigned doublings = 0;
  while ((low << (doublings + 1)) <= high) doublings++;
  size_t base = low << (behave_random(state) % (doublings + 1));
  size_t size = base + behave_random(state) % base;
  return size < high ? size : high;
}

/* The bytes of a block are a function of its tag and of the place in the block, so that a byte that belongs to another
 * block, or that is shifted, is seen. */
static inline uint64_t behave_word(uint64_t tag, size_t index) {
  return (tag ^ (index * 0x9E3779B97F4A7C15u)) | 1;
}

static inline void behave_fill(void *p, size_t size, uint64_t tag) {
  unsigned char *to = (unsigned char *)p;
  size_t i = 0;
  for (; (i + 1) * 8 <= size; i++) {
    uint64_t w = behave_word(tag, i);
    memcpy(to + i * 8, &w, 8);
  }
  uint64_t last = behave_word(tag, i);
  memcpy(to + i * 8, &last, size - i * 8);
}

/* The offset of the first wrong byte (to the word), or `size` when all is well. */
static inline size_t behave_verify(const void *p, size_t size, uint64_t tag) {
  const unsigned char *from = (const unsigned char *)p;
  size_t i = 0;
  for (; (i + 1) * 8 <= size; i++) {
    uint64_t want = behave_word(tag, i), got;
    memcpy(&got, from + i * 8, 8);
    if (got != want) return i * 8;
  }
  uint64_t last = behave_word(tag, i);
  return memcmp(from + i * 8, &last, size - i * 8) == 0 ? size : i * 8;
}

static inline bool behave_is_zero(const void *p, size_t size) {
  const unsigned char *from = (const unsigned char *)p;
  return size == 0 || (from[0] == 0 && memcmp(from, from + 1, size - 1) == 0);
}

#endif
