/* SPDX-License-Identifier: MIT */
/* src/heap/huge.c: blocks with a page of their own come, go, grow, shrink and move. */
#include "fixture.h"

#define SLICE MI_SLICE_SIZE

static int64_t huge_bytes(void) { return HEAP_CURRENT(huge); }
static void fill(char *p, size_t size) {
  for (size_t i = 0; i < size; i += 512) p[i] = (char)(i / 512 % 127 + 1);
}
static bool is_filled(const char *p, size_t size) {
  for (size_t i = 0; i < size; i += 512) {
    if (p[i] != (char)(i / 512 % 127 + 1)) return false;
  }
  return true;
}
static bool is_zero(const char *p, size_t from, size_t to) {
  for (size_t i = from; i < to; i += 64) {
    if (p[i] != 0) return false;
  }
  return p[to - 1] == 0;
}
static char *huge(size_t size, bool *zero) {
  bool dummy;
  char *p = mi__huge_alloc(&mi__heap_main, size, 1, 0, zero == NULL ? &dummy : zero);
  ck_assert_ptr_nonnull(p);
  return p;
}
/* From here on larger blocks come straight from the OS. */
static void no_arenas(void) { mi__option_set(mi_option_disallow_arena_alloc, 1); }

START_TEST(takes_whole_slices) {
  bool zero;
  int64_t before = huge_bytes();
  char *p = huge(MI_MIB + 1, &zero);
  ck_assert(zero);
  struct mi_page *page = page_at(p);
  ck_assert_ptr_eq(page->start, p);
  ck_assert_uint_eq(page->block_size, 17 * SLICE);
  ck_assert_int_eq(huge_bytes(), before + 17 * (int64_t)SLICE);
  ck_assert(is_zero(p, 0, 17 * SLICE));
  memset(p, 1, 17 * SLICE);
  mi__huge_free(page, p);
  ck_assert_ptr_null(mi__page_of(p));
  ck_assert_int_eq(huge_bytes(), before);
  p = huge(MI_MIB + 1, &zero);
  ck_assert(!zero || is_zero(p, 0, 17 * SLICE));
}
END_TEST

START_TEST(nobody_has_as_much) {
  bool zero;
  ck_assert_ptr_null(mi__huge_alloc(&mi__heap_main, SIZE_MAX, 1, 0, &zero));
  ck_assert_ptr_null(mi__huge_alloc(&mi__heap_main, PTRDIFF_MAX, 1, 0, &zero));
  ck_assert_ptr_null(mi__huge_alloc(&mi__heap_main, PTRDIFF_MAX - 10, 4096, 16, &zero));
  ck_assert_ptr_null(mi__huge_alloc(&mi__heap_main, SIZE_MAX - 10, 4096, 16, &zero));
  ck_assert_int_eq(huge_bytes(), 0);
}
END_TEST

START_TEST(aligns) {
  bool zero;
  for (size_t align = SLICE; align <= 16 * MI_MIB; align *= 2) {
    char *p = mi__huge_alloc(&mi__heap_main, MI_MIB, align, 0, &zero);
    ck_assert(p != NULL && (uintptr_t)p % align == 0);
    ck_assert_ptr_eq(page_at(p)->start, p); /* no pointer inside */
    ck_assert_uint_eq(page_at(p)->block_size, MI_MIB);
    mi__huge_free(page_at(p), p);
  }
  ck_assert_int_eq(huge_bytes(), 0);
}
END_TEST

