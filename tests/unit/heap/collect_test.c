/* SPDX-License-Identifier: MIT */
/* src/heap/collect.c: deferred frees, what happens every so many refills, mi_collect. */
#include "fixture.h"

/* Refills of a theap: each block of a bin whose blocks are formed one by one costs one. */
enum { BLOCK = 8 * 1024 };
static void refill_times(uint32_t n) {
  struct mi_theap_s *theap = my_theap();
  for (uint32_t until = theap->n_refills + n; theap->n_refills < until;) alloc(BLOCK);
}

/* ---- deferred frees ---- */

static int n_calls, n_forced;
static unsigned long long last_beat;
static void *seen_arg;
static void count_call(bool force, unsigned long long beat, void *arg) {
  n_calls++;
  n_forced += force;
  ck_assert(n_calls == 1 || beat >= last_beat);
  last_beat = beat;
  seen_arg = arg;
}

START_TEST(called_at_refills) {
  static int arg;
  alloc(BLOCK);
  mi_register_deferred_free(count_call, &arg);
  ck_assert_int_eq(n_calls, 0);
  alloc(BLOCK);
  ck_assert_int_eq(n_calls, 1);
  ck_assert_ptr_eq(seen_arg, &arg);
  unsigned long long first = last_beat;
  refill_times(10);
  ck_assert_int_eq(n_calls, 11);
  ck_assert_uint_eq(last_beat, first + 10);
  ck_assert_int_eq(n_forced, 0);
  mi_collect(false);
  ck_assert_int_eq(n_calls, 12);
  ck_assert_int_eq(n_forced, 0);
  mi_collect(true);
  ck_assert_int_eq(n_forced, 1);
  mi_register_deferred_free(NULL, NULL);
  refill_times(3);
  ck_assert_int_eq(n_calls, 13);
}
END_TEST

static void *deferred[2000];
static int n_deferred;
static void free_all_deferred(bool force, unsigned long long beat, void *arg) {
  (void)force, (void)beat, (void)arg;
  n_calls++;
  mi_free(alloc(64 + (size_t)n_calls % 8 * 1000)); /* and is not called again for that */
  while (n_deferred > 0) mi_free(deferred[--n_deferred]);
}

START_TEST(it_may_allocate_and_free) {
  mi_register_deferred_free(free_all_deferred, NULL);
  for (int i = 0; i < 20000; i++) {
    void *p = alloc(500);
    deferred[n_deferred++] = p;
    ck_assert_int_lt(n_deferred, 2000);
  }
  ck_assert_int_gt(n_calls, 10);
  ck_assert_int_le(HEAP_CURRENT(pages), 40); /* the blocks are used again */
  mi__theap_check(my_theap());
}
END_TEST

/* What it frees into the bin that is being refilled is found. */
static void *from_this_bin;
static void free_one(bool force, unsigned long long beat, void *arg) {
  (void)force, (void)beat, (void)arg;
  if (from_this_bin != NULL) mi_free(from_this_bin);
  from_this_bin = NULL;
}

START_TEST(what_it_frees_is_handed_out) {
  void *p = alloc(BLOCK);
  mi_register_deferred_free(free_one, NULL);
  from_this_bin = p;
  ck_assert_ptr_eq(mi_malloc(BLOCK), p);
}
END_TEST

/* One that causes a refill itself must not keep the clock from being looked at. */
static void refill_once(bool force, unsigned long long beat, void *arg) {
  (void)force, (void)beat, (void)arg;
  alloc(7000); /* a refill each */
}

START_TEST(what_is_due_is_done_all_the_same) {
  alloc(BLOCK);
  mi_free(memset(alloc(4 * MI_MIB), 1, 4 * MI_MIB));
  mi_register_deferred_free(refill_once, NULL);
  for (int parity = 0; parity < 2; parity++) {
    int64_t purged = COUNT(purged);
    for (int i = 0; i < 5; i++, clock_now += 1000) refill_times(2 * MI_TICK_REFILLS);
    ck_assert_int_gt(COUNT(purged), purged);
    mi_free(memset(alloc(4 * MI_MIB), 1, 4 * MI_MIB));
    my_theap()->n_refills++;
  }
}
END_TEST

/* ---- every so many refills ---- */

static void leave_empty_page(void) {
  void *blocks[16];
  mi__option_set(mi_option_page_full_retain, 10);
  struct mi_page *page = fill_page(5000, blocks);
  ck_assert_uint_eq(page->n_blocks, 12);
  alloc(5000);
  for (uint32_t i = 0; i < 12; i++) mi_free(blocks[i]);
  ck_assert_ptr_eq(mi__load(&bin_for(5000)->slot, relaxed), page);
}

START_TEST(slots_are_aged) {
  leave_empty_page();
  refill_times(2 * MI_TICK_REFILLS);
  ck_assert_ptr_nonnull(mi__load(&bin_for(5000)->slot, relaxed)); /* the clock stands still */
  clock_now += 200;
  refill_times(2 * MI_TICK_REFILLS);
  clock_now += 200;
  refill_times(2 * MI_TICK_REFILLS);
  ck_assert_ptr_null(mi__load(&bin_for(5000)->slot, relaxed));
}
END_TEST

START_TEST(due_memory_is_purged) {
  char *p = alloc(4 * MI_MIB);
  memset(p, 1, 4 * MI_MIB);
  mi_free(p);
  refill_times(2 * MI_TICK_REFILLS);
  ck_assert_int_eq(COUNT(purged), 0);
  clock_now += 1000;
  refill_times(2 * MI_TICK_REFILLS);
  clock_now += 1000;
  refill_times(2 * MI_TICK_REFILLS);
  ck_assert_int_gt(COUNT(purged), 0);
}
END_TEST

