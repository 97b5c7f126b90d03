/* SPDX-License-Identifier: MIT */
/* src/page/holes.c: which units go, what is left on the list, the counters, and the way back;
 * against a model that looks at each block of each unit. */
#include "common.h"
#include "fixture.h"
#include "os/os.h"
#include "page/hole_map.h"
#include "page/holes.h"
#include "rt/counter.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* ---- pages in some state, and the model ---- */

enum state { OUT, LIVE, FREE };
static enum state state[MI_PAGE_MAX_BLOCKS];
static bool hole_at[MAX_UNITS], tail_at[MAX_UNITS], in_hole[MI_PAGE_MAX_BLOCKS];
static uint32_t n_hole_units, n_tail_units, n_in_holes, n_live, n_free;

static uint32_t seed;
static uint32_t below(uint32_t n) {
  seed = seed * 1664525 + 1013904223;
  return (uint32_t)((uint64_t)seed * n >> 32);
}

enum { N_PATTERNS = 9 };
/* Pages of 4 MiB take their time: of all patterns three. A short run begins with another pattern for each size, and takes
 * fewer. */
static int step(size_t size) { return size > 65536 ? (int)mi_test_scale(4, 3) : (int)mi_test_scale(3, 1); }
static int first_of(int i, size_t size) { return mi_test_size() == MI_TEST_LONG ? 0 : i % step(size); }
static bool is_live(const struct mi_page *page, uint32_t i, int pattern) {
  switch (pattern) {
    case 0: return false;
    case 1: return i == page->n_blocks / 2;
    case 2: return i == 0 || i == page->n_blocks - 1;
    case 3: return i < page->n_blocks / 2;
    case 4: return i >= page->n_blocks / 2;
    case 5: return i % 2 == 1;
    case 6: return i * page->block_size / 65536 % 2 == 0;
    case 7: return below(4) == 0;
    default: return below(100) == 0;
  }
}

/* n blocks are formed, some of them live, all others on the list in no order. All blocks are full of
 * 0xAB, but for the links. */
static struct mi_page *page_in_state(size_t size, uint32_t first, uint32_t n, int pattern) {
  static struct mi_block *list[MI_PAGE_MAX_BLOCKS];
  struct mi_page *page = page_of_size(size);
  ck_assert_uint_eq(page->block_size, size);
  page->first = first % page->n_blocks;
  memset(page->start, 0xAB, page->n_slices * MI_SLICE_SIZE);
  for (uint32_t i = 0; i < page->n_blocks; i++) state[i] = OUT;
  seed = (uint32_t)size + (uint32_t)pattern;
  n_live = n_free = 0;
  if (n > page->n_blocks) n = page->n_blocks;
  for (uint32_t k = 0; k < n; k++) {
    ck_assert_uint_eq(mi__page_form(page, 1), 1);
    uint32_t index = mi__page_index(page, page->free);
    memset(page->free, 0xAB, size);
    page->free = NULL;
    state[index] = is_live(page, index, pattern) ? LIVE : FREE;
    if (state[index] == LIVE) n_live++;
    else list[n_free++] = block_at(page, index);
  }
  for (uint32_t i = 0; i < n_free; i++) {
    uint32_t other = below(n_free);
    struct mi_block *block = list[i];
    list[i] = list[other];
    list[other] = block;
  }
  for (uint32_t i = 0; i < n_free; i++) list[i]->next = i + 1 < n_free ? list[i + 1] : NULL;
  page->free = n_free > 0 ? list[0] : NULL;
  mi__page_set_used(page, n_live);
  mi__page_check(page);
  return page;
}

/* Whether every byte of the unit is of a block in this state. */
static bool unit_is(const struct mi_page *page, uint32_t unit, enum state wanted) {
  size_t size = (size_t)1 << mi__holes_unit_shift(page);
  size_t start = unit * size, end = start + size;
  if (end > page->n_blocks * page->block_size) return false;
  for (size_t at = start / page->block_size * page->block_size; at < end; at += page->block_size) {
    if (state[at / page->block_size] != wanted) return false;
  }
  return true;
}

static size_t unit_size(const struct mi_page *page) {
  return (size_t)1 << mi__holes_unit_shift(page);
}
static uint32_t units_in(const struct mi_page *page) {
  return (uint32_t)(page->n_slices * MI_SLICE_SIZE / unit_size(page));
}

