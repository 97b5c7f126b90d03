/* SPDX-License-Identifier: MIT */
/* src/heap/theap.c: what becomes of pages that fill up, get room, become empty, or are given up. */
#include "fixture.h"
#include "heap/account.h"
#include "heap/damage.h"
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 8 * 1024 }; /* 8 blocks to a page */
enum { PER_PAGE = 8 };

/* ---- full, with room, empty ---- */

START_TEST(a_full_page_looks_at_the_first_free) {
  void *a[PER_PAGE], *b;
  struct mi_page *page = fill_page(BLOCK, a);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, page);
  ck_assert_ptr_eq(page->push, &my_theap()->ready[page->bin]);
  b = alloc(BLOCK); /* from another page: the first one is known to be full now */
  ck_assert_ptr_ne(page_at(b), page);
  ck_assert_int_eq(page->list, MI_LIST_FULL);
  ck_assert_uint_eq(page->until, 1);
  ck_assert_uint_eq(page->held, PER_PAGE - 1);
  ck_assert_ptr_eq(page->push, &page->free);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 1);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 2);
  mi_free(a[0]);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  ck_assert_uint_eq(page->until, PER_PAGE - 1);
  ck_assert_uint_eq(page->held, 0);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 0);
  mi_free(a[1]); /* counts down, no more */
  ck_assert_uint_eq(page->until, PER_PAGE - 2);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
}
END_TEST

/* The steady replacement of blocks in full pages must not cost a refill each. */
START_TEST(a_full_page_may_become_the_current_one) {
  void *a[PER_PAGE], *b[PER_PAGE];
  struct mi_page *first = fill_page(BLOCK, a), *second = fill_page(BLOCK, b);
  struct mi_theap_s *theap = my_theap();
  ck_assert_ptr_eq(bin_for(BLOCK)->current, second);
  uint32_t n_refills = theap->n_refills;
  mi_free(a[3]);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, first);
  ck_assert_ptr_eq(first->push, &theap->ready[first->bin]);
  ck_assert_ptr_eq(theap->ready[first->bin], a[3]);
  ck_assert_int_eq(first->list, MI_LIST_NONE);
  ck_assert_int_eq(second->list, MI_LIST_FULL);
  ck_assert_uint_eq(bin_for(BLOCK)->n_full, 1);
  ck_assert_uint_eq(mi__page_used(second), PER_PAGE);
  ck_assert_ptr_eq(mi_malloc(BLOCK), a[3]);
  ck_assert_uint_eq(theap->n_refills, n_refills);
}
END_TEST

START_TEST(it_does_not_where_the_current_page_has_more) {
  void *a[PER_PAGE], *b[PER_PAGE];
  struct mi_page *first = fill_page(BLOCK, a), *second = fill_page(BLOCK, b);
  free_elsewhere(b[0]); /* waits in the current page */
  mi_free(a[3]);
  ck_assert_ptr_eq(bin_for(BLOCK)->current, second);
  ck_assert_int_eq(first->list, MI_LIST_AVAIL);
  ck_assert_ptr_eq(mi_malloc(BLOCK), b[0]);
}
END_TEST

START_TEST(frees_into_the_current_page_go_to_its_ready_list) {
  void *p = alloc(64), *q = alloc(64);
  struct mi_page *page = page_at(p);
  mi_free(p);
  mi_free(q);
  ck_assert_ptr_eq(my_theap()->ready[page->bin], q);
  ck_assert_ptr_null(page->free);
  ck_assert_ptr_eq(mi_malloc(64), q);
  ck_assert_ptr_eq(mi_malloc(64), p);
  /* The count says nothing of a current page: it starts again. */
  page->until = 1;
  mi_free(p);
  ck_assert_uint_eq(page->until, MI_UNTIL_CURRENT);
  ck_assert_ptr_eq(bin_for(64)->current, page);
}
END_TEST

static struct mi_page *make_empty(void **blocks, struct mi_page *page) {
  for (int i = 0; i < PER_PAGE; i++) mi_free(blocks[i]);
  return page;
}

