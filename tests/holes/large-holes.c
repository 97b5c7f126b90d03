/* SPDX-License-Identifier: MIT */
/* Holes in large pages (blocks of 80 to 512 KiB): units of 16 KiB; what is taken and what is kept; blocks that come back, are
 * freed by other threads, or change their size beside holes; pages and heaps that end; and what a page that was used a moment
 * ago keeps, for how long, and who comes back for it. */
#include "holes/holes.h"

static void sweep(void) { mi_on_thread_idle(); }

/* Just above what shares a medium page; and two that are no power of two. */
static const size_t sizes[] = {65 * 1024, 257 * 1024, 508 * 1024};
#define EACH_SIZE(s) for (size_t s = few_sizes() ? 1 : 0; s < (few_sizes() ? 2 : N_OF(sizes)); s++)

static struct batch f;

/* All memory of blocks that were freed is gone: also the units that two of them share. */
static void expect_all_gone(void) {
  size_t left = mi_option_get(mi_option_allow_thp) == 2 ? 0 : batch_resident(&f, LARGE_UNIT);
  if (left != 0 && holes_on()) FAIL("%zu KiB of free blocks of %zu KiB are resident", left / 1024, f.size / 1024);
  batch_check_units(&f, LARGE_UNIT);
}
static void expect_all_there(const char *when) {
  size_t all = batch_in_units(&f, LARGE_UNIT), left = batch_resident(&f, LARGE_UNIT);
  if (left != all) FAIL("%s: of %zu KiB of free blocks only %zu KiB are resident", when, all / 1024, left / 1024);
}

/* ---- without an interval: everything goes at once ---- */

static void check_discard(void) {
  EACH_SIZE(s) {
    f = batch_new(40, sizes[s], s + 1);
    counts before = look();
    size_t n_freed = batch_keep_each(&f, 3);
    sweep();
    counts after = look();
    if (mi_good_size(sizes[s]) % LARGE_UNIT == 0) {
      MORE_BY(before, after, purged_blocks, n_freed);
      MORE_BY(before, after, purged_bytes, n_freed * sizes[s]);
    } else {
      MORE(before, after, purged_bytes);
    }
    expect_all_gone();
    batch_rewrite(&f);
    batch_end(&f);
  }
}

static void check_odd(void) {
  f = batch_new(32, 128 * 1024, 4);
  counts before = look();
  for (size_t i = 1; i < f.n; i += 2) batch_free(&f, i);
  sweep();
  MORE(before, look(), purged_bytes);
  expect_all_gone();
  batch_end(&f);
}

/* So many fill two pages: nothing is left in them that never was a block. */
static size_t two_pages(size_t size) { return 2 * (4 * BEHAVE_MiB / mi_good_size(size)); }

static void check_reuse(void) {
  EACH_SIZE(s) {
    f = batch_new(two_pages(sizes[s]), sizes[s], s + 5);
    for (size_t i = 0; i < f.n; i++)
      if (i % 4 != 0) memset(f.block[i], 0xAB, sizes[s]);
    batch_keep_each(&f, 4);
    sweep();
    counts before = look();
    size_t n_old = 0;
    static void *was[128];
    CHECK(f.n <= N_OF(was));
    memcpy(was, f.at, f.n * sizeof *was);
    for (size_t i = 0; i < f.n; i++) {
      if (f.block[i] != NULL) continue;
      void *p = i % 2 == 0 ? mi_zalloc(sizes[s]) : malloc(sizes[s]);
      CHECK(p != NULL);
      if (i % 2 == 0 && !behave_is_zero(p, sizes[s])) FAIL("a block of %zu KiB is not zero", sizes[s] / 1024);
      for (size_t k = 0; k < f.n; k++) CHECK(f.block[k] != p);
      for (size_t k = 0; k < f.n; k++) n_old += was[k] == p;
      f.block[i] = f.at[i] = p;
      behave_fill(p, sizes[s], f.tag + i);
    }
    counts after = look();
    MORE(before, after, reuse_calls);
    if (holes_on()) CHECK(after.purged_bytes < before.purged_bytes);
    CHECK(n_old > 0);
    batch_end(&f);
  }
}

