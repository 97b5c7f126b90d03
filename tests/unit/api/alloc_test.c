/* SPDX-License-Identifier: MIT */
/* src/api/alloc.c: malloc, calloc, free: sizes, zeros, errno, and what happens without memory. */
#include "../heap/fixture.h"
#include "api/alloc.h"
#include "api/core.h"

static bool all_are(const void *p, size_t size, int value) {
  /* What is asked about is more than the compiler knows to have been requested. */
  const char *volatile hidden = p;
  const char *c = hidden;
  for (size_t i = 0; i < size; i++) {
    if (c[i] != (char)value) return false;
  }
  return true;
}

/* ---- sizes ---- */

START_TEST(every_size_up_to_small) {
  for (size_t size = 0; size <= 1100; size++) {
    void *p = alloc(size), *q = mi_zalloc(size), *r = mi_calloc(size, 1);
    size_t block = mi__bin_size(mi__bin_of(size));
    ck_assert_uint_eq(mi_usable_size(p), block);
    ck_assert_uint_eq(mi_good_size(size), block);
    ck_assert_uint_eq((uintptr_t)p % (block < 16 ? 8 : 16), 0);
    ck_assert(p != q && p != r && q != r);
    ck_assert(all_are(q, block, 0) && all_are(r, block, 0));
    memset(p, 0xff, block);
    memset(q, 0xff, block);
    memset(r, 0xff, block);
    mi_free(p);
    mi_free(q);
    mi_free(r);
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* One size on each side of every border. */
START_TEST(sizes_about_every_bin) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    size_t block = mi__bin_size(bin);
    if (block == 0) continue;
    for (size_t size = block - 1; size <= block + 1; size++) {
      char *p = alloc(size);
      size_t usable = mi_usable_size(p);
      ck_assert_uint_ge(usable, size);
      ck_assert_uint_eq(usable, mi_good_size(size));
      if (size <= MI_BLOCK_MAX) ck_assert_uint_eq(page_at(p)->bin, mi__bin_of(size));
      else ck_assert_int_eq(page_at(p)->kind, MI_PAGE_HUGE);
      p[0] = p[usable - 1] = 1;
      mi_free(p);
    }
  }
}
END_TEST

START_TEST(blocks_do_not_overlap) {
  enum { N = 4000 };
  static unsigned char *blocks[N];
  static size_t sizes[N];
  for (int i = 0; i < N; i++) {
    sizes[i] = (size_t)(i * 37 % 1500 + 1) * (i % 100 == 0 ? 200 : 1);
    blocks[i] = memset(alloc(sizes[i]), i, sizes[i]);
  }
  for (int i = 0; i < N; i += 2) mi_free(blocks[i]);
  for (int i = 0; i < N; i += 2) blocks[i] = memset(alloc(sizes[i]), i, sizes[i]);
  for (int i = 0; i < N; i++) {
    ck_assert_msg(all_are(blocks[i], sizes[i], i), "block %d of %zu bytes", i, sizes[i]);
    mi_free(blocks[i]);
  }
}
END_TEST

START_TEST(the_other_names) {
  char *p = mi_malloc_small(100), *q = mi_zalloc_small(100);
  char *r = mi_wmalloc_small(10), *s = mi_wzalloc_small(10);
  ck_assert_uint_eq(mi_usable_size(p), 112);
  ck_assert_uint_eq(mi_usable_size(r), 80);
  ck_assert(all_are(q, 112, 0) && all_are(s, 80, 0));
  mi_free_small(p);
  ck_assert_ptr_eq(mi_malloc(100), p);
  mi_free_small_nonnull(p);
  ck_assert_ptr_eq(mi__malloc_in(mi__theap_default(), 100), p);
  mi__free(p);
  ck_assert_ptr_eq(mi__zalloc_in(mi__theap_default(), 100), p);
  ck_assert(all_are(p, 112, 0));
  mi_free(r);
}
END_TEST

/* ---- zero ---- */

