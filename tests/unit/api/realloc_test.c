/* SPDX-License-Identifier: MIT */
/* src/api/realloc.c: realloc and its kin, expand, and the questions about a block. */
#include "../heap/fixture.h"
#include "api/alloc.h"
#include <time.h>

static void fill(unsigned char *p, size_t size) {
  for (size_t i = 0; i < size; i++) p[i] = (unsigned char)(i % 251 + 1);
}
static bool is_filled(const unsigned char *p, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != i % 251 + 1) return false;
  }
  return true;
}
static bool is_zero(const unsigned char *block, size_t from, size_t to) {
  /* What is asked about is more than the compiler knows to have been requested. */
  const unsigned char *volatile hidden = block;
  const unsigned char *p = hidden;
  for (size_t i = from; i < to; i++) {
    if (p[i] != 0) return false;
  }
  return true;
}

/* ---- realloc ---- */

START_TEST(keeps_contents_between_all_sizes) {
  static const size_t sizes[] = {1,    8,     9,      64,     100,    1000,   1024,   1025,
                                 5000, 70000, 300000, 400000, 524288, 524289, 700000, 3 << 20};
  enum { N = sizeof sizes / sizeof sizes[0] };
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < N; k++) {
      size_t from = sizes[i], to = sizes[k], keep = from < to ? from : to;
      unsigned char *p = alloc(from);
      fill(p, from);
      errno = 4711;
      p = mi_realloc(p, to);
      ck_assert_int_eq(errno, 4711);
      ck_assert_uint_ge(mi_usable_size(p), to);
      ck_assert_msg(is_filled(p, keep), "from %zu to %zu", from, to);
      p[0] = p[to - 1] = 9;
      mi_free(p);
    }
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(stays_where_it_fits) {
  void *p = alloc(100); /* 112 bytes */
  ck_assert_ptr_eq(mi_realloc(p, 112), p);
  ck_assert_ptr_eq(mi_realloc(p, 56), p);
  ck_assert_ptr_eq(mi_realloc(p, 100), p);
  void *q = mi_realloc(p, 113);
  ck_assert_ptr_ne(q, p);
  ck_assert_uint_eq(mi_usable_size(q), 128);
  p = mi_realloc(q, 60); /* less than half: the rest is worth having */
  ck_assert_ptr_ne(p, q);
  ck_assert_uint_eq(mi_usable_size(p), 64);
}
END_TEST

START_TEST(null_and_zero) {
  void *p = mi_realloc(NULL, 100);
  ck_assert_uint_eq(mi_usable_size(p), 112);
  p = mi_realloc(p, 0);
  ck_assert_ptr_nonnull(p);
  ck_assert_uint_eq(mi_usable_size(p), 8);
  void *q = mi_realloc(NULL, 0);
  ck_assert(q != NULL && q != p);
  mi_free(p);
  mi_free(q);
  unsigned char *z = mi_rezalloc(NULL, any_size(5000));
  ck_assert(is_zero(z, 0, mi_usable_size(z)));
}
END_TEST

START_TEST(foreign_pointers) {
  static char mine[64];
  alloc(16);
  errno = 0;
  ck_assert_ptr_null(mi_realloc(mine, 100));
  ck_assert_int_eq(errno, EINVAL);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EINVAL);
  char *p = alloc(100);
  errno = 0;
  ck_assert_ptr_null(mi_realloc(p + 16, 200)); /* inside a block */
  ck_assert_int_eq(errno, EINVAL);
  ck_assert_ptr_null(mi_realloc((void *)(uintptr_t)-4096, 200));
  ck_assert_int_eq(n_errors, 3);
}
END_TEST

START_TEST(on_failure_the_block_stays) {
  mi__option_set(mi_option_arena_reserve, 8192);
  unsigned char *p = alloc(1000), *huge = alloc(MI_MIB);
  fill(p, 1000);
  fill(huge, MI_MIB);
  mi__store(&no_maps, true, relaxed);
  static const size_t sizes[] = {100 * MI_MIB, (size_t)PTRDIFF_MAX + 1, SIZE_MAX};
  for (int i = 0; i < 3; i++) {
    errno = 0;
    ck_assert_ptr_null(mi_realloc(p, any_size(sizes[i])));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(mi_realloc(huge, any_size(sizes[i])));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert(is_filled(p, 1000));
    ck_assert(is_filled(huge, MI_MIB));
  }
  ck_assert_uint_eq(mi_usable_size(huge), MI_MIB);
  mi_free(p);
  mi_free(huge);
}
END_TEST