static void *free_second_third(void *arg) {
  (void)arg;
  for (size_t i = 1; i < f.n; i += 3) batch_free(&f, i);
  return NULL;
}
static void *verify_and_free_rest(void *arg) {
  (void)arg;
  batch_verify(&f);
  for (size_t i = 0; i < f.n; i++) batch_free(&f, i);
  return NULL;
}
static void check_cross_thread(void) {
  EACH_SIZE(s) {
    mi_collect(true);
    counts start = look();
    f = batch_new(60, sizes[s], s + 8);
    for (size_t i = 2; i < f.n; i += 3) batch_free(&f, i);
    sweep();
    counts first = look();
    MORE(start, first, purged_bytes);
    in_thread(free_second_third, NULL);
    sweep();
    MORE(first, look(), purged_bytes);
    expect_all_gone();
    in_thread(verify_and_free_rest, NULL);
    mi_collect(true);
    counts end = look();
    SAME(start, end, purged_bytes);
    SAME(start, end, purged_blocks);
    batch_forget(&f);
  }
}

/* Every other block is freed; of the rest one half stays, the other changes its size. */
static void check_realloc(void) {
  EACH_SIZE(s) {
    f = batch_new(two_pages(sizes[s]), sizes[s], s + 11);
    for (size_t i = 1; i < f.n; i += 2) batch_free(&f, i);
    sweep();
    const size_t steps[] = {sizes[s] - 4096, 2 * sizes[s], sizes[s] / 2 + 8192};
    static void *moving[64];
    size_t n = 0;
    for (size_t i = 2; i < f.n; i += 4, n++) {
      CHECK(n < N_OF(moving));
      moving[n] = f.block[i];
      behave_fill(moving[n], sizes[s], n);
      f.block[i] = NULL;
    }
    for (size_t step = 0, was = sizes[s]; step < N_OF(steps); was = steps[step++]) {
      size_t words = (steps[step] < was ? steps[step] : was) / 8 * 8; /* the last one may be cut */
      for (size_t i = 0; i < n; i++) {
        CHECK((moving[i] = realloc(moving[i], steps[step])) != NULL);
        if (behave_verify(moving[i], words, i) != words) FAIL("realloc lost bytes, step %zu, block %zu", step, i);
        behave_fill(moving[i], steps[step], i);
      }
      sweep();
      batch_verify(&f);
    }
    counts before = look();
    batch_fill(&f); /* into the holes, and where blocks have moved from */
    MORE(before, look(), reuse_calls);
    for (size_t i = 0; i < n; i++) {
      CHECK(behave_verify(moving[i], steps[2], i) == steps[2]);
      free(moving[i]);
    }
    batch_end(&f);
  }
}

static void *fill_and_free_odd(void *arg) {
  (void)arg;
  batch_fill(&f);
  for (size_t i = 1; i < f.n; i += 2) batch_free(&f, i);
  return NULL;
}
static void check_abandoned(void) {
  f = batch_make(20, 508 * 1024, 14);
  free(malloc(508 * 1024));
  in_thread(fill_and_free_odd, NULL);
  counts before = look();
  sweep();
  MORE(before, look(), purged_bytes);
  batch_check_units(&f, LARGE_UNIT);
  for (size_t i = 1; i < f.n; i += 2) {
    CHECK((f.block[i] = f.at[i] = mi_zalloc(f.size)) != NULL && behave_is_zero(f.block[i], f.size));
    behave_fill(f.block[i], f.size, f.tag + i);
  }
  batch_end(&f);
}

