/* SPDX-License-Identifier: MIT */
/* src/page/page.c: records, forming, and what the walks over free lists find. */
#include "fixture.h"
#include "rt/counter.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_clear(const struct mi_page *page) {
  const char *bytes = (const char *)page;
  for (size_t i = 0; i < sizeof *page; i++) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

/* ---- records ---- */

START_TEST(kinds_and_slices) {
  ck_assert_int_eq(mi__page_kind_of_bin(1), MI_PAGE_SMALL);
  ck_assert_int_eq(mi__page_kind_of_bin(mi__bin_of(8 * MI_KIB)), MI_PAGE_SMALL);
  ck_assert_int_eq(mi__page_kind_of_bin(mi__bin_of(8 * MI_KIB + 1)), MI_PAGE_MEDIUM);
  ck_assert_int_eq(mi__page_kind_of_bin(mi__bin_of(64 * MI_KIB)), MI_PAGE_MEDIUM);
  ck_assert_int_eq(mi__page_kind_of_bin(mi__bin_of(64 * MI_KIB + 1)), MI_PAGE_LARGE);
  ck_assert_int_eq(mi__page_kind_of_bin(MI_BIN_LAST), MI_PAGE_LARGE);
  ck_assert_uint_eq(mi__page_slices(MI_PAGE_SMALL), 1);
  ck_assert_uint_eq(mi__page_slices(MI_PAGE_MEDIUM), 8);
  ck_assert_uint_eq(mi__page_slices(MI_PAGE_LARGE), 64);
}
END_TEST

START_TEST(a_page_comes_and_goes) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    if (mi__bin_size(bin) == 0) continue;
    struct mi_page *page = page_of_bin(bin);
    size_t n = page->n_slices;
    ck_assert_uint_eq(page->bin, bin);
    ck_assert_uint_eq(page->block_size, mi__bin_size(bin));
    ck_assert_uint_eq(page->n_blocks, n * MI_SLICE_SIZE / mi__bin_size(bin));
    ck_assert_uint_ge(page->n_blocks, 8);
    ck_assert_uint_lt(page->first, page->n_blocks);
    ck_assert(page->kind == MI_PAGE_SMALL || page->first == 0);
    ck_assert_uint_eq(mi__load(&page->owner, relaxed), MI_OWNER_NONE);
    ck_assert_ptr_eq(page->push, &page->free);
    for (size_t i = 0; i < n; i++) { /* each slice leads to the page */
      ck_assert_ptr_eq(mi__page_of(page->start + i * MI_SLICE_SIZE), page);
      ck_assert_ptr_eq(mi__page_of(page->start + i * MI_SLICE_SIZE + MI_SLICE_SIZE - 1), page);
    }
    mi__page_delete(mi__arenas_main(), page);
    for (size_t i = 0; i < n; i++) ck_assert(is_clear(page + i));
  }
}
END_TEST

START_TEST(no_page_at_other_addresses) {
  static char mine;
  ck_assert_ptr_null(mi__page_of(NULL));
  ck_assert_ptr_null(mi__page_of(&mine));
  ck_assert_ptr_null(mi__page_of((const void *)UINTPTR_MAX));
  struct mi_page *page = page_of_size(16);
  const char *start = page->start;
  mi__page_delete(mi__arenas_main(), page);
  ck_assert_ptr_null(mi__page_of(start));
}
END_TEST

/* Two cache lines that lie alike in neighbouring pages would share one set of the cache. */
START_TEST(first_blocks_of_neighbours_differ) {
  for (size_t size = 16; size <= 1024; size *= 2) {
    struct mi_page *a = page_of_size(size), *b = page_of_size(size);
    ck_assert_uint_eq(mi__page_form(a, 1), 1);
    ck_assert_uint_eq(mi__page_form(b, 1), 1);
    ck_assert_uint_ne((uintptr_t)a->free % 4096, (uintptr_t)b->free % 4096);
  }
}
END_TEST

START_TEST(huge_pages) {
  struct mi__span span = span_of(20);
  struct mi_page *page = mi__page_new_huge(&span, NULL);
  ck_assert_int_eq(page->kind, MI_PAGE_HUGE);
  ck_assert_uint_eq(page->block_size, 20 * MI_SLICE_SIZE);
  ck_assert_uint_eq(mi__page_used(page), 1);
  ck_assert_uint_eq(page->bin, mi__bin_for_stats(20 * MI_SLICE_SIZE));
  for (size_t i = 1; i < 20; i++) ck_assert(is_clear(page + i)); /* only the first is touched */
  mi__page_delete(mi__arenas_main(), page);
  ck_assert(is_clear(page));
}
END_TEST

