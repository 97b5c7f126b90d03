/* SPDX-License-Identifier: MIT */
/* Threads take and give back spans of all kinds while passes run: nobody loses what he wrote,
 * nothing is handed out twice, what is said to be zero is zero, and in the end all of it is free
 * and back with the OS. */
#include "fixture.h"
#include "common.h"
#include <pthread.h>
#include <stdio.h>

#define N_THREADS 4
#define N_HELD 60

static _Atomic(bool) stop;
static const size_t sizes[] = {1, 1, 1, 1, 8, 8, 64, 2, 3, 12, 33, 80, 130, 400};

struct held {
  struct mi__span span;
  uint64_t stamp;
};

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}
static uint64_t *word(struct mi__span span, size_t slice, bool last) {
  size_t within = last ? MI_SLICE_SIZE - sizeof(uint64_t) : 0;
  return (uint64_t *)(void *)(span.start + slice * MI_SLICE_SIZE + within);
}
static void stamp_slices(struct held *held, size_t from, bool zero) {
  for (size_t i = from; i < held->span.n_slices; i++) {
    for (int last = 0; last < 2; last++) {
      uint64_t *w = word(held->span, i, last);
      if (zero && *w != 0)
        ck_abort_msg("slice %zu of a zero span reads %llx", i, (unsigned long long)*w);
      *w = held->stamp + i;
    }
  }
}
static void check_slices(const struct held *held) {
  for (size_t i = 0; i < held->span.n_slices; i++) {
    for (int last = 0; last < 2; last++) {
      if (*word(held->span, i, last) != held->stamp + i)
        ck_abort_msg("slice %zu was overwritten", i);
    }
  }
}
static bool take(struct held *held, uint64_t *random) {
  size_t n = sizes[next_random(random) % (sizeof sizes / sizeof *sizes)];
  struct mi__span_request request = span_request(n);
  if (n == 64 || n == 8) request.min_slices = n / 4;
  if (next_random(random) % 16 == 0) request.align_slices = 4;
  if (!mi__span_alloc(SET, &request, &held->span)) return false;
  held->stamp = next_random(random);
  stamp_slices(held, 0, held->span.zero);
  return true;
}
static void resize(struct held *held, uint64_t *random) {
  size_t n = held->span.n_slices;
  bool zero;
  if (next_random(random) % 2 == 0 && n > 1) {
    if (mi__span_shrink(SET, held->span.start, n, n - 1, held->span.arena)) held->span.n_slices--;
  } else if (mi__span_grow(SET, held->span.start, n, n + 3, held->span.arena, &zero)) {
    held->span.n_slices += 3;
    stamp_slices(held, n, zero);
  }
}

static void *work(void *seed) {
  uint64_t random = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
  struct held held[N_HELD];
  bool taken[N_HELD] = {false};
  while (!stop) {
    size_t i = next_random(&random) % N_HELD;
    if (!taken[i]) {
      taken[i] = take(&held[i], &random);
    } else {
      check_slices(&held[i]);
      if (next_random(&random) % 8 == 0) {
        resize(&held[i], &random);
      } else {
        span_free(held[i].span);
        taken[i] = false;
      }
    }
    if (next_random(&random) % 64 == 0) mi__arenas_tick(SET, 0);
  }
  for (size_t i = 0; i < N_HELD; i++) {
    if (taken[i]) check_slices(&held[i]);
    if (taken[i]) span_free(held[i].span);
  }
  return NULL;
}

static void *run_passes(void *arg) {
  for (unsigned i = 0; !stop; i++) {
    mi__arenas_purge(SET, i % 4 == 0 ? MI_PURGE_EVERYTHING : MI_PURGE_DUE);
    if (i % 8 == 0) mi__arenas_bring_forward(SET);
    usleep(200);
  }
  return arg;
}

static void race(unsigned ms, bool with_passes) {
  pthread_t threads[N_THREADS + 2];
  uint64_t seed = mi__os_random();
  for (uintptr_t i = 0; i < N_THREADS; i++) {
    pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(seed + i));
  }
  int n = N_THREADS;
  if (with_passes) pthread_create(&threads[n++], NULL, run_passes, NULL);
  if (with_passes) pthread_create(&threads[n++], NULL, run_passes, NULL);
  usleep(ms * 1000);
  stop = true;
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void check_all_free(void) {
  mi__arenas_purge(SET, MI_PURGE_EVERYTHING);
  ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  ck_assert_int_eq(committed_now(), 0);
  size_t n_arenas = mi__load(&mi__arena_count, relaxed);
  for (size_t a = 0; a < n_arenas; a++) {
    struct mi__bitmap *map = &mi__arena_table[a]->slices;
    for (size_t c = 0; c < map->n_chunks; c++) {
      ck_assert_uint_eq(mi__load(&map->chunks[c].xused, relaxed), map->chunks[c].outside);
      ck_assert_uint_eq(mi__load(&map->chunks[c].xyoung, relaxed), 0);
      ck_assert_uint_eq(mi__load(&map->chunks[c].xold, relaxed), 0);
    }
    ck_assert_uint_eq(mi__load(&map->xlow, relaxed), 0);
  }
}

static const struct {
  long delay, unit_kib, reserve_kib;
  bool decommits, whole;
} variants[] = {
    {1, 0, 1024 * 1024, true, true}, {0, 0, 65536, true, true},  {0, 1024, 65536, true, true},
    {1, 512, 65536, false, true},    {2, 0, 32768, true, false}, {1, 8192, 65536, true, true},
};

START_TEST(nobody_loses_data) {
  mi__os_init();
  mi__option_init();
  ck_assert(mi__option_set(mi_option_purge_delay, variants[_i].delay));
  ck_assert(mi__option_set(mi_option_minimal_purge_size, variants[_i].unit_kib));
  ck_assert(mi__option_set(mi_option_arena_reserve, variants[_i].reserve_kib));
  ck_assert(mi__option_set(mi_option_purge_decommits, variants[_i].decommits));
  mi__os_facts.overcommits = variants[_i].whole;
  race(mi_test_seconds(1, 7) * 300, true);
  check_all_free();
}
END_TEST

/* What is freed is purged by the passes that frees arm, with nothing else to bring them about. */
START_TEST(nothing_stays_behind) {
  mi__os_init();
  mi__option_init();
  ck_assert(mi__option_set(mi_option_purge_delay, 2));
  for (int round = 0; round < (int)mi_test_scale(6, 40); round++) {
    stop = false;
    race(50, false);
    for (int i = 0; i < 2000 && mi__arenas_waiting(SET) > 0; i++) {
      usleep(1000);
      mi__arenas_tick(SET, 0);
    }
    ck_assert_uint_eq(mi__arenas_waiting(SET), 0);
  }
  check_all_free();
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("race");
  tcase_set_timeout(tcase, 100);
  tcase_add_loop_test(tcase, nobody_loses_data, 0, (int)(sizeof variants / sizeof *variants));
  tcase_add_test(tcase, nothing_stays_behind);
  return run_suite("arena/race", tcase);
}
