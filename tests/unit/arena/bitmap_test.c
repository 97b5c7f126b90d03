/* SPDX-License-Identifier: MIT */
/* Runs of slices are found where they should be, and claimed once. */
#include "arena/bitmap.h"
#include "arena/pagemap.h"
#include "fixture.h"

#define N_CHUNKS 130

static struct mi__chunk chunks[N_CHUNKS] __attribute__((aligned(64)));
static struct mi__bitmap map;

static void set_up(size_t n_chunks, size_t origin, size_t first, size_t end) {
  memset(chunks, 0, sizeof chunks);
  mi__bitmap_init(&map, chunks, n_chunks, origin, first, end);
}
static void release(size_t at, size_t end) {
  mi__bitmap_free(&map, at, end);
  mi__fence(seq_cst);
  mi__bitmap_freed(&map, at, end);
}
static void take(size_t at, size_t end) {
  bool given_back = false;
  ck_assert(mi__bitmap_try_claim(&map, at, end, &given_back));
}
static size_t run(size_t n, size_t align, bool from_high, bool cross) {
  struct mi__run_request request = {
      .n = n, .min = n, .align = align, .from_high = from_high, .cross_granules = cross};
  return mi__bitmap_claim_run(&map, &request);
}

START_TEST(one_slice_from_below) {
  set_up(3, 0, 5, 190);
  for (size_t i = 5; i < 190; i++) ck_assert_uint_eq(mi__bitmap_claim_one(&map), i);
  ck_assert_uint_eq(mi__bitmap_claim_one(&map), SIZE_MAX);
  release(100, 101);
  release(7, 8);
  ck_assert_uint_eq(mi__bitmap_claim_one(&map), 7);
  ck_assert_uint_eq(mi__bitmap_claim_one(&map), 100);
  ck_assert_uint_eq(mi__bitmap_claim_one(&map), SIZE_MAX);
}
END_TEST

START_TEST(eight_and_chunk_from_above) {
  set_up(4, 0, 0, 4 * 64 - 3);
  ck_assert_uint_eq(mi__bitmap_claim_chunk(&map), 128); /* the last chunk is not whole */
  ck_assert_uint_eq(mi__bitmap_claim_eight(&map), 192 + 48);
  for (int i = 0; i < 6; i++)
    ck_assert_uint_eq(mi__bitmap_claim_eight(&map), 192u + 40 - 8u * (unsigned)i);
  ck_assert_uint_eq(mi__bitmap_claim_eight(&map), 64 + 56);
  ck_assert_uint_eq(mi__bitmap_claim_chunk(&map), 0);
  ck_assert_uint_eq(mi__bitmap_claim_chunk(&map), SIZE_MAX);
  release(128, 192);
  release(64 + 56, 64 + 64);
  ck_assert_uint_eq(mi__bitmap_claim_chunk(&map), 128);
  ck_assert_uint_eq(mi__bitmap_claim_chunk(&map), 64);
}
END_TEST

START_TEST(half_a_byte_is_no_run_of_eight) {
  set_up(1, 0, 0, 64);
  take(0, 64);
  release(4, 12);
  ck_assert_uint_eq(mi__bitmap_claim_eight(&map), SIZE_MAX);
  ck_assert_uint_eq(run(8, 1, true, false), 4);
}
END_TEST

START_TEST(runs_of_any_length) {
  set_up(10, 0, 0, 640);
  ck_assert_uint_eq(run(100, 1, true, false), 540);
  ck_assert_uint_eq(run(100, 1, false, false), 0);
  ck_assert_uint_eq(run(100, 64, true, false), 384);
  ck_assert_uint_eq(run(56, 1, true, false), 484);
  ck_assert_uint_eq(run(284, 1, true, false), 100);
  ck_assert_uint_eq(run(1, 1, true, false), SIZE_MAX);
  release(300, 302);
  ck_assert_uint_eq(run(3, 1, true, false), SIZE_MAX);
  ck_assert_uint_eq(run(2, 2, false, false), 300);
}
END_TEST

START_TEST(alignment_counts_from_address_zero) {
  set_up(4, 64 * 3, 0, 256); /* slice 0 is number 192 */
  size_t at = run(10, 128, false, false);
  ck_assert_uint_eq((192 + at) % 128, 0);
  ck_assert_uint_eq(at, 64);
  ck_assert_uint_eq((192 + run(10, 128, true, false)) % 128, 0);
  ck_assert_uint_eq(run(10, 1024, true, false), SIZE_MAX);
}
END_TEST