static void check_heaps(void) {
  for (int destroy = 0; destroy < 2; destroy++) {
    EACH_SIZE(s) {
      mi_collect(true);
      counts before = look();
      mi_heap_t *heap = new_heap();
      f = batch_make(30, sizes[s], s + 15);
      f.heap = heap;
      batch_fill(&f);
      batch_keep_each(&f, 3);
      sweep();
      MORE(before, look(), purged_bytes);
      expect_all_gone();
      if (destroy) {
        mi_heap_destroy(heap);
        batch_forget(&f);
      } else {
        mi_heap_delete(heap);
        batch_end(&f);
        mi_collect(true);
      }
      counts after = look();
      SAME(before, after, purged_bytes);
      SAME(before, after, purged_blocks);
      SAME(before, after, unformed_bytes);
    }
  }
}

static void check_double_free(void) {
#ifdef MI_DEBUG
  mi_option_set(mi_option_show_errors, 0);
  f = batch_new(24, 257 * 1024, 18);
  batch_keep_each(&f, 3);
  sweep();
  counts before = look();
  size_t resident = batch_resident(&f, LARGE_UNIT);
  for (size_t i = 1; i < 6; i += 3) {
    void *volatile again = f.at[i];
    free(again);
  }
  QUIET(before, look());
  CHECK(batch_resident(&f, LARGE_UNIT) == resident);
  batch_verify(&f);
  batch_fill(&f);
  batch_end(&f);
#endif
}

/* ---- with an interval: pages in use keep their memory ---- */

enum { INTERVAL = 300 };

/* Sweeps of a park are seen by the pages that they look at, or pass over: a small page is never held. */
static uint64_t wait_sweep(counts *last, unsigned ms) {
  for (uint64_t end = now_ms() + ms; now_ms() < end; usleep(500)) {
    counts now = look();
    if (now.blocks_visited == last->blocks_visited && now.pages_skipped == last->pages_skipped &&
        now.discard_calls == last->discard_calls)
      continue;
    uint64_t seen = now_ms();
    do { /* to its end */
      *last = now;
      usleep(20000);
      now = look();
    } while (now.blocks_visited != last->blocks_visited || now.pages_skipped != last->pages_skipped ||
             now.discard_calls != last->discard_calls);
    return seen;
  }
  return 0;
}

static void check_park(void) {
  if (!holes_on()) SKIP("no sweep can be seen with holes off");
  struct batch small = batch_new(1000, 512, 19);
  batch_keep_each(&small, 7);
  f = batch_new(24, 257 * 1024, 20);
  for (size_t i = 1; i < f.n; i += 2) batch_free(&f, i);
  counts last = look();
  CHECK(mi_on_thread_idle_start());
  uint64_t first = wait_sweep(&last, 3000);
  if (first == 0) FAIL("the park was not swept");
  expect_all_there("after the first sweep of a park");
  uint64_t before = first;
  int n = 1;
  while (batch_resident(&f, LARGE_UNIT) != 0) {
    uint64_t seen = wait_sweep(&last, 4 * INTERVAL);
    if (seen == 0) FAIL("after %d sweeps the park is swept no more, %zu KiB are resident", n, batch_resident(&f, LARGE_UNIT) / 1024);
    if (seen - before < INTERVAL * 2 / 3) /* the one before may have been seen late */
      FAIL("two sweeps are only %llu ms apart", (unsigned long long)(seen - before));
    if (++n > 3) FAIL("a park is swept %d times", n);
    before = seen;
  }
  CHECK(n >= 2);
  if (wait_sweep(&last, 900) != 0) FAIL("a park that is done is swept again");
  mi_on_thread_idle_end();
  batch_end(&f);
  batch_end(&small);
}

/* Something was left that a later sweep would take; never with holes off. */
static void expect_pending(void) { CHECK(mi_on_thread_idle_pending() == holes_on()); }