START_TEST(an_empty_page_waits_in_the_slot) {
  mi__option_set(mi_option_page_full_retain, 10);
  void *a[PER_PAGE], *b[PER_PAGE], *c[PER_PAGE];
  struct mi_page *first = fill_page(BLOCK, a), *second = fill_page(BLOCK, b);
  fill_page(BLOCK, c);
  alloc(BLOCK); /* the current page has room: nothing becomes current by a free */
  struct mi__theap_bin *bin = bin_for(BLOCK);
  ck_assert_uint_eq(bin->n_pages, 4);
  make_empty(a, first);
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), first);
  ck_assert_int_eq(first->list, MI_LIST_NONE);
  ck_assert_uint_eq(bin->n_pages, 3);
  int64_t retired = HEAP_COUNT(pages_retire);
  make_empty(b, second); /* what waited there goes back */
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), second);
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_uint_eq(bin->n_pages, 2);
  ck_assert_int_eq(HEAP_COUNT(pages_retire), retired + 1);
}
END_TEST

START_TEST(without_a_delay_it_goes_back_at_once) {
  void *a[PER_PAGE];
  struct mi_page *first = fill_page(BLOCK, a);
  alloc(BLOCK);
  mi__option_set(mi_option_purge_delay, 0);
  make_empty(a, first);
  ck_assert_ptr_null(mi__load(&bin_for(BLOCK)->slot, relaxed));
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 1);
}
END_TEST

START_TEST(the_slot_is_aged) {
  void *a[PER_PAGE];
  struct mi_thread *self = mi__thread_self(true);
  struct mi_page *first = fill_page(BLOCK, a);
  alloc(BLOCK);
  make_empty(a, first);
  struct mi__theap_bin *bin = bin_for(BLOCK);
  clock_now += 49;
  mi__slots_tick(self);
  ck_assert(!mi__page_flag(first, MI_PAGE_OLD));
  clock_now += 1;
  mi__slots_tick(self); /* the first look: it may have come just now */
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), first);
  ck_assert(mi__page_flag(first, MI_PAGE_OLD));
  clock_now += 49;
  mi__slots_tick(self);
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), first);
  clock_now += 1;
  mi__slots_tick(self);
  ck_assert_ptr_null(mi__load(&bin->slot, relaxed));
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_uint_eq(mi__load(&self->xslots_due, relaxed), 0);
}
END_TEST

START_TEST(a_slot_used_meanwhile_starts_anew) {
  void *a[PER_PAGE], *b[PER_PAGE];
  struct mi_theap_s *theap = my_theap();
  struct mi_thread *self = mi__thread_self(true);
  struct mi_page *first = fill_page(BLOCK, a);
  fill_page(BLOCK, b);
  mi_free(b[7]);
  for (int i = 0; i < 7; i++) mi_free(a[i]);
  b[7] = alloc(BLOCK);
  mi_free(a[7]);
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), first);
  clock_now += 50;
  mi__slots_tick(self);
  ck_assert(mi__page_flag(first, MI_PAGE_OLD));
  ck_assert_ptr_eq(page_at(a[0] = alloc(BLOCK)), first); /* taken out of the slot */
  void *other = alloc(BLOCK);
  mi_free(b[0]); /* so that there is another current page */
  (void)other;
  mi__theap_collect(theap, false);
  mi_free(a[0]);
  mi_free(other);
  mi__theap_collect(theap, false);
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), first);
  ck_assert(!mi__page_flag(first, MI_PAGE_OLD));
  clock_now += 50;
  mi__slots_tick(self);
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), first);
}
END_TEST

/* What is taken out when the slots are due does not count any more: a small program stays small. */
START_TEST(aged_slots_do_not_add_up) {
  mi__on_offer = NULL; /* what is asked for stays so */
  mi__store(&mi__purge_ask_at, (int64_t)MI_MIB, relaxed);
  void *blocks[PER_PAGE];
  struct mi_thread *self = mi__thread_self(true);
  for (int i = 0; i < 40; i++) {
    struct mi_page *page = fill_page(BLOCK, blocks);
    void *p = alloc(BLOCK);
    make_empty(blocks, page);
    ck_assert_ptr_nonnull(mi__load(&bin_for(BLOCK)->slot, relaxed));
    for (int j = 0; j < 2; j++) {
      clock_now += 1000;
      mi__slots_tick(self);
    }
    ck_assert_ptr_null(mi__load(&bin_for(BLOCK)->slot, relaxed));
    mi_free(p);
  }
  ck_assert_uint_eq(mi__load(&mi__wants, relaxed) & MI_WANTS_BACKGROUND, 0);
  struct mi_page *page = fill_page(BLOCK, blocks);
  alloc(BLOCK);
  mi__store(&mi__purge_ask_at, (int64_t)MI_SLICE_SIZE, relaxed);
  make_empty(blocks, page); /* so much waits now */
  ck_assert_uint_ne(mi__load(&mi__wants, relaxed) & MI_WANTS_BACKGROUND, 0);
}
END_TEST

