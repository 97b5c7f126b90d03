/* SPDX-License-Identifier: MIT */
/* src/base/bits.h: the borders of each function. */
#include "base/bits.h"
#include "unit/suite.h"

START_TEST(powers_of_two) {
  ck_assert(!mi__is_power_of_two(0));
  for (unsigned i = 0; i < 8 * sizeof(size_t); i++) {
    size_t x = (size_t)1 << i;
    ck_assert(mi__is_power_of_two(x));
    ck_assert_uint_eq(mi__log2(x), i);
    ck_assert_uint_eq(mi__ctz64(x), i);
    if (i < 2) continue;
    ck_assert(!mi__is_power_of_two(x - 1));
    ck_assert(!mi__is_power_of_two(x + 1));
    ck_assert_uint_eq(mi__log2(x - 1), i - 1);
    ck_assert_uint_eq(mi__log2(x + 1), i);
    ck_assert_uint_eq(mi__ctz64(x | x >> 1), i - 1);
  }
  ck_assert_uint_eq(mi__log2(SIZE_MAX), 8 * sizeof(size_t) - 1);
}
END_TEST

START_TEST(aligns) {
  for (size_t align = 1; align <= 65536; align *= 2) {
    for (size_t i = 0; i < 4; i++) {
      ck_assert_uint_eq(mi__align_up(i * align, align), i * align);
      ck_assert_uint_eq(mi__align_down(i * align, align), i * align);
      ck_assert_uint_eq(mi__align_up(i * align + 1, align),
                        (i + (align > 1)) * align + (align == 1));
      ck_assert_uint_eq(mi__align_down(i * align + align - 1, align), i * align);
    }
  }
  ck_assert_uint_eq(mi__align_up(SIZE_MAX - 15, 16), SIZE_MAX - 15);
  ck_assert_uint_eq(mi__align_down(SIZE_MAX, 16), SIZE_MAX - 15);
}
END_TEST

START_TEST(aligns_pointers) {
  static char bytes[256];
  for (size_t i = 0; i < 64; i++) {
    char *p = mi__ptr_align_up(bytes + i, 64);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    ck_assert(p >= bytes + i && p < bytes + i + 64);
  }
}
END_TEST

START_TEST(divides_up) {
  ck_assert_uint_eq(mi__div_up(0, 7), 0);
  ck_assert_uint_eq(mi__div_up(1, 7), 1);
  ck_assert_uint_eq(mi__div_up(7, 7), 1);
  ck_assert_uint_eq(mi__div_up(8, 7), 2);
  ck_assert_uint_eq(mi__div_up(SIZE_MAX, 2), SIZE_MAX / 2 + 1);
  ck_assert_uint_eq(mi__div_up(SIZE_MAX, SIZE_MAX), 1);
}
END_TEST

START_TEST(multiplies) {
  size_t out;
  ck_assert(!mi__mul_overflow(SIZE_MAX / 3, 3, &out));
  ck_assert_uint_eq(out, SIZE_MAX);
  ck_assert(mi__mul_overflow(SIZE_MAX / 3 + 1, 3, &out));
  size_t root = ((size_t)1 << 4 * sizeof(size_t)) + 1; /* what is left of its square is larger */
  ck_assert(mi__mul_overflow(root, root, &out));
  ck_assert(!mi__mul_overflow(0, SIZE_MAX, &out));
  ck_assert_uint_eq(out, 0);
}
END_TEST

START_TEST(chooses) {
  ck_assert_uint_eq(mi__min(3, SIZE_MAX), 3);
  ck_assert_uint_eq(mi__min(SIZE_MAX, 3), 3);
  ck_assert_uint_eq(mi__max(3, SIZE_MAX), SIZE_MAX);
  ck_assert_uint_eq(mi__max(SIZE_MAX, 3), SIZE_MAX);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("base/bits");
  TCase *tcase = tcase_create("bits");
  tcase_add_test(tcase, powers_of_two);
  tcase_add_test(tcase, aligns);
  tcase_add_test(tcase, aligns_pointers);
  tcase_add_test(tcase, divides_up);
  tcase_add_test(tcase, multiplies);
  tcase_add_test(tcase, chooses);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