static void *use_a_page(void) {
  void *p = malloc(f.size);
  CHECK(p != NULL);
  memset(p, 1, f.size);
  free(p);
  return p;
}
/* Free memory at least 4 MiB away from each of these: in other pages. */
static size_t resident_far_from(void *const *used, size_t n_used, size_t *n_blocks) {
  size_t n = 0;
  for (size_t i = 0; i < f.n; i++) {
    bool near = f.block[i] != NULL;
    for (size_t k = 0; k < n_used; k++) {
      uintptr_t at = (uintptr_t)f.at[i], other = (uintptr_t)used[k];
      near = near || (at < other ? other - at : at - other) < 4 * BEHAVE_MiB;
    }
    if (near) continue;
    n += resident_in(f.at[i], f.size, LARGE_UNIT);
    ++*n_blocks;
  }
  return n;
}
static void check_inline(void) {
  free(malloc(512));
  sweep();
  behave_sleep_ms(INTERVAL + 20);
  f = batch_new(96, 508 * 1024, 21); /* twelve pages */
  batch_keep_each(&f, 4);
  uint64_t began = now_ms();
  sweep();
  expect_all_there("after the first sweep");
  expect_pending();
  sweep();
  bool in_time = now_ms() - began < INTERVAL;
  if (in_time) expect_all_there("after a second sweep in the interval");
  if (in_time) expect_pending();
  /* Each round uses one page, and the others are left alone. */
  int n_rounds = (int)mi_test_scale(3, 5);
  void *used[5];
  size_t n_blocks = 0;
  for (int round = 0; round < n_rounds; round++) {
    behave_sleep_ms(INTERVAL + 20);
    began = now_ms();
    used[round] = use_a_page();
    size_t there = resident_in(used[round], f.size, LARGE_UNIT);
    sweep();
    if (now_ms() - began > INTERVAL) continue;
    size_t left = resident_in(used[round], f.size, LARGE_UNIT);
    if (left < there) FAIL("round %d: the page in use has lost %zu KiB", round, (there - left) / 1024);
    expect_pending();
  }
  if (holes_on()) {
    size_t left = resident_far_from(used, (size_t)n_rounds, &n_blocks);
    CHECK(n_blocks > 0);
    if (left != 0) FAIL("pages that nobody used keep %zu KiB", left / 1024);
  }
  /* Left alone: an interval or two. */
  for (int i = 0; i < 2; i++) {
    behave_sleep_ms(INTERVAL + 20);
    sweep();
  }
  expect_all_gone();
  CHECK(!mi_on_thread_idle_pending());
  behave_sleep_ms(INTERVAL + 20);
  counts before = look();
  sweep();
  counts after = look();
  SAME(before, after, discard_calls);
  batch_end(&f);
}

static void check_young_abandoned(void) {
  sweep();
  behave_sleep_ms(INTERVAL + 20);
  f = batch_make(20, 257 * 1024, 22);
  free(malloc(257 * 1024));
  in_thread(fill_and_free_odd, NULL);
  counts before = look();
  sweep();
  counts after = look();
  SAME(before, after, purged_bytes);
  expect_all_there("in pages of an ended thread");
  expect_pending();
  for (int i = 0; i < 2; i++) {
    behave_sleep_ms(INTERVAL + 20);
    sweep();
  }
  MORE(after, look(), purged_bytes);
  batch_check_units(&f, LARGE_UNIT);
  batch_end(&f);
}