static void predict(const struct mi_page *page, bool with_tail) {
  size_t unit = unit_size(page);
  n_hole_units = n_tail_units = n_in_holes = 0;
  for (uint32_t u = 0; u < units_in(page); u++) {
    n_hole_units += hole_at[u] = unit_is(page, u, FREE);
    n_tail_units += tail_at[u] = with_tail && unit_is(page, u, OUT);
  }
  for (uint32_t i = 0; i < page->n_blocks; i++) {
    in_hole[i] = false;
    size_t at = i * page->block_size, last = at + page->block_size - 1;
    for (size_t u = at / unit; u <= last / unit; u++) in_hole[i] |= hole_at[u];
    n_in_holes += in_hole[i];
  }
}

/* ---- counters ---- */

struct totals { int64_t bytes, blocks, total, tail, tail_total, freed, reuses, tail_reuses, calls, tail_calls; };
static struct totals read_totals(void) {
  const struct mi__hole_counters *c = &mi__hole_counters;
#define READ(name) mi__load(&c->name, relaxed)
  return (struct totals){
      READ(purged_bytes), READ(purged_blocks), READ(purged_bytes_total), READ(unformed_bytes),
      READ(unformed_bytes_total), READ(pages_freed), READ(reuse_calls), READ(unformed_reuse_calls),
      READ(discard_calls), READ(unformed_discard_calls),
  };
}
static void gauges_are_zero(void) {
  struct totals t = read_totals();
  ck_assert_int_eq(t.bytes, 0);
  ck_assert_int_eq(t.blocks, 0);
  ck_assert_int_eq(t.tail, 0);
}

/* ---- checks ---- */

static struct mi_page *undone[16];
static int n_undone;
static void note_undone(struct mi_page *page, void *arg) {
  ck_assert_ptr_eq(arg, undone);
  undone[n_undone++ % 16] = page;
}

static enum mi__fault make(struct mi_page *page) {
  struct mi__discards discards;
  mi__discards_begin(&discards, note_undone, undone);
  enum mi__fault fault = mi__holes_make(page, &discards);
  mi__discards_flush(&discards);
  ck_assert_uint_eq(discards.n, 0);
  return fault;
}

static bool all_bytes_are(const char *p, size_t size, int value) {
  return (unsigned char)p[0] == value && memcmp(p, p + 1, size - 1) == 0;
}

static uint32_t n_runs(const bool *units, uint32_t n) {
  uint32_t runs = 0;
  for (uint32_t u = 0; u < n; u++) runs += units[u] && (u == 0 || !units[u - 1]);
  return runs;
}

/* Each block free, none in a hole, and by address where something went. */
static void list_is_what_is_left(const struct mi_page *page) {
  const struct mi_block *last = NULL;
  uint32_t n = 0;
  for (const struct mi_block *b = page->free; b != NULL; last = b, b = b->next, n++) {
    ck_assert(mi__page_is_block(page, b));
    ck_assert(n_hole_units == 0 || last == NULL || last < b);
    uint32_t i = mi__page_index(page, b);
    ck_assert_int_eq(state[i], FREE);
    ck_assert_msg(!in_hole[i], "block %u of %zu is in a hole", i, page->block_size);
  }
  ck_assert_uint_eq(n, n_free - n_in_holes);
  ck_assert_uint_eq(mi__page_used(page) + n, page->n_formed);
}

static void units_are_as_predicted(const struct mi_page *page) {
  struct units units = load_units(page);
  size_t size = unit_size(page);
  for (uint32_t u = 0; u < MAX_UNITS; u++) {
    bool gone = u < units_in(page) && (hole_at[u] || tail_at[u]);
    ck_assert_msg(has_bit(units.bits, u) == gone, "unit %u of a page of %zu", u, page->block_size);
    if (gone) ck_assert(all_bytes_are(page->start + u * size, size, 0));
  }
}

static void blocks_are_as_predicted(const struct mi_page *page) {
  uint64_t marked[MI_PAGE_MAX_BLOCKS / 64] = {0};
  ck_assert_uint_eq(mi__page_n_holes(page), n_in_holes);
  ck_assert_int_eq(mi__page_flag(page, MI_PAGE_HAS_HOLES), n_in_holes > 0);
  ck_assert_uint_eq(mi__page_used(page), n_live);
  ck_assert_uint_eq(page->n_formed, n_live + n_free - n_in_holes);
  ck_assert_uint_eq(mi__holes_mark(page, marked), n_in_holes);
  for (uint32_t i = 0; i < page->n_blocks; i++) {
    ck_assert_int_eq(has_bit(marked, i), in_hole[i]);
    if (state[i] == OUT) continue;
    uint64_t one[MI_PAGE_MAX_BLOCKS / 64] = {0};
    set_bit(one, i);
    if (i % 16 == 0) ck_assert_int_eq(mi__holes_overlap(page, one), in_hole[i]);
    ck_assert_int_eq(mi__holes_has(page, block_at(page, i)), in_hole[i]);
    if (state[i] == LIVE) ck_assert(all_bytes_are((char *)block_at(page, i), page->block_size, 0xAB));
  }
  ck_assert_uint_eq(mi__holes_bytes(page), n_hole_units * unit_size(page));
}

