/* SPDX-License-Identifier: MIT */
/* src/page/bin.c: tables against the formula, and the numbers of the statistics interface. */
#include "page/bin.h"
#include "unit/suite.h"

/* 8; 16, 32, 48, 64; from there on four a doubling. */
static size_t size_of_bin(unsigned bin) {
  if (bin == 1) return 8;
  if (bin <= 8) return bin % 2 == 0 ? (size_t)bin * 8 : 0;
  unsigned doubling = (bin - 9) / 4, quarter = (bin - 9) % 4 + 1;
  size_t base = (size_t)64 << doubling;
  return base + base / 4 * quarter;
}

START_TEST(sizes_are_those_of_the_formula) {
  ck_assert_uint_eq(mi__bin_size(0), 0);
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    ck_assert_uint_eq(mi__bin_size(bin), size_of_bin(bin));
  }
  ck_assert_uint_eq(mi__bin_size(MI_BIN_LAST), MI_BLOCK_MAX);
}
END_TEST

START_TEST(blocks_are_multiples_of_16) {
  for (unsigned bin = 2; bin < MI_BINS; bin++) ck_assert_uint_eq(mi__bin_size(bin) % 16, 0);
}
END_TEST

/* The smallest that fits, for every size. */
START_TEST(every_size_has_the_smallest_bin_that_fits) {
  unsigned bin = 1;
  for (size_t size = 0; size <= MI_BLOCK_MAX; size++) {
    while (mi__bin_size(bin) < size) do bin++; while (mi__bin_size(bin) == 0);
    if (mi__bin_of(size) != bin) {
      ck_abort_msg("size %zu: bin %u instead of %u", size, mi__bin_of(size), bin);
    }
    if (size > 64 && mi__bin_of_large(size) != bin) ck_abort_msg("large size %zu", size);
  }
  ck_assert_uint_eq(bin, MI_BIN_LAST);
}
END_TEST

START_TEST(the_table_is_the_formula) {
  for (size_t size = 0; size <= MI_SMALL_MAX; size++) {
    ck_assert_uint_eq(mi__bin_of_small(size), mi__bin_of(size));
  }
}
END_TEST

START_TEST(numbers_of_the_statistics) {
  ck_assert_uint_eq(mi__bin_for_stats(0), 1);
  ck_assert_uint_eq(mi__bin_for_stats(8), 1);
  ck_assert_uint_eq(mi__bin_for_stats(9), 2);
  ck_assert_uint_eq(mi__bin_for_stats(MI_BLOCK_MAX), 60);
  ck_assert_uint_eq(mi__bin_for_stats(MI_BLOCK_MAX + 1), 61);
  for (unsigned bin = 61; bin <= 72; bin++) {
    ck_assert_uint_eq(mi__bin_for_stats(size_of_bin(bin)), bin);
    ck_assert_uint_eq(mi__bin_for_stats(size_of_bin(bin) + 1), bin + 1);
  }
  ck_assert_uint_eq(mi__bin_for_stats(4 * MI_MIB), 72);
  ck_assert_uint_eq(mi__bin_for_stats(SIZE_MAX), 73);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("page/bin");
  TCase *tcase = tcase_create("bin");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, sizes_are_those_of_the_formula);
  tcase_add_test(tcase, blocks_are_multiples_of_16);
  tcase_add_test(tcase, every_size_has_the_smallest_bin_that_fits);
  tcase_add_test(tcase, the_table_is_the_formula);
  tcase_add_test(tcase, numbers_of_the_statistics);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
