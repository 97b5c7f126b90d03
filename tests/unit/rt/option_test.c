/* SPDX-License-Identifier: MIT */
/* src/rt/option.c: values, ranges, who wins, and the reading of the environment. */
#include "rt/option.h"
#include "rt/message.h"
#include "../suite.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static char seen[16384];
static int n_seen;

static void take(const char *text, void *arg) {
  (void)arg;
  n_seen++;
  if (strlen(seen) + strlen(text) < sizeof(seen)) strcat(seen, text);
}

static const char *env[16];
static int n_env;

static void set_env(const char *entry) {
  env[n_env++] = entry;
  env[n_env] = NULL;
}

static void read_env(void) {
  environ = (char **)env;
  mi__option_init();
}

static void start(void) { mi__message_register_output(take, NULL); }

/* ---- values ---- */

START_TEST(has_the_defaults_of_the_table) {
#define OPTION(number, name, value, unit, min, max, meaning) \
  ck_assert_int_eq(mi__option_get((mi_option_t)(number)), value); \
  ck_assert_str_eq(mi__option_name((mi_option_t)(number)), #name);
#include "rt/option.def"
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 100);
  ck_assert_int_eq(mi__option_get(mi_option_arena_reserve), sizeof(void *) > 4 ? 1048576 : 131072);
  ck_assert_int_eq(mi__option_get(mi_option_show_errors), MI_DEBUG);
}
END_TEST

START_TEST(keeps_to_the_ranges) {
  ck_assert(mi__option_set(mi_option_purge_delay, -1));
  ck_assert(!mi__option_set(mi_option_purge_delay, -2));
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), -1);
  ck_assert(!mi__option_set(mi_option_verbose, -1));
  ck_assert(!mi__option_set(mi_option_show_errors, 2));
  ck_assert(!mi__option_set(mi_option_allow_thp, 3));
  ck_assert(mi__option_set(mi_option_page_reclaim_on_free, -1));
  ck_assert(!mi__option_set(mi_option_page_reclaim_on_free, -2));
  ck_assert(mi__option_set(mi_option_guarded_sample_seed, LONG_MIN));
}
END_TEST

START_TEST(does_not_know_other_numbers) {
  static const int numbers[] = { -1, _mi_option_last, 1000, INT_MAX, INT_MIN };
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    mi_option_t option = (mi_option_t)numbers[i];
    ck_assert_int_eq(mi__option_get(option), 0);
    ck_assert_uint_eq(mi__option_get_size(option), 0);
    ck_assert(!mi__option_set(option, 1));
    ck_assert(!mi__option_set_default(option, 1));
    ck_assert_ptr_null(mi__option_name(option));
  }
}
END_TEST

START_TEST(gives_sizes_in_bytes) {
  ck_assert(mi__option_set(mi_option_arena_reserve, 64));
  ck_assert_uint_eq(mi__option_get_size(mi_option_arena_reserve), 65536);
  ck_assert(mi__option_set(mi_option_arena_reserve, -3));
  ck_assert_int_eq(mi__option_get(mi_option_arena_reserve), 0);
  ck_assert(mi__option_set(mi_option_arena_reserve, LONG_MAX));
  ck_assert_int_eq(mi__option_get(mi_option_arena_reserve), PTRDIFF_MAX / 1024);
  ck_assert_uint_eq(mi__option_get_size(mi_option_arena_reserve), PTRDIFF_MAX);
  ck_assert(mi__option_set(mi_option_purge_delay, 64));
  ck_assert_uint_eq(mi__option_get_size(mi_option_purge_delay), 64);
  ck_assert(mi__option_set(mi_option_purge_delay, -1));
  ck_assert_uint_eq(mi__option_get_size(mi_option_purge_delay), 0);
}
END_TEST

START_TEST(guarded_sizes_push_each_other) {
  ck_assert(mi__option_set(mi_option_guarded_max, 100));
  ck_assert(mi__option_set(mi_option_guarded_min, 200));
  ck_assert_int_eq(mi__option_get(mi_option_guarded_max), 200);
  ck_assert(mi__option_set(mi_option_guarded_max, 50));
  ck_assert_int_eq(mi__option_get(mi_option_guarded_min), 50);
  ck_assert(mi__option_set(mi_option_guarded_max, 70));
  ck_assert_int_eq(mi__option_get(mi_option_guarded_min), 50);
}
END_TEST

/* ---- who wins ---- */

START_TEST(a_default_of_the_program_is_overruled) {
  ck_assert(mi__option_set_default(mi_option_purge_delay, 1));
  ck_assert(mi__option_set_default(mi_option_purge_delay, 2));
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 2);
  ck_assert(mi__option_set_default(mi_option_generic_collect, 5));
  set_env("MIMALLOC_PURGE_DELAY=3");
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 3);
  ck_assert_int_eq(mi__option_get(mi_option_generic_collect), 5);
  mi__option_set_default(mi_option_purge_delay, 4);
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 3);
  ck_assert(mi__option_set(mi_option_purge_delay, 5));
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 5);
  mi__option_set_default(mi_option_purge_delay, 6);
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 5);
}
END_TEST

START_TEST(what_the_program_set_before_stays) {
  ck_assert(mi__option_set(mi_option_purge_delay, 5));
  set_env("MIMALLOC_PURGE_DELAY=3");
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 5);
}
END_TEST

/* ---- the environment ---- */

