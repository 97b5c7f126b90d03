/* SPDX-License-Identifier: MIT */
/* src/heap/thread_sweep.c: which pages a sweep passes over, where they are afterwards, and what malloc takes first. */
#include "fixture.h"
#include "heap/epoch.h"
#include "heap/park.h"
#include "heap/thread_sweep.h"
#include "page/holes.h"
#include <sched.h>

#define HOLES(name) count_of(&mi__hole_counters.name)
enum { SMALL = 4096, LARGE = 81920, INTERVAL = 100 };

static void begin(void) {
  mi__option_set(mi_option_purge_holes, 1);
  mi__option_set(mi_option_purge_holes_min_interval, 0);
  mi__option_set(mi_option_purge_holes_full_every, 0);
  mi__option_set(mi_option_purge_holes_large_floor, 0);
  mi__option_set(mi_option_page_full_retain, 100);
}
static struct mi_thread *self(void) { return mi__thread_self(true); }
static void sweep(unsigned how) { ck_assert(mi__thread_sweep(self(), how, NULL)); }
static void sweep_later(void) {
  clock_now += INTERVAL;
  sweep(MI_SWEEP_OWN);
}
static void *block(const struct mi_page *page, size_t i) { return page->start + i * page->block_size; }

/* A page of blocks of one OS page: of these [from, to) are freed. */
static struct mi_page *with_free(uint32_t from, uint32_t to) {
  void *blocks[16];
  struct mi_page *page = fill_page(SMALL, blocks);
  ck_assert_uint_eq(page->n_blocks, 16);
  for (int i = 0; i < 16; i++) memset(blocks[i], 0xAB, SMALL);
  for (uint32_t i = from; i < to; i++) mi_free(block(page, i));
  return page;
}
static void gauges_are_zero(void) {
  ck_assert_int_eq(HOLES(purged_bytes), 0);
  ck_assert_int_eq(HOLES(purged_blocks), 0);
  ck_assert_int_eq(HOLES(unformed_bytes), 0);
}

/* ---- which pages ---- */

START_TEST(what_has_not_changed_is_passed_over) {
  begin();
  struct mi_page *page = with_free(0, 6);
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
  ck_assert_int_eq(HOLES(purged_bytes), 6 * SMALL);
  ck_assert_int_eq(HOLES(pages_skipped), 0);
  for (int i = 1; i < 4; i++) {
    sweep(MI_SWEEP_OWN);
    ck_assert_int_eq(HOLES(pages_skipped), i);
  }
  mi_free(block(page, 9));
  sweep(MI_SWEEP_OWN);
  ck_assert_int_eq(HOLES(pages_skipped), 3);
  ck_assert_uint_eq(mi__page_n_holes(page), 7);
  sweep(MI_SWEEP_FORCE);
  ck_assert_int_eq(HOLES(pages_skipped), 3);
}
END_TEST

START_TEST(now_and_then_all_are_looked_at) {
  begin();
  mi__option_set(mi_option_purge_holes_full_every, 3);
  with_free(0, 6);
  int64_t skipped = 0;
  for (uint32_t i = 1; i <= 9; i++) {
    sweep(MI_SWEEP_OWN);
    if (i > 1 && i % 3 != 0) skipped++;
    ck_assert_uint_eq(self()->n_sweeps, i);
    ck_assert_int_eq(HOLES(full_sweeps), i / 3);
    ck_assert_int_eq(HOLES(pages_skipped), skipped);
  }
}
END_TEST

START_TEST(once_in_an_interval) {
  begin();
  mi__option_set(mi_option_purge_holes_min_interval, INTERVAL);
  struct mi_page *page = with_free(0, 6);
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
  ck_assert(!self()->is_pending);
  mi_free(block(page, 8));
  clock_now += INTERVAL - 1;
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
  ck_assert(self()->is_pending);
  clock_now += 1;
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 7);
  ck_assert(!self()->is_pending);
  mi_free(block(page, 10));
  sweep(MI_SWEEP_FORCE); /* whatever the clock says */
  ck_assert_uint_eq(mi__page_n_holes(page), 8);
}
END_TEST

START_TEST(none_where_the_option_is_off) {
  begin();
  mi__option_set(mi_option_purge_holes, 0);
  struct mi_page *page = with_free(0, 6);
  sweep(MI_SWEEP_FORCE);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_uint_eq(self()->n_sweeps, 0);
}
END_TEST

/* ---- lists ---- */

