/* SPDX-License-Identifier: MIT */
/* src/os/linux_discard.c: several ranges at once, by the call for that where there is one, and one by one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "filter.h"
#include "../suite.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MANY = 150 }; /* more than one call takes */
static struct mi__os_range ranges[MANY];
static char *memory;
static size_t page_size;

/* Every other OS page, all full. */
static void prepare(unsigned n) {
  page_size = mi__os_facts.page_size;
  memory = mi__os_map((size_t)2 * MANY * page_size, 65536, MI_OS_COMMIT);
  ck_assert_ptr_nonnull(memory);
  memset(memory, 0xAB, (size_t)2 * MANY * page_size);
  for (unsigned i = 0; i < n; i++) ranges[i] = (struct mi__os_range){memory + 2 * i * page_size, page_size, false};
}

static bool page_is(size_t page, int value) {
  for (size_t i = 0; i < page_size; i++)
    if ((unsigned char)memory[page * page_size + i] != value) return false;
  return true;
}

static int n_advices, refused = -1;
static int count_advice(void *start, size_t size, int advice) {
  n_advices++;
  if (refused >= 0 && (char *)start == ranges[refused].start) {
    errno = EINVAL;
    return -1;
  }
  return madvise(start, size, advice);
}

/* How the calls are made. */
enum { AS_IT_COMES, ONE_BY_ONE, CALL_REFUSED, N_WAYS };
static void choose(int way) {
  ck_assert(!mi__os_discards_at_once()); /* a process that has declared no idle point */
  mi__os_allow_asking();
#ifdef SYS_process_madvise
  int calls[] = {SYS_process_madvise};
  if (way == CALL_REFUSED && !filter_calls(calls, 1, SECCOMP_RET_ERRNO | EPERM)) return;
#endif
  if (way == ONE_BY_ONE) mi__os_calls.advise = count_advice;
  if (way != AS_IT_COMES) ck_assert(!mi__os_discards_at_once());
}

static const unsigned numbers[] = {0, 1, 2, 63, 64, 65, MANY};
START_TEST(all_are_given_back) {
  choose(_i);
  for (int k = 0; k < 7; k++) {
    unsigned n = numbers[k];
    prepare(n);
    errno = 4711;
    mi__os_discard_ranges(ranges, n, mi__os_discards_at_once());
    ck_assert_int_eq(errno, 4711);
    for (unsigned i = 0; i < MANY; i++) {
      ck_assert(page_is(2 * i, i < n ? 0 : 0xAB));
      ck_assert(page_is(2 * i + 1, 0xAB)); /* neighbours stay */
      if (i < n) ck_assert(ranges[i].done);
    }
  }
}
END_TEST

START_TEST(ranges_of_several_sizes) {
  choose(_i);
  prepare(0);
  size_t at = 0;
  for (unsigned i = 0; i < 12; i++) {
    ranges[i] = (struct mi__os_range){memory + at * page_size, (i + 1) * page_size, false};
    at += i + 2;
  }
  mi__os_discard_ranges(ranges, 12, mi__os_discards_at_once());
  at = 0;
  for (unsigned i = 0; i < 12; i++) {
    ck_assert(ranges[i].done);
    for (unsigned k = 0; k <= i; k++) ck_assert(page_is(at++, 0));
    ck_assert(page_is(at++, 0xAB));
  }
}
END_TEST

static const unsigned holes[] = {0, 1, 5, 63, 64, 65, MANY - 1};
START_TEST(one_is_refused) {
  choose(_i % N_WAYS);
  unsigned bad = holes[_i / N_WAYS];
  prepare(MANY);
  ck_assert_int_eq(munmap(ranges[bad].start, page_size), 0);
  errno = 4711;
  mi__os_discard_ranges(ranges, MANY, mi__os_discards_at_once());
  ck_assert_int_eq(errno, 4711);
  for (unsigned i = 0; i < MANY; i++) {
    ck_assert_int_eq(ranges[i].done, i != bad);
    if (i != bad) ck_assert(page_is(2 * i, 0));
    ck_assert(page_is(2 * i + 1, 0xAB));
  }
  if (_i % N_WAYS == AS_IT_COMES) { /* and the call is not given up for that */
    bool at_once = mi__os_discards_at_once();
    prepare(MANY);
    mi__os_discard_ranges(ranges, MANY, mi__os_discards_at_once());
    for (unsigned i = 0; i < MANY; i++) ck_assert(ranges[i].done && page_is(2 * i, 0));
    ck_assert_int_eq(mi__os_discards_at_once(), at_once);
  }
}
END_TEST

START_TEST(several_are_refused) {
  choose(_i);
  prepare(MANY);
  for (unsigned i = 0; i < MANY; i += 7) ck_assert_int_eq(munmap(ranges[i].start, page_size), 0);
  mi__os_discard_ranges(ranges, MANY, mi__os_discards_at_once());
  for (unsigned i = 0; i < MANY; i++) {
    ck_assert_int_eq(ranges[i].done, i % 7 != 0);
    if (i % 7 != 0) ck_assert(page_is(2 * i, 0));
  }
}
END_TEST

START_TEST(one_call_for_each_where_the_seam_is_set) {
  choose(ONE_BY_ONE);
  prepare(10);
  mi__os_discard_ranges(ranges, 10, mi__os_discards_at_once());
  ck_assert_int_eq(n_advices, 10);
  prepare(10);
  refused = 4;
  errno = 4711;
  mi__os_discard_ranges(ranges, 10, mi__os_discards_at_once());
  ck_assert_int_eq(errno, 4711);
  for (int i = 0; i < 10; i++) {
    ck_assert_int_eq(ranges[i].done, i != 4);
    ck_assert(page_is(2 * (size_t)i, i != 4 ? 0 : 0xAB));
  }
}
END_TEST

START_TEST(asking_keeps_errno) {
  errno = 4711;
  (void)mi__os_discards_at_once();
  ck_assert_int_eq(errno, 4711);
}
END_TEST

int main(void) {
  if (!mi_test_forks()) return 77;
  mi__os_init();
  Suite *suite = suite_create("os/linux_discard");
  TCase *tcase = tcase_create("ranges");
  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, all_are_given_back, 0, N_WAYS);
  tcase_add_loop_test(tcase, ranges_of_several_sizes, 0, N_WAYS);
  tcase_add_loop_test(tcase, one_is_refused, 0, 7 * N_WAYS);
  tcase_add_loop_test(tcase, several_are_refused, 0, N_WAYS);
  tcase_add_test(tcase, one_call_for_each_where_the_seam_is_set);
  tcase_add_test(tcase, asking_keeps_errno);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
