/* SPDX-License-Identifier: MIT */
/* mi_purge_holes_report: it changes nothing, reaches pages of ended threads, and its numbers add up. */
#include "holes/holes.h"

static void sweep(void) { mi_on_thread_idle(); }
static struct batch f;

static char report[1 << 16];
static size_t report_length;
static void on_output(const char *text, void *arg) {
  (void)arg;
  size_t n = strlen(text);
  if (report_length + n >= sizeof report) return;
  memcpy(report + report_length, text, n + 1);
  report_length += n;
}
static void report_quietly(void) {
  counts before = look();
  report_length = 0;
  mi_register_output(on_output, NULL);
  mi_purge_holes_report();
  mi_register_output(NULL, NULL);
  counts after = look();
  QUIET(before, after);
  SAME(before, after, blocks_visited);
  CHECK(report_length > 0);
}
static void *thin_by_32(void *arg) {
  struct batch *g = arg;
  batch_fill(g);
  batch_keep_each(g, 32);
  return NULL;
}
static void check_report_reads(void) {
  f = batch_new(1024, 1024, 19);
  batch_keep_each(&f, 64);
  sweep();
  report_quietly();
  batch_check_units(&f, os_page());
  struct batch g = batch_make(512, 1024, 20);
  in_thread(thin_by_32, &g);
  report_quietly();
  sweep();
  report_quietly();
  batch_check_units(&g, os_page());
  batch_end(&g);
  batch_end(&f);
}

/* The columns of the table: a line for each size. And the bytes that could go by units of 4, 8, 16, 32 and 64 KiB. */
enum { SIZE, PAGES, LIVE, FREE, BLOCKED, GONE, PENDING, PINNED, LIVE_IN_PINNED, BY_LIVE, COLUMNS = BY_LIVE + 5 };
static size_t read_numbers(const char *line, size_t *numbers, size_t most) {
  size_t n = 0;
  for (char *end; n < most; line = end) {
    while (*line == ' ') line++;
    if (*line < '0' || *line > '9') break;
    numbers[n++] = strtoul(line, &end, 10);
  }
  return n;
}
static void check_table(size_t size, size_t row[COLUMNS]) {
  size_t all_gone = 0, all_pending = 0, grains[5] = {0}, n_grains = 0;
  bool found = false;
  report_quietly();
  for (const char *line = report; *line != 0; line = strchr(line, '\n') + 1) {
    size_t r[COLUMNS];
    if (strncmp(line, "bytes", 5) == 0) n_grains = read_numbers(line + 5, grains, 5);
    if (read_numbers(line, r, COLUMNS) != COLUMNS) continue;
    if (r[LIVE] % r[SIZE] != 0 || r[FREE] % r[SIZE] != 0) FAIL("%zu: %zu live, %zu free", r[SIZE], r[LIVE], r[FREE]);
    if (r[BLOCKED] + r[GONE] + r[PENDING] != r[FREE]) FAIL("%zu: the parts are not %zu: %s", r[SIZE], r[FREE], line);
    size_t pinned = 0;
    for (int i = 0; i < 5; i++) pinned += r[BY_LIVE + i];
    CHECK(pinned == r[PINNED] && r[LIVE_IN_PINNED] >= r[PINNED]);
    all_gone += r[GONE];
    all_pending += r[PENDING];
    if (r[SIZE] != size) continue;
    memcpy(row, r, sizeof r);
    found = true;
  }
  if (!found || n_grains != 5) FAIL("no line for %zu, or no units, in:\n%s", size, report);
  for (int i = 1; i < 5; i++) CHECK(grains[i] <= grains[i - 1]);
  CHECK(grains[0] == all_gone + all_pending); /* OS pages have 4 KiB */
  CHECK(holes_on() || all_gone == 0);
}
/* One block lives in each OS page: nothing can go. One in each page of 64 KiB: all but that can. */
static void check_report_numbers(void) {
  for (int mode = 0; mode < 2; mode++) {
    size_t span = mode == 0 ? os_page() : 65536, n_live = 0, before[COLUMNS], after[COLUMNS];
    f = batch_new(2048, 512, 60);
    uintptr_t kept = 0;
    for (size_t i = 0; i < f.n; i++) {
      if ((uintptr_t)f.at[i] / span != kept) kept = (uintptr_t)f.at[i] / span, n_live++;
      else batch_free(&f, i);
    }
    check_table(512, before);
    CHECK(before[LIVE] >= n_live * 512 && before[FREE] >= (f.n - n_live) * 512);
    sweep();
    check_table(512, after);
    CHECK(after[LIVE] >= n_live * 512);
    /* Some have two: a page need not begin with its first block. */
    if (mode == 0) CHECK(after[LIVE_IN_PINNED] >= n_live && after[PINNED] >= n_live * 9 / 10 && after[BY_LIVE] > 0);
    if (mode == 1 && holes_on()) CHECK(after[GONE] >= n_live / 2 * 8 * os_page() && after[PENDING] == 0);
    batch_verify(&f);
    batch_end(&f);
  }
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {
    {"reads", check_report_reads, {0}, false},
    {"numbers", check_report_numbers, {0}, false},
  };
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all),
                       WITH("MIMALLOC_PURGE_HOLES_EAGER_ZERO=1", "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0",
                            "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=0", "MIMALLOC_SCAVENGER=0"));
}