/* As the background thread does, while the owner uses the slot. */
START_TEST(two_use_the_slot) {
  void *a[PER_PAGE];
  struct mi_thread *self = mi__thread_self(true);
  struct mi_page *first = fill_page(BLOCK, a);
  alloc(BLOCK);
  make_empty(a, first);
  mi__page_mark_broken(first, MI_FAULT_TWICE); /* it cannot be given back, and is found by its theap */
  for (int i = 0; i < 3; i++) {
    clock_now += 50;
    mi__slots_tick(self);
    ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), first);
  }
  ck_assert_uint_eq(mi__load(&self->xslots_due, relaxed), 0);
  uint32_t n = bin_for(BLOCK)->n_pages;
  mi__theap_collect(my_theap(), true);
  ck_assert_ptr_null(mi__load(&bin_for(BLOCK)->slot, relaxed));
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, n + 1);
  ck_assert_uint_ne(my_theap()->faults.any, 0);
  my_theap()->faults.any = 0;
}
END_TEST

START_TEST(with_no_purging_the_slot_stays) {
  void *a[PER_PAGE];
  struct mi_theap_s *theap = my_theap();
  struct mi_page *first = fill_page(BLOCK, a);
  alloc(BLOCK);
  mi__option_set(mi_option_purge_delay, -1);
  make_empty(a, first);
  for (int i = 0; i < 5; i++, clock_now += 1000000) mi__slots_tick(mi__thread_self(false));
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), first);
  mi__theap_collect(theap, true); /* but for an explicit collect */
  ck_assert_ptr_null(mi__load(&bin_for(BLOCK)->slot, relaxed));
}
END_TEST

/* ---- a current page that empties ---- */

#define LARGE (300 * MI_KIB)
static uint64_t dice = 1;
static unsigned roll(unsigned n) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(dice >> 33) % n;
}

START_TEST(a_large_page_goes_when_its_last_block_does) {
  void *p[8];
  for (int i = 0; i < 8; i++) p[i] = alloc(LARGE);
  struct mi_page *page = page_at(p[0]);
  struct mi__theap_bin *bin = bin_for(LARGE);
  ck_assert_ptr_eq(bin->current, page);
  for (int i = 0; i < 7; i++) mi_free(p[i]);
  ck_assert_ptr_eq(bin->current, page);
  mi_free(p[7]);
  ck_assert_ptr_null(bin->current);
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), page);
  ck_assert_ptr_null(my_theap()->ready[page->bin]);
  ck_assert_ptr_eq(page_at(p[0] = alloc(LARGE)), page);
  mi_free(p[0]);
  ck_assert_ptr_eq(mi__load(&bin->slot, relaxed), page);
}
END_TEST

START_TEST(whatever_the_order) {
  enum { N = 10 };
  void *p[N] = {NULL};
  struct mi__theap_bin *bin = bin_for(LARGE);
  int64_t before = HEAP_COUNT(n_blocks), n_mallocs = 0;
  for (int round = 0; round < 300; round++) {
    for (unsigned steps = roll(40); steps > 0; steps--) {
      unsigned i = roll(N);
      if (p[i] != NULL) mi_free(p[i]), p[i] = NULL;
      else p[i] = alloc(LARGE), n_mallocs++;
      if (roll(50) == 0) mi__theap_merge_counters(my_theap());
    }
    for (int i = 0; i < N; i++) mi_free(p[i]), p[i] = NULL;
    struct mi_page *page = bin->current;
    if (page != NULL) ck_assert_uint_le(page->n_formed * page->block_size, 128 * MI_KIB);
    mi__theap_check(my_theap());
  }
  mi__theap_collect(my_theap(), true);
  mi__theap_merge_counters(my_theap());
  ck_assert_int_eq(HEAP_COUNT(n_blocks) - before, n_mallocs);
}
END_TEST