static void counters_are_as_predicted(const struct mi_page *page, struct totals before) {
  struct totals now = read_totals();
  int64_t size = (int64_t)unit_size(page);
  ck_assert_int_eq(now.bytes - before.bytes, n_hole_units * size);
  ck_assert_int_eq(now.total - before.total, n_hole_units * size);
  ck_assert_int_eq(now.blocks - before.blocks, n_in_holes);
  ck_assert_int_eq(now.tail - before.tail, n_tail_units * size);
  ck_assert_int_eq(now.tail_total - before.tail_total, n_tail_units * size);
  ck_assert_int_eq(now.calls - before.calls, n_runs(hole_at, units_in(page)));
  ck_assert_int_eq(now.tail_calls - before.tail_calls, n_runs(tail_at, units_in(page)));
}

static void is_as_predicted(const struct mi_page *page, struct totals before) {
  units_are_as_predicted(page);
  blocks_are_as_predicted(page);
  list_is_what_is_left(page);
  counters_are_as_predicted(page, before);
  mi__page_check(page);
}

/* A page in this state, with what can go gone. */
static struct mi_page *with_holes(size_t size, uint32_t first, uint32_t n, int pattern, bool with_tail) {
  struct mi_page *page = page_in_state(size, first, n, pattern);
  mi__page_set_flag(page, MI_PAGE_ZERO, !with_tail);
  predict(page, with_tail);
  ck_assert_int_eq(mi__holes_has_tail(page), n_tail_units > 0);
  struct totals before = read_totals();
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  is_as_predicted(page, before);
  ck_assert(mi__holes_is_swept(page));
  ck_assert(!mi__holes_has_tail(page));
  ck_assert_int_eq(mi__page_flag(page, MI_PAGE_TAIL_GONE), n_tail_units > 0);
  return page;
}

static void delete(struct mi_page *page) {
  mi__page_delete(mi__arenas_main(), page);
  gauges_are_zero();
}

/* 320 KiB last */
static const size_t sizes[] = {16, 48, 512, 1024, 5120, 8192, 20480, 65536, 81920, 327680};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* ---- units ---- */

START_TEST(units_are_at_most_256) {
  struct mi_page *small = page_of_size(16), *medium = page_of_size(20480), *large = page_of_size(81920);
  mi__os_facts.page_size = 4096;
  ck_assert_uint_eq(mi__holes_unit_shift(small), 12);
  ck_assert_uint_eq(mi__holes_unit_shift(medium), 12);
  ck_assert_uint_eq(mi__holes_unit_shift(large), 14);
  mi__os_facts.page_size = 16384;
  ck_assert_uint_eq(mi__holes_unit_shift(small), 14);
  ck_assert_uint_eq(mi__holes_unit_shift(large), 14);
  mi__os_facts.page_size = 65536;
  ck_assert_uint_eq(mi__holes_unit_shift(small), 16);
  ck_assert_uint_eq(mi__holes_unit_shift(medium), 16);
  ck_assert_uint_eq(mi__holes_unit_shift(large), 16);
}
END_TEST

START_TEST(bits_of_ranges) {
  uint64_t bits[4] = {0};
  ck_assert_uint_eq(set_all(bits, 60, 130), 71);
  ck_assert_uint_eq(set_all(bits, 130, 131), 1);
  ck_assert(all_set(bits, 60, 131));
  ck_assert(!all_set(bits, 59, 131));
  ck_assert(!all_set(bits, 60, 132));
  ck_assert(!any_set(bits, 0, 59));
  ck_assert(!any_set(bits, 132, 255));
  ck_assert(any_set(bits, 0, 60));
  ck_assert(any_set(bits, 131, 255));
  clear_bit(bits, 100);
  ck_assert(!all_set(bits, 60, 131));
  ck_assert(!any_set(bits, 100, 100));
  ck_assert_uint_eq(set_all(bits, 0, 255), 256 - 71);
  ck_assert(all_set(bits, 0, 255));
}
END_TEST

/* ---- what goes ---- */

