/* SPDX-License-Identifier: MIT */
/* src/rt/option_parse.c: names and values of the environment (I01 size-units, I02 bad-values). */
#include "rt/option_parse.h"
#include "rt/option.h"
#include "../suite.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const long none = LONG_MIN; /* no value of this table: the text is not one */

struct value { const char *text; long plain, kib; };
static const struct value values[] = {
  { "", 1, 1 }, { "1", 1, 1 }, { "true", 1, 1 }, { "TRUE", 1, 1 }, { "True", 1, 1 }, { "yes", 1,
    1 }, { "ON", 1, 1 },
  { "0", 0, 0 }, { "false", 0, 0 }, { "No", 0, 0 }, { "off", 0, 0 }, { "OFF", 0, 0 },
  { "2", 2, 1 }, { "1023", 1023, 1 }, { "1024", 1024, 1 }, { "1025", 1025, 2 }, { "0000000012", 12,
    1 },
  { "-1", -1, 0 }, { "+7", 7, 1 }, { "-0", 0, 0 }, { "-5k", none, 0 },
  { "1073741824", 1073741824, 1048576 }, { "1g", none, 1048576 }, { "1G", none, 1048576 },
  { "1GiB", none, 1048576 }, { "1gb", none, 1048576 }, { "1024M", none, 1048576 }, { "1024MiB",
    none, 1048576 },
  { "1048576K", none, 1048576 }, { "1048576kib", none, 1048576 }, { "1t", none, 1073741824 },
  { "1gg", none, none }, { "1gbb", none, none }, { "1gib ", none, none }, { "1B", none, none },
  { "1iB", none, none }, { "1e9", none, none }, { "0x10", none, none }, { " ", none, none },
    { " 1", none, none },
  { "1 ", none, none }, { "abc", none, none }, { "K", none, none }, { "-", none, none }, { "+",
    none, none },
  { "--1", none, none }, { "1.5G", none, none }, { "truee", none, none }, { "tru", none, none },
  { "9223372036854775807", 9223372036854775807, 9007199254740992 },
  { "9223372036854775808", none, 9007199254740992 },
  { "1234567890123456789012345678901234567890", none, 18014398509481984 },
  { "99999999999999999999T", none, LONG_MAX },
};

START_TEST(values_read_as_the_table_says) {
  const struct value *v = &values[_i];
  long got = 4711;
  const char *problem = mi__option_parse_value(v->text, false, &got);
  if (v->plain == none) ck_assert_msg(problem != NULL, "\"%s\" is %ld", v->text, got);
  else ck_assert_msg(problem == NULL && got == v->plain, "\"%s\" is %ld", v->text, got);
  problem = mi__option_parse_value(v->text, true, &got);
  if (v->kib == none) ck_assert_msg(problem != NULL, "\"%s\" is %ld KiB", v->text, got);
  else ck_assert_msg(problem == NULL && got == v->kib, "\"%s\" is %ld KiB", v->text, got);
}
END_TEST

START_TEST(values_have_at_most_64_characters) {
  char text[80];
  long value;
  memset(text, '0', sizeof(text));
  text[63] = '7';
  text[64] = 0;
  ck_assert_ptr_null(mi__option_parse_value(text, false, &value));
  ck_assert_int_eq(value, 7);
  text[64] = '7';
  text[65] = 0;
  ck_assert_ptr_nonnull(mi__option_parse_value(text, false, &value));
}
END_TEST

START_TEST(knows_each_option_by_its_capitals) {
  for (int i = 0; i < _mi_option_last; i++) {
    char name[MI__OPTION_NAME_MAX], entry[128];
    struct mi__option_variable variable;
    mi__option_environment_name(mi__option_name((mi_option_t)i), name);
    ck_assert_int_eq(strncmp(name, "MIMALLOC_", 9), 0);
    snprintf(entry, sizeof(entry), "%s=some=text", name);
    ck_assert(mi__option_parse_name(entry, &variable));
    ck_assert_int_eq((int)variable.option, i);
    ck_assert(!variable.is_old);
    ck_assert_str_eq(variable.text, "some=text");
    ck_assert_str_eq(variable.name, entry + 9);
    ck_assert_int_eq(variable.name_length, (int)strlen(name) - 9);
  }
}
END_TEST

struct old { const char *entry; mi_option_t option; };
static const struct old olds[] = {
  { "MIMALLOC_LARGE_OS_PAGES=1", mi_option_allow_large_os_pages },
  { "MIMALLOC_EAGER_REGION_COMMIT=1", mi_option_arena_eager_commit },
  { "MIMALLOC_RESET_DECOMMITS=1", mi_option_purge_decommits },
  { "MIMALLOC_RESET_DELAY=1", mi_option_purge_delay },
  { "MIMALLOC_LIMIT_OS_ALLOC=1", mi_option_disallow_os_alloc },
  { "MIMALLOC_ABANDONED_RECLAIM_ON_FREE=1", mi_option_page_reclaim_on_free },
  { "MIMALLOC_DECOMMIT_EXTEND_DELAY=1", mi_option_deprecated_purge_extend_delay },
};

START_TEST(knows_old_names) {
  struct mi__option_variable variable;
  ck_assert(mi__option_parse_name(olds[_i].entry, &variable));
  ck_assert_int_eq((int)variable.option, (int)olds[_i].option);
  ck_assert(variable.is_old);
}
END_TEST

START_TEST(takes_nothing_else) {
  static const char *const entries[] = {
    "mimalloc_verbose=1", "MIMALLOC_verbose=1", "MIMALLOC_VERBOSE", "MIMALLOC_VERBOSE2=1",
      "MIMALLOC_VERBOS=1",
    "MIMALLOC_=1", "MIMALLOC_PROF=1", "XMIMALLOC_VERBOSE=1", "MIMALLOCVERBOSE=1", "", "=",
      "MIMALLOC_VERBOSE =1",
    "MIMALLOC_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=1",
  };
  struct mi__option_variable variable;
  for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
    ck_assert_msg(!mi__option_parse_name(entries[i], &variable), "%s", entries[i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rt/option_parse");
  TCase *parse = tcase_create("parse");
  tcase_set_timeout(parse, 60);
  int n_values = sizeof(void *) > 4 ? (int)(sizeof(values) / sizeof(values[0])) : 48;
    /* the last need a long of 64 bits */
  tcase_add_loop_test(parse, values_read_as_the_table_says, 0, n_values);
  tcase_add_test(parse, values_have_at_most_64_characters);
  tcase_add_test(parse, knows_each_option_by_its_capitals);
  tcase_add_loop_test(parse, knows_old_names, 0, (int)(sizeof(olds) / sizeof(olds[0])));
  tcase_add_test(parse, takes_nothing_else);
  suite_add_tcase(suite, parse);
  return mi_test_run_suite(suite);
}