/* malloc may be called by the loader before the C library has an environment. */
START_TEST(is_read_when_it_is_there_and_only_once) {
  environ = NULL;
  mi__option_init();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 100);
  set_env("MIMALLOC_PURGE_DELAY=3");
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 3);
  env[0] = "MIMALLOC_PURGE_DELAY=4";
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 3);
}
END_TEST

START_TEST(silent_about_bad_values_by_default) {
  set_env("MIMALLOC_PURGE_DELAY=abc");
  set_env("MIMALLOC_RESET_DECOMMITS=0");
  set_env("MIMALLOC_ALLOW_THP=9");
  mi__option_set_default(mi_option_show_errors, 0);
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 100);
  ck_assert_int_eq(mi__option_get(mi_option_purge_decommits), 0);
  ck_assert_int_eq(mi__option_get(mi_option_allow_thp), 1);
  ck_assert_str_eq(seen, "");
}
END_TEST

/* The variable that shows warnings comes behind the one that has a bad value. */
START_TEST(warns_once_for_each_bad_value) {
  set_env("MIMALLOC_PURGE_DELAY=abc");
  set_env("MIMALLOC_ALLOW_THP=9");
  set_env("MIMALLOC_RESET_DECOMMITS=0");
  set_env("MIMALLOC_SHOW_ERRORS=1");
  read_env();
  ck_assert_int_eq(n_seen, 3);
  ck_assert_str_eq(seen,
    "mimalloc: warning: the variable MIMALLOC_RESET_DECOMMITS is an old name of "
    "MIMALLOC_PURGE_DECOMMITS\n"
    "mimalloc: warning: MIMALLOC_PURGE_DELAY: \"abc\" is no value for it; the value stays 100\n"
    "mimalloc: warning: MIMALLOC_ALLOW_THP: \"9\" is out of range; the value stays 1\n");
}
END_TEST

START_TEST(a_bad_value_of_verbose_warns_once) {
  set_env("MIMALLOC_VERBOSE=loud");
  set_env("MIMALLOC_PURGE_DELAY=abc");
  mi__option_set_default(mi_option_show_errors, 0);
  read_env();
  ck_assert_int_eq(n_seen, 1);
  ck_assert_str_eq(seen,
    "mimalloc: warning: MIMALLOC_VERBOSE: \"loud\" is no value for it; the value stays 0\n");
  ck_assert_int_eq(mi__option_get(mi_option_verbose), 0);
}
END_TEST

START_TEST(the_present_name_wins_over_an_old_one) {
  set_env("MIMALLOC_RESET_DELAY=1");
  set_env("MIMALLOC_PURGE_DELAY=2");
  set_env("MIMALLOC_PURGE_DELAY=3");
  set_env("MIMALLOC_RESET_DELAY=4");
  read_env();
  ck_assert_int_eq(mi__option_get(mi_option_purge_delay), 2);
}
END_TEST

START_TEST(tells_what_it_reads) {
  set_env("MIMALLOC_VERBOSE=2");
  set_env("MIMALLOC_PURGE_DELAY=7");
  read_env();
  ck_assert_str_eq(seen, "mimalloc: options set in the environment: 2\n"
                         "mimalloc: option verbose is 2\nmimalloc: option purge_delay is 7\n");
}
END_TEST

static void init_again(const char *text, void *arg) {
  (void)text, (void)arg;
  n_seen++;
  mi__option_init(); /* as malloc in a callback would */
}

START_TEST(may_be_entered_from_its_own_message) {
  mi__message_register_output(init_again, NULL);
  set_env("MIMALLOC_VERBOSE=1");
  read_env();
  ck_assert_int_eq(n_seen, 1);
}
END_TEST

START_TEST(prints_each_option) {
  mi__option_set(mi_option_purge_delay, 7);
  mi__option_print(take, NULL);
  ck_assert_int_eq(n_seen, _mi_option_last);
  ck_assert_ptr_nonnull(strstr(seen, "option purge_delay: 7 ms (program)\n"));
  ck_assert_ptr_nonnull(strstr(seen, "option arena_max_object_size: 2097152 KiB\n"));
  ck_assert_ptr_nonnull(strstr(seen, "option verbose: 0\n"));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rt/option");
  if (!mi_test_forks()) return 77;
  TCase *values = tcase_create("values");
  tcase_set_timeout(values, 60);
  tcase_add_test(values, has_the_defaults_of_the_table);
  tcase_add_test(values, keeps_to_the_ranges);
  tcase_add_test(values, does_not_know_other_numbers);
  tcase_add_test(values, gives_sizes_in_bytes);
  tcase_add_test(values, guarded_sizes_push_each_other);
  suite_add_tcase(suite, values);

  TCase *environment = tcase_create("environment");
  tcase_set_timeout(environment, 60);
  tcase_add_checked_fixture(environment, start, NULL);
  tcase_add_test(environment, a_default_of_the_program_is_overruled);
  tcase_add_test(environment, what_the_program_set_before_stays);
  tcase_add_test(environment, is_read_when_it_is_there_and_only_once);
  tcase_add_test(environment, silent_about_bad_values_by_default);
  tcase_add_test(environment, warns_once_for_each_bad_value);
  tcase_add_test(environment, a_bad_value_of_verbose_warns_once);
  tcase_add_test(environment, the_present_name_wins_over_an_old_one);
  tcase_add_test(environment, tells_what_it_reads);
  tcase_add_test(environment, may_be_entered_from_its_own_message);
  tcase_add_test(environment, prints_each_option);
  suite_add_tcase(suite, environment);
  return mi_test_run_suite(suite);
}