START_TEST(huge_pages_with_a_pointer_inside) {
  struct mi__span span = span_of(20);
  struct mi_page *page = mi__page_new_huge(&span, NULL);
  const char *p = page->start + 3 * MI_SLICE_SIZE + 48;
  mi__page_set_interior(page, p);
  ck_assert(mi__page_flag(page, MI_PAGE_INTERIOR));
  ck_assert_ptr_eq(mi__page_of(p), page);
  ck_assert_ptr_null(mi__page_of(p + MI_SLICE_SIZE));
  mi__page_delete(mi__arenas_main(), page);
  for (size_t i = 0; i < 20; i++) ck_assert(is_clear(page + i));
}
END_TEST

START_TEST(a_pointer_inside_changes_the_owner_word) {
  static char thread mi__aligned(64);
  struct mi_page *page = page_of_size(256);
  mi__store(&page->owner, (uintptr_t)&thread, relaxed);
  mi__page_set_interior(page, page->start + 16);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), (uintptr_t)&thread | MI_OWNER_SPECIAL);
  ck_assert(mi__page_flag(page, MI_PAGE_INTERIOR));
}
END_TEST

/* ---- forming ---- */

/* Upward from `first`, once round, each block once. */
START_TEST(forms_in_order_and_wraps) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    if (mi__bin_size(bin) == 0) continue;
    struct mi_page *page = page_of_bin(bin);
    uint32_t n, total = 0;
    if (page->first == 0) page->first = page->n_blocks / 2; /* whatever the slice: it has to wrap */
    uint32_t expected = page->first;
    while ((n = mi__page_form(page, 4 * MI_KIB)) > 0) {
      ck_assert_uint_eq(length_of(page->free), n);
      for (struct mi_block *b = page->free; b != NULL; b = b->next) {
        ck_assert_ptr_eq(b, block_at(page, expected));
        if (++expected == page->n_blocks) expected = 0;
      }
      total += n;
      ck_assert_uint_eq(page->n_formed, total);
      ck_assert_uint_le(total, page->n_blocks);
      page->free = NULL;
    }
    ck_assert_uint_eq(total, page->n_blocks);
    ck_assert_uint_eq(expected, page->first);
    mi__page_delete(mi__arenas_main(), page);
  }
}
END_TEST

START_TEST(the_first_blocks_touch_one_os_page) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    size_t size = mi__bin_size(bin);
    if (size == 0) continue;
    struct mi_page *page = page_of_bin(bin);
    uint32_t n = mi__page_form(page, 4 * MI_KIB);
    uintptr_t os_page = (uintptr_t)page->free / 4096;
    ck_assert_uint_gt(n, 0);
    for (struct mi_block *b = page->free; b != NULL; b = b->next) {
      ck_assert_uint_eq((uintptr_t)b / 4096, os_page);
    }
    page->free = NULL;
    uint32_t more = mi__page_form(page, 4 * MI_KIB); /* from then on as many as asked for */
    if (page->first + n + more < page->n_blocks) ck_assert_uint_ge(more * size, 4 * MI_KIB);
    mi__page_delete(mi__arenas_main(), page);
  }
}
END_TEST

/* ---- lists ---- */

START_TEST(takes_all_free_blocks) {
  struct mi_page *page = page_of_size(64);
  uint32_t n = mi__page_form(page, 4 * MI_KIB);
  struct mi_block *list = mi__page_take_free(page);
  ck_assert_uint_eq(length_of(list), n);
  ck_assert_ptr_null(page->free);
  ck_assert_uint_eq(mi__page_used(page), n);
}
END_TEST

START_TEST(puts_a_list_back) {
  struct mi_page *page = page_of_size(64);
  struct mi_block *all = take_all(page), *rest = all->next->next;
  uint32_t n;
  all->next->next = NULL;
  ck_assert_int_eq(mi__page_put_back(page, all, mi__page_used(page), MI_FAULT_READY, &n), MI_FAULT_NONE);
  ck_assert_uint_eq(n, 2);
  ck_assert_uint_eq(mi__page_used(page), page->n_blocks - 2);
  ck_assert_int_eq(mi__page_put_back(page, rest, mi__page_used(page), MI_FAULT_READY, &n), MI_FAULT_NONE);
  ck_assert_uint_eq(n, page->n_blocks - 2);
  ck_assert_uint_eq(mi__page_used(page), 0);
  ck_assert(mi__page_is_whole(page));
  ck_assert_int_eq(mi__page_put_back(page, NULL, 0, MI_FAULT_READY, &n), MI_FAULT_NONE);
  ck_assert_uint_eq(n, 0);
}
END_TEST