START_TEST(what_is_free_goes) {
  size_t size = sizes[_i];
  for (int pattern = first_of(_i, size); pattern < N_PATTERNS; pattern += step(size)) {
    struct mi_page *page = with_holes(size, 0, UINT32_MAX, pattern, false);
    if (pattern == 0) ck_assert_uint_gt(n_hole_units, 0);
    struct totals before = read_totals();
    ck_assert_int_eq(make(page), MI_FAULT_NONE); /* and nothing goes twice */
    ck_assert_int_eq(read_totals().total, before.total);
    ck_assert_int_eq(read_totals().calls, before.calls);
    delete(page);
  }
}
END_TEST

START_TEST(wherever_forming_began) {
  size_t size = sizes[_i];
  uint32_t n_blocks = (uint32_t)(mi__page_slices(mi__page_kind_of_bin(mi__bin_of(size))) * MI_SLICE_SIZE / size);
  for (int pattern = first_of(_i, size); pattern < N_PATTERNS; pattern += step(size)) {
    uint32_t first = n_blocks * 2 / 3;
    delete(with_holes(size, first, UINT32_MAX, pattern, true));
    delete(with_holes(size, first, n_blocks / 5, pattern, true));
    delete(with_holes(size, first, n_blocks / 2, pattern, true)); /* wraps */
    delete(with_holes(size, first, n_blocks / 2, pattern, false));
    delete(with_holes(size, 0, n_blocks / 3, pattern, true));
    delete(with_holes(size, 0, 0, pattern, true));
  }
}
END_TEST

START_TEST(more_goes_later) {
  struct mi_page *page = with_holes(512, 3, UINT32_MAX, 3, false);
  struct totals before = read_totals();
  uint32_t units_before = n_hole_units, runs_before = n_runs(hole_at, 16), blocks_before = n_in_holes;
  for (uint32_t i = 0; i < page->n_blocks / 4; i++) { /* the lower quarter is freed */
    state[i] = FREE;
    n_live--, n_free++;
    block_at(page, i)->next = page->free;
    page->free = block_at(page, i);
    mi__page_set_used(page, mi__page_used(page) - 1);
  }
  ck_assert(!mi__holes_is_swept(page));
  predict(page, false);
  ck_assert_uint_gt(n_hole_units, units_before);
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  units_are_as_predicted(page);
  blocks_are_as_predicted(page);
  list_is_what_is_left(page);
  struct totals now = read_totals();
  ck_assert_int_eq(now.bytes - before.bytes, (int64_t)(n_hole_units - units_before) * 4096);
  ck_assert_int_eq(now.blocks - before.blocks, (int64_t)(n_in_holes - blocks_before));
  ck_assert_int_eq(now.calls - before.calls, (int64_t)(n_runs(hole_at, 16) - runs_before));
  delete(page);
}
END_TEST

START_TEST(pages_that_may_not) {
  struct mi_page *page = page_of_size(64);
  ck_assert(mi__holes_may(page));
  mi__page_set_flag(page, MI_PAGE_PINNED, true);
  ck_assert(!mi__holes_may(page));
  page = page_of_size(64);
  mi__page_set_flag(page, MI_PAGE_BROKEN, true);
  ck_assert(!mi__holes_may(page));
  struct mi__span span = span_of(20);
  ck_assert(!mi__holes_may(mi__page_new_huge(&span, NULL)));
}
END_TEST

/* ---- and back ---- */

static const size_t min_bytes[] = {1, 4096, 65536, SIZE_MAX};

/* All blocks that come back are free ones, in no hole any more, and each comes once. */
static uint32_t take_back(struct mi_page *page, bool in_order) {
  uint32_t n = 0;
  const struct mi_block *last = NULL;
  for (struct mi_block *b = page->free; b != NULL; last = b, b = b->next, n++) {
    uint32_t i = mi__page_index(page, b);
    ck_assert(mi__page_is_block(page, b));
    ck_assert(!in_order || last == NULL || last < b);
    ck_assert_int_eq(state[i], FREE);
    ck_assert(!mi__holes_has(page, b));
    state[i] = LIVE;
  }
  (void)mi__page_take_free(page);
  return n;
}

START_TEST(all_of_it_comes_back) {
  size_t size = sizes[_i];
  for (int pattern = first_of(_i, size); pattern < N_PATTERNS; pattern += step(size)) {
    for (int m = 0; m < 4; m++) {
      struct mi_page *page = with_holes(size, 5, UINT32_MAX, pattern, false);
      struct totals start = read_totals();
      (void)take_back(page, false);
      uint32_t left = n_in_holes, calls = 0;
      while (mi__holes_bring_back(page, min_bytes[m])) {
        uint32_t n = take_back(page, true);
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_le(n, left);
        left -= n;
        calls++;
        if (min_bytes[m] == SIZE_MAX) ck_assert_uint_eq(left, 0);
        ck_assert_uint_eq(mi__page_n_holes(page), left);
        ck_assert_uint_eq(mi__page_n_reached(page), page->n_blocks);
        ck_assert_int_eq(read_totals().blocks, left);
        ck_assert_int_eq(read_totals().bytes, (int64_t)mi__holes_bytes(page));
      }
      ck_assert_uint_eq(left, 0);
      ck_assert_ptr_null(page->free);
      ck_assert_uint_eq(page->n_formed, page->n_blocks);
      ck_assert(!mi__page_flag(page, MI_PAGE_HAS_HOLES));
      ck_assert_int_eq(read_totals().reuses - start.reuses, calls);
      gauges_are_zero();
      delete(page);
    }
  }
}
END_TEST