START_TEST(hollow_until_something_is_freed) {
  begin();
  struct mi_page *page = with_free(0, 6);
  struct mi_theap_s *theap = my_theap();
  unsigned bin = page->bin;
  sweep(MI_SWEEP_OWN);
  ck_assert_int_eq(page->list, MI_LIST_HOLLOW);
  ck_assert_ptr_eq(theap->hollow[bin].head, page);
  ck_assert(mi__page_flag(page, MI_PAGE_HOLLOW));
  ck_assert_uint_eq(page->until, 1);
  ck_assert_uint_eq(mi__page_used(page), 10);
  mi_free(block(page, 12));
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  ck_assert_ptr_null(theap->hollow[bin].head);
  ck_assert_ptr_eq(theap->bins[bin].avail.head, page);
  ck_assert(!mi__page_flag(page, MI_PAGE_HOLLOW));
  ck_assert_uint_eq(mi__page_used(page), 9);
  mi__theap_check(theap);
  for (size_t i = 6; i < 16; i++) {
    if (i != 12) mi_free(block(page, i));
  }
  ck_assert_uint_eq(theap->bins[bin].n_pages, 0);
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  gauges_are_zero();
  ck_assert_int_eq(HOLES(pages_freed), 1);
}
END_TEST

START_TEST(the_first_free_may_be_the_last) {
  begin();
  struct mi_page *page = with_free(0, 15);
  struct mi__theap_bin *b = bin_for(SMALL);
  sweep(MI_SWEEP_OWN);
  ck_assert_int_eq(page->list, MI_LIST_HOLLOW);
  ck_assert_uint_eq(mi__page_used(page), 1);
  mi_free(block(page, 15));
  ck_assert_uint_eq(b->n_pages, 0);
  ck_assert_ptr_null(my_theap()->hollow[mi__bin_of(SMALL)].head);
  mi__theap_check(my_theap());
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  gauges_are_zero();
}
END_TEST

START_TEST(a_page_with_resident_blocks_is_not_hollow) {
  begin();
  void *blocks[128];
  struct mi_page *page = fill_page(512, blocks);
  for (size_t i = 0; i < 12; i++) mi_free(block(page, i)); /* one OS page, and half of one */
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 8);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  ck_assert_ptr_eq(page->free, block(page, 8));
  for (size_t i = 8; i < 12; i++) ck_assert_ptr_eq(alloc(512), block(page, i));
  ck_assert_uint_eq(mi__page_n_holes(page), 8);
  ck_assert_uint_eq(mi__page_n_holes(page_at(alloc(512))), 0); /* the unit came back whole */
  mi__theap_check(my_theap());
}
END_TEST

static char *refused;
static int refuse(void *start, size_t size, int advice) {
  if ((char *)start <= refused && refused < (char *)start + size) {
    errno = EINVAL;
    return -1;
  }
  return madvise(start, size, advice);
}

START_TEST(what_is_refused_is_not_hollow) {
  begin();
  mi__os_calls.advise = refuse;
  struct mi_page *page = with_free(3, 9);
  refused = block(page, 4);
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  gauges_are_zero();
  refused = NULL;
  sweep(MI_SWEEP_OWN); /* not again before the page changes */
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_int_eq(HOLES(pages_skipped), 1);
  mi_free(block(page, 15));
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 7);
  ck_assert_int_eq(page->list, MI_LIST_HOLLOW);
}
END_TEST

/* The same where memory waits to be given back with that of other pages: the page is hollow until then. */
static uint64_t refuse_from_now_on(void) {
  mi__os_calls.advise = refuse;
  return clock_now;
}
START_TEST(what_is_refused_later_is_not_hollow) {
  begin();
  struct mi_page *page = with_free(0, 0), *other = with_free(3, 9);
  for (size_t i = 3; i < 9; i++) mi_free(block(page, i));
  refused = block(page, 4);
  mi__os_calls.clock_ms = refuse_from_now_on; /* when the sweep has begun */
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  ck_assert_int_eq(other->list, MI_LIST_HOLLOW);
  ck_assert_int_eq(HOLES(purged_blocks), 6);
  for (size_t i = 3; i < 9; i++) ck_assert_ptr_eq(page_at(alloc(SMALL)), page);
  ck_assert_int_eq(HOLES(reuse_calls), 0);
  mi__theap_check(my_theap());
}
END_TEST

/* ---- what malloc takes ---- */

