/* SPDX-License-Identifier: MIT */
/* The decisions of the arena layer, number by number. */
#include "arena/policy.h"
#include "fixture.h"
#include <limits.h>

#define NO_LIMIT SIZE_MAX

START_TEST(reservations_without_limit) {
  ck_assert_uint_eq(mi__policy_reservation(MI_GIB, 0, MI_MIB, NO_LIMIT), MI_GIB);
  ck_assert_uint_eq(mi__policy_reservation(0, 0, MI_MIB, NO_LIMIT), MI_ARENA_MIN_SIZE);
  ck_assert_uint_eq(mi__policy_reservation(5 * MI_MIB, 0, 1, NO_LIMIT), 8 * MI_MIB);
  ck_assert_uint_eq(mi__policy_reservation(64 * MI_MIB, 0, 100 * MI_MIB + 1, NO_LIMIT),
                    104 * MI_MIB);
  ck_assert_uint_eq(mi__policy_reservation(MI_GIB, 0, SIZE_MAX, NO_LIMIT), 0);
  size_t sum = 0;
  for (size_t n = 0; n < 20; n++) sum += mi__policy_reservation(MI_GIB, n, 1, NO_LIMIT);
  ck_assert_uint_ge(sum, 100 * MI_GIB);
}
END_TEST

START_TEST(reservations_under_a_limit) {
  for (size_t left = 0; left < 2 * MI_GIB; left += 3 * MI_MIB) {
    size_t size = mi__policy_reservation(MI_GIB, 0, MI_SLICE_SIZE, left);
    ck_assert_uint_eq(size % MI_ARENA_MIN_SIZE, 0);
    if (left >= 16 * MI_MIB) ck_assert_uint_le(size, left / 4);
    ck_assert_uint_le(size, left / 2);
    if (left >= 8 * MI_MIB) ck_assert_uint_gt(size, 0);
  }
  /* What does not fit into its share is better served by itself. */
  ck_assert_uint_eq(mi__policy_reservation(MI_GIB, 0, 100 * MI_MIB, 256 * MI_MIB), 0);
  ck_assert_uint_eq(mi__policy_reservation(8 * MI_MIB, 0, MI_MIB, MI_GIB), 8 * MI_MIB);
}
END_TEST

START_TEST(smaller_reservations_end) {
  size_t size = MI_GIB, steps = 0;
  for (; size != 0; steps++) {
    ck_assert_uint_ge(size, MI_ARENA_MIN_SIZE);
    size = mi__policy_smaller_reservation(size, MI_SLICE_SIZE);
  }
  ck_assert_uint_eq(steps, 9); /* 1 GiB to 4 MiB */
  ck_assert_uint_eq(mi__policy_smaller_reservation(64 * MI_MIB, 33 * MI_MIB), 0);
  ck_assert_uint_eq(mi__policy_smaller_reservation(64 * MI_MIB, 32 * MI_MIB), 32 * MI_MIB);
}
END_TEST

START_TEST(delays) {
  ck_assert_int_eq(mi__policy_delay_ms(100, 1), 100);
  ck_assert_int_eq(mi__policy_delay_ms(100, 10), 1000);
  ck_assert_int_eq(mi__policy_delay_ms(0, 10), 0);
  ck_assert_int_lt(mi__policy_delay_ms(-1, 10), 0);
  ck_assert_int_lt(mi__policy_delay_ms(10, -1), 0);
  ck_assert_int_gt(mi__policy_delay_ms(LONG_MAX, LONG_MAX), 0);
}
END_TEST

START_TEST(lateness) {
  /* freed at 1000 with a delay of 100: armed for 1050, late from 1100 on */
  ck_assert(!mi__policy_is_late(1050, 1050, 100));
  ck_assert(!mi__policy_is_late(1050, 1099, 100));
  ck_assert(mi__policy_is_late(1050, 1100, 100));
  ck_assert(mi__policy_is_late(1000, 1001, 1));
  ck_assert(!mi__policy_is_late(1000, 1000, 1));
}
END_TEST

START_TEST(units) {
  ck_assert_uint_eq(mi__policy_unit_slices(0, false), 1);
  ck_assert_uint_eq(mi__policy_unit_slices(4096, false), 1);
  ck_assert_uint_eq(mi__policy_unit_slices(0, true), 32);
  ck_assert_uint_eq(mi__policy_unit_slices(2 * MI_MIB, false), 32);
  ck_assert_uint_eq(mi__policy_unit_slices(3 * MI_SLICE_SIZE, false), 4);
  ck_assert_uint_eq(mi__policy_unit_slices(4 * MI_MIB, false), 64);
  ck_assert_uint_eq(mi__policy_unit_slices(5 * MI_MIB, false), 128);
  ck_assert_uint_eq(mi__policy_unit_slices(SIZE_MAX, false), 4096);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("policy");
  tcase_add_test(tcase, reservations_without_limit);
  tcase_add_test(tcase, reservations_under_a_limit);
  tcase_add_test(tcase, smaller_reservations_end);
  tcase_add_test(tcase, delays);
  tcase_add_test(tcase, lateness);
  tcase_add_test(tcase, units);
  return run_suite("arena/policy", tcase);
}