/* ---- the tail ---- */

START_TEST(the_tail_goes_and_is_formed_again) {
  size_t size = sizes[_i];
  struct mi_page *page = page_of_size(size);
  uint32_t n_blocks = page->n_blocks;
  delete(page);
  for (int k = 0; k < 2; k++) {
    page = with_holes(size, k == 0 ? 0 : n_blocks / 2, n_blocks / 4, 0, true);
    ck_assert_uint_gt(n_tail_units, 0);
    struct totals start = read_totals();
    uint32_t n_holes = n_in_holes, n;
    page->free = NULL;
    mi__page_set_used(page, page->n_formed);
    while ((n = mi__page_form(page, 4 * MI_KIB)) > 0) {
      /* Not one bit of what was formed just now, and none of the others has changed. */
      int64_t tail = 0;
      struct units units = load_units(page);
      for (struct mi_block *b = page->free; b != NULL; b = b->next) {
        ck_assert(!mi__holes_has(page, b));
        state[mi__page_index(page, b)] = LIVE;
      }
      for (uint32_t u = 0; u < units_in(page); u++) {
        bool is_out = tail_at[u] && unit_is(page, u, OUT);
        ck_assert_int_eq(has_bit(units.bits, u), hole_at[u] || is_out);
        tail += is_out;
      }
      ck_assert_int_eq(read_totals().tail, tail * (int64_t)unit_size(page));
      ck_assert_int_eq(mi__page_flag(page, MI_PAGE_TAIL_GONE), tail > 0);
      ck_assert_uint_eq(mi__page_n_holes(page), n_holes);
      page->free = NULL;
      mi__page_set_used(page, page->n_formed);
    }
    ck_assert_uint_eq(mi__page_n_reached(page), n_blocks);
    ck_assert(!mi__page_flag(page, MI_PAGE_TAIL_GONE));
    ck_assert_int_eq(read_totals().tail, 0);
    ck_assert_int_gt(read_totals().tail_reuses, start.tail_reuses);
    ck_assert_int_eq(read_totals().bytes, start.bytes);
    delete(page);
  }
}
END_TEST

START_TEST(a_tail_that_is_not_there_stays) {
  struct mi_page *page = page_in_state(512, 0, 10, 0);
  mi__page_set_flag(page, MI_PAGE_ZERO, false);
  ck_assert(mi__holes_has_tail(page));
  mi__page_set_flag(page, MI_PAGE_IN_PARTS, true);
  ck_assert(!mi__holes_has_tail(page));
  mi__page_set_flag(page, MI_PAGE_IN_PARTS, false);
  mi__page_set_flag(page, MI_PAGE_ZERO, true);
  ck_assert(!mi__holes_has_tail(page));
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  ck_assert_int_eq(read_totals().tail_total, 0);
}
END_TEST

/* ---- what the OS refuses ---- */

static char *refuse_from, *refuse_to;
static int n_asked;
static int refuse_some(void *start, size_t size, int advice) {
  n_asked++;
  if ((char *)start < refuse_to && (char *)start + size > refuse_from) {
    errno = EINVAL;
    return -1;
  }
  return madvise(start, size, advice);
}

