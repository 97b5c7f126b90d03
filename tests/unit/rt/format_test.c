/* SPDX-License-Identifier: MIT */
/* src/rt/format.c: the formatter, against the C library's. */
#include "rt/message.h"
#include "../suite.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Both give the same text and length; ours also in a buffer that is too small. */
#define SAME(...) \
  do { \
    char want[256], got[256], small[8]; \
    int n = snprintf(want, sizeof(want), __VA_ARGS__); \
    memset(got, 'x', sizeof(got)); \
    memset(small, 'x', sizeof(small)); \
    ck_assert_uint_eq(mi__format(got, sizeof(got), __VA_ARGS__), (size_t)n); \
    ck_assert_str_eq(got, want); \
    ck_assert_uint_eq(mi__format(small, 7, __VA_ARGS__), (size_t)n); \
    want[6] = 0; \
    ck_assert_str_eq(small, want); \
    ck_assert_int_eq(small[7], 'x'); \
  } while (0)

START_TEST(texts) {
  SAME("plain");
  SAME("a longer text without anything");
  SAME("%s", "word");
  SAME("<%10s>", "word");
  SAME("<%-10s>", "word");
  SAME("<%.3s>", "word");
  SAME("<%10.3s>", "word");
  SAME("<%.*s>", 2, "word");
  SAME("<%*s>", 8, "word");
  SAME("<%-*s>", 8, "word");
  SAME("<%*s>", -8, "word");
  SAME("<%.0s>", "word");
  SAME("%c%c", 'a', 'z');
  SAME("100%%");
}
END_TEST

START_TEST(numbers) {
  SAME("%d %d %d %i", 0, 42, -42, INT_MIN);
  SAME("%u %u", 0u, UINT_MAX);
  SAME("%x %x", 0u, 0xDEADBEEFu);
  SAME("%ld %ld %lu %lx", LONG_MIN, LONG_MAX, ULONG_MAX, ULONG_MAX);
  SAME("%lld %llu %llx", LLONG_MIN, ULLONG_MAX, ULLONG_MAX);
  SAME("%zu %zd %zx", SIZE_MAX, (ptrdiff_t)-5, SIZE_MAX);
  SAME("<%8d> <%-8d> <%08d>", -42, -42, -42);
  SAME("<%8u> <%-8u> <%08u>", 42u, 42u, 42u);
  SAME("<%2d> <%02d>", 12345, -12345);
  SAME("<%12zu> <%*ld>", (size_t)7, 9, -3L);
  SAME("%d%s%d", 1, "two", 3);
}
END_TEST

START_TEST(pointers_and_what_is_not_known) {
  char got[64];
  int x;
  char want[64];
  snprintf(want, sizeof(want), "%p|%20p", (void *)&x, (void *)&x);
  mi__format(got, sizeof(got), "%p|%20p", (void *)&x, (void *)&x);
  ck_assert_str_eq(got, want);
  mi__format(got, sizeof(got), "%p", (void *)0);
  ck_assert_str_eq(got, "0x0");
  const char *volatile none = NULL; /* volatile: the compiler would warn of it */
  mi__format(got, sizeof(got), "%s|", none);
  ck_assert_str_eq(got, "(null)|");
}
END_TEST

START_TEST(a_buffer_of_one_byte) {
  char buf[2] = { 'x', 'x' };
  ck_assert_uint_eq(mi__format(buf, 1, "%d", 1234), 4);
  ck_assert_int_eq(buf[0], 0);
  ck_assert_int_eq(buf[1], 'x');
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rt/format");
  TCase *format = tcase_create("format");
  tcase_set_timeout(format, 60);
  tcase_add_test(format, texts);
  tcase_add_test(format, numbers);
  tcase_add_test(format, pointers_and_what_is_not_known);
  tcase_add_test(format, a_buffer_of_one_byte);
  suite_add_tcase(suite, format);
  return mi_test_run_suite(suite);
}