START_TEST(one_small_large_block_stays_quick) {
  void *p = alloc(100 * MI_KIB);
  struct mi__theap_bin *bin = bin_for(100 * MI_KIB);
  struct mi_page *page = page_at(p);
  for (int i = 0; i < 10; i++) {
    mi_free(p);
    ck_assert_ptr_eq(bin->current, page);
    ck_assert_ptr_eq(alloc(100 * MI_KIB), p);
  }
}
END_TEST

/* ---- collect ---- */

START_TEST(collect_puts_ready_lists_back) {
  void *p = alloc(64), *q = alloc(64);
  struct mi_page *page = page_at(p);
  ck_assert_ptr_nonnull(my_theap()->ready[page->bin]);
  mi__theap_collect(my_theap(), false);
  ck_assert_ptr_null(my_theap()->ready[page->bin]);
  ck_assert_ptr_null(bin_for(64)->current);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  ck_assert_uint_eq(mi__page_used(page), 2);
  mi_free(p);
  mi_free(q);
  ck_assert_ptr_eq(mi__load(&bin_for(64)->slot, relaxed), page);
  mi__theap_collect(my_theap(), false);
  ck_assert_ptr_eq(mi__load(&bin_for(64)->slot, relaxed), page);
  mi__theap_collect(my_theap(), true);
  ck_assert_ptr_null(mi__page_of(p));
  ck_assert_uint_eq(bin_for(64)->n_pages, 0);
}
END_TEST

static void free_blocks(void *arg) {
  void **blocks = arg;
  for (int i = 0; blocks[i] != NULL; i++) mi_free(blocks[i]);
}

START_TEST(collect_takes_what_others_freed) {
  void *a[PER_PAGE], *b[PER_PAGE], *c[PER_PAGE];
  struct mi_page *first = fill_page(BLOCK, a), *second = fill_page(BLOCK, b);
  fill_page(BLOCK, c);
  void *some[] = {a[0], a[1], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], c[0], NULL};
  in_thread(free_blocks, some);
  ck_assert_uint_eq(mi__page_used(first), PER_PAGE);
  mi__theap_collect(my_theap(), true);
  ck_assert_uint_eq(mi__page_used(first), PER_PAGE - 2);
  ck_assert_int_eq(first->list, MI_LIST_AVAIL);
  ck_assert_ptr_null(mi__page_of(b[0]));
  ck_assert_uint_eq(second->n_blocks, 0);
  ck_assert_uint_eq(mi__page_used(page_at(c[0])), PER_PAGE - 1);
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 2);
  mi__theap_check(my_theap());
  void *rest[] = {a[2], a[3], a[4], a[5], a[6], a[7], NULL}; /* of a page with room */
  in_thread(free_blocks, rest);
  mi__theap_collect(my_theap(), true);
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 1);
}
END_TEST

/* ---- given up ---- */

START_TEST(an_emptied_theap_is_as_new) {
  void *a[PER_PAGE];
  struct mi_page *full = fill_page(BLOCK, a);
  void *p = alloc(64), *q = alloc(3000);
  mi_free(q);
  memset(p, 7, 64);
  mi__theap_empty(my_theap(), MI_FATE_ABANDON);
  for (unsigned bin = 1; bin < MI_BINS; bin++) {
    struct mi__theap_bin *b = &my_theap()->bins[bin];
    ck_assert_ptr_null(my_theap()->ready[bin]);
    ck_assert_uint_eq(b->n_pages + b->n_full, 0);
    ck_assert(b->current == NULL && b->avail.head == NULL && b->full.head == NULL);
  }
  ck_assert_ptr_null(mi__page_of(q)); /* empty: back */
  ck_assert_int_eq(page_at(p)->list, MI_LIST_POOL); /* has room: for others */
  ck_assert_int_eq(full->list, MI_LIST_NONE); /* has none: found by the first free into it */
  ck_assert_uint_eq(mi__load(&full->owner, relaxed), MI_OWNER_NONE);
  ck_assert_uint_eq(mi__remote_number(mi__load(&full->xremote, relaxed)), PER_PAGE);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 2);
  ck_assert_int_eq(((char *)p)[63], 7);
  ck_assert_ptr_nonnull(mi_malloc(64));
}
END_TEST

