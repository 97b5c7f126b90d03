/* SPDX-License-Identifier: MIT */
/* Holes in small and medium pages that the calling thread sweeps: which OS pages go, and no others; that blocks keep their
 * bytes through all of it; what brings holes back and what does not; pages of ended threads; the part of a page that was never
 * a block; which pages a sweep passes over; and that the counts return to where they began. */
#include "holes/holes.h"

static void sweep(void) { mi_on_thread_idle(); }

/* ---- which OS pages go ---- */

static void check_survivors(void) {
  static const size_t sizes[] = {16, 64, 256, 1024, 4096, 8192, 16384, 65536};
  for (size_t s = 0; s < N_OF(sizes); s++) {
    size_t every = keep_every(sizes[s]), n = 32 * every < 256 ? 256 : 32 * every;
    struct batch f = batch_new(n, sizes[s], s + 1);
    counts before = look();
    batch_keep_each(&f, every);
    sweep();
    counts after = look();
    MORE(before, after, purged_blocks);
    MORE(before, after, purged_bytes);
    MORE(before, after, discard_calls);
    CHECK(batch_check_units(&f, os_page()) > 0);
    batch_rewrite(&f);
    batch_end(&f);
  }
}

/* Every size class, with starts of pages that differ, and any block kept or not. */
static void check_units(void) {
  uint64_t rng = 3;
  for (size_t size = 8; size <= 65536; size = mi_good_size((few_sizes() ? size + size / 3 : size) + 1)) {
    size_t n = mi_test_scale(1, 2) * BEHAVE_MiB / size;
    size_t most = mi_test_scale(3000, 6000);
    if (n > most) n = most;
    struct batch f = batch_new(n, size, size);
    size_t one_in = keep_every(size) + behave_random(&rng) % 3;
    for (size_t i = 0; i < n; i++)
      if (behave_random(&rng) % one_in != 0) batch_free(&f, i);
    sweep();
    batch_check_units(&f, os_page());
    batch_verify(&f);
    sweep();
    batch_check_units(&f, os_page());
    batch_fill(&f);
    batch_end(&f);
  }
}

/* What mincore says is what smaps says. */
static void check_smaps(void) {
  size_t n = mi_test_scale(8192, 32768);
  struct batch f = batch_new(n, 1024, 4);
  size_t before = smaps_rss(f.at[0], 1024);
  batch_keep_each(&f, 64);
  sweep();
  size_t after = smaps_rss(f.at[0], 1024);
  size_t holes = batch_check_units(&f, os_page()) * os_page();
  CHECK(holes >= n * 1024 / 2);
  if (!holes_on()) CHECK(after + BEHAVE_MiB >= before);
  else if (after + holes / 10 * 9 > before) FAIL("smaps: %zu KiB resident, before %zu, holes of %zu", after / 1024, before / 1024, holes / 1024);
  batch_end(&f);
}

/* ---- blocks stay whole ---- */

