/* SPDX-License-Identifier: MIT */
/* What the suites of the heap and API layers share: blocks and their pages, errors counted, the
 * clock and the mappings scripted. Each case runs in a process of its own: its first allocation is
 * the first of a new thread. The malloc of these programs is the C library's. */
#ifndef MI_TESTS_HEAP_FIXTURE_H
#define MI_TESTS_HEAP_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "arena/meta.h"
#include "heap/collect.h"
#include "heap/free.h"
#include "heap/heap.h"
#include "heap/huge.h"
#include "heap/process.h"
#include "heap/queue.h"
#include "heap/slot.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "mimalloc.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/message.h"
#include "rt/option.h"
#include "unit/suite.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static int n_errors, last_error;
static inline void count_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
  errno = 1234; /* a callback may do that */
}

static uint64_t clock_now = 100000; /* ms */
static inline uint64_t read_clock(void) { return clock_now; }

static _Atomic(bool) no_maps; /* every mapping fails */
static inline void *scripted_map(void *hint, size_t size, int prot, int flags) {
  if (mi__load(&no_maps, relaxed)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return mmap(hint, size, prot, flags, -1, 0);
}

/* The fixture of every case. */
static inline void set_up(void) {
  mi__process_init();
  mi__store(&mi__purge_ask_at, INT64_MAX, relaxed); /* no background thread: the clock is the test's */
  mi__option_set(mi_option_show_errors, 0);
  mi__message_register_error(count_error, NULL);
  mi__os_calls.clock_ms = read_clock;
  mi__os_calls.map = scripted_map;
}

static inline struct mi_theap_s *my_theap(void) { return mi__thread_theap(); }
static inline struct mi__theap_bin *bin_for(size_t size) {
  return &my_theap()->bins[mi__bin_of(size)];
}
static inline struct mi__pool *pool_for(size_t size) {
  return &mi__heap_main.pools[mi__bin_of(size)];
}
static inline struct mi_page *page_at(const void *p) {
  struct mi_page *page = mi__page_of(p);
  ck_assert_msg(page != NULL, "no page at %p", p);
  return page;
}

static inline void *alloc(size_t size) {
  void *p = mi_malloc(size);
  ck_assert_ptr_nonnull(p);
  return p;
}
/* Allocate all blocks of one more page, where no other page of the bin has any left. */
static inline struct mi_page *fill_page(size_t size, void **blocks) {
  blocks[0] = alloc(size);
  struct mi_page *page = page_at(blocks[0]);
  for (uint32_t i = 1; i < page->n_blocks; i++) {
    blocks[i] = alloc(size);
    ck_assert_ptr_eq(page_at(blocks[i]), page);
  }
  return page;
}

struct job {
  void (*act)(void *);
  void *arg;
};
static inline void *run_job(void *arg) {
  struct job *job = arg;
  job->act(job->arg);
  return NULL;
}
/* In a thread of its own, to its end. */
static inline void in_thread(void (*act)(void *), void *arg) {
  struct job job = {act, arg};
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, run_job, &job), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
static inline void free_it(void *p) { mi_free(p); }
/* By another thread, which ends: nothing is left in a run. */
static inline void free_elsewhere(void *p) { in_thread(free_it, p); }

static inline int64_t count_of(const _Atomic(int64_t) *counter) {
  return mi__load(counter, relaxed);
}
/* What the calling thread has counted for itself is told first. */
static inline void merge_counters(void) { mi__thread_merge_counters(mi__thread_self(false)); }
/* Hidden from the compiler, which would warn of a size that no system has, or a write past one. */
static inline size_t any_size(size_t size) {
  volatile size_t hidden = size;
  return hidden;
}
#define COUNT(name) count_of(&mi__counters.name)
#define CURRENT(name) count_of(&mi__counters.name.current)
#define HEAP_COUNT(name) count_of(&mi__heap_main.counters.name)
#define HEAP_CURRENT(name) count_of(&mi__heap_main.counters.name.current)

static inline TCase *new_case(Suite *suite, const char *name) {
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, 60); /* a sanitizer on a busy machine */
  tcase_add_checked_fixture(tcase, set_up, NULL);
  suite_add_tcase(suite, tcase);
  return tcase;
}

#endif