static void put_back_with_link(struct mi_page *page, void *link) {
  struct mi_block *all = take_all(page), *third = all->next->next;
  uint32_t n, used = mi__page_used(page);
  third->next = link;
  ck_assert_int_eq(mi__page_put_back(page, all, used, MI_FAULT_READY, &n), MI_FAULT_READY);
  ck_assert_uint_eq(n, 0);
  ck_assert_uint_eq(mi__page_used(page), used);
  ck_assert_ptr_null(page->free);
  ck_assert_ptr_eq(third->next, link); /* it might be a live block */
  mi__page_delete(mi__arenas_main(), page);
}

START_TEST(puts_nothing_back_with_a_bad_link) {
  static char mine[64] mi__aligned(64);
  struct mi_page *page = page_of_size(192);
  put_back_with_link(page, page->start + 16);                       /* inside a block */
  page = page_of_size(192);
  put_back_with_link(page, page->start - 192);                      /* before the page */
  page = page_of_size(192);
  put_back_with_link(page, page->start + MI_SLICE_SIZE);            /* behind it */
  page = page_of_size(192);
  put_back_with_link(page, block_at(page, page->n_blocks));         /* its unused tail */
  page = page_of_size(192);
  put_back_with_link(page, mine);
  page = page_of_size(192);
  put_back_with_link(page, (void *)(uintptr_t)0x4141414141414140u);
}
END_TEST

START_TEST(a_circle_is_too_long) {
  struct mi_page *page = page_of_size(64);
  struct mi_block *all = take_all(page);
  uint32_t n, used = mi__page_used(page);
  all->next->next = all;
  ck_assert_int_eq(mi__page_put_back(page, all, used, MI_FAULT_READY, &n), MI_FAULT_TWICE);
  ck_assert_uint_le(n, used);
  page = page_of_size(64);
  all = take_all(page);
  ck_assert_int_eq(mi__page_put_back(page, all, 5, MI_FAULT_REMOTE, &n), MI_FAULT_TWICE);
  ck_assert_uint_eq(n, 0);
}
END_TEST

static struct mi_page *whole_page(unsigned bin) {
  struct mi_page *page = page_of_bin(bin);
  uint32_t n;
  struct mi_block *all = take_all(page);
  ck_assert_int_eq(mi__page_put_back(page, all, mi__page_used(page), MI_FAULT_READY, &n), MI_FAULT_NONE);
  return page;
}

START_TEST(every_kind_of_page_can_be_whole) {
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    if (mi__bin_size(bin) == 0) continue;
    struct mi_page *page = whole_page(bin);
    ck_assert_msg(mi__page_is_whole(page), "bin %u", bin);
    struct mi_block *first = page->free;
    page->free = first->next; /* one is missing */
    ck_assert_msg(!mi__page_is_whole(page), "bin %u", bin);
    page->free = first;
    mi__page_delete(mi__arenas_main(), page);
  }
}
END_TEST

static bool is_whole_with(struct mi_block *at, void *link, const struct mi_page *page) {
  struct mi_block *old = at->next;
  at->next = link;
  bool whole = mi__page_is_whole(page);
  at->next = old;
  return whole;
}

START_TEST(damage_is_not_whole) {
  struct mi_page *page = whole_page(mi__bin_of(80));
  struct mi_block *a = page->free, *b = a->next, *c = b->next;
  ck_assert(mi__page_is_whole(page));
  ck_assert(!is_whole_with(b, a, page));                    /* twice, in a circle */
  ck_assert(!is_whole_with(a, a, page));
  ck_assert(!is_whole_with(a, c, page));                    /* one left out */
  ck_assert(!is_whole_with(b, (char *)c + 16, page));       /* inside a block */
  ck_assert(!is_whole_with(b, page->start - 80, page));
  ck_assert(!is_whole_with(b, page->start + MI_SLICE_SIZE, page));
  ck_assert(!is_whole_with(b, block_at(page, page->n_blocks), page));
  /* As many as there should be, one of them inside of a block. */
  struct mi_block *inside = (struct mi_block *)(void *)((char *)c + 16);
  inside->next = c->next;
  ck_assert(!is_whole_with(b, inside, page));
  /* All of them, and on to the first again. */
  struct mi_block *last = c;
  while (last->next->next != NULL) last = last->next;
  ck_assert(!is_whole_with(last, a, page));
  ck_assert(mi__page_is_whole(page));
}
END_TEST

