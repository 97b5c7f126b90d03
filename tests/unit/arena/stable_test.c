/* SPDX-License-Identifier: MIT */
/* src/arena/stable.c: records that stay records of their kind. */
#include "arena/stable.h"
#include "heap/process.h"
#include "os/os.h"
#include "unit/suite.h"
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

enum { SIZE = 5000, N = 300, KEPT = 64 };
static struct mi__stable kind = {.size = SIZE};
static char *records[N];
static size_t tag;

static int n_discards;
static bool no_maps;
static void *map(void *hint, size_t size, int prot, int flags) {
  if (no_maps) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return mmap(hint, size, prot, flags, -1, 0);
}
static int advise(void *start, size_t size, int advice) {
  n_discards++;
  return madvise(start, size, advice);
}
static void set_up(void) {
  mi__process_init();
  mi__os_calls.map = map;
  mi__os_calls.advise = advise;
}

static void take(int from, int end) {
  for (int i = from; i < end; i++) {
    records[i] = mi__stable_alloc(&kind, &tag);
    ck_assert_ptr_nonnull(records[i]);
    ck_assert_uint_eq(tag, 0);
    ck_assert_uint_eq((uintptr_t)records[i] % 4096, 0);
  }
}
static bool reads_as(const char *p, char value) {
  for (int i = 0; i < SIZE; i++) {
    if (p[i] != value) return false;
  }
  return true;
}

START_TEST(fresh_ones_are_zero_and_apart) {
  take(0, N);
  for (int i = 0; i < N; i++) {
    ck_assert(reads_as(records[i], 0));
    memset(records[i], i % 100 + 1, SIZE);
  }
  for (int i = 0; i < N; i++) ck_assert(reads_as(records[i], (char)(i % 100 + 1)));
  ck_assert_uint_eq(kind.n_all, N);
}
END_TEST

START_TEST(the_last_freed_is_the_next) {
  take(0, 3);
  memset(records[1], 7, SIZE);
  mi__stable_free(&kind, records[0], 0);
  mi__stable_free(&kind, records[1], 0);
  ck_assert_ptr_eq(mi__stable_alloc(&kind, &tag), records[1]);
  ck_assert(reads_as(records[1], 7)); /* as it was freed */
  ck_assert_ptr_eq(mi__stable_alloc(&kind, &tag), records[0]);
  ck_assert_uint_eq(kind.n_all, 3);
  ck_assert_uint_eq(kind.n_free, 0);
}
END_TEST

/* Readable for ever: what it was, or zeros; and nothing else is made of it. */
START_TEST(many_free_ones_cost_nothing) {
  take(0, N);
  for (int i = 0; i < N; i++) memset(records[i], 5, SIZE);
  for (int i = 0; i < N; i++) mi__stable_free(&kind, records[i], (size_t)i + 1);
  ck_assert_int_eq(n_discards, N - KEPT);
  ck_assert_uint_eq(kind.n_discarded, N - KEPT);
  int n_zero = 0;
  for (int i = 0; i < N; i++) {
    bool zero = reads_as(records[i], 0);
    ck_assert(zero || reads_as(records[i], 5));
    n_zero += zero;
  }
  ck_assert_int_eq(n_zero, N - KEPT);
  char *again[N];
  for (int i = 0; i < N; i++) {
    again[i] = mi__stable_alloc(&kind, &tag);
    ck_assert_ptr_eq(again[i], records[N - 1 - i]);
    ck_assert_uint_eq(tag, (size_t)(N - i)); /* all that is left of some */
    memset(again[i], 9, SIZE);
  }
  ck_assert_uint_eq(kind.n_all, N);
  ck_assert_uint_eq(kind.n_discarded, 0);
  /* a discarded one that was taken again is full of what was written, until it is freed again */
  for (int i = 0; i < N; i++) ck_assert(reads_as(again[i], 9));
}
END_TEST

START_TEST(to_and_fro_near_the_limit) {
  take(0, N);
  for (int i = 0; i < KEPT + 10; i++) mi__stable_free(&kind, records[i], 0);
  for (int round = 0; round < 50; round++) {
    int n = round % 30;
    char *taken[30];
    for (int i = 0; i < n; i++) memset(taken[i] = mi__stable_alloc(&kind, &tag), round, SIZE);
    for (int i = 0; i < n; i++) ck_assert(reads_as(taken[i], (char)round));
    for (int i = 0; i < n; i++) mi__stable_free(&kind, taken[i], 0);
    ck_assert_uint_le(kind.n_discarded, kind.n_free);
    ck_assert_uint_eq(kind.n_free, KEPT + 10);
  }
}
END_TEST

START_TEST(no_memory) {
  int n = 0;
  no_maps = true;
  char *last = NULL;
  for (; n < 100000; n++) {
    char *record = mi__stable_alloc(&kind, &tag);
    if (record == NULL) break;
    last = record;
  }
  ck_assert_int_lt(n, 100000);
  ck_assert_ptr_nonnull(last);
  mi__stable_free(&kind, last, 0); /* needs none */
  ck_assert_ptr_eq(mi__stable_alloc(&kind, &tag), last);
  ck_assert_ptr_null(mi__stable_alloc(&kind, &tag));
  no_maps = false;
  ck_assert_ptr_nonnull(mi__stable_alloc(&kind, &tag));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("arena/stable");
  TCase *tcase = tcase_create("stable");
  tcase_set_timeout(tcase, 60);
  tcase_add_checked_fixture(tcase, set_up, NULL);
  if (mi_test_forks()) {
    tcase_add_test(tcase, fresh_ones_are_zero_and_apart);
    tcase_add_test(tcase, the_last_freed_is_the_next);
    tcase_add_test(tcase, many_free_ones_cost_nothing);
    tcase_add_test(tcase, to_and_fro_near_the_limit);
    tcase_add_test(tcase, no_memory);
  }
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