START_TEST(granules_are_walls) {
  set_up(N_CHUNKS, 64 * 32, 0, N_CHUNKS * 64); /* walls in front of chunks 32 and 96 */
  take(0, 20 * 64);
  take(40 * 64, N_CHUNKS * 64);
  ck_assert_uint_eq(run(13 * 64, 1, true, false), SIZE_MAX);
  ck_assert_uint_eq(run(13 * 64, 1, false, false), SIZE_MAX);
  ck_assert_uint_eq(run(12 * 64, 1, true, false), 20 * 64);
  release(20 * 64, 32 * 64);
  ck_assert_uint_eq(run(20 * 64, 1, true, true), 20 * 64);
}
END_TEST

START_TEST(longest_run) {
  set_up(4, 0, 0, 256);
  take(0, 256);
  release(10, 15);
  release(60, 90);
  release(100, 110);
  size_t n = 0;
  struct mi__run_request request = {.n = 64, .min = 8, .align = 1, .from_high = true};
  ck_assert_uint_eq(mi__bitmap_claim_longest(&map, &request, &n), 60);
  ck_assert_uint_eq(n, 30);
  ck_assert_uint_eq(mi__bitmap_claim_longest(&map, &request, &n), 100);
  ck_assert_uint_eq(n, 10);
  ck_assert_uint_eq(mi__bitmap_claim_longest(&map, &request, &n), SIZE_MAX);
  request.min = 4;
  request.align = 4;
  ck_assert_uint_eq(mi__bitmap_claim_longest(&map, &request, &n), SIZE_MAX); /* 12 to 15: three */
  request.min = 3;
  ck_assert_uint_eq(mi__bitmap_claim_longest(&map, &request, &n), 12);
  ck_assert_uint_eq(n, 3);
}
END_TEST

START_TEST(a_claim_that_fails_is_undone) {
  set_up(4, 0, 0, 256);
  take(200, 201);
  bool given_back = false;
  ck_assert(!mi__bitmap_try_claim(&map, 10, 256, &given_back));
  ck_assert(given_back);
  given_back = false;
  ck_assert(!mi__bitmap_try_claim(&map, 199, 256, &given_back));
  ck_assert(!given_back); /* nothing had been claimed */
  take(0, 200);
  take(201, 256);
}
END_TEST

/* Any order of claims and frees: what is claimed is disjoint, and a search fails only where there
 * is no room. */
START_TEST(random_against_a_plain_model) {
  static unsigned char owned[N_CHUNKS * 64];
  static struct { size_t at, n; } live[2000];
  static const size_t lengths[] = {1, 1, 1, 8, 8, 64, 3, 17, 70, 200};
  size_t n_live = 0, total = 70 * 64;
  set_up(70, 0, 0, total);
  srand(7);
  for (int step = 0; step < 60000; step++) {
    size_t n = lengths[(size_t)rand() % 10];
    if (rand() % 100 < (step / 3000 % 2 == 0 ? 60 : 40) && n_live < 2000) {
      size_t at = n == 1    ? mi__bitmap_claim_one(&map)
                  : n == 8  ? mi__bitmap_claim_eight(&map)
                  : n == 64 ? mi__bitmap_claim_chunk(&map)
                            : run(n, 1, true, true);
      size_t align = n == 8 || n == 64 ? n : 1;
      if (at == SIZE_MAX) {
        for (size_t i = 0; i + n <= total; i += align) {
          size_t k = 0;
          while (k < n && !owned[i + k]) k++;
          if (k == n) ck_abort_msg("step %d: %zu slices are free at %zu", step, n, i);
        }
        continue;
      }
      if (at % align != 0) ck_abort_msg("step %d: %zu slices at %zu", step, n, at);
      for (size_t k = 0; k < n; k++) {
        if (owned[at + k]++ != 0) ck_abort_msg("step %d: %zu is claimed twice", step, at + k);
      }
      live[n_live].at = at;
      live[n_live++].n = n;
    } else if (n_live > 0) {
      size_t i = (size_t)rand() % n_live;
      memset(owned + live[i].at, 0, live[i].n);
      release(live[i].at, live[i].at + live[i].n);
      live[i] = live[--n_live];
    }
  }
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("bitmap");
  tcase_add_test(tcase, one_slice_from_below);
  tcase_add_test(tcase, eight_and_chunk_from_above);
  tcase_add_test(tcase, half_a_byte_is_no_run_of_eight);
  tcase_add_test(tcase, runs_of_any_length);
  tcase_add_test(tcase, alignment_counts_from_address_zero);
  tcase_add_test(tcase, granules_are_walls);
  tcase_add_test(tcase, longest_run);
  tcase_add_test(tcase, a_claim_that_fails_is_undone);
  tcase_add_test(tcase, random_against_a_plain_model);
  return run_suite("arena/bitmap", tcase);
}
