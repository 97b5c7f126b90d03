/* SPDX-License-Identifier: MIT */
/* The purge schedule, with a clock and an OS that do what the test says: when memory goes back, and
 * that none is forgotten. */
#include "fixture.h"
#include "common.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

#define SLICE ((int64_t)MI_SLICE_SIZE)
static struct mi__span spans[64];

static void set_up(long delay) {
  script_os();
  ck_assert(mi__option_set(mi_option_purge_delay, delay));
  span_free(span_alloc(1)); /* the arena; the slice goes first of all */
  mi__arenas_purge(SET, MI_PURGE_EVERYTHING);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  script_n_advice = 0;
}
static void alloc_spans(int n, size_t slices) {
  for (int i = 0; i < n; i++) span_fill(spans[i] = span_alloc(slices), i + 1);
}
static int64_t purged_by(bool force) { /* slices */
  int64_t before = counter_purged();
  ck_assert(mi__arenas_purge(SET, force ? MI_PURGE_EVERYTHING : MI_PURGE_DUE));
  return (counter_purged() - before) / SLICE;
}
static int64_t purged_by_tick(void) {
  int64_t before = counter_purged();
  mi__arenas_tick(SET, 0);
  return (counter_purged() - before) / SLICE;
}
static mi__expire_t set_expire(void) { return mi__load(&SET->xexpire, relaxed); }

START_TEST(between_half_a_delay_and_one) {
  set_up(100);
  alloc_spans(16, 8);
  span_free(spans[0]);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 8 * MI_SLICE_SIZE);
  ck_assert_int_eq(purged_by_tick(), 0);
  script_now += 49;
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_int_eq(mi__load(&mi__counters.arena_purges, relaxed), 1);
  script_now += 1; /* 50: the pass comes; span 0 is young still, the others have just been freed */
  for (int i = 1; i < 16; i++) span_free(spans[i]);
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_int_eq(mi__load(&mi__counters.arena_purges, relaxed), 2);
  script_now += 49;
  ck_assert_int_eq(purged_by_tick(), 0);
  script_now += 1; /* 100 */
  ck_assert_int_eq(purged_by_tick(), 128);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  ck_assert_uint_eq(set_expire(), 0);
}
END_TEST

START_TEST(a_pass_makes_old_what_it_spares) {
  set_up(100);
  alloc_spans(3, 8);
  span_free(spans[0]);
  script_now += 50;
  ck_assert_int_eq(purged_by_tick(), 0);
  span_free(spans[1]); /* freed behind the pass: young for the next one */
  script_now += 50;
  ck_assert_int_eq(purged_by_tick(), 8);
  span_free(spans[2]);
  script_now += 50;
  ck_assert_int_eq(purged_by_tick(), 8);
  script_now += 50;
  ck_assert_int_eq(purged_by_tick(), 8);
  ck_assert_uint_eq(set_expire(), 0);
}
END_TEST

START_TEST(a_late_pass_takes_all) {
  set_up(100);
  alloc_spans(4, 8);
  span_free(spans[0]);
  script_now += 99;
  span_free(spans[1]);
  script_now += 1;
  ck_assert_int_eq(purged_by(false), 16);
}
END_TEST

START_TEST(brought_forward) {
  set_up(100);
  alloc_spans(1, 8);
  span_free(spans[0]);
  mi__arenas_bring_forward(SET);
  ck_assert_int_eq(purged_by_tick(), 8);
  mi__arenas_bring_forward(SET); /* with nothing armed: from 0 */
  ck_assert_uint_eq(set_expire() & 1, 1);
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_uint_eq(set_expire(), 0);
}
END_TEST

START_TEST(not_due_is_left_alone) {
  set_up(100);
  alloc_spans(1, 8);
  span_free(spans[0]);
  ck_assert_int_eq(purged_by(false), 0);
  ck_assert_uint_eq(set_expire() / 2, script_now + 50); /* put back */
  ck_assert_int_eq(purged_by(true), 8);
}
END_TEST

START_TEST(delay_zero_purges_at_the_free) {
  set_up(0);
  alloc_spans(3, 8);
  int64_t before = counter_purged();
  span_free(spans[1]);
  ck_assert_int_eq(counter_purged() - before, 8 * SLICE);
  ck_assert_uint_eq(set_expire(), 0);
  ck_assert(span_reads(spans[0], 1));
  ck_assert(span_reads(spans[2], 3));
  struct mi__span again = span_alloc(8);
  ck_assert_ptr_eq(again.start, spans[1].start);
  ck_assert(again.zero && span_reads(again, 0));
}
END_TEST

START_TEST(delay_below_zero_keeps_the_marks) {
  set_up(-1);
  alloc_spans(2, 8);
  span_free(spans[0]);
  ck_assert_uint_eq(set_expire(), 0);
  script_now += 100000;
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_int_eq(purged_by(false), 0);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 8 * MI_SLICE_SIZE);
  ck_assert_int_eq(purged_by(true), 8);
}
END_TEST

