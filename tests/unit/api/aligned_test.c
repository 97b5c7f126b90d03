/* SPDX-License-Identifier: MIT */
/* src/api/aligned.c: aligned blocks, and pointers inside blocks. */
#include "../heap/fixture.h"
#include "api/alloc.h"

static bool all_are(const char *p, size_t size, int value) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != (char)value) return false;
  }
  return true;
}
static bool fits(const void *p, size_t alignment, size_t offset) {
  return (((uintptr_t)p + offset) & (alignment - 1)) == 0;
}

START_TEST(all_alignments_and_sizes) {
  for (size_t alignment = 1; alignment <= 4 * MI_MIB; alignment *= 2) {
    for (size_t size = 0; size <= 3 * MI_MIB; size = size * 5 + 3) {
      char *p = mi_malloc_aligned(size, alignment), *z = mi_zalloc_aligned(size, alignment);
      ck_assert_msg(p != NULL && fits(p, alignment, 0), "%zu aligned to %zu", size, alignment);
      ck_assert_msg(z != NULL && fits(z, alignment, 0), "%zu aligned to %zu", size, alignment);
      size_t usable = mi_usable_size(p);
      ck_assert_uint_ge(usable, size);
      ck_assert(!mi__page_flag(page_at(p), MI_PAGE_INTERIOR)); /* none needed */
      ck_assert_ptr_eq(page_at(p)->kind == MI_PAGE_HUGE ? page_at(p)->start : p, p);
      ck_assert(all_are(z, mi_usable_size(z), 0));
      memset(p, 0xff, usable);
      memset(z, 0xff, size);
      mi_free(p);
      mi_free(z);
    }
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* The smallest bin whose blocks are multiples of the alignment. */
START_TEST(wastes_little) {
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(8, 8)), 8);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(8, 16)), 16);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(20, 16)), 32);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(40, 32)), 64);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(65, 32)), 96);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(1, 4096)), 4096);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(4097, 4096)), 8192);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(100, 65536)), 65536);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(100000, 65536)), 131072);
  ck_assert_uint_eq(mi_usable_size(mi_malloc_aligned(100, 131072)), 65536); /* a page of its own */
}
END_TEST