START_TEST(refused_memory_is_in_no_hole) {
  size_t size = sizes[_i];
  mi__os_calls.advise = refuse_some;
  for (int pattern = first_of(_i, size); pattern < N_PATTERNS; pattern += step(size)) {
    for (int part = 0; part < 3; part++) { /* all, the lower half, the upper quarter */
      struct mi_page *page = page_in_state(size, 7, UINT32_MAX, pattern);
      size_t bytes = page->n_slices * MI_SLICE_SIZE;
      refuse_from = page->start + (part == 2 ? bytes / 4 * 3 : 0);
      refuse_to = page->start + (part == 1 ? bytes / 2 : bytes);
      predict(page, false);
      int n_refused = 0;
      for (uint32_t u = 0, from = 0; u < units_in(page); u++) { /* whole runs */
        if (!hole_at[u]) continue;
        if (u == 0 || !hole_at[u - 1]) from = u;
        if (u + 1 < units_in(page) && hole_at[u + 1]) continue;
        if (page->start + from * unit_size(page) < refuse_to &&
            page->start + (u + 1) * unit_size(page) > refuse_from) {
          n_refused++;
          for (uint32_t k = from; k <= u; k++) tail_at[k] = true; /* to be put right below */
        }
      }
      n_hole_units = n_in_holes = 0;
      for (uint32_t u = 0; u < units_in(page); u++) {
        if (tail_at[u]) hole_at[u] = tail_at[u] = false;
        n_hole_units += hole_at[u];
      }
      for (uint32_t i = 0; i < page->n_blocks; i++) {
        size_t at = i * size, last = at + size - 1;
        in_hole[i] = false;
        for (size_t u = at / unit_size(page); u <= last / unit_size(page); u++) in_hole[i] |= hole_at[u];
        n_in_holes += in_hole[i];
      }
      struct totals before = read_totals();
      n_undone = 0;
      ck_assert_int_eq(make(page), MI_FAULT_NONE);
      ck_assert_int_eq(n_undone, n_refused);
      for (int i = 0; i < n_undone && i < 16; i++) ck_assert_ptr_eq(undone[i], page);
      units_are_as_predicted(page);
      blocks_are_as_predicted(page);
      counters_are_as_predicted(page, before);
      uint64_t bits[MI_PAGE_MAX_BLOCKS / 64];
      uint32_t n;
      ck_assert(mi__page_mark_free(page, bits, &n));
      ck_assert_uint_eq(n, n_free - n_in_holes);
      mi__page_check(page);
      ck_assert(mi__holes_is_swept(page)); /* a sweep passes it by */
      delete(page);
    }
  }
}
END_TEST

START_TEST(refused_memory_is_tried_again_when_the_page_changes) {
  mi__os_calls.advise = refuse_some;
  struct mi_page *page = page_in_state(512, 0, UINT32_MAX, 3);
  refuse_from = page->start;
  refuse_to = page->start + MI_SLICE_SIZE;
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  ck_assert_int_gt(n_asked, 0);
  ck_assert(mi__holes_is_swept(page));
  gauges_are_zero();
  refuse_from = refuse_to = NULL;
  struct mi_block *block = block_at(page, 0); /* one of the live */
  block->next = page->free;
  page->free = block;
  page->until--;
  n_live--, n_free++;
  state[0] = FREE;
  ck_assert(!mi__holes_is_swept(page));
  predict(page, false);
  struct totals before = read_totals();
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  is_as_predicted(page, before);
  ck_assert_uint_gt(n_hole_units, 0);
}
END_TEST

START_TEST(a_refused_tail_is_there) {
  mi__os_calls.advise = refuse_some;
  struct mi_page *page = page_in_state(512, 0, 4, 0);
  mi__page_set_flag(page, MI_PAGE_ZERO, false);
  refuse_from = page->start;
  refuse_to = page->start + MI_SLICE_SIZE;
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  ck_assert_int_eq(n_undone, 1);
  struct totals now = read_totals();
  ck_assert_int_eq(now.tail, 0);
  ck_assert_int_eq(now.tail_total, 0);
  ck_assert_int_eq(now.tail_calls, 0);
  struct units units = load_units(page);
  ck_assert(!has_units(&units));
  ck_assert(mi__holes_has_tail(page));
  ck_assert(mi__holes_is_swept(page));
  page->free = NULL;
  mi__page_set_used(page, page->n_formed);
  while (mi__page_form(page, 4096) > 0) page->free = NULL;
  gauges_are_zero();
  ck_assert(!mi__page_flag(page, MI_PAGE_TAIL_GONE));
}
END_TEST

/* Many runs wait, of several pages, more than there is room for at once. */
START_TEST(many_wait_together) {
  enum { N = 40 };
  struct mi_page *pages[N];
  struct mi__discards discards;
  uint32_t n_gone[N];
  int64_t n = 0;
  mi__discards_begin(&discards, note_undone, undone);
  for (int p = 0; p < N; p++) {
    pages[p] = page_in_state(8192, 0, UINT32_MAX, 5);
    predict(pages[p], false);
    n_gone[p] = n_hole_units;
    n += n_runs(hole_at, units_in(pages[p]));
    ck_assert_int_eq(mi__holes_make(pages[p], &discards), MI_FAULT_NONE);
    ck_assert_uint_le(discards.n, discards.at_once ? MI_DISCARDS : 0);
  }
  ck_assert_int_gt(n, MI_DISCARDS);
  mi__discards_flush(&discards);
  ck_assert_int_eq(read_totals().calls, n);
  for (int p = 0; p < N; p++) {
    units_are_as_predicted(pages[p]);
    ck_assert_uint_eq(mi__holes_bytes(pages[p]), n_gone[p] * 4096);
    mi__page_delete(mi__arenas_main(), pages[p]);
  }
  gauges_are_zero();
}
END_TEST