START_TEST(a_broken_page_gives_nothing) {
  struct mi_page *page = page_of_size(64);
  mi__page_form(page, 4 * MI_KIB);
  mi__page_mark_broken(page, MI_FAULT_FREE);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));
  ck_assert(!mi__page_has_room(page));
  ck_assert_uint_eq(mi__page_form(page, 4 * MI_KIB), 0);
  ck_assert_uint_gt(mi__page_used(page), 1000u * page->n_blocks);
}
END_TEST

static bool has(const struct mi_page *page, const struct mi_block *list, const void *block) {
  return mi__page_list_has(page, list, block, UINT32_MAX);
}

START_TEST(finds_a_block_on_a_list) {
  struct mi_page *page = page_of_size(64);
  mi__page_form(page, 4 * MI_KIB);
  struct mi_block *a = page->free, *b = a->next, *c = b->next;
  ck_assert(has(page, a, a) && has(page, a, b) && has(page, a, c));
  ck_assert(!has(page, b, a));
  ck_assert(!has(page, NULL, a));
  ck_assert(mi__page_list_has(page, a, b, 2)); /* among the first two */
  ck_assert(!mi__page_list_has(page, a, c, 2));
  b->next = a; /* ends all the same */
  ck_assert(!has(page, a, c));
  b->next = (struct mi_block *)(void *)&page;
  ck_assert(!has(page, a, b->next));
}
END_TEST

START_TEST(addresses_in_blocks) {
  struct mi_page *page = page_of_size(24 * MI_KIB); /* 21 blocks in 8 slices, and a tail */
  for (uint32_t i = 0; i < page->n_blocks; i++) {
    char *block = (char *)block_at(page, i);
    ck_assert_uint_eq(mi__page_index(page, block), i);
    ck_assert_uint_eq(mi__page_index(page, block + page->block_size - 1), i);
    ck_assert_ptr_eq(mi__page_block_of(page, block), block);
    ck_assert_ptr_eq(mi__page_block_of(page, block + page->block_size - 1), block);
    ck_assert(mi__page_is_block(page, block));
    ck_assert(!mi__page_is_block(page, block + 1));
    ck_assert(!mi__page_is_block(page, block + page->block_size - 1));
  }
  ck_assert_ptr_null(mi__page_block_of(page, block_at(page, page->n_blocks)));
  ck_assert(!mi__page_is_block(page, block_at(page, page->n_blocks)));
  ck_assert(!mi__page_is_block(page, page->start - page->block_size));
  ck_assert(!mi__page_is_block(page, page->start + 8 * MI_SLICE_SIZE));
}
END_TEST

/* ---- the debug build's walk ---- */

static bool check_stops(const struct mi_page *page) {
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    close(STDERR_FILENO);
    mi__page_check(page);
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status);
}

START_TEST(the_debug_build_checks_the_counts) {
  struct mi_page *page = page_of_size(64);
  mi__page_form(page, 4 * MI_KIB);
  struct mi_block *list = mi__page_take_free(page);
  ck_assert(!check_stops(page));
  mi__page_set_used(page, mi__page_used(page) - 1);
  ck_assert_int_eq(check_stops(page), MI_DEBUG);
  struct mi_block *second = list->next;
  list->next = NULL;
  page->free = list;
  ck_assert(!check_stops(page));
  list->next = second + 1;
  mi__page_set_used(page, mi__page_used(page) - 1);
  ck_assert_int_eq(check_stops(page), MI_DEBUG);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("page/page");
  TCase *tcase = tcase_create("page");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, kinds_and_slices);
  tcase_add_test(tcase, a_page_comes_and_goes);
  tcase_add_test(tcase, no_page_at_other_addresses);
  tcase_add_test(tcase, first_blocks_of_neighbours_differ);
  tcase_add_test(tcase, huge_pages);
  tcase_add_test(tcase, huge_pages_with_a_pointer_inside);
  tcase_add_test(tcase, a_pointer_inside_changes_the_owner_word);
  tcase_add_test(tcase, forms_in_order_and_wraps);
  tcase_add_test(tcase, the_first_blocks_touch_one_os_page);
  tcase_add_test(tcase, takes_all_free_blocks);
  tcase_add_test(tcase, puts_a_list_back);
  tcase_add_test(tcase, puts_nothing_back_with_a_bad_link);
  tcase_add_test(tcase, a_circle_is_too_long);
  tcase_add_test(tcase, every_kind_of_page_can_be_whole);
  tcase_add_test(tcase, damage_is_not_whole);
  tcase_add_test(tcase, a_broken_page_gives_nothing);
  tcase_add_test(tcase, finds_a_block_on_a_list);
  tcase_add_test(tcase, addresses_in_blocks);
  tcase_add_test(tcase, the_debug_build_checks_the_counts);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