START_TEST(bad_alignments) {
  size_t huge = any_size(SIZE_MAX / 2 + 1), all = any_size(SIZE_MAX);
  static const size_t bad[] = {0, 3, 24, 100, SIZE_MAX};
  for (int i = 0; i < 5; i++) {
    errno = n_errors = 0;
    ck_assert_ptr_null(mi_malloc_aligned(16, bad[i]));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(n_errors, 1);
    ck_assert_int_eq(last_error, EINVAL);
    void *p = alloc(16);
    ck_assert_ptr_null(mi_realloc_aligned(p, 32, bad[i]));
    ck_assert_ptr_null(mi_rezalloc_aligned_at(p, 32, bad[i], 8));
    ck_assert_ptr_null(mi_zalloc_aligned_at(16, bad[i], 8));
    mi_free(p); /* it is still there */
    ck_assert_int_eq(n_errors, 4);
  }
  errno = 0;
  ck_assert_ptr_null(mi_malloc_aligned(16, huge));
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_ptr_null(mi_malloc_aligned(huge, 16));
  ck_assert_ptr_null(mi_malloc_aligned(all, 4096));
  ck_assert_ptr_null(mi_malloc_aligned_at(all, 64, 8));
  ck_assert_ptr_null(mi_malloc_aligned_at(all / 2, 64, 8));
  ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

/* ---- at an offset ---- */

START_TEST(all_offsets) {
  for (size_t alignment = 8; alignment <= 1024 * 1024; alignment *= 4) {
    for (size_t offset = 0; offset <= 2 * alignment; offset = offset * 2 + 8) {
      for (size_t size = 1; size <= 600000; size = size * 9 + 40) {
        char *p = mi_malloc_aligned_at(size, alignment, offset);
        ck_assert_msg(p != NULL && fits(p, alignment, offset), "%zu, %zu at %zu", size, alignment,
                      offset);
        size_t usable = mi_usable_size(p);
        ck_assert_uint_ge(usable, size);
        memset(p, 0xff, usable);
        char *z = mi_zalloc_aligned_at(size, alignment, offset);
        ck_assert(z != NULL && fits(z, alignment, offset));
        ck_assert(all_are(z, mi_usable_size(z), 0));
        ck_assert(all_are(p, usable, 0xff));
        mi_free(p);
        mi_free(z);
      }
    }
  }
  ck_assert_int_eq(n_errors, 0);
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

/* A pointer inside a block, and the block. */
static char *inside(size_t size, struct mi_page **page, char **block) {
  for (;;) {
    char *p = mi_malloc_aligned_at(size, 256, 16);
    ck_assert_ptr_nonnull(p);
    *page = page_at(p);
    *block = mi__page_block_of(*page, p);
    if (*block != p) return p;
  }
}

START_TEST(a_pointer_inside_a_block_frees_it) {
  struct mi_page *page;
  char *block, *p = inside(1000, &page, &block);
  ck_assert(mi__page_flag(page, MI_PAGE_INTERIOR));
  ck_assert_uint_eq(mi_usable_size(p), page->block_size - (size_t)(p - block));
  mi_free(p);
  ck_assert_ptr_eq(my_theap()->ready[page->bin], (void *)block);
  ck_assert_ptr_eq(mi_malloc(page->block_size), block);
  mi_free(block); /* blocks without one in the same page */
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(so_do_other_threads) {
  struct mi_page *page;
  char *block, *p = inside(1000, &page, &block);
  free_elsewhere(p);
  ck_assert_int_eq(n_errors, 0);
  uint32_t n;
  ck_assert_ptr_eq(mi__remote_take(page, &n), (void *)block);
  ck_assert_uint_eq(n, 1);
}
END_TEST

START_TEST(and_in_a_page_that_was_left) {
  struct mi_page *page;
  char *block, *p = inside(1000, &page, &block);
  mi__thread_end(true);
  free_elsewhere(p);
  ck_assert_ptr_null(mi__page_of(p));
  p = inside(1000, &page, &block);
  char *q = alloc(page->block_size);
  mi__thread_end(true);
  alloc(page->block_size); /* takes the page over, and frees go the slow way still */
  ck_assert_uint_eq(mi__load(&page->owner, relaxed),
                    (uintptr_t)mi__thread_self(false) | MI_OWNER_SPECIAL);
  mi_free(p);
  mi_free(q);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(in_inner_slices_too) {
  for (int i = 0; i < 40; i++) {
    char *p = mi_malloc_aligned_at(50000, 16384, 48), *q = mi_malloc_aligned_at(300000, 131072, 48);
    ck_assert(fits(p, 16384, 48) && fits(q, 131072, 48));
    ck_assert(mi_usable_size(p) >= 50000 && mi_usable_size(q) >= 300000);
    memset(p, i, 50000);
    memset(q, i, 300000);
    if (i % 2 == 0) mi_free(p);
    else free_elsewhere(p);
    if (i % 3 == 0) mi_free(q);
    else free_elsewhere(q);
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* ---- realloc ---- */

START_TEST(realloc_of_a_pointer_inside) {
  struct mi_page *page;
  char *block, *p = inside(1000, &page, &block);
  memset(p, 7, 1000);
  ck_assert_ptr_eq(mi_realloc(p, mi_usable_size(p)), p);
  p = mi_realloc(p, 5000);
  ck_assert(all_are(p, 1000, 7));
  mi_free(p);
  p = inside(1000, &page, &block);
  size_t usable = mi_usable_size(p);
  memset(p, 7, usable);
  p = mi_rezalloc(p, 3000);
  ck_assert(all_are(p, usable, 7));
  ck_assert(all_are(p + usable, 3000 - usable, 0));
  mi_free(p);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(realloc_keeps_the_alignment) {
  for (size_t alignment = 16; alignment <= 1024 * 1024; alignment *= 8) {
    for (size_t offset = 0; offset <= 48; offset += 24) {
      char *p = NULL;
      size_t old = 0;
      for (size_t size = 100; size <= 2 * MI_MIB; size *= 7) {
        p = mi_rezalloc_aligned_at(p, size, alignment, offset);
        ck_assert(p != NULL && fits(p, alignment, offset));
        ck_assert(all_are(p, old < size ? old : size, 7));
        ck_assert(size <= old || all_are(p + old, size - old, 0));
        memset(p, 7, old = mi_usable_size(p));
      }
      p = mi_realloc_aligned_at(p, 50, alignment, offset);
      ck_assert(p != NULL && fits(p, alignment, offset));
      ck_assert(all_are(p, 50, 7));
      mi_free(p);
    }
  }
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

/* A block that is large enough but lies wrong has to move. */
START_TEST(realloc_may_ask_for_more_alignment) {
  char *p;
  do p = alloc(112); while (fits(p, 64, 0));
  memset(p, 7, 112);
  char *q = mi_realloc_aligned(p, 100, 64);
  ck_assert(q != p && fits(q, 64, 0));
  ck_assert(all_are(q, 100, 7));
  ck_assert_ptr_eq(mi_realloc_aligned(q, 100, 64), q);
  q = mi_realloc_aligned(q, 100, 4 * MI_MIB);
  ck_assert(fits(q, 4 * MI_MIB, 0));
  ck_assert(all_are(q, 100, 7));
  mi_free(q);
}
END_TEST

START_TEST(without_memory) {
  mi__option_set(mi_option_arena_reserve, 8192);
  void *p = alloc(100);
  mi__store(&no_maps, true, relaxed);
  errno = 0;
  const size_t far = 65536 * MI_MIB; /* no such address in the arena, but by a chance of 1 in 8192 */
  ck_assert_ptr_null(mi_malloc_aligned(100, far));
  ck_assert_int_eq(errno, ENOMEM);
  errno = 0;
  ck_assert_ptr_null(mi_malloc_aligned_at(20 * MI_MIB, 64, 16));
  ck_assert_int_eq(errno, ENOMEM);
  ck_assert_ptr_null(mi_realloc_aligned(p, 100, far));
  errno = 4711;
  void *q = mi_malloc_aligned(100, MI_MIB);
  ck_assert(q != NULL && fits(q, MI_MIB, 0));
  ck_assert_int_eq(errno, 4711);
  mi_free(p);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("api/aligned");
  TCase *tcase = new_case(suite, "aligned");
  tcase_add_test(tcase, all_alignments_and_sizes);
  tcase_add_test(tcase, wastes_little);
  tcase_add_test(tcase, bad_alignments);
  tcase_add_test(tcase, all_offsets);
  tcase_add_test(tcase, a_pointer_inside_a_block_frees_it);
  tcase_add_test(tcase, so_do_other_threads);
  tcase_add_test(tcase, and_in_a_page_that_was_left);
  tcase_add_test(tcase, in_inner_slices_too);
  tcase_add_test(tcase, realloc_of_a_pointer_inside);
  tcase_add_test(tcase, realloc_keeps_the_alignment);
  tcase_add_test(tcase, realloc_may_ask_for_more_alignment);
  tcase_add_test(tcase, without_memory);
  return mi_test_run_suite(suite);
}