/* The whole block: what mi_rezalloc may grow into. From fresh memory and from memory used before. */
START_TEST(zeroed_to_the_last_byte) {
  for (int round = 0; round < 2; round++) {
    for (size_t size = 1; size <= 5 * MI_MIB; size = size * 3 + 5) {
      char *a = mi_zalloc(size), *b = mi_calloc(3, size);
      size_t na = mi_usable_size(a), nb = mi_usable_size(b);
      ck_assert_uint_ge(nb, 3 * size);
      ck_assert_msg(all_are(a, na, 0), "%zu bytes, round %d", size, round);
      ck_assert_msg(all_are(b, nb, 0), "3 times %zu bytes, round %d", size, round);
      memset(a, 1, na);
      memset(b, 1, nb);
      mi_free(a);
      mi_free(b);
      a = mi_zalloc(size);
      ck_assert_msg(all_are(a, mi_usable_size(a), 0), "%zu bytes again", size);
      memset(a, 1, na);
      mi_free(a);
    }
  }
}
END_TEST

START_TEST(zeroed_from_what_others_freed) {
  for (int i = 0; i < 100; i++) {
    void *p = mi_zalloc(any_size(4000));
    ck_assert(all_are(p, 4096, 0));
    memset(p, 1, 4096);
    free_elsewhere(p);
  }
}
END_TEST

/* ---- errno and errors ---- */

START_TEST(errno_is_kept) {
  errno = 4711;
  for (size_t size = 1; size <= 64 * MI_MIB; size *= 2) {
    void *p = mi_malloc(size), *q = mi_calloc(1, size);
    ck_assert(p != NULL && q != NULL);
    mi_free(p);
    mi_free(q);
    ck_assert_int_eq(errno, 4711);
  }
  mi_collect(true);
  ck_assert_int_eq(errno, 4711);
}
END_TEST