START_TEST(an_abandoned_page_goes_back_when_it_is_empty) {
  void *a[PER_PAGE];
  struct mi_page *page = fill_page(BLOCK, a);
  int64_t pages = HEAP_CURRENT(pages);
  mi__theap_empty(my_theap(), MI_FATE_ABANDON);
  mi__option_set(mi_option_page_reclaim_on_free, -1);
  mi_free(a[0]);
  mi__run_flush(mi__thread_self(false)); /* it has room now */
  ck_assert_int_eq(page->list, MI_LIST_POOL);
  ck_assert_uint_eq(mi__load(&pool_for(BLOCK)->n, relaxed), 1);
  for (int i = 1; i < PER_PAGE; i++) mi_free(a[i]);
  mi__run_flush(mi__thread_self(false));
  ck_assert_ptr_null(mi__page_of(a[0]));
  ck_assert_uint_eq(mi__load(&pool_for(BLOCK)->n, relaxed), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
  ck_assert_int_eq(HEAP_CURRENT(pages), pages - 1);
}
END_TEST

START_TEST(attaching_sets_the_owner) {
  void *p = alloc(BLOCK);
  struct mi_page *page = page_at(p);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), (uintptr_t)mi__thread_self(false));
  mi__theap_empty(my_theap(), MI_FATE_ABANDON);
  ck_assert_ptr_eq(mi__pool_take(&mi__heap_main, mi__bin_of(BLOCK)), page);
  mi__theap_attach(my_theap(), page);
  ck_assert_uint_eq(mi__load(&page->owner, relaxed), (uintptr_t)mi__thread_self(false));
  ck_assert_uint_eq(bin_for(BLOCK)->n_pages, 1);
  ck_assert_int_eq(page->list, MI_LIST_AVAIL);
  merge_counters();
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
  mi_free(p);
  ck_assert_ptr_eq(mi__load(&bin_for(BLOCK)->slot, relaxed), page);
}
END_TEST

/* ---- damage ---- */

/* A block on the list twice: the page is never given away, and is told of once. */
START_TEST(a_page_that_does_not_add_up_is_kept) {
  if (MI_DEBUG) return; /* the second free is found at once there: free_test.c */
  void *a[PER_PAGE];
  fill_page(BLOCK, a);
  void *current = alloc(BLOCK);
  for (int i = 0; i < PER_PAGE - 1; i++) mi_free(a[i]);
  memset(a[7], 7, BLOCK);
  mi_free(a[0]); /* again, in place of a[7] */
  struct mi_page *page = page_at(a[7]);
  ck_assert_int_eq(n_errors, 0);
  mi_collect(true);
  ck_assert_ptr_eq(page_at(a[7]), page);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  for (int i = 0; i < 1000; i++) {
    char *p = alloc(BLOCK);
    ck_assert_ptr_ne(page_at(p), page);
    if (i % 2 == 0) mi_free(p);
  }
  for (int i = 0; i < BLOCK; i++) ck_assert_int_eq(((char *)a[7])[i], 7);
  mi_free(a[7]); /* late frees change nothing */
  mi_free(a[1]);
  for (int i = 0; i < 100; i++) ck_assert_ptr_ne(page_at(alloc(BLOCK)), page);
  mi_free(current);
  mi_collect(true);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_ptr_eq(page_at(a[7]), page);
}
END_TEST

START_TEST(an_overwritten_link_is_found_by_collect) {
  void *p = alloc(64), *q = alloc(64), *r = alloc(64);
  struct mi_page *page = page_at(p);
  mi_free(q);
  memset(q, 'A', 8); /* after its free */
  mi_collect(false);
  ck_assert(mi__page_flag(page, MI_PAGE_BROKEN));
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EFAULT);
  for (int i = 0; i < 5000; i++) {
    void *fresh = alloc(64);
    ck_assert(fresh != p && fresh != r && page_at(fresh) != page);
  }
}
END_TEST