static void check_churn(void) {
  enum { MOST = 400 };
  static const size_t odd[] = {10239, 10240, 10241, 16384, 16385};
  static struct { void *p; size_t size; uint64_t tag; } live[MOST];
  size_t n = 0, steps = mi_test_scale(8000, 200000);
  uint64_t rng = behave_seed(), seed = rng;
  for (size_t step = 0; step < steps; step++) {
    if (step % 97 == 0) sweep();
    if (n < MOST && (n == 0 || behave_random(&rng) % 100 < 55)) {
      size_t size = behave_random(&rng) % 8 == 0 ? odd[behave_random(&rng) % N_OF(odd)] : behave_random_size(&rng, 64, 24576);
      void *p = malloc(size);
      CHECK(p != NULL && (uintptr_t)p % 16 == 0);
      for (size_t i = 0; i < n; i++) {
        if ((char *)p < (char *)live[i].p + live[i].size && (char *)live[i].p < (char *)p + size)
          FAIL("seed %#llx: blocks overlap", (unsigned long long)seed);
      }
      behave_fill(p, size, step);
      live[n].p = p, live[n].size = size, live[n++].tag = step;
    } else {
      size_t k = behave_random(&rng) % n;
      if (behave_verify(live[k].p, live[k].size, live[k].tag) != live[k].size)
        FAIL("seed %#llx: a block is changed", (unsigned long long)seed);
      free(live[k].p);
      live[k] = live[--n];
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (behave_verify(live[i].p, live[i].size, live[i].tag) != live[i].size)
      FAIL("seed %#llx: a block is changed", (unsigned long long)seed);
    free(live[i].p);
  }
}

static void check_aligned(void) {
  enum { N = 128, SIZE = 16384 };
  struct batch f = batch_make(N, SIZE, 5);
  for (size_t i = 0; i < N; i++) {
    CHECK((f.block[i] = f.at[i] = mi_malloc_aligned(SIZE, SIZE)) != NULL && (uintptr_t)f.at[i] % SIZE == 0);
    behave_fill(f.block[i], SIZE, f.tag + i);
  }
  counts before = look();
  for (size_t i = 1; i < N; i += 2) batch_free(&f, i);
  sweep();
  counts after = look();
  MORE(before, after, purged_bytes_total);
  MORE(before, after, discard_calls);
  CHECK(batch_check_units(&f, os_page()) > 0);
  for (size_t i = 1; i < N; i += 2) {
    CHECK((f.block[i] = f.at[i] = mi_malloc_aligned(SIZE, SIZE)) != NULL && (uintptr_t)f.at[i] % SIZE == 0);
    behave_fill(f.block[i], SIZE, f.tag + i);
  }
  batch_end(&f);
}

static void check_life(void) {
  struct batch f = batch_new(512, 8192, 6);
  counts before = look();
  batch_keep_each(&f, 8);
  sweep();
  MORE(before, look(), purged_blocks);
  batch_verify(&f);
  for (size_t i = 0; i < f.n; i++) batch_free(&f, i);
  before = look();
  mi_collect(true);
  MORE(before, look(), pages_freed);
  batch_fill(&f);
  batch_end(&f);
}

/* Zeros where they are asked for, whatever was there. */
static void check_zeros(void) {
  static const size_t sizes[] = {64, 1024, 8192, 65536};
  for (size_t s = 0; s < N_OF(sizes); s++) {
    struct batch f = batch_new(mi_test_scale(8, 64) * 65536 / sizes[s] + 16, sizes[s], 7);
    batch_keep_each(&f, keep_every(sizes[s]));
    sweep();
    for (size_t i = 0; i < f.n; i++) {
      if (f.block[i] != NULL) continue;
      CHECK((f.block[i] = f.at[i] = i % 2 == 0 ? mi_zalloc(sizes[s]) : malloc(sizes[s])) != NULL);
      if (i % 2 == 0 && !behave_is_zero(f.block[i], sizes[s])) FAIL("a block of %zu bytes is not zero", sizes[s]);
      behave_fill(f.block[i], f.size, f.tag + i);
    }
    batch_end(&f);
  }
}

/* ---- pages of ended threads ---- */

static void *fill_and_thin(void *arg) {
  struct batch *f = arg;
  batch_fill(f);
  batch_keep_each(f, 8);
  return NULL;
}
static void check_abandoned(void) {
  struct batch f = batch_make(256, 8192, 8);
  free(malloc(8192));
  in_thread(fill_and_thin, &f);
  counts before = look();
  sweep();
  MORE(before, look(), purged_blocks);
  batch_check_units(&f, os_page());
  batch_verify(&f);
  batch_fill(&f);
  batch_end(&f);
}

/* ---- off at run time ---- */

static void check_off(void) {
  struct batch f = batch_new(256, 4096, 9);
  batch_keep_each(&f, 4);
  mi_option_set(mi_option_purge_holes, 0);
  counts before = look();
  sweep();
  counts after = look();
  QUIET(before, after);
  SAME(before, after, unformed_bytes);
  batch_check_units(&f, os_page());
  batch_verify(&f);
  mi_option_set(mi_option_purge_holes, 1);
  const char *holes = getenv("MIMALLOC_PURGE_HOLES");
  if (holes == NULL || strcmp(holes, "0") != 0) {
    sweep();
    MORE(before, look(), purged_bytes);
  } else {
    mi_option_set(mi_option_purge_holes, 0);
  }
  batch_check_units(&f, os_page());
  batch_end(&f);
}

/* ---- what never was a block ---- */

/* Slices that are free, and keep what was in them: the delay is -1. */
static void make_dirt(void) {
  struct batch dirt = batch_new(20000, 64, 10);
  for (size_t i = 0; i < dirt.n; i++) batch_free(&dirt, i);
  mi_collect(false);
  batch_forget(&dirt);
}
static void check_tail(void) {
  make_dirt();
  mi_heap_t *heap = new_heap();
  struct batch f = batch_make(65536 / 64, 64, 11);
  f.heap = heap;
  counts start = look();
  batch_fill_one(&f, 0);
  sweep();
  counts swept = look();
  MORE(start, swept, unformed_bytes_total);
  MORE(start, swept, unformed_discard_calls);
  MORE_BY(start, swept, unformed_bytes, 2 * os_page());
  batch_verify(&f);
  batch_fill(&f);
  counts full = look();
  MORE(swept, full, unformed_reuse_calls);
  SAME(start, full, unformed_bytes);
  batch_verify(&f);
  batch_end(&f);
  mi_heap_delete(heap);

  make_dirt();
  heap = new_heap();
  start = look();
  void *p = mi_heap_malloc(heap, 128);
  CHECK(p != NULL);
  sweep();
  swept = look();
  MORE(start, swept, unformed_bytes_total);
  free(p);
  mi_collect(true);
  counts gone = look();
  SAME(start, gone, unformed_bytes);
  f = batch_make(4000, 128, 12);
  f.heap = heap;
  batch_fill(&f);
  batch_end(&f);
  mi_heap_delete(heap);
}

/* ---- pages that a sweep passes over ---- */

static struct batch f;
/* One block lives in every other OS page. */
static void keep_in_other_pages(size_t n, size_t size) {
  f = batch_new(n, size, 13);
  uintptr_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    uintptr_t page = (uintptr_t)f.at[i] / os_page();
    if (page % 2 == 0 && page != kept && (uintptr_t)f.at[i] % os_page() + size <= os_page()) kept = page;
    else batch_free(&f, i);
  }
}
static void check_unchanged(void) {
  keep_in_other_pages(4096, 512);
  counts start = look();
  sweep();
  counts first = look();
  MORE(start, first, blocks_visited);
  MORE(start, first, discard_calls);
  for (int i = 0; i < 2; i++) {
    counts before = look();
    sweep();
    counts after = look();
    QUIET(before, after);
    SAME(before, after, blocks_visited);
    MORE(before, after, pages_skipped);
  }
  size_t i = f.n / 2;
  while (f.block[i] == NULL) i++;
  batch_free(&f, i);
  counts before = look();
  sweep();
  counts after = look();
  MORE(before, after, blocks_visited);
  MORE_BY(before, after, purged_bytes, os_page());
  sweep();
  counts last = look();
  QUIET(after, last);
  SAME(after, last, blocks_visited);
  CHECK(batch_check_units(&f, os_page()) >= f.n * 512 / os_page() / 2 - 2);
  batch_end(&f);
}