/* Several threads sweep all the time: the page that was just used keeps its blocks whoever moves the epoch. */
enum { QUICK = 50 };
static atomic_bool stop;
static void *sweep_on(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  while (!stop) {
    free(malloc(1000));
    mi_on_thread_idle();
    if (behave_random(&rng) % 4 == 0) usleep((useconds_t)(behave_random(&rng) % 2000));
  }
  return NULL;
}
static void check_concurrent(void) {
  enum { N = 4 };
  pthread_t t[N];
  size_t n_judged = 0, rounds = mi_test_scale(20, 400);
  f = batch_new(16, 257 * 1024, 23);
  batch_keep_each(&f, 4);
  for (uintptr_t i = 0; i < N; i++) t[i] = start(sweep_on, (void *)(i + 1));
  for (size_t round = 0; round < rounds; round++) {
    usleep((useconds_t)(QUICK * 1000 + round % 7 * 1500));
    uint64_t began = behave_now_ns();
    char *p = malloc(f.size);
    CHECK(p != NULL);
    memset(p, 1, f.size);
    void *others[3]; /* of the same page, so that it has free blocks besides */
    for (int i = 0; i < 3; i++) {
      CHECK((others[i] = malloc(f.size)) != NULL);
      memset(others[i], 1, f.size);
    }
    for (int i = 0; i < 3; i++) free(others[i]);
    sweep();
    size_t left = 0, all = 0;
    for (int i = 0; i < 3; i++) {
      left += resident_in(others[i], f.size, LARGE_UNIT);
      all += units_in(others[i], f.size, LARGE_UNIT) * LARGE_UNIT;
    }
    if (behave_now_ns() - began < (QUICK - 2) * 1000000ull) {
      n_judged++;
      if (left != all) FAIL("round %zu: a page in use lost %zu KiB", round, (all - left) / 1024);
    }
    free(p);
  }
  stop = true;
  for (int i = 0; i < N; i++) join(t[i]);
  CHECK(n_judged > 0);
  /* And the epochs go on: left alone it goes. */
  for (int i = 0; i < 4; i++) {
    behave_sleep_ms(QUICK + 10);
    sweep();
  }
  expect_all_gone();
  batch_end(&f);
}

/* ---- the floor ---- */

enum { STEP = 2, FLOOR = 4 * 1024 * 1024 };
static void sweeps(int n) {
  for (int i = 0; i < n; i++) {
    behave_sleep_ms(STEP + 1);
    sweep();
  }
}

static void *hold_floor(void *arg) {
  (void)arg;
  batch_fill(&f);
  batch_keep_each(&f, 3);
  sweeps(6);
  *(size_t *)arg = batch_resident(&f, LARGE_UNIT);
  return NULL;
}
static void check_floor(void) {
  f = batch_new(60, 300 * 1024, 24);
  counts before = look();
  batch_keep_each(&f, 3);
  sweeps(6);
  size_t kept = batch_resident(&f, LARGE_UNIT), all = batch_in_units(&f, LARGE_UNIT);
  if (holes_on()) {
    if (kept == 0 || kept > FLOOR) FAIL("the floor keeps %zu KiB", kept / 1024);
    CHECK(kept >= FLOOR / 4);
    counts now = look();
    CHECK(now.purged_bytes > before.purged_bytes && now.purged_bytes - before.purged_bytes < all);
    sweep();
    SAME(now, look(), purged_bytes);
    CHECK(batch_resident(&f, LARGE_UNIT) == kept);
    mi_option_set(mi_option_purge_holes_large_floor, 0);
    sweeps(3);
    expect_all_gone();
  }
  batch_end(&f);

  /* The share of a thread that ends. */
  mi_option_set(mi_option_purge_holes_large_floor, FLOOR / 1024);
  f = batch_make(60, 300 * 1024, 25);
  in_thread(hold_floor, &kept);
  if (holes_on()) {
    CHECK(kept > 0 && kept <= FLOOR);
    CHECK(batch_resident(&f, LARGE_UNIT) == 0);
  }
  batch_verify(&f);
  batch_end(&f);
  mi_collect(true);

  /* A forced collection takes it. */
  f = batch_new(60, 300 * 1024, 26);
  batch_keep_each(&f, 3);
  sweeps(6);
  if (holes_on()) CHECK(batch_resident(&f, LARGE_UNIT) > 0);
  mi_collect(true);
  if (holes_on()) CHECK(batch_resident(&f, LARGE_UNIT) == 0);
  batch_end(&f);
}

/* Without an interval there is none. */
static void check_floor_eager(void) {
  f = batch_new(60, 300 * 1024, 27);
  batch_keep_each(&f, 3);
  sweep();
  expect_all_gone();
  batch_end(&f);
}