START_TEST(of_another_threads_block) {
  unsigned char *p = alloc(100);
  fill(p, 100);
  in_thread(free_it, NULL);
  mi__thread_end(true); /* the page is nobody's */
  p = mi_realloc(p, 1000);
  ck_assert(is_filled(p, 100));
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* ---- rezalloc ---- */

START_TEST(what_is_new_is_zero) {
  for (size_t from = 1; from <= 2 * MI_MIB; from = from * 3 + 7) {
    for (size_t to = from + 1; to <= 8 * MI_MIB; to = to * 5 + 3) {
      void *dirt = memset(alloc(to), 0xff, to); /* what it may move into */
      unsigned char *p = mi_zalloc(from);
      size_t old = mi_usable_size(p);
      fill(p, old);
      mi_free(dirt);
      p = mi_rezalloc(p, to);
      ck_assert_msg(is_filled(p, old < to ? old : to), "from %zu to %zu", from, to);
      ck_assert_msg(to <= old || is_zero(p, old, to), "from %zu to %zu", from, to);
      mi_free(p);
    }
  }
}
END_TEST

START_TEST(a_huge_block_that_grows_in_place_too) {
  for (int direct = 0; direct < 2; direct++) {
    mi__option_set(mi_option_disallow_arena_alloc, direct);
    unsigned char *room = alloc(12 * MI_MIB), *p = mi_zalloc(MI_MIB);
    memset(room, 0xff, 12 * MI_MIB);
    mi_free(room);
    fill(p, MI_MIB);
    size_t old = MI_MIB;
    for (size_t size = 2 * MI_MIB; size <= 8 * MI_MIB; size *= 2) {
      p = mi_rezalloc(p, size);
      ck_assert_ptr_nonnull(p);
      ck_assert(is_filled(p, old));
      ck_assert(is_zero(p, old, size));
      fill(p, old = mi_usable_size(p));
    }
    p = mi_rezalloc(p, 5 * MI_MIB);
    ck_assert(is_filled(p, 5 * MI_MIB));
    ck_assert_uint_lt(mi_usable_size(p), 6 * MI_MIB);
    p = mi_rezalloc(p, 7 * MI_MIB); /* what was cut off has no old contents */
    ck_assert(is_filled(p, 5 * MI_MIB));
    ck_assert(is_zero(p, 5 * MI_MIB, 7 * MI_MIB));
    mi_free(p);
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(a_huge_block_that_moves_gets_an_eighth_more) {
  for (int direct = 0; direct < 2; direct++) {
    mi__option_set(mi_option_disallow_arena_alloc, direct);
    void *above = alloc(MI_MIB);
    unsigned char *p = alloc(MI_MIB), *q;
    fill(p, MI_MIB);
    q = mi_realloc(p, 4 * MI_MIB);
    ck_assert(is_filled(q, MI_MIB));
    if (!direct) ck_assert_ptr_ne(q, p); /* the OS may know of room */
    if (q != p) ck_assert_uint_eq(mi_usable_size(q), 4 * MI_MIB + MI_MIB / 2);
    mi_free(q);
    mi_free(above);
  }
}
END_TEST

START_TEST(growing_step_by_step_moves_rarely) {
  for (int direct = 0; direct < 2; direct++) {
    mi__option_set(mi_option_disallow_arena_alloc, direct);
    char *p = alloc(MI_MIB);
    int moves = 0;
    for (size_t size = MI_MIB; size <= 16 * MI_MIB; size += 65536) {
      char *q = mi_realloc(p, size);
      ck_assert_ptr_nonnull(q);
      moves += q != p;
      p = q;
      p[size - 1] = 1;
      alloc(600000); /* stands in the way */
    }
    ck_assert_int_le(moves, 40); /* of 241 steps */
    mi_free(p);
  }
}
END_TEST

/* ---- expand ---- */

START_TEST(expands_in_place_or_not_at_all) {
  char *p = alloc(100);
  errno = 4711;
  ck_assert_ptr_eq(mi_expand(p, 112), p);
  ck_assert_ptr_eq(mi_expand(p, 1), p);
  ck_assert_ptr_null(mi_expand(p, 113));
  ck_assert_ptr_null(mi_expand(NULL, 1));
  ck_assert_int_eq(errno, 4711);
  static char mine[16];
  ck_assert_ptr_null(mi_expand(mine, 1));
  char *above = alloc(MI_MIB), *huge = alloc(any_size(MI_MIB));
  ck_assert_ptr_null(mi_expand(huge, any_size(SIZE_MAX)));
  ck_assert_ptr_null(mi_expand(huge, 2 * MI_MIB)); /* there is the other */
  mi_free(above);
  ck_assert_ptr_eq(mi_expand(huge, 2 * MI_MIB), huge);
  ck_assert_uint_eq(mi_usable_size(huge), 2 * MI_MIB);
  memset(huge, 1, 2 * MI_MIB);
  mi_free(huge);
}
END_TEST

/* ---- questions ---- */

START_TEST(usable_size) {
  static char mine[16];
  errno = 4711;
  ck_assert_uint_eq(mi_usable_size(NULL), 0);
  ck_assert_int_eq(n_errors, 0);
  ck_assert_uint_eq(mi_usable_size(mine), 0);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EINVAL);
  char *p = alloc(100), *huge = alloc(MI_MIB + 1);
  ck_assert_uint_eq(mi_usable_size(p + 8), 0);
  ck_assert_uint_eq(mi_usable_size(huge + 8), 0);
  ck_assert_uint_eq(mi_usable_size(huge + MI_MIB), 0);
  ck_assert_int_eq(n_errors, 4);
  ck_assert_uint_eq(mi_usable_size(huge), MI_MIB + MI_SLICE_SIZE);
  ck_assert_int_eq(errno, 4711);
}
END_TEST

START_TEST(good_size) {
  ck_assert_uint_eq(mi_good_size(0), 8);
  ck_assert_uint_eq(mi_good_size(9), 16);
  ck_assert_uint_eq(mi_good_size(MI_BLOCK_MAX), MI_BLOCK_MAX);
  ck_assert_uint_eq(mi_good_size(MI_BLOCK_MAX + 1), MI_BLOCK_MAX + MI_SLICE_SIZE);
  ck_assert_uint_eq(mi_good_size(SIZE_MAX), SIZE_MAX);
}
END_TEST

START_TEST(owned_is_every_address_in_a_block) {
  static char mine[16];
  static const size_t sizes[] = {8, 100, 5000, 60000, 500000, MI_MIB, 10 * MI_MIB};
  for (int direct = 0; direct < 2; direct++) {
    mi__option_set(mi_option_disallow_arena_alloc, direct);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      char *p = alloc(sizes[i]);
      for (size_t at = 0; at < sizes[i]; at += sizes[i] / 7 + 1) {
        ck_assert_msg(mi_check_owned(p + at), "%zu of %zu", at, sizes[i]);
        ck_assert(mi_is_in_heap_region(p + at) && mi_any_heap_contains(p + at));
      }
      ck_assert(mi__is_owned(p + sizes[i] - 1));
      if (sizes[i] < MI_MIB) continue;
      mi_free(p);
      ck_assert(!mi__is_owned(p + sizes[i] / 2));
      ck_assert(!mi__is_owned(p));
    }
  }
  mi__option_set(mi_option_disallow_arena_alloc, 0);
  char *above = alloc(MI_MIB), *below = alloc(MI_MIB);
  ck_assert(below < above);
  mi_free(above);
  ck_assert(!mi__is_owned(above + 5)); /* what lies below ends before it */
  ck_assert(mi__is_owned(below + MI_MIB - 1));
  ck_assert(!mi__is_owned(NULL));
  ck_assert(!mi__is_owned(mine));
  ck_assert(!mi__is_owned(&sizes));
  ck_assert(!mi__is_owned((void *)UINTPTR_MAX));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("api/realloc");
  TCase *tcase = new_case(suite, "realloc");
  tcase_add_test(tcase, keeps_contents_between_all_sizes);
  tcase_add_test(tcase, stays_where_it_fits);
  tcase_add_test(tcase, null_and_zero);
  tcase_add_test(tcase, foreign_pointers);
  tcase_add_test(tcase, on_failure_the_block_stays);
  tcase_add_test(tcase, of_another_threads_block);
  tcase_add_test(tcase, what_is_new_is_zero);
  tcase_add_test(tcase, a_huge_block_that_grows_in_place_too);
  tcase_add_test(tcase, a_huge_block_that_moves_gets_an_eighth_more);
  tcase_add_test(tcase, growing_step_by_step_moves_rarely);
  tcase_add_test(tcase, expands_in_place_or_not_at_all);
  tcase = new_case(suite, "questions");
  tcase_add_test(tcase, usable_size);
  tcase_add_test(tcase, good_size);
  tcase_add_test(tcase, owned_is_every_address_in_a_block);
  return mi_test_run_suite(suite);
}