/* ---- faults ---- */

static void finds(struct mi_page *page, enum mi__fault fault) {
  struct totals before = read_totals();
  struct units units = load_units(page);
  struct mi_page record = *page;
  ck_assert_int_eq(make(page), fault);
  struct totals after = read_totals();
  struct units now = load_units(page);
  ck_assert_mem_eq(&before, &after, sizeof before);
  ck_assert_mem_eq(&units, &now, sizeof units);
  ck_assert_mem_eq(&record, page, sizeof record);
}

static struct mi_block *nth(struct mi_block *list, uint32_t n) {
  while (n-- > 0) list = list->next;
  return list;
}

START_TEST(a_block_twice_on_the_list) {
  size_t size = sizes[_i];
  struct mi_page *page = page_in_state(size, 3, UINT32_MAX, 5);
  nth(page->free, n_free - 1)->next = nth(page->free, 1);
  finds(page, MI_FAULT_TWICE);
  page = page_in_state(size, 3, UINT32_MAX, 5);
  nth(page->free, 2)->next = page->free;
  finds(page, MI_FAULT_TWICE);
  page = page_in_state(size, 3, UINT32_MAX, 0); /* none is live */
  page->free->next = page->free;
  finds(page, MI_FAULT_TWICE);
}
END_TEST

START_TEST(a_link_out_of_the_page) {
  size_t size = sizes[_i];
  static char mine[64] mi__aligned(64);
  struct mi_page *page = page_in_state(size, 3, UINT32_MAX, 5);
  struct mi_block *third = nth(page->free, 2);
  void *bad[] = {
      page->start - size, page->start + page->n_slices * MI_SLICE_SIZE, page->start + 8, mine,
      (void *)(uintptr_t)0x4141414141414140u,
  };
  for (int i = 0; i < 5; i++) {
    third->next = bad[i];
    finds(page, MI_FAULT_FREE);
  }
  third->next = NULL; /* too short */
  finds(page, MI_FAULT_FREE);
}
END_TEST

START_TEST(a_link_into_the_tail) {
  for (int k = 0; k < 2; k++) { /* the tail in one part, and in two */
    struct mi_page *page = page_in_state(512, k == 0 ? 0 : 40, 60, 5);
    for (uint32_t i = 0; i < page->n_blocks; i++) {
      if (state[i] != OUT) continue;
      struct mi_block *second = nth(page->free, 1), *astray = block_at(page, i);
      page->free->next = astray;
      astray->next = second->next;
      finds(page, MI_FAULT_FREE);
      page->free->next = second;
    }
    ck_assert_int_eq(make(page), MI_FAULT_NONE);
  }
}
END_TEST

START_TEST(a_listed_block_in_a_hole) {
  struct mi_page *page = with_holes(512, 3, UINT32_MAX, 1, false);
  ck_assert_uint_ge(n_free - n_in_holes, 2);
  struct mi_block *second = page->free->next;
  for (uint32_t i = 0; i < page->n_blocks; i++) {
    if (!in_hole[i]) continue;
    page->free->next = block_at(page, i);
    page->free->next->next = second->next; /* as many as there should be */
    finds(page, MI_FAULT_TWICE);
    page->free->next->next = page->free->next; /* and too few */
    finds(page, MI_FAULT_FREE);
    page->free->next = second;
  }
}
END_TEST

START_TEST(no_page_is_whole_with_a_listed_block_in_a_hole) {
  struct mi_page *page = page_in_state(3072, 0, UINT32_MAX, 1);
  uint32_t live = page->n_blocks / 2;
  predict(page, false);
  ck_assert_int_eq(make(page), MI_FAULT_NONE);
  struct mi_block *block = block_at(page, live);
  block->next = page->free;
  page->free = block;
  mi__page_set_used(page, 0);
  ck_assert_uint_gt(mi__page_n_holes(page), 0);
  ck_assert(mi__page_is_whole(page));
  for (uint32_t i = 0; i < page->n_blocks; i++) {
    if (!in_hole[i]) continue;
    page->free = block_at(page, i); /* in place of the other: the number is right */
    page->free->next = block->next;
    ck_assert(!mi__page_is_whole(page));
    page->free = block;
  }
  ck_assert(mi__page_is_whole(page));
}
END_TEST

