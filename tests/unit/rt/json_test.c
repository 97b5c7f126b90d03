/* SPDX-License-Identifier: MIT */
/* src/rt/json.c: what fits, what does not, and what is told of the whole. */
#include "rt/json.h"
#include "../suite.h"
#include <string.h>

static char buf[256];

static void write_some(struct mi__json *json, size_t size) {
  mi__json_begin(json, size == 0 ? NULL : buf, size);
  mi__json_open(json, NULL, '{');
  mi__json_number(json, "a", -1);
  mi__json_open(json, "list", '[');
  mi__json_number(json, NULL, INT64_MIN);
  mi__json_hex(json, NULL, UINT64_MAX);
  mi__json_open(json, NULL, '[');
  mi__json_close(json);
  mi__json_close(json);
  mi__json_bool(json, "b", true);
  mi__json_open(json, "c", '{');
  mi__json_bool(json, "d", false);
  mi__json_close(json);
  mi__json_close(json);
}

static const char whole[] = "{\n\"a\":-1,\n"
                            "\"list\":[-9223372036854775808,\"0xffffffffffffffff\",[]],\n"
                            "\"b\":true,\n\"c\":{\"d\":false}}";

START_TEST(writes_all_kinds) {
  struct mi__json json;
  write_some(&json, sizeof buf);
  ck_assert_str_eq(buf, whole);
  ck_assert(!json.full);
  ck_assert_uint_eq(json.needed, strlen(whole));
  ck_assert_uint_eq(json.length, strlen(whole));
}
END_TEST

START_TEST(tells_the_length_without_a_buffer) {
  struct mi__json json;
  write_some(&json, 0);
  ck_assert(json.full);
  ck_assert_uint_eq(json.needed, strlen(whole));
}
END_TEST

START_TEST(leaves_out_what_does_not_fit) {
  struct mi__json json;
  for (size_t size = 3; size <= sizeof whole; size++) {
    memset(buf, 'x', sizeof buf);
    write_some(&json, size);
    ck_assert_uint_eq(json.needed, strlen(whole));
    ck_assert_uint_eq(strlen(buf), json.length);
    ck_assert_uint_lt(json.length, size);
    ck_assert_int_eq(buf[size], 'x');
    ck_assert(json.full == (size < sizeof whole));
  }
  write_some(&json, 10);
  ck_assert_str_eq(buf, "{\n\"a\":-1}");
  write_some(&json, 22);
  ck_assert_str_eq(buf, "{\n\"a\":-1,\n\"list\":[]}");
}
END_TEST

START_TEST(ends_with_nothing_where_nothing_fits) {
  struct mi__json json;
  buf[0] = 'x';
  write_some(&json, 1);
  ck_assert_int_eq(buf[0], 0);
  write_some(&json, 2);
  ck_assert_int_eq(buf[0], 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rt/json");
  TCase *all = tcase_create("json");
  tcase_add_test(all, writes_all_kinds);
  tcase_add_test(all, tells_the_length_without_a_buffer);
  tcase_add_test(all, leaves_out_what_does_not_fit);
  tcase_add_test(all, ends_with_nothing_where_nothing_fits);
  suite_add_tcase(suite, all);
  return mi_test_run_suite(suite);
}