START_TEST(resident_blocks_then_holes_then_a_fresh_page) {
  begin();
  struct mi_page *hollow = with_free(0, 0), *avail = with_free(0, 0);
  ck_assert_ptr_ne(hollow, avail);
  for (size_t i = 0; i < 8; i++) mi_free(block(hollow, i));
  sweep(MI_SWEEP_OWN);
  ck_assert_int_eq(hollow->list, MI_LIST_HOLLOW);
  mi_free(block(avail, 2));
  mi_free(block(avail, 5));
  int64_t pages = HEAP_CURRENT(pages);
  for (int i = 0; i < 2; i++) {
    ck_assert_ptr_eq(page_at(alloc(SMALL)), avail);
    ck_assert_int_eq(HOLES(reuse_calls), 0);
  }
  for (int64_t i = 1; i <= 8; i++) {
    void *p = alloc(SMALL);
    ck_assert_ptr_eq(page_at(p), hollow);
    memset(p, 1, SMALL);
    ck_assert_int_eq(HOLES(purged_blocks), 8 - i);
  }
  ck_assert_int_eq(HEAP_CURRENT(pages), pages);
  gauges_are_zero();
  struct mi_page *fresh = page_at(alloc(SMALL));
  ck_assert(fresh != hollow && fresh != avail);
  ck_assert_int_eq(HEAP_CURRENT(pages), pages + 1);
}
END_TEST

/* ---- large pages ---- */

/* 10 blocks, of which 5 are free. */
static struct mi_page *large_page(void) {
  void *blocks[10];
  mi__option_set(mi_option_purge_holes_min_interval, INTERVAL);
  for (int i = 0; i < 10; i++) memset(blocks[i] = alloc(LARGE), 0xAB, LARGE);
  struct mi_page *page = page_at(blocks[0]);
  ck_assert_int_eq(page->kind, MI_PAGE_LARGE);
  for (int i = 0; i < 10; i += 2) mi_free(blocks[i]);
  return page;
}

START_TEST(a_young_large_page_is_held) {
  begin();
  struct mi_page *page = large_page();
  for (int i = 0; i < 2; i++) { /* the first sweep stamps it, the next one finds it one epoch old */
    sweep_later();
    ck_assert_uint_eq(mi__page_n_holes(page), 0);
    ck_assert(self()->is_pending);
  }
  sweep_later();
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
  ck_assert(!self()->is_pending);
  ck_assert_int_gt(HOLES(purged_bytes), 5 * LARGE / 2);
  void *p = alloc(LARGE); /* used again, and held again */
  ck_assert_ptr_eq(page_at(p), page);
  mi_free(p);
  sweep_later();
  ck_assert(self()->is_pending);
}
END_TEST

START_TEST(force_holds_nothing) {
  begin();
  struct mi_page *page = large_page();
  sweep_later();
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  sweep(MI_SWEEP_FORCE);
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
  ck_assert(!self()->is_pending);
}
END_TEST

START_TEST(a_park_is_swept_again_for_it) {
  begin();
  struct mi_page *page = large_page();
  uint64_t again = 0;
  int n = 0;
  do {
    clock_now += INTERVAL;
    ck_assert(mi__thread_sweep(self(), MI_SWEEP_PARKED, &again));
    if (again != 0) ck_assert_uint_eq(again, clock_now + INTERVAL);
  } while (again != 0 && ++n < 10);
  ck_assert_int_eq(n, 2);
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
}
END_TEST

static size_t free_bytes(const struct mi_page *page) {
  return (page->n_formed - mi__page_used(page)) * page->block_size;
}
static int64_t kept(void) { return mi__load(&mi__holes_kept, relaxed); }
static struct mi_page *kept_page(void) {
  begin();
  mi__option_set(mi_option_purge_holes_large_floor, 1024); /* KiB */
  mi__option_set(mi_option_purge_holes_large_floor_epochs, 6);
  struct mi_page *page = large_page();
  for (int i = 0; i < 3; i++) sweep_later();
  ck_assert_uint_ge(free_bytes(page), 5 * LARGE);
  ck_assert_int_eq(kept(), (int64_t)free_bytes(page));
  ck_assert_uint_eq(mi__page_more(page)->kept, free_bytes(page));
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert(!self()->is_pending);
  return page;
}

START_TEST(the_floor_keeps_a_page_for_so_many_epochs) {
  struct mi_page *page = kept_page();
  for (int i = 2; i < 5; i++) {
    sweep_later();
    ck_assert_uint_eq(mi__page_n_holes(page), 0);
    ck_assert_int_gt(kept(), 0);
  }
  sweep_later();
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
  ck_assert_int_eq(kept(), 0);
}
END_TEST

START_TEST(no_more_than_the_floor_is_kept) {
  begin();
  mi__option_set(mi_option_purge_holes_large_floor, 5 * LARGE / 1024 - 1);
  mi__option_set(mi_option_purge_holes_large_floor_epochs, 100);
  struct mi_page *page = large_page();
  for (int i = 0; i < 3; i++) sweep_later();
  ck_assert_int_eq(kept(), 0);
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
}
END_TEST