/* ---- the end ---- */

START_TEST(nothing_is_left_at_the_end) {
  size_t size = sizes[_i];
  for (int pattern = first_of(_i, size); pattern < N_PATTERNS; pattern += step(size)) {
    struct mi_page *page = page_of_size(size);
    uint32_t n = page->n_blocks / 2;
    delete(page);
    page = with_holes(size, 0, n, pattern, true);
    struct totals before = read_totals();
    mi__holes_end(page);
    gauges_are_zero();
    struct units units = load_units(page);
    ck_assert(!has_units(&units));
    ck_assert_uint_eq(mi__page_n_holes(page), 0);
    ck_assert(!mi__page_flag(page, MI_PAGE_HAS_HOLES));
    ck_assert_int_eq(read_totals().freed - before.freed, n_hole_units > 0);
    ck_assert_int_eq(read_totals().total, before.total);
    mi__holes_end(page); /* once is enough */
    gauges_are_zero();
  }
}
END_TEST

START_TEST(a_broken_page_has_no_holes) {
  struct mi_page *page = with_holes(512, 0, 64, 1, true);
  mi__page_mark_broken(page, MI_FAULT_TWICE);
  gauges_are_zero();
  ck_assert(!mi__holes_may(page));
  ck_assert_uint_eq(mi__page_n_holes(page), 0);
}
END_TEST

/* ---- the floor ---- */

START_TEST(the_floor_is_one_for_all_pages) {
  struct mi_page *a = page_of_size(81920), *b = page_of_size(81920), *small = page_of_size(16);
  ck_assert(mi__holes_keep(a, 100, 150));
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 100);
  ck_assert(!mi__holes_keep(b, 51, 150));
  ck_assert_uint_eq(mi__page_more(b)->kept, 0);
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 100);
  ck_assert(mi__holes_keep(b, 50, 150));
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 150);
  mi__holes_unkeep(a);
  mi__holes_unkeep(a);
  mi__holes_unkeep(small);
  ck_assert_uint_eq(mi__page_more(a)->kept, 0);
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 50);
  mi__holes_end(b);
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 0);
  ck_assert(mi__holes_keep(a, 7, 7));
  mi__page_delete(mi__arenas_main(), a);
  ck_assert_int_eq(mi__load(&mi__holes_kept, relaxed), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name) {
  TCase *tcase = tcase_create(name);
  tcase_set_timeout(tcase, 60);
  suite_add_tcase(suite, tcase);
  return tcase;
}

int main(void) {
  if (!mi_test_forks()) return 77;
  Suite *suite = suite_create("page/holes");
  TCase *tcase = add_case(suite, "units");
  tcase_add_test(tcase, units_are_at_most_256);
  tcase_add_test(tcase, bits_of_ranges);
  tcase = add_case(suite, "making");
  tcase_add_loop_test(tcase, what_is_free_goes, 0, N_SIZES);
  tcase_add_loop_test(tcase, wherever_forming_began, 0, N_SIZES);
  tcase_add_test(tcase, more_goes_later);
  tcase_add_test(tcase, pages_that_may_not);
  tcase_add_test(tcase, many_wait_together);
  tcase = add_case(suite, "back");
  tcase_add_loop_test(tcase, all_of_it_comes_back, 0, N_SIZES);
  tcase = add_case(suite, "tail");
  tcase_add_loop_test(tcase, the_tail_goes_and_is_formed_again, 0, N_SIZES);
  tcase_add_test(tcase, a_tail_that_is_not_there_stays);
  tcase = add_case(suite, "refused");
  tcase_add_loop_test(tcase, refused_memory_is_in_no_hole, 0, N_SIZES);
  tcase_add_test(tcase, refused_memory_is_tried_again_when_the_page_changes);
  tcase_add_test(tcase, a_refused_tail_is_there);
  tcase = add_case(suite, "faults");
  tcase_add_loop_test(tcase, a_block_twice_on_the_list, 0, N_SIZES);
  tcase_add_loop_test(tcase, a_link_out_of_the_page, 0, N_SIZES);
  tcase_add_test(tcase, a_link_into_the_tail);
  tcase_add_test(tcase, a_listed_block_in_a_hole);
  tcase_add_test(tcase, no_page_is_whole_with_a_listed_block_in_a_hole);
  tcase = add_case(suite, "end");
  tcase_add_loop_test(tcase, nothing_is_left_at_the_end, 0, N_SIZES);
  tcase_add_test(tcase, a_broken_page_has_no_holes);
  tcase_add_test(tcase, the_floor_is_one_for_all_pages);
  return mi_test_run_suite(suite);
}