/* Collections do not bring holes back; an allocation does. */
static void check_collect(void) {
  f = batch_new(256, 1024, 14);
  batch_keep_each(&f, 64);
  sweep();
  counts before = look();
  CHECK(!holes_on() || before.purged_blocks > 0);
  for (int i = 0; i < 4; i++) {
    if (i % 2 == 1) mi_collect(false);
    if (i == 3) mi_collect(true);
    sweep();
    counts after = look();
    QUIET(before, after);
    SAME(before, after, blocks_visited);
  }
  batch_fill(&f);
  MORE(before, look(), reuse_calls);
  batch_end(&f);
}

/* Of 8 sweeps one looks at all pages; of any number none where the option is 0. */
static void check_full_every(void) {
  long every = mi_option_get(mi_option_purge_holes_full_every);
  f = batch_new(2048, 512, 15);
  batch_keep_each(&f, 64);
  sweep();
  counts start = look(), before = start;
  size_t n_full = 0;
  for (int i = 0; i < 8; i++) {
    sweep();
    counts after = look();
    size_t full = after.full_sweeps - before.full_sweeps;
    CHECK(full <= 1);
    if (full == 1) CHECK(after.blocks_visited > before.blocks_visited);
    else SAME(before, after, blocks_visited);
    QUIET(before, after);
    n_full += full;
    before = after;
  }
  if (n_full != (every == 8 && holes_on() ? 1 : 0)) FAIL("%zu sweeps of 8 were full, option %ld", n_full, every);
  batch_end(&f);
}

/* ---- a block is freed twice ---- */