/* Two threads sweep the same heap, and share one floor. */
static void *sweep_too(void *arg) {
  (void)arg;
  free(malloc(1000));
  for (int i = 0; i < 20; i++) {
    behave_sleep_ms(STEP);
    sweep();
  }
  return NULL;
}
static void check_floor_shared(void) {
  f = batch_new(60, 300 * 1024, 28);
  batch_keep_each(&f, 3);
  pthread_t t = start(sweep_too, NULL);
  sweeps(10);
  join(t);
  size_t kept = batch_resident(&f, LARGE_UNIT);
  if (holes_on() && (kept < FLOOR / 2 || kept > FLOOR)) FAIL("the floor keeps %zu KiB", kept / 1024);
  batch_end(&f);
}

/* It lasts for so many epochs, as long as somebody sweeps; what is used later takes it over. */
enum { EPOCHS = 64 };
static void check_decay(void) {
  f = batch_new(12, 300 * 1024, 29);
  batch_keep_each(&f, 3);
  sweeps(20);
  if (holes_on()) expect_all_there("under the floor");
  behave_sleep_ms(STEP * EPOCHS * 2); /* nobody sweeps: time alone is nothing */
  if (holes_on()) expect_all_there("after a rest");
  sweep();
  if (holes_on()) expect_all_there("after a rest and a sweep");
  sweeps(EPOCHS + 8);
  expect_all_gone();
  batch_end(&f);

  /* Two groups, each as large as the floor: the younger one has it. */
  f = batch_new(18, 300 * 1024, 30);
  batch_keep_each(&f, 6);
  sweeps(6);
  struct batch old = f;
  size_t old_kept = batch_resident(&old, LARGE_UNIT);
  f = batch_new(18, 500 * 1024, 31);
  batch_keep_each(&f, 2);
  sweeps(6);
  if (holes_on()) {
    CHECK(old_kept > 0 && batch_resident(&f, LARGE_UNIT) > 0);
    CHECK(batch_resident(&old, LARGE_UNIT) < old_kept);
    CHECK(batch_resident(&old, LARGE_UNIT) + batch_resident(&f, LARGE_UNIT) <= FLOOR);
  }
  batch_end(&f);
  batch_end(&old);
}

/* All who might use it are parked: the background thread comes once, so many intervals later. */
static void check_floor_park(void) {
  enum { SLOW = 20, N_EPOCHS = 16 };
  f = batch_new(60, 300 * 1024, 32);
  batch_keep_each(&f, 3);
  CHECK(mi_on_thread_idle_start());
  uint64_t began = now_ms();
  while (holes_on() && batch_resident(&f, LARGE_UNIT) > 0) {
    size_t left = batch_resident(&f, LARGE_UNIT);
    uint64_t now = now_ms() - began;
    if (now < SLOW * N_EPOCHS) CHECK(left == batch_in_units(&f, LARGE_UNIT));
    if (now > 10000) FAIL("after 10 s the floor keeps %zu KiB of a parked thread", left / 1024);
    behave_sleep_ms(2);
  }
  if (holes_on() && now_ms() - began < SLOW * N_EPOCHS) FAIL("it went after %llu ms", (unsigned long long)(now_ms() - began));
  mi_on_thread_idle_end();
  batch_end(&f);
}