START_TEST(sizes_that_no_system_has) {
  static const size_t sizes[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 64};
  for (int i = 0; i < 3; i++) {
    size_t size = any_size(sizes[i]);
    errno = n_errors = 0;
    ck_assert_ptr_null(mi_malloc(size));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(n_errors, 1);
    ck_assert_int_eq(last_error, EOVERFLOW);
    errno = 0;
    ck_assert_ptr_null(mi_zalloc(size));
    ck_assert_int_eq(errno, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(mi_calloc(1, size));
    ck_assert_int_eq(errno, ENOMEM);
  }
  errno = n_errors = 0;
  ck_assert_ptr_null(mi_malloc(any_size(PTRDIFF_MAX)));
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_int_eq(last_error, ENOMEM);
  ck_assert_int_eq(n_errors, 1);
}
END_TEST

START_TEST(products_that_overflow) {
  size_t half = any_size(SIZE_MAX / 2 + 1);
  errno = 0;
  ck_assert_ptr_null(mi_calloc(half, 2));
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_int_eq(last_error, EOVERFLOW);
  errno = 0;
  ck_assert_ptr_null(mi_calloc(2, half));
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_int_eq(n_errors, 2);
  void *p = mi_calloc(0, any_size(SIZE_MAX)), *q = mi_calloc(any_size(SIZE_MAX), 0);
  ck_assert(p != NULL && q != NULL && p != q);
}
END_TEST

START_TEST(a_first_allocation_of_any_kind) {
  void *p = mi_zalloc(100);
  ck_assert(p != NULL && all_are(p, 112, 0));
  mi__thread_end(true);
  p = mi_malloc(2000);
  ck_assert_ptr_nonnull(p);
  mi__thread_end(true);
  p = mi_malloc(3 * MI_MIB);
  ck_assert_ptr_nonnull(p);
  ck_assert_ptr_nonnull(mi__thread_self(false)); /* such a thread may park, too */
  mi_free(p);
}
END_TEST

/* ---- no memory ----
 * E04 out-of-memory-at-awkward-places, in small. Right: only NULL/ENOMEM; after freeing, normal
 * service. */

static void *held[100000];
static size_t n_held;

/* Until NULL; the sizes shrink as the larger ones are refused. */
static void take_everything(void) {
  for (size_t size = 4 * MI_MIB; size >= 8; size /= 2) {
    size_t n = 0;
    void *p;
    for (;; n++) {
      errno = 4711;
      n_errors = 0;
      p = mi_malloc(size);
      if (p == NULL) break;
      ck_assert_int_eq(errno, 4711);
      ck_assert_int_eq(n_errors, 0);
      memset(p, 1, size < 4096 ? size : 4096);
      ck_assert_uint_lt(n_held, 100000);
      held[n_held++] = p;
    }
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(n_errors, 1);
    ck_assert_int_eq(last_error, ENOMEM);
    errno = 0;
    ck_assert_ptr_null(mi_zalloc(size));
    ck_assert_int_eq(errno, ENOMEM);
  }
}

START_TEST(memory_comes_to_an_end) {
  mi__option_set(mi_option_arena_reserve, 16384); /* 16 MiB */
  void *early = alloc(64);
  mi__store(&no_maps, true, relaxed);
  for (int round = 0; round < 3; round++) {
    take_everything();
    ck_assert_uint_gt(n_held, 3);
    ck_assert_ptr_nonnull(early);
    while (n_held > 0) mi_free(held[--n_held]);
    mi_collect(true);
    /* Normal service: empty pages that are kept for reuse stand in nobody's way. */
    for (size_t size = 8; size <= 4 * MI_MIB; size *= 2) mi_free(alloc(size));
  }
  mi__theap_check(my_theap());
  mi__store(&no_maps, false, relaxed);
  mi_free(alloc(200 * MI_MIB));
}
END_TEST

START_TEST(the_next_smaller_request_works) {
  mi__option_set(mi_option_arena_reserve, 16384);
  alloc(64);
  mi__store(&no_maps, true, relaxed);
  ck_assert_ptr_null(mi_malloc(20 * MI_MIB));
  ck_assert_ptr_null(mi_malloc(17 * MI_MIB));
  for (size_t size = 8 * MI_MIB; size >= 16; size /= 2) {
    void *p = mi_malloc(size);
    ck_assert_msg(p != NULL, "%zu bytes", size);
    mi_free(p);
  }
}
END_TEST

/* Each k-th mapping fails. */
static int fail_each, n_maps;
static void *map_sometimes(void *hint, size_t size, int prot, int flags) {
  if (++n_maps % fail_each == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return mmap(hint, size, prot, flags, -1, 0);
}

START_TEST(mappings_fail_now_and_then) {
  mi__option_set(mi_option_arena_reserve, 4096);
  mi__os_calls.map = map_sometimes;
  for (fail_each = 1; fail_each <= 12; fail_each++) {
    size_t got = 0;
    for (size_t i = 0; i < 60; i++) {
      size_t size = (size_t)16 << (i * 7 % 17);
      errno = 4711;
      char *p = mi_malloc(size);
      ck_assert_int_eq(errno, p == NULL ? ENOMEM : 4711);
      if (p == NULL) continue;
      p[0] = p[size - 1] = 1;
      held[n_held++] = p;
      got += size;
    }
    while (n_held > 0) mi_free(held[--n_held]);
    ck_assert_msg(got > 0 || fail_each <= 2, "each %d", fail_each); /* a mapping may take two calls */
    mi_collect(true);
    mi__theap_check(my_theap());
  }
  mi__os_calls.map = NULL;
  alloc(8 * MI_MIB);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("api/alloc");
  TCase *tcase = new_case(suite, "sizes");
  tcase_add_test(tcase, every_size_up_to_small);
  tcase_add_test(tcase, sizes_about_every_bin);
  tcase_add_test(tcase, blocks_do_not_overlap);
  tcase_add_test(tcase, the_other_names);
  tcase_add_test(tcase, zeroed_to_the_last_byte);
  tcase_add_test(tcase, zeroed_from_what_others_freed);
  tcase = new_case(suite, "errors");
  tcase_add_test(tcase, errno_is_kept);
  tcase_add_test(tcase, sizes_that_no_system_has);
  tcase_add_test(tcase, products_that_overflow);
  tcase_add_test(tcase, a_first_allocation_of_any_kind);
  tcase = new_case(suite, "memory");
  tcase_add_test(tcase, memory_comes_to_an_end);
  tcase_add_test(tcase, the_next_smaller_request_works);
  tcase_add_test(tcase, mappings_fail_now_and_then);
  return mi_test_run_suite(suite);
}
