/* SPDX-License-Identifier: MIT */
/* Sets of arenas: what one holds never serves another, and all of it is gone, and used again, after
 * its end. */
#include "fixture.h"
#include "../suite.h"
#include "common.h"
#include <pthread.h>

static struct mi__arenas *new_set(void) {
  struct mi__arenas *set = mi__arenas_new();
  ck_assert_ptr_nonnull(set);
  ck_assert_ptr_ne(set, SET);
  return set;
}
static struct mi__span alloc_of(struct mi__arenas *set, size_t n) {
  struct mi__span_request request = span_request(n);
  struct mi__span span;
  ck_assert(mi__span_alloc(set, &request, &span));
  return span;
}
static int64_t reserved_now(void) { return mi__load(&mi__counters.reserved.current, relaxed); }

START_TEST(sets_do_not_mix) {
  script_os();
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384));
  struct mi__arenas *sets[3] = {SET, new_set(), new_set()};
  for (int round = 0; round < 200; round++) {
    for (int s = 0; s < 3; s++) {
      struct mi__span span = alloc_of(sets[s], (size_t)round % 9 + 1);
      ck_assert_ptr_eq(span_arena(span)->set, sets[s]);
      span_fill(span, s);
      if (round % 2) mi__span_free(sets[s], span.start, span.n_slices, span.arena);
    }
  }
  for (int s = 0; s < 3; s++) {
    ck_assert_uint_gt(mi__arenas_waiting(sets[s]), 0);
    ck_assert(mi__arenas_purge(sets[s], MI_PURGE_EVERYTHING));
    ck_assert_uint_eq(mi__arenas_waiting(sets[s]), 0);
  }
  mi__arenas_delete(sets[1]);
  mi__arenas_delete(sets[2]);
  span_fill(span_alloc(3), 1);
}
END_TEST

/* No trace of a set is left, and thousands of them take no more than one. */
START_TEST(thousands_of_sets) {
  script_os();
  if (mi_test_under_shadow()) ck_assert(mi__option_set(mi_option_arena_reserve, 65536));
  span_alloc(1);
  int64_t reserved = reserved_now(), committed = committed_now();
  int64_t mmaps = 0;
  for (int i = 0; i < (int)mi_test_scale(200, 3000); i++) {
    struct mi__arenas *set = new_set();
    ck_assert_ptr_null(mi__arenas_first(set));
    ck_assert_uint_eq(mi__arenas_waiting(set), 0);
    struct mi__span a = alloc_of(set, 1), b = alloc_of(set, 64), c = alloc_of(set, 100);
    ck_assert(a.zero && b.zero && c.zero);
    span_fill(c, 7);
    struct mi__arena *arena = span_arena(a);
    memset(mi__record_of(a.start), 0x11, MI_RECORD_SIZE);
    memset(mi__record_of(b.start + 63 * MI_SLICE_SIZE), 0x22, MI_RECORD_SIZE);
    mi__span_free(set, c.start, 100, c.arena);
    ck_assert(mi__arenas_contain(a.start));
    ck_assert_ptr_eq(mi__arena_of_id(arena), arena);
    mi__arenas_delete(set);
    ck_assert(!mi__arenas_contain(a.start));
    ck_assert_ptr_null(mi__arena_of_id(arena));
    static const char none[MI_RECORD_SIZE];
    ck_assert_int_eq(memcmp(mi__record_of(a.start), none, MI_RECORD_SIZE), 0);
    ck_assert_int_eq(memcmp(mi__record_of(b.start + 63 * MI_SLICE_SIZE), none, MI_RECORD_SIZE), 0);
    unsigned char resident;
    ck_assert_int_ne(mincore(a.start, 4096, &resident), 0); /* unmapped */
    ck_assert_int_eq(reserved_now(), reserved);
    ck_assert_int_eq(committed_now(), committed);
    if (i == 10) mmaps = mi__load(&mi__counters.mmap_calls, relaxed);
    if (i > 10) /* one for each arena, and nothing for records */
      ck_assert_int_le(mi__load(&mi__counters.mmap_calls, relaxed) - mmaps, i - 10 + 12);
  }
  ck_assert_uint_le(mi__load(&mi__arena_count, relaxed), 2);
}
END_TEST

START_TEST(many_at_once) {
  script_os();
  ck_assert(mi__option_set(mi_option_arena_reserve, 4096));
  enum { N = MI_MAX_ARENAS + 50 };
  static struct mi__arenas *sets[N];
  static struct mi__span spans[N];
  for (int round = 0; round < 2; round++) {
    int n_direct = 0;
    for (int i = 0; i < N; i++) {
      sets[i] = new_set();
      spans[i] = alloc_of(sets[i], 1); /* past the last number: straight from the OS */
      span_fill(spans[i], i % 100);
      n_direct += spans[i].arena == 0;
    }
    ck_assert_int_eq(n_direct, 50);
    for (int i = 0; i < N; i++) {
      ck_assert(span_reads(spans[i], i % 100));
      if (spans[i].arena == 0) mi__span_free(sets[i], spans[i].start, 1, 0);
      mi__arenas_delete(sets[i]);
    }
    ck_assert_int_eq(reserved_now(), 0);
  }
  /* All numbers have small arenas: a large one replaces one. */
  ck_assert(mi__option_set(mi_option_arena_reserve, 1048576));
  ck_assert_uint_gt(span_alloc(64).arena, 0);
  ck_assert_uint_eq(mi__load(&mi__arena_count, relaxed), MI_MAX_ARENAS);
}
END_TEST