START_TEST(delay_is_multiplied) {
  set_up(100);
  ck_assert(mi__option_set(mi_option_arena_purge_mult, 3));
  alloc_spans(1, 8);
  span_free(spans[0]);
  ck_assert_uint_eq(set_expire() / 2, script_now + 150);
}
END_TEST

START_TEST(neighbours_go_in_one_call) {
  set_up(100);
  alloc_spans(8, 8); /* from above, one below the other: a chunk */
  for (int i = 0; i < 8; i++) span_free(spans[i]);
  ck_assert_int_eq(purged_by(true), 64);
  ck_assert_int_eq(script_n_advice, 1);
  ck_assert_ptr_eq(script_advice[0].start, spans[7].start);
  ck_assert_uint_eq(script_advice[0].size, 64 * MI_SLICE_SIZE);
  script_n_advice = 0;
  alloc_spans(8, 8);
  for (int i = 0; i < 8; i += 2) span_free(spans[i]);
  ck_assert_int_eq(purged_by(true), 32);
  ck_assert_int_eq(script_n_advice, 4);
  for (int i = 1; i < 8; i += 2) ck_assert(span_reads(spans[i], i + 1));
}
END_TEST

START_TEST(who_claims_forgets_the_marks) {
  set_up(100);
  alloc_spans(2, 8);
  span_free(spans[0]);
  spans[0] = span_alloc(8);
  ck_assert(!spans[0].zero);
  span_fill(spans[0], 9);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  ck_assert_int_eq(purged_by(true), 0);
  ck_assert(span_reads(spans[0], 9));
}
END_TEST

/* Parts of a unit that were freed in different passes go together; a unit that is partly live
 * stays, unarmed. */
START_TEST(coarse_units) {
  set_up(100);
  ck_assert(mi__option_set(mi_option_minimal_purge_size, 2048)); /* KiB: 32 slices */
  alloc_spans(16, 8);
  for (int i = 0; i < 16; i += 2) span_free(spans[i]);
  script_now += 50;
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_uint_eq(set_expire(), 0);
  for (int i = 1; i < 15; i += 2) span_free(spans[i]);
  int64_t before = counter_purged();
  for (int i = 0; i < 3; i++) {
    script_now += 50;
    mi__arenas_tick(SET, 0);
  }
  ck_assert_int_eq((counter_purged() - before) / SLICE, 96); /* three of four units */
  ck_assert_int_eq(purged_by(true), 24); /* forced: also what is free of the fourth */
  ck_assert(span_reads(spans[15], 16));
}
END_TEST

START_TEST(units_of_several_chunks) {
  set_up(100);
  ck_assert(mi__option_set(mi_option_minimal_purge_size, 8192)); /* two chunks */
  alloc_spans(4, 64);
  span_free(spans[0]);
  span_free(spans[2]);
  script_now += 300;
  ck_assert_int_eq(purged_by_tick(), 0);
  span_free(spans[1]);
  script_now += 300;
  ck_assert_int_eq(purged_by_tick(), 128);
  ck_assert(span_reads(spans[3], 4));
}
END_TEST

START_TEST(coarse_units_with_delay_zero) {
  set_up(0);
  ck_assert(mi__option_set(mi_option_minimal_purge_size, 1024)); /* 16 slices */
  alloc_spans(4, 8);
  int64_t before = counter_purged();
  span_free(spans[0]);
  ck_assert_int_eq(counter_purged() - before, 0);
  span_free(spans[1]);
  ck_assert_int_eq(counter_purged() - before, 16 * SLICE);
}
END_TEST

/* A free that finds its unit partly claimed by a pass does not come back to it: the pass must look
 * again. */
static void free_one_more(void) {
  script_on_advise = NULL;
  span_free(spans[1]);
}
START_TEST(half_a_unit_in_a_pass) {
  set_up(0);
  ck_assert(mi__option_set(mi_option_minimal_purge_size, 1024));
  alloc_spans(2, 8);
  span_free(spans[0]);
  script_on_advise = free_one_more;
  ck_assert_int_eq(purged_by(true), 16);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
}
END_TEST

START_TEST(a_discard_that_fails) { /* E06 and E07, the part of the arenas */
  set_up(100);
  alloc_spans(2, 8);
  span_free(spans[0]);
  script_fail_advise = EPERM;
  errno = 77;
  script_now += 200;
  ck_assert_int_eq(purged_by_tick(), 0);
  ck_assert_int_eq(errno, 77);
  ck_assert_uint_eq(set_expire(), 0); /* not tried again and again */
  ck_assert_uint_eq(mi__arenas_waiting(SET), 8 * MI_SLICE_SIZE);
  script_fail_advise = 0;
  ck_assert_int_eq(purged_by(true), 8);
  script_fail_advise = EPERM;
  span_free(spans[1]);
  ck_assert_int_eq(purged_by(true), 0);
  struct mi__span again = span_alloc(8);
  ck_assert(!again.zero || span_reads(again, 0));
}
END_TEST