START_TEST(aligns_at_an_offset) {
  bool zero;
  for (size_t align = 64; align <= 2 * MI_MIB; align *= 4) {
    for (size_t offset = 8; offset < 4 * align; offset = offset * 3 + 8) {
      char *p = mi__huge_alloc(&mi__heap_main, MI_MIB, align, offset, &zero);
      ck_assert(p != NULL && ((uintptr_t)p + offset) % align == 0);
      struct mi_page *page = page_at(p);
      size_t usable = mi_usable_size(p);
      ck_assert_uint_ge(usable, MI_MIB);
      ck_assert_ptr_eq(p + usable, page->start + page->block_size);
      memset(p, 1, usable);
      mi_free(p);
      ck_assert_ptr_null(mi__page_of(p));
    }
  }
  ck_assert_int_eq(huge_bytes(), 0);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

static void grow_and_shrink(void) {
  bool zero;
  char *p = huge(MI_MIB, NULL);
  struct mi_page *page = page_at(p);
  fill(p, MI_MIB);
  if (!mi__huge_resize(page, p, 2 * MI_MIB, &zero)) ck_abort_msg("it cannot grow");
  ck_assert_uint_eq(page->block_size, 2 * MI_MIB);
  ck_assert_uint_eq(page->n_slices, 2 * MI_MIB / SLICE);
  ck_assert_uint_eq(page->bin, mi__bin_for_stats(2 * MI_MIB));
  ck_assert_int_eq(huge_bytes(), 2 * (int64_t)MI_MIB);
  ck_assert(is_filled(p, MI_MIB));
  ck_assert(!zero || is_zero(p, MI_MIB, 2 * MI_MIB));
  memset(p + MI_MIB, 9, MI_MIB);
  ck_assert(mi__huge_resize(page, p, MI_MIB - 1, &zero));
  ck_assert_uint_eq(page->block_size, MI_MIB);
  ck_assert_int_eq(huge_bytes(), (int64_t)MI_MIB);
  ck_assert(is_filled(p, MI_MIB));
  /* What was given back may hold anything; it must not be taken for zero. */
  bool again = mi__huge_resize(page, p, 2 * MI_MIB, &zero);
  ck_assert(!again || !zero || is_zero(p, MI_MIB, 2 * MI_MIB));
  ck_assert(is_filled(p, MI_MIB));
  mi__huge_free(page, p);
  ck_assert_int_eq(huge_bytes(), 0);
}

START_TEST(grows_and_shrinks_in_an_arena) {
  char *below = huge(8 * MI_MIB, NULL); /* arenas fill from above: room for what lies below it */
  char *above = huge(MI_MIB, NULL);
  ck_assert(above < below);
  mi__huge_free(page_at(below), below);
  mi__huge_free(page_at(above), above);
  void *lower = huge(MI_MIB, NULL); /* keeps the top; the next has it above */
  void *second = huge(MI_MIB, NULL);
  bool zero;
  ck_assert(!mi__huge_resize(page_at(second), second, 2 * MI_MIB, &zero)); /* there is the first */
  mi__huge_free(page_at(lower), lower);
  ck_assert(mi__huge_resize(page_at(second), second, 2 * MI_MIB, &zero));
  mi__huge_free(page_at(second), second);
}
END_TEST

START_TEST(keeps_contents_in_an_arena) {
  void *top = huge(4 * MI_MIB, NULL), *mine = huge(MI_MIB, NULL);
  mi__huge_free(page_at(mine), mine);
  mi__huge_free(page_at(top), top);
  /* Where the block comes to lie below free slices. */
  void *a = huge(3 * MI_MIB, NULL), *b = huge(MI_MIB, NULL);
  fill(b, MI_MIB);
  mi__huge_free(page_at(a), a);
  bool zero;
  struct mi_page *page = page_at(b);
  ck_assert(mi__huge_resize(page, b, 3 * MI_MIB, &zero));
  ck_assert(is_filled(b, MI_MIB));
  ck_assert(!zero || is_zero(b, MI_MIB, 3 * MI_MIB));
  ck_assert_uint_eq(page->block_size, 3 * MI_MIB);
  ck_assert_int_eq(huge_bytes(), 3 * (int64_t)MI_MIB);
  ck_assert(mi__huge_resize(page, b, MI_MIB, &zero));
  ck_assert(is_filled(b, MI_MIB));
  ck_assert_int_eq(huge_bytes(), (int64_t)MI_MIB);
  ck_assert_ptr_eq(huge(3 * MI_MIB, NULL), a); /* what was cut off is free */
  mi__huge_free(page, b);
}
END_TEST

START_TEST(grows_and_shrinks_outside) {
  no_arenas();
  /* Room behind it: the kernel maps downward, so what was mapped before and unmapped is free. */
  char *room = huge(16 * MI_MIB, NULL);
  ck_assert_uint_eq(page_at(room)->arena, 0);
  char *p = huge(MI_MIB, NULL);
  mi__huge_free(page_at(room), room);
  bool zero;
  bool grew = mi__huge_resize(page_at(p), p, 2 * MI_MIB, &zero);
  mi__huge_free(page_at(p), p);
  if (grew) grow_and_shrink();
}
END_TEST

START_TEST(an_inner_pointer_cannot_be_resized) {
  bool zero;
  char *p = mi__huge_alloc(&mi__heap_main, MI_MIB, 4096, 16, &zero);
  struct mi_page *page = page_at(p);
  ck_assert(!mi__huge_resize(page, p, 2 * MI_MIB, &zero));
  ck_assert(!mi__huge_resize(page, p, MI_MIB / 2, &zero));
  ck_assert_ptr_null(mi__huge_remap(page, p, 2 * MI_MIB));
  ck_assert(!mi__huge_resize(page, page->start, SIZE_MAX, &zero));
  ck_assert_ptr_eq(page_at(p), page);
}
END_TEST

START_TEST(moves_by_the_page_tables) {
  no_arenas();
  char *p = huge(2 * MI_MIB, NULL);
  fill(p, 2 * MI_MIB);
  int64_t pages = HEAP_CURRENT(pages);
  char *q = mi__huge_remap(page_at(p), p, 64 * MI_MIB);
  ck_assert_ptr_nonnull(q);
  if (q != p) ck_assert_ptr_null(mi__page_of(p));
  struct mi_page *page = page_at(q);
  ck_assert_ptr_eq(page->start, q);
  ck_assert_uint_eq(page->block_size, 64 * MI_MIB);
  ck_assert_int_eq(huge_bytes(), 64 * (int64_t)MI_MIB);
  ck_assert_int_eq(HEAP_CURRENT(pages), pages);
  ck_assert(is_filled(q, 2 * MI_MIB));
  ck_assert(is_zero(q, 2 * MI_MIB, 64 * MI_MIB));
  mi__huge_free(page, q);
  ck_assert_int_eq(huge_bytes(), 0);
}
END_TEST

static void *refuse_remap(void *start, size_t size, size_t new_size, int flags, void *to) {
  (void)start, (void)size, (void)new_size, (void)flags, (void)to;
  errno = ENOMEM;
  return MAP_FAILED;
}

START_TEST(what_cannot_move_stays) {
  no_arenas();
  char *p = huge(2 * MI_MIB, NULL);
  fill(p, 2 * MI_MIB);
  mi__os_calls.remap = refuse_remap;
  ck_assert_ptr_null(mi__huge_remap(page_at(p), p, 64 * MI_MIB));
  ck_assert_uint_eq(page_at(p)->block_size, 2 * MI_MIB);
  ck_assert_ptr_eq(page_at(p)->start, p);
  ck_assert_int_eq(huge_bytes(), 2 * (int64_t)MI_MIB);
  ck_assert_int_eq(HEAP_COUNT(n_huge), 1);
  ck_assert_int_eq(HEAP_COUNT(huge.total), 2 * (int64_t)MI_MIB);
  ck_assert(is_filled(p, 2 * MI_MIB));
  mi_free(p);
  ck_assert_int_eq(n_errors, 0);
}
END_TEST

START_TEST(an_arena_block_is_not_moved_so) {
  char *p = huge(2 * MI_MIB, NULL);
  ck_assert_ptr_null(mi__huge_remap(page_at(p), p, 4 * MI_MIB));
  ck_assert_uint_eq(page_at(p)->block_size, 2 * MI_MIB);
}
END_TEST

START_TEST(any_thread_may_free_it) {
  char *p = alloc(3 * MI_MIB);
  free_elsewhere(p);
  ck_assert_ptr_null(mi__page_of(p));
  ck_assert_int_eq(huge_bytes(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/huge");
  TCase *tcase = new_case(suite, "huge");
  tcase_add_test(tcase, takes_whole_slices);
  tcase_add_test(tcase, nobody_has_as_much);
  tcase_add_test(tcase, aligns);
  tcase_add_test(tcase, aligns_at_an_offset);
  tcase_add_test(tcase, grows_and_shrinks_in_an_arena);
  tcase_add_test(tcase, keeps_contents_in_an_arena);
  tcase_add_test(tcase, grows_and_shrinks_outside);
  tcase_add_test(tcase, an_inner_pointer_cannot_be_resized);
  tcase_add_test(tcase, moves_by_the_page_tables);
  tcase_add_test(tcase, what_cannot_move_stays);
  tcase_add_test(tcase, an_arena_block_is_not_moved_so);
  tcase_add_test(tcase, any_thread_may_free_it);
  return mi_test_run_suite(suite);
}