static bool commit_all(bool commit, void *start, size_t size, bool *is_zero, void *arg) {
  (void)start, (void)size, (void)is_zero;
  if (!commit && arg != NULL) { /* a slow one */
    mi__store((_Atomic(int) *)arg, 1, release);
    usleep(50000);
    mi__store((_Atomic(int) *)arg, 2, release);
  }
  return true;
}
static struct mi__arena *manage(struct mi__arenas *set, size_t size, void *arg) {
  char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(p, MAP_FAILED);
  struct mi__area area = {.start = p, .size = size, .is_committed = true, .is_zero = true};
  area.numa_node = -1;
  area.commit_fun = commit_all;
  area.commit_arg = arg;
  struct mi__arena *arena;
  ck_assert(mi__area_manage(set, &area, &arena));
  return arena;
}

START_TEST(handed_over_memory_is_the_programs_again) {
  script_os();
  struct mi__arenas *set = new_set();
  struct mi__arena *arena = manage(set, 16 * MI_MIB, NULL);
  struct mi__span span = alloc_of(set, 10);
  ck_assert_ptr_eq(span_arena(span), arena);
  span_fill(span, 3);
  mi__arenas_delete(set);
  ck_assert(span_reads(span, 3));
  ck_assert(!mi__arenas_contain(span.start));
  /* and can be handed over again */
  struct mi__area area = {.start = mi__ptr_align_up(span.start, 4 * MI_MIB), .size = 4 * MI_MIB};
  area.is_committed = true;
  ck_assert(mi__area_manage(SET, &area, &arena));
}
END_TEST

static void *purge_set(void *set) {
  mi__arenas_purge(set, MI_PURGE_EVERYTHING);
  return NULL;
}
START_TEST(the_end_waits_for_a_commit_function) {
  script_os();
  static _Atomic(int) state;
  struct mi__arenas *set = new_set();
  (void)manage(set, 16 * MI_MIB, &state);
  struct mi__span span = alloc_of(set, 10);
  mi__span_free(set, span.start, 10, span.arena);
  pthread_t thread;
  pthread_create(&thread, NULL, purge_set, set);
  while (mi__load(&state, acquire) == 0) usleep(100);
  mi__arenas_delete(set);
  ck_assert_int_eq(mi__load(&state, acquire), 2);
  pthread_join(thread, NULL);
}
END_TEST

/* Arenas come and go, by hand and with sets, while others allocate, purge and look. */
static _Atomic(bool) stop;
static void *come_and_go(void *arg) {
  for (int i = 0; !stop; i++) {
    struct mi__arenas *set = new_set();
    struct mi__arena *arena;
    if (i % 3 == 0) {
      (void)manage(set, 8 * MI_MIB, NULL);
    } else if (i % 3 == 1) {
      ck_assert_int_eq(mi__area_reserve(set, 8 * MI_MIB, i % 2, false, false, &arena), 0);
    }
    for (int k = 0; k < 20; k++) {
      struct mi__span span = alloc_of(set, (size_t)k % 9 + 1);
      span_fill(span, 1);
      if (k % 2) mi__span_free(set, span.start, span.n_slices, span.arena);
    }
    if (i % 5 == 0) mi__arenas_purge(set, MI_PURGE_EVERYTHING);
    if (i % 3 != 0) mi__arenas_delete(set); /* else its memory stays mapped: a test's leak */
    if (i > 100 && i % 3 == 0) usleep(1000);
    if (i > 600) break;
  }
  return arg;
}
static void *allocate(void *arg) {
  while (!stop) {
    struct mi__span span = span_alloc(8);
    span_fill(span, 1);
    ck_assert_ptr_eq(span_arena(span)->set, SET);
    ck_assert(mi__arenas_contain(span.start));
    span_free(span);
    mi__arenas_tick(SET, 0);
  }
  return arg;
}
static void ignore_line(void *arg, const char *line) { (void)arg, (void)line; }
static void *look(void *arg) {
  while (!stop) {
    mi__arenas_print(ignore_line, NULL);
    (void)mi__arena_of_id(arg);
    (void)mi__arenas_contain(arg);
    mi__arenas_bring_forward(SET);
    mi__arenas_purge(SET, MI_PURGE_DUE);
    usleep(100);
  }
  return arg;
}
static void *add_to_main(void *arg) {
  for (int i = 0; i < 20 && !stop; i++, usleep(20000)) {
    struct mi__arena *arena;
    if (i % 2) (void)manage(SET, 5 * MI_MIB, NULL);
    else ck_assert_int_eq(mi__area_reserve(SET, 5 * MI_MIB, true, false, false, &arena), 0);
  }
  return arg;
}
START_TEST(arenas_come_and_go) {
  mi__os_init();
  mi__option_init();
  ck_assert(mi__option_set(mi_option_arena_reserve, 16384));
  ck_assert(mi__option_set(mi_option_purge_delay, 1));
  static int somewhere;
  void *(*const work[])(void *) = {come_and_go, come_and_go, allocate, look, add_to_main};
  pthread_t threads[5];
  for (int i = 0; i < 5; i++) pthread_create(&threads[i], NULL, work[i], &somewhere);
  usleep(mi_test_seconds(1, 5) * 600 * 1000);
  stop = true;
  for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("sets");
  tcase_set_timeout(tcase, 100);
  tcase_add_test(tcase, sets_do_not_mix);
  tcase_add_test(tcase, thousands_of_sets);
  tcase_add_test(tcase, many_at_once);
  tcase_add_test(tcase, handed_over_memory_is_the_programs_again);
  tcase_add_test(tcase, the_end_waits_for_a_commit_function);
  tcase_add_test(tcase, arenas_come_and_go);
  return run_suite("arena/sets", tcase);
}