START_TEST(lazy_purge_is_not_zero) {
  set_up(100);
  ck_assert(mi__option_set(mi_option_purge_decommits, 0));
  alloc_spans(1, 8);
  int64_t committed = committed_now();
  span_free(spans[0]);
  ck_assert_int_eq(purged_by(true), 8);
  ck_assert_int_eq(committed_now(), committed - 8 * SLICE);
  ck_assert(!span_alloc(8).zero);
  ck_assert_int_eq(committed_now(), committed);
}
END_TEST

/* ---- beside a pass in progress ---- */

START_TEST(freed_during_a_pass) {
  set_up(100);
  alloc_spans(3, 64);
  span_free(spans[0]); /* the highest: the pass gets to it last, so that span 1 lies behind the pass
                          then */
  script_on_advise = free_one_more;
  script_now += 200;
  ck_assert_int_eq(purged_by_tick(), 64);
  ck_assert_uint_ne(set_expire(), 0);
  script_now += 200;
  ck_assert_int_eq(purged_by_tick(), 64);
}
END_TEST

static uint32_t word_before;
#define n_armed ((int)(mi__alarm_read() - word_before))
START_TEST(armed_once) {
  set_up(100);
  word_before = mi__alarm_read();
  alloc_spans(4, 8);
  span_free(spans[0]);
  ck_assert_int_eq(n_armed, 1);
  span_free(spans[1]);
  ck_assert_int_eq(n_armed, 1);
  script_now += 50;
  mi__arenas_tick(SET, 0); /* spares them: armed anew */
  ck_assert_int_eq(n_armed, 2);
  script_now += 50;
  mi__arenas_tick(SET, 0);
  ck_assert_int_eq(n_armed, 2);
  mi__arenas_bring_forward(SET);
  ck_assert_int_eq(n_armed, 3);
}
END_TEST

static _Atomic(bool) in_pass, go_on;
static void hold_pass(void) {
  script_on_advise = NULL;
  in_pass = true;
  while (!go_on) sched_yield();
}
static void *run_pass(void *arg) {
  ck_assert(mi__arenas_purge(SET, MI_PURGE_EVERYTHING));
  return arg;
}
static void *forced_pass(void *done) {
  mi__arenas_purge(SET, MI_PURGE_EVERYTHING);
  *(_Atomic(bool) *)done = true;
  return NULL;
}
START_TEST(a_forced_pass_waits) {
  set_up(100);
  alloc_spans(2, 64);
  span_free(spans[0]);
  script_on_advise = hold_pass;
  pthread_t first, second;
  static _Atomic(bool) done;
  int64_t before = counter_purged();
  pthread_create(&first, NULL, run_pass, NULL);
  while (!in_pass) sched_yield();
  ck_assert(!mi__arenas_purge(SET, MI_PURGE_DUE)); /* gives up and says so */
  span_free(spans[1]);
  pthread_create(&second, NULL, forced_pass, &done);
  usleep(20000);
  ck_assert(!done);
  go_on = true;
  pthread_join(first, NULL);
  pthread_join(second, NULL);
  ck_assert_int_eq((counter_purged() - before) / SLICE, 128);
}
END_TEST

/* The pass holds the last free slices of an arena: who needs them waits rather than go without. */
static _Atomic(bool) got_it;
static void *alloc_all(void *arg) {
  struct mi__span_request request = span_request(64);
  struct mi__span span;
  got_it = mi__span_alloc(SET, &request, &span);
  return arg;
}
START_TEST(memory_in_a_pass_is_not_lost) {
  script_os();
  ck_assert(mi__option_set(mi_option_arena_reserve, 4096));
  spans[0] = span_alloc(64);
  ck_assert(mi__option_set(mi_option_disallow_os_alloc, 1));
  span_fill(spans[0], 1);
  span_free(spans[0]);
  script_on_advise = hold_pass;
  pthread_t pass, taker;
  pthread_create(&pass, NULL, run_pass, NULL);
  while (!in_pass) sched_yield();
  pthread_create(&taker, NULL, alloc_all, NULL);
  usleep(20000);
  go_on = true;
  pthread_join(pass, NULL);
  pthread_join(taker, NULL);
  ck_assert(got_it);
}
END_TEST

/* A free and a pass at the same time, many times: what is freed is purged, or something is armed
 * for it. */