static int n_errors, last_error;
static void on_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
}
static void check_double_free(void) {
  mi_register_error(on_error, NULL);
#ifdef MI_DEBUG
  f = batch_new(256, 1024, 16);
  batch_keep_each(&f, 64);
  sweep();
  counts before = look();
  for (size_t i = 2; i < 6; i++) {
    size_t resident = resident_in(f.at[i + 64], 1024, os_page());
    n_errors = 0;
    void *volatile again = f.at[i + 64];
    free(again);
    if (holes_on()) CHECK(n_errors == 1 && last_error == EAGAIN);
    QUIET(before, look());
    CHECK(resident_in(f.at[i + 64], 1024, os_page()) == resident);
  }
  batch_check_units(&f, os_page());
  batch_verify(&f);
  batch_fill(&f);
  batch_end(&f);
#endif
  /* Next to a live one in the same OS page: the sweeps end, the live one is whole. In a release build it is seen then. */
  alarm(30);
  f = batch_new(64, 1024, 17);
  for (size_t i = 1; i < f.n; i += 2) batch_free(&f, i);
  void *volatile twice = f.at[31];
  free(twice);
  sweep();
  sweep();
  batch_verify(&f);
  for (size_t i = 0; i < f.n; i += 2) CHECK(behave_verify(f.block[i], f.size, f.tag + i) == f.size);
  batch_rewrite(&f);
}

/* ---- a live block is no hole, aligned or as others see it ---- */

static bool count_blocks(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg) {
  (void)heap, (void)area, (void)size;
  if (block != NULL) ++*(size_t *)arg;
  return true;
}
static void check_visits(void) {
  mi_heap_t *heap = new_heap();
  f = batch_make(4096, 256, 18);
  f.heap = heap;
  batch_fill(&f);
  size_t n_live = f.n - batch_keep_each(&f, 40), seen = 0;
  sweep();
  counts before = look();
  CHECK(mi_heap_visit_blocks(heap, true, count_blocks, &seen));
  if (seen != n_live) FAIL("%zu blocks are live, %zu were visited", n_live, seen);
  QUIET(before, look());
  batch_verify(&f);
  batch_end(&f);
  mi_heap_delete(heap);
}

/* ---- the end: all gauges are back ---- */

static void check_end(void) {
  static const size_t sizes[] = {16, 512, 8192, 40000};
  mi_collect(true);
  counts start = look();
  for (int round = 0; round < 3; round++) {
    mi_heap_t *heap = round == 0 ? NULL : new_heap();
    counts before = look();
    struct batch g[N_OF(sizes)];
    for (size_t s = 0; s < N_OF(sizes); s++) {
      g[s] = batch_make(2000, sizes[s], 21 + s);
      g[s].heap = heap;
      batch_fill(&g[s]);
      batch_keep_each(&g[s], keep_every(sizes[s]));
    }
    sweep();
    MORE(before, look(), purged_bytes);
    for (size_t s = 0; s < N_OF(sizes); s++) {
      if (round == 1) batch_forget(&g[s]);
      else if (round == 0) batch_end(&g[s]);
    }
    if (round == 0) mi_collect(true);
    if (round == 1) mi_heap_destroy(heap);
    if (round == 2) {
      mi_heap_delete(heap); /* the survivors are the main heap's now */
      for (size_t s = 0; s < N_OF(sizes); s++) batch_end(&g[s]);
      mi_collect(true);
    }
    counts after = look();
    SAME(before, after, purged_bytes);
    SAME(before, after, purged_blocks);
    SAME(before, after, unformed_bytes);
  }
  counts end = look();
  SAME(start, end, purged_bytes);
  SAME(start, end, purged_blocks);
  SAME(start, end, unformed_bytes);
  if (idle_is_override()) return; /* the C library has blocks too */
  CHECK(end.purged_bytes == 0 && end.purged_blocks == 0 && end.unformed_bytes == 0);
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {
    {"survivors", check_survivors, {0}, false},
    {"units", check_units, {0}, false},
    {"smaps", check_smaps, {0}, false},
    {"churn", check_churn, {0}, false},
    {"aligned", check_aligned, {0}, false},
    {"life", check_life, {0}, false},
    {"zeros", check_zeros, {0}, false},
    {"abandoned", check_abandoned, {0}, false},
    {"off", check_off, {0}, false},
    {"tail", check_tail, {"MIMALLOC_PURGE_DELAY=-1"}, false},
    {"unchanged", check_unchanged, {"MIMALLOC_PURGE_HOLES_FULL_EVERY=0"}, false},
    {"collect", check_collect, {0}, false},
    {"full-8", check_full_every, {"MIMALLOC_PURGE_HOLES_FULL_EVERY=8"}, false},
    {"full-0", check_full_every, {"MIMALLOC_PURGE_HOLES_FULL_EVERY=0"}, false},
    {"double-free", check_double_free, {0}, false},
    {"visits", check_visits, {0}, false},
    {"end", check_end, {0}, false},
  };
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all),
                       WITH("MIMALLOC_PURGE_HOLES_EAGER_ZERO=1", "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0",
                            "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=0", "MIMALLOC_SCAVENGER=0"));
}