/* A collection puts the ready lists back. */
static uint32_t refills_until_collected(uint32_t most) {
  struct mi_theap_s *theap = my_theap();
  alloc(64);
  unsigned bin = mi__bin_of(64);
  ck_assert_ptr_nonnull(theap->ready[bin]);
  uint32_t n = 0;
  while (theap->ready[bin] != NULL && n < most) {
    refill_times(1);
    n++;
  }
  return n;
}

START_TEST(collects_as_often_as_asked_for) {
  ck_assert_uint_eq(refills_until_collected(2000), 2000); /* 10000 is the default */
  mi__option_set(mi_option_generic_collect, 320);
  refills_until_collected(2000);
  uint32_t n = refills_until_collected(2000);
  ck_assert(n > 320 - MI_TICK_REFILLS && n < 320 + MI_TICK_REFILLS);
  mi__option_set(mi_option_generic_collect, 0);
  ck_assert_uint_eq(refills_until_collected(2000), 2000);
}
END_TEST

/* ---- mi_collect ---- */

START_TEST(a_forced_collect_gives_everything_back) {
  int64_t committed = CURRENT(committed);
  static void *blocks[3000];
  for (int i = 0; i < 3000; i++) {
    size_t size = (size_t)16 << (i % 13);
    blocks[i] = alloc(size);
    memset(blocks[i], 1, size);
  }
  for (int i = 0; i < 3000; i++) mi_free(blocks[i]);
  mi_collect(false);
  ck_assert_int_gt(HEAP_CURRENT(pages), 0); /* those in the slots */
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
  ck_assert_int_gt(COUNT(purged), 0);
  ck_assert_int_le(CURRENT(committed), committed + (int64_t)MI_SLICE_SIZE);
  for (unsigned bin = 1; bin < MI_BINS; bin++) ck_assert_uint_eq(my_theap()->bins[bin].n_pages, 0);
}
END_TEST

START_TEST(it_flushes_the_run) {
  struct mi_thread *self = mi__thread_self(true);
  void *p = alloc(64);
  self->run = (struct mi__run){page_at(p), p, p, 1}; /* as if the page were another thread's */
  mi_collect(false);
  ck_assert_ptr_null(self->run.page);
  mi_collect(false);
  ck_assert_uint_eq(mi__page_used(page_at(p)), 0);
}
END_TEST

START_TEST(it_collects_the_shared_theap) {
  mi__thread_end(false);
  void *p = alloc(64);
  mi_free(p);
  ck_assert_int_eq(HEAP_CURRENT(pages), 1);
  mi_collect(true);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

START_TEST(a_new_thread_may_collect) {
  mi_collect(true);
  mi_collect(false);
  ck_assert_ptr_null(mi__thread_self(false));
}
END_TEST

START_TEST(reduce_is_a_forced_collect) {
  mi_free(alloc(64));
  mi_collect_reduce(0);
  ck_assert_int_eq(HEAP_CURRENT(pages), 0);
}
END_TEST

/* ---- requests ---- */

static void *begin_and_end(void *arg) {
  (void)alloc(64);
  struct mi_thread *self = mi__thread_self(false);
  if (arg != NULL) mi__request_set(self, 5);
  return self;
}
static struct mi_thread *pass_by(bool asked) {
  pthread_t t;
  void *data;
  ck_assert_int_eq(pthread_create(&t, NULL, begin_and_end, asked ? &t : NULL), 0);
  ck_assert_int_eq(pthread_join(t, &data), 0);
  return data;
}
#define ASKED (mi__load(&mi__wants, relaxed) / MI_WANTS_SWEEP)

START_TEST(a_request_ends_with_its_thread) {
  uint32_t served = mi__load(&mi__requests_served, relaxed);
  struct mi_thread *data = pass_by(true);
  ck_assert_uint_eq(ASKED, 0);
  ck_assert_uint_eq(mi__load(&mi__requests_served, relaxed), served + 1);
  mi__request_set(data, 6); /* it was there a moment ago */
  ck_assert_uint_eq(ASKED, 0);
  ck_assert_ptr_eq(pass_by(false), data);
  ck_assert_uint_eq(ASKED, 0);
}
END_TEST

START_TEST(no_request_outlives_a_fork) {
  struct mi_thread *data = pass_by(false);
  mi__store(&data->xrequest, 7, relaxed); /* who was asking is not here any more */
  mi__request_fork_child();
  ck_assert_ptr_eq(pass_by(false), data);
  ck_assert_uint_eq(ASKED, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("heap/collect");
  TCase *tcase = new_case(suite, "deferred");
  tcase_add_test(tcase, called_at_refills);
  tcase_add_test(tcase, it_may_allocate_and_free);
  tcase_add_test(tcase, what_it_frees_is_handed_out);
  tcase_add_test(tcase, what_is_due_is_done_all_the_same);
  tcase = new_case(suite, "refills");
  tcase_add_test(tcase, slots_are_aged);
  tcase_add_test(tcase, due_memory_is_purged);
  tcase_add_test(tcase, collects_as_often_as_asked_for);
  tcase = new_case(suite, "collect");
  tcase_add_test(tcase, a_forced_collect_gives_everything_back);
  tcase_add_test(tcase, it_flushes_the_run);
  tcase_add_test(tcase, it_collects_the_shared_theap);
  tcase_add_test(tcase, a_new_thread_may_collect);
  tcase_add_test(tcase, reduce_is_a_forced_collect);
  tcase = new_case(suite, "requests");
  tcase_add_test(tcase, a_request_ends_with_its_thread);
  tcase_add_test(tcase, no_request_outlives_a_fork);
  return mi_test_run_suite(suite);
}