START_TEST(an_abandoned_page_with_damage_is_kept) {
  void *p = alloc(64), *q = alloc(64);
  memset(p, 7, 64);
  struct mi_page *page = page_at(p);
  struct mi_theap_s *theap = my_theap();
  mi_free(q);
  memset(q, 'A', 8);
  mi__theap_empty(theap, MI_FATE_ABANDON);
  mi__theap_report(theap);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EFAULT);
  ck_assert_ptr_eq(page_at(p), page);
  ck_assert_ptr_null(mi__pool_take(&mi__heap_main, mi__bin_of(64)));
  mi_free(p);
  ck_assert_ptr_eq(page_at(p), page);
  ck_assert_int_eq(HEAP_CURRENT(pages_abandoned), 0);
}
END_TEST

START_TEST(damage_by_others_is_found_too) {
  void *p = alloc(64), *q = alloc(64);
  struct mi_page *page = page_at(p);
  struct mi_theap_s *theap = my_theap();
  free_elsewhere(q);
  free_elsewhere(q);
  mi__theap_empty(theap, MI_FATE_ABANDON);
  mi__theap_report(theap);
  ck_assert_int_eq(n_errors, 1);
  ck_assert_int_eq(last_error, EAGAIN);
  ck_assert_ptr_eq(page_at(p), page);
}
END_TEST

/* ---- counts and checks ---- */

START_TEST(counters_are_merged_once) {
  void *a[PER_PAGE];
  fill_page(BLOCK, a);
  struct mi_theap_s *theap = my_theap();
  mi__theap_merge_counters(theap);
  ck_assert_int_eq(HEAP_COUNT(refills), theap->n_refills);
  ck_assert_int_eq(HEAP_COUNT(pages_extended), PER_PAGE); /* one block a time */
  mi__theap_merge_counters(theap);
  ck_assert_int_eq(HEAP_COUNT(refills), theap->n_refills);
  ck_assert_int_eq(HEAP_COUNT(pages_extended), PER_PAGE);
}
END_TEST

static bool check_stops(void) {
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    close(STDERR_FILENO);
    mi__theap_check(my_theap());
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status);
}

START_TEST(the_debug_build_checks_the_lists) {
  void *a[PER_PAGE];
  fill_page(BLOCK, a);
  alloc(BLOCK);
  ck_assert(!check_stops());
  bin_for(BLOCK)->n_full++;
  ck_assert_int_eq(check_stops(), MI_DEBUG);
  bin_for(BLOCK)->n_full--;
  bin_for(BLOCK)->n_pages++;
  ck_assert_int_eq(check_stops(), MI_DEBUG);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/theap");
  TCase *tcase = new_case(suite, "theap");
  tcase_add_test(tcase, a_full_page_looks_at_the_first_free);
  tcase_add_test(tcase, a_full_page_may_become_the_current_one);
  tcase_add_test(tcase, it_does_not_where_the_current_page_has_more);
  tcase_add_test(tcase, frees_into_the_current_page_go_to_its_ready_list);
  tcase_add_test(tcase, an_empty_page_waits_in_the_slot);
  tcase_add_test(tcase, without_a_delay_it_goes_back_at_once);
  tcase_add_test(tcase, the_slot_is_aged);
  tcase_add_test(tcase, a_slot_used_meanwhile_starts_anew);
  tcase_add_test(tcase, aged_slots_do_not_add_up);
  tcase_add_test(tcase, two_use_the_slot);
  tcase_add_test(tcase, a_large_page_goes_when_its_last_block_does);
  tcase_add_test(tcase, whatever_the_order);
  tcase_add_test(tcase, one_small_large_block_stays_quick);
  tcase_add_test(tcase, with_no_purging_the_slot_stays);
  tcase_add_test(tcase, collect_puts_ready_lists_back);
  tcase_add_test(tcase, collect_takes_what_others_freed);
  tcase_add_test(tcase, an_emptied_theap_is_as_new);
  tcase_add_test(tcase, an_abandoned_page_goes_back_when_it_is_empty);
  tcase_add_test(tcase, attaching_sets_the_owner);
  tcase_add_test(tcase, a_page_that_does_not_add_up_is_kept);
  tcase_add_test(tcase, an_overwritten_link_is_found_by_collect);
  tcase_add_test(tcase, an_abandoned_page_with_damage_is_kept);
  tcase_add_test(tcase, damage_by_others_is_found_too);
  tcase_add_test(tcase, counters_are_merged_once);
  tcase_add_test(tcase, the_debug_build_checks_the_lists);
  return mi_test_run_suite(suite);
}