/* From the options alone; short parks with some work between, then one for good. */
static void check_floor_idle(void) {
  enum { SLOW = 10, N_EPOCHS = 100 };
  f = batch_new(18, 300 * 1024, 33);
  size_t n_freed = batch_keep_each(&f, 3), block = 300 * 1024;
  counts start = look();
  for (int i = 0; i < 12; i++) {
    CHECK(mi_on_thread_idle_start());
    behave_sleep_ms(100);
    mi_on_thread_idle_end();
    void *p = malloc(block);
    CHECK(p != NULL);
    memset(p, 1, block);
    free(p);
  }
  CHECK(look().purged_bytes < start.purged_bytes + 2 * block);
  CHECK(mi_on_thread_idle_start());
  uint64_t began = now_ms();
  behave_sleep_ms(300);
  counts early = look();
  if (now_ms() - began < 900) CHECK(early.purged_bytes < start.purged_bytes + 2 * block);
  behave_sleep_ms(400);
  counts later = look();
  if (now_ms() - began < 900) SAME(early, later, purged_bytes);
  if (holes_on()) {
    size_t want = start.purged_bytes + n_freed * (block - LARGE_UNIT);
    while (look().purged_bytes < want) {
      if (now_ms() - began > 5000) FAIL("after 5 s %zu KiB of the floor are left", batch_resident(&f, LARGE_UNIT) / 1024);
      behave_sleep_ms(10);
    }
    behave_sleep_ms(200);
    unsigned long switches = scavenger_switches();
    behave_sleep_ms((unsigned)mi_test_scale(1000, 2500));
    if (scavenger_switches() > switches + 1) FAIL("%lu wakes with nothing left to do", scavenger_switches() - switches);
  }
  mi_on_thread_idle_end();
  batch_end(&f);
}

/* ---- the end ---- */

static void check_end(void) {
  mi_collect(true);
  counts start = look();
  EACH_SIZE(s) {
    f = batch_new(40, sizes[s], s + 40);
    batch_keep_each(&f, 3);
    sweep();
    batch_end(&f);
  }
  mi_collect(true);
  counts end = look();
  SAME(start, end, purged_bytes);
  SAME(start, end, purged_blocks);
  if (idle_is_override()) return;
  CHECK(end.purged_bytes == 0 && end.purged_blocks == 0);
}

#define LONG_INTERVAL "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=300"
#define SHORT_INTERVAL "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=2"
#define HAS_FLOOR "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=4MiB"
#define ALONE "MIMALLOC_SCAVENGER=0"
#define EAGER "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", ALONE

int main(int argc, char **argv) {
  static const struct scenario all[] = {
    {"discard", check_discard, {EAGER}, false},
    {"odd", check_odd, {EAGER}, false},
    {"reuse", check_reuse, {EAGER}, false},
    {"cross-thread", check_cross_thread, {EAGER}, false},
    {"realloc", check_realloc, {EAGER}, false},
    {"abandoned", check_abandoned, {EAGER}, false},
    {"heaps", check_heaps, {EAGER}, false},
    {"double-free", check_double_free, {EAGER}, false},
    {"park", check_park, {LONG_INTERVAL, "MIMALLOC_PURGE_HOLES_FULL_EVERY=0"}, true},
    {"inline", check_inline, {LONG_INTERVAL, ALONE}, false},
    {"young-abandoned", check_young_abandoned, {LONG_INTERVAL, ALONE}, false},
    {"concurrent", check_concurrent, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=50"}, false},
    {"floor", check_floor, {SHORT_INTERVAL, HAS_FLOOR, ALONE}, false},
    {"floor-eager", check_floor_eager, {EAGER, HAS_FLOOR}, false},
    {"floor-shared", check_floor_shared, {SHORT_INTERVAL, HAS_FLOOR, ALONE}, false},
    {"decay", check_decay, {SHORT_INTERVAL, HAS_FLOOR, ALONE, "MIMALLOC_PURGE_HOLES_LARGE_FLOOR_EPOCHS=64"}, false},
    {"floor-park", check_floor_park,
     {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=20", "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=64MiB",
      "MIMALLOC_PURGE_HOLES_LARGE_FLOOR_EPOCHS=16"}, true},
    {"floor-idle", check_floor_idle,
     {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=10", "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=8MiB",
      "MIMALLOC_PURGE_HOLES_LARGE_FLOOR_EPOCHS=100"}, true},
    {"end", check_end, {EAGER}, false},
  };
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all),
                       WITH("MIMALLOC_PURGE_HOLES_EAGER_ZERO=1", "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=0"));
}