START_TEST(the_floor_is_dropped) {
  struct mi_page *page = kept_page();
  mi__theap_drop_floor(my_theap());
  ck_assert_int_eq(kept(), 0);
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
  ck_assert_int_eq(page->list, mi__page_is_hollow(page) ? MI_LIST_HOLLOW : MI_LIST_AVAIL);
  mi__theap_check(my_theap());
}
END_TEST

START_TEST(the_floor_is_dropped_by_force) {
  struct mi_page *page = kept_page();
  sweep(MI_SWEEP_FORCE);
  ck_assert_int_eq(kept(), 0);
  ck_assert_uint_ge(mi__page_n_holes(page), 5);
}
END_TEST

START_TEST(what_is_used_again_leaves_the_floor) {
  struct mi_page *page = kept_page();
  ck_assert_ptr_eq(page_at(alloc(LARGE)), page);
  ck_assert_int_eq(kept(), 0);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
}
END_TEST

/* ---- abandoned pages ---- */

static struct mi_page *left_behind;
static void leave(void *arg) {
  (void)arg;
  mi__option_set(mi_option_purge_holes, 0); /* the end of a thread makes none */
  left_behind = with_free(0, 6);
}
static struct mi_page *abandoned(void) {
  begin();
  in_thread(leave, NULL);
  mi__option_set(mi_option_purge_holes, 1);
  ck_assert_uint_eq(mi__load(&pool_for(SMALL)->n, relaxed), 1);
  ck_assert_uint_eq(mi__page_n_holes(left_behind), 0);
  return left_behind;
}
static uint32_t pools_word(void) { return mi__load(&mi__heap_main.xpools, relaxed); }
static void is_back(struct mi_page *page) {
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
  ck_assert_uint_eq(mi__load(&pool_for(SMALL)->n, relaxed), 1);
  ck_assert_int_eq(page->list, MI_LIST_POOL);
  ck_assert_ptr_eq(pool_for(SMALL)->head, page);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), MI_OWNER_NONE);
  ck_assert_uint_eq(mi__load(&page->xremote, relaxed) & MI_REMOTE_OWNED, 0);
  ck_assert_uint_eq(pools_word(), MI_POOLS_FREE);
}

START_TEST(abandoned_pages_are_swept_and_put_back) {
  struct mi_page *page = abandoned();
  alloc(16);
  sweep(MI_SWEEP_OWN);
  is_back(page);
  for (int64_t i = 1; i <= 6; i++) {
    ck_assert_ptr_eq(page_at(alloc(SMALL)), page); /* before a fresh one */
    ck_assert_int_eq(HOLES(purged_blocks), 6 - i);
  }
  mi__theap_check(my_theap());
}
END_TEST

START_TEST(all_pools_at_once) {
  struct mi_page *page = abandoned();
  mi__sweep_all_pools();
  is_back(page);
}
END_TEST

START_TEST(who_is_second_leaves_the_pools_alone) {
  struct mi_page *page = abandoned();
  mi__store(&mi__heap_main.xpools, MI_POOLS_SWEPT, relaxed);
  alloc(16);
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_uint_eq(pools_word(), MI_POOLS_SWEPT);
  mi__pools_fork_child(&mi__heap_main);
  ck_assert_uint_eq(pools_word(), MI_POOLS_FREE);
  sweep(MI_SWEEP_OWN);
  is_back(page);
}
END_TEST

static pthread_t closer;
static _Atomic(bool) is_closed;
static void *close_pools(void *arg) {
  (void)arg;
  mi__pools_close(&mi__heap_main);
  mi__store(&is_closed, true, seq_cst);
  return NULL;
}
static int close_meanwhile(void *start, size_t size, int advice) {
  if (closer == 0) {
    ck_assert_uint_eq(pools_word(), MI_POOLS_SWEPT);
    ck_assert_int_eq(pthread_create(&closer, NULL, close_pools, NULL), 0);
    while ((pools_word() & MI_POOLS_SLEEPERS) == 0) sched_yield();
    ck_assert(!mi__load(&is_closed, seq_cst));
  }
  return madvise(start, size, advice);
}

START_TEST(who_closes_the_pools_waits) {
  struct mi_page *page = abandoned();
  alloc(16);
  mi__os_calls.advise = close_meanwhile;
  sweep(MI_SWEEP_OWN);
  ck_assert(closer != 0);
  ck_assert_int_eq(pthread_join(closer, NULL), 0);
  ck_assert(mi__load(&is_closed, seq_cst));
  ck_assert_uint_eq(pools_word(), MI_POOLS_CLOSED);
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
  sweep(MI_SWEEP_FORCE); /* and nobody sweeps them any more */
  ck_assert_uint_eq(pools_word(), MI_POOLS_CLOSED);
  mi__pools_fork_child(&mi__heap_main);
  ck_assert_uint_eq(pools_word(), MI_POOLS_CLOSED);
  mi__pools_open(&mi__heap_main);
  is_back(page);
}
END_TEST

