/* SPDX-License-Identifier: MIT */
/* What the suites of the arena layer share: spans by one call, the scripted OS, the main function.
 * Each test runs in a process of its own (Check forks), so every one starts with a fresh arena. */
#ifndef MI_TESTS_ARENA_FIXTURE_H
#define MI_TESTS_ARENA_FIXTURE_H

#include "arena/arena.h"
#include "arena/types.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/counter.h"
#include "rt/option.h"
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SET mi__arenas_main()

static inline struct mi__span_request span_request(size_t n) {
  struct mi__span_request request = {.n_slices = n, .min_slices = n, .align_slices = 1, .numa_node = -1};
  request.side = n == 1 ? MI_SIDE_LOW : MI_SIDE_HIGH;
  request.cross_granules = n > 64;
  return request;
}
static inline struct mi__span span_alloc(size_t n) {
  struct mi__span_request request = span_request(n);
  struct mi__span span;
  memset(&span, 0x55, sizeof span);
  ck_assert_msg(mi__span_alloc(SET, &request, &span), "%zu slices", n);
  ck_assert_uint_eq(span.n_slices, n);
  ck_assert_uint_eq((uintptr_t)span.start % MI_SLICE_SIZE, 0);
  return span;
}
static inline void span_free(struct mi__span span) {
  mi__span_free(SET, span.start, span.n_slices, span.arena);
}
/* Write the first and the last bytes of every slice. */
static inline void span_fill(struct mi__span span, int value) {
  for (size_t i = 0; i < span.n_slices; i++) {
    memset(span.start + i * MI_SLICE_SIZE, value, 16);
    memset(span.start + (i + 1) * MI_SLICE_SIZE - 16, value, 16);
  }
}
static inline bool span_reads(struct mi__span span, int value) {
  for (size_t i = 0; i < span.n_slices * MI_SLICE_SIZE; i++) {
    size_t within = i % MI_SLICE_SIZE;
    if (within >= 16 && within < MI_SLICE_SIZE - 16) {
      i += MI_SLICE_SIZE - 32 - 1; /* to the last 16 bytes */
      continue;
    }
    if (span.start[i] != (char)value) return false;
  }
  return true;
}
static inline struct mi__arena *span_arena(struct mi__span span) {
  ck_assert_uint_gt(span.arena, 0);
  return mi__arena_table[span.arena - 1];
}
static inline int64_t counter_purged(void) { return mi__load(&mi__counters.purged, relaxed); }
static inline int64_t committed_now(void) {
  return mi__load(&mi__counters.committed.current, relaxed);
}

/* ---- the scripted OS ---- */

static uint64_t script_now = 1000; /* the clock, ms */
static int script_fail_map;        /* the n-th mapping from now fails; 0: none; -1: all */
static int script_fail_advise;     /* all discards fail with this errno; 0: none */
static int script_fail_protect;
static int script_n_advice;
static struct {
  char *start;
  size_t size;
} script_advice[4096];
static void (*script_on_advise)(void);

static inline uint64_t script_clock(void) { return script_now; }
static inline void *script_map(void *hint, size_t size, int prot, int flags) {
  if (script_fail_map < 0 || (script_fail_map > 0 && --script_fail_map == 0)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return mmap(hint, size, prot, flags, -1, 0);
}
static inline int script_advise(void *start, size_t size, int advice) {
  if (script_on_advise != NULL) script_on_advise();
  if (script_fail_advise != 0) {
    errno = script_fail_advise;
    return -1;
  }
  bool discards = advice == MADV_DONTNEED || advice == MADV_FREE;
  if (discards && script_n_advice < 4096) {
    script_advice[script_n_advice].start = start;
    script_advice[script_n_advice++].size = size;
  }
  return madvise(start, size, advice);
}
static inline int script_protect(void *start, size_t size, int prot) {
  if (script_fail_protect > 0 && --script_fail_protect == 0) {
    errno = ENOMEM;
    return -1;
  }
  return mprotect(start, size, prot);
}
static inline void script_os(void) {
  mi__os_init();
  mi__option_init();
  mi__os_calls.clock_ms = script_clock;
  mi__os_calls.map = script_map;
  mi__os_calls.advise = script_advise;
  mi__os_calls.protect = script_protect;
}

static inline int run_suite(const char *name, TCase *tcase) {
  Suite *suite = suite_create(name);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