static _Atomic(unsigned) round_begun, round_done;
static void wait_for(_Atomic(unsigned) *word, unsigned value) {
  for (unsigned i = 1; mi__load(word, acquire) < value; i++) {
    if (i % 1000 == 0) sched_yield();
  }
}
static void *pass_each_round(void *arg) {
  for (unsigned round = 1; round <= *(unsigned *)arg; round++) {
    wait_for(&round_begun, round);
    for (unsigned i = 0; i < round % 32; i++) mi__relax();
    mi__arenas_purge(SET, MI_PURGE_DUE);
    mi__store(&round_done, round, release);
  }
  return NULL;
}
static void pass_and_free(struct mi__span span, unsigned round) {
  script_now += 200;
  mi__store(&round_begun, round, release);
  for (unsigned i = 0; i < round / 32 % 64; i++) mi__relax();
  span_free(span);
  wait_for(&round_done, round);
}
START_TEST(freed_beside_a_pass) {
  unsigned rounds = (unsigned)mi_test_scale(1000, 20000);
  pthread_t thread;
  struct mi__span_request request = span_request(64);
  struct mi__span armed, beside;
  set_up(100);
  pthread_create(&thread, NULL, pass_each_round, &rounds);
  for (unsigned round = 1; round <= rounds; round++) {
    if (!mi__span_alloc(SET, &request, &armed) || !mi__span_alloc(SET, &request, &beside))
      ck_abort();
    *armed.start = *beside.start = 1;
    span_free(armed);
    pass_and_free(beside, round);
    if (mi__arenas_waiting(SET) == 0) continue;
    if (set_expire() == 0) ck_abort_msg("round %u: marked, and nothing is armed", round);
    script_now += 200;
    mi__arenas_tick(SET, 0);
    if (mi__arenas_waiting(SET) != 0) ck_abort_msg("round %u: not purged", round);
  }
  pthread_join(thread, NULL);
}
END_TEST

/* ---- fork ---- */

START_TEST(a_fork_child_arms_and_purges) {
  set_up(100);
  alloc_spans(2, 8);
  ck_assert(mi__option_set(mi_option_purge_delay, -1));
  span_free(spans[0]); /* marked and not armed, as by a thread that vanished in between */
  ck_assert(mi__option_set(mi_option_purge_delay, 100));
  mi__arenas_fork_prepare();
  pid_t child = fork();
  if (child == 0) {
    mi__arenas_fork_child();
    script_now += 200;
    _exit(purged_by_tick() == 8 && span_reads(spans[1], 2) ? 0 : 1);
  }
  mi__arenas_fork_parent();
  int status = -1;
  waitpid(child, &status, 0);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(purged_by(true), 8);
}
END_TEST

START_TEST(a_fork_that_bypassed_prepare) {
  set_up(100);
  alloc_spans(1, 64);
  char *start = spans[0].start;
  span_free(spans[0]);
  script_on_advise = hold_pass;
  pthread_t pass;
  pthread_create(&pass, NULL, run_pass, NULL);
  while (!in_pass) sched_yield();
  pid_t child = fork();
  if (child == 0) {
    mi__arenas_fork_child();
    struct mi__span_request request = span_request(64);
    struct mi__span span;
    bool ok = mi__span_alloc(SET, &request, &span) && span.start == start; /* what the pass held */
    _exit(ok && mi__arenas_purge(SET, MI_PURGE_EVERYTHING) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  go_on = true;
  pthread_join(pass, NULL);
  ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("purge");
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, between_half_a_delay_and_one);
  tcase_add_test(tcase, a_pass_makes_old_what_it_spares);
  tcase_add_test(tcase, a_late_pass_takes_all);
  tcase_add_test(tcase, brought_forward);
  tcase_add_test(tcase, not_due_is_left_alone);
  tcase_add_test(tcase, delay_zero_purges_at_the_free);
  tcase_add_test(tcase, delay_below_zero_keeps_the_marks);
  tcase_add_test(tcase, delay_is_multiplied);
  tcase_add_test(tcase, neighbours_go_in_one_call);
  tcase_add_test(tcase, who_claims_forgets_the_marks);
  tcase_add_test(tcase, coarse_units);
  tcase_add_test(tcase, units_of_several_chunks);
  tcase_add_test(tcase, coarse_units_with_delay_zero);
  tcase_add_test(tcase, half_a_unit_in_a_pass);
  tcase_add_test(tcase, a_discard_that_fails);
  tcase_add_test(tcase, lazy_purge_is_not_zero);
  tcase_add_test(tcase, freed_during_a_pass);
  tcase_add_test(tcase, freed_beside_a_pass);
  tcase_add_test(tcase, armed_once);
  tcase_add_test(tcase, a_forced_pass_waits);
  tcase_add_test(tcase, memory_in_a_pass_is_not_lost);
  tcase_add_test(tcase, a_fork_child_arms_and_purges);
  tcase_add_test(tcase, a_fork_that_bypassed_prepare);
  return run_suite("arena/purge", tcase);
}