/* ---- and if not ---- */

START_TEST(leaves_when_it_is_waited_for) {
  begin();
  struct mi_page *page = with_free(0, 6);
  uint64_t again = 1;
  mi__fetch_or(&self()->xpark, MI_PARK_BACK, relaxed);
  ck_assert(!mi__thread_sweep(self(), MI_SWEEP_PARKED, &again));
  ck_assert_uint_eq(again, 0);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  mi__store(&self()->xpark, 0, relaxed);
  sweep(MI_SWEEP_OWN);
  ck_assert_uint_eq(mi__page_n_holes(page), 6);
}
END_TEST

/* A page with room that is not current, whose list is wrong. */
static struct mi_page *wrong_list(bool circle) {
  begin();
  struct mi_page *page = with_free(0, 0);
  with_free(0, 1); /* current, with a block ready */
  for (size_t i = 3; i < 6; i++) mi_free(block(page, i));
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  struct mi_block *first = page->free;
  if (circle) first->next->next->next = first;
  else first->next->next = (void *)(uintptr_t)0x4141414141414140u;
  return page;
}

START_TEST(a_broken_list_is_found) {
  struct mi_page *page = wrong_list(_i == 0);
  struct mi__theap_bin *b = bin_for(SMALL);
  uint32_t n_full = b->n_full;
  sweep(MI_SWEEP_OWN);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));
  ck_assert_int_eq(page->list, MI_LIST_FULL);
  ck_assert_uint_eq(b->n_full, n_full + 1);
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
  ck_assert_int_eq(page->fault, _i == 0 ? MI_FAULT_TWICE : MI_FAULT_FREE);
  ck_assert_uint_ne(my_theap()->faults.any, 0);
  for (int i = 0; i < 40; i++) ck_assert_ptr_ne(page_at(alloc(SMALL)), page);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, _i == 0 ? EAGAIN : EFAULT);
  sweep(MI_SWEEP_FORCE);
  mi_collect(true);
  ck_assert_int_eq(n_errors, 1); /* reported once */
}
END_TEST

int main(void) {
  if (!mi_test_forks()) return 77;
  Suite *suite = suite_create("heap/thread_sweep");
  TCase *tcase = new_case(suite, "pages");
  tcase_add_test(tcase, what_has_not_changed_is_passed_over);
  tcase_add_test(tcase, now_and_then_all_are_looked_at);
  tcase_add_test(tcase, once_in_an_interval);
  tcase_add_test(tcase, none_where_the_option_is_off);
  tcase = new_case(suite, "lists");
  tcase_add_test(tcase, hollow_until_something_is_freed);
  tcase_add_test(tcase, the_first_free_may_be_the_last);
  tcase_add_test(tcase, a_page_with_resident_blocks_is_not_hollow);
  tcase_add_test(tcase, what_is_refused_is_not_hollow);
  tcase_add_test(tcase, what_is_refused_later_is_not_hollow);
  tcase_add_test(tcase, resident_blocks_then_holes_then_a_fresh_page);
  tcase = new_case(suite, "large");
  tcase_add_test(tcase, a_young_large_page_is_held);
  tcase_add_test(tcase, force_holds_nothing);
  tcase_add_test(tcase, a_park_is_swept_again_for_it);
  tcase_add_test(tcase, the_floor_keeps_a_page_for_so_many_epochs);
  tcase_add_test(tcase, no_more_than_the_floor_is_kept);
  tcase_add_test(tcase, the_floor_is_dropped);
  tcase_add_test(tcase, the_floor_is_dropped_by_force);
  tcase_add_test(tcase, what_is_used_again_leaves_the_floor);
  tcase = new_case(suite, "abandoned");
  tcase_add_test(tcase, abandoned_pages_are_swept_and_put_back);
  tcase_add_test(tcase, all_pools_at_once);
  tcase_add_test(tcase, who_is_second_leaves_the_pools_alone);
  tcase_add_test(tcase, who_closes_the_pools_waits);
  tcase = new_case(suite, "else");
  tcase_add_test(tcase, leaves_when_it_is_waited_for);
  tcase_add_loop_test(tcase, a_broken_list_is_found, 0, 2);
  return mi_test_run_suite(suite);
}
