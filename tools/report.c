/* SPDX-License-Identifier: MIT */
/* Sums: over all of a snapshot, for each block size, and between two snapshots. */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct row {
  uint64_t block_size, heap, tid; /* the key; what is not asked for is 0 */
  uint64_t pages, blocks, used, committed, waste, holes;
};
struct rows {
  struct row *all;
  size_t n;
};

/* ---- text ---- */

const char *size_text(char to[SIZE_TEXT], uint64_t bytes, bool human) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  double scaled = (double)bytes;
  for (; human && scaled >= 1023.95 && unit < sizeof units / sizeof units[0] - 1; unit++)
    scaled /= 1024;
  if (!human) {
    snprintf(to, SIZE_TEXT, "%" PRIu64, bytes);
  } else {
    snprintf(to, SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", scaled, units[unit]);
  }
  return to;
}

static void heading(const struct view *view, const char *text) {
  printf(view->color ? "\033[1m%s\033[0m\n" : "%s\n", text);
}

static void put_size(const struct view *view, int width, uint64_t bytes) {
  char text[SIZE_TEXT];
  printf("%*s", width, size_text(text, bytes, view->human));
}

static void put_signed(const struct view *view, int width, uint64_t before, uint64_t after,
                       bool bytes) {
  char text[SIZE_TEXT], whole[SIZE_TEXT + 1];
  uint64_t change = after > before ? after - before : before - after;
  size_text(text, change, bytes && view->human);
  const char *sign = after > before ? "+" : after < before ? "-" : "";
  snprintf(whole, sizeof whole, "%s%s", sign, text);
  bool color = view->color && change != 0;
  printf("%s%*s%s", color ? after > before ? "\033[31m" : "\033[32m" : "", width, whole,
         color ? "\033[0m" : "");
}

static void put_thread(const struct input *in, uint64_t tid) {
  const char *name = names_find(&in->names, tid);
  printf("  0x%" PRIx64, tid);
  if (name != NULL) printf(" %s", name);
}

/* ---- rows ---- */

static int compare(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

static int by_key(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  int c = compare(x->heap, y->heap);
  if (c == 0) c = compare(x->tid, y->tid);
  return c != 0 ? c : compare(x->block_size, y->block_size);
}
static int by_committed(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  int c = compare(y->committed, x->committed);
  return c != 0 ? c : by_key(a, b);
}

static void add_row(struct row *sum, const struct row *r) {
  sum->pages += r->pages;
  sum->blocks += r->blocks;
  sum->used = add_bytes(sum->used, r->used);
  sum->committed = add_bytes(sum->committed, r->committed);
  sum->waste = add_bytes(sum->waste, r->waste);
  sum->holes = add_bytes(sum->holes, r->holes);
}

/* One row for each key, sorted by it. */
static struct rows sum_rows(const struct snapshot *s, bool by_size, bool by_heap, bool by_tid) {
  struct rows rows = {need(s->n_pages, sizeof(struct row)), 0};
  for (size_t i = 0; i < s->n_pages; i++) {
    const struct page *p = &s->pages[i];
    rows.all[i] = (struct row){by_size ? p->block_size : 0, by_heap ? p->heap : 0,
                               by_tid ? p->tid : 0, 1, p->used, page_used_bytes(p),
                               p->committed, page_waste(p), page_hole_bytes(p)};
  }
  if (s->n_pages > 0) qsort(rows.all, s->n_pages, sizeof rows.all[0], by_key);
  for (size_t i = 0; i < s->n_pages; i++) {
    if (rows.n > 0 && by_key(&rows.all[rows.n - 1], &rows.all[i]) == 0) {
      add_row(&rows.all[rows.n - 1], &rows.all[i]);
    } else {
      rows.all[rows.n++] = rows.all[i];
    }
  }
  return rows;
}

static struct row total_of(const struct rows *rows) {
  struct row total = {0};
  for (size_t i = 0; i < rows->n; i++) add_row(&total, &rows->all[i]);
  return total;
}

/* The columns that all tables of sums have, and the key of the group behind them. */
static void head_row(const struct view *view, const char *first) {
  char text[128];
  snprintf(text, sizeof text, "%s%8s %11s %13s %13s %13s %13s%s%s", first, "pages",
           "used-blocks", "used", "committed", "waste", "holes", view->by_heap ? "     heap" : "",
           view->by_tid ? "  thread" : "");
  heading(view, text);
}
static void put_row(const struct view *view, const struct row *r) {
  printf("%8" PRIu64 " %11" PRIu64 " ", r->pages, r->blocks);
  const uint64_t sizes[] = {r->used, r->committed, r->waste, r->holes};
  for (int i = 0; i < 4; i++) {
    put_size(view, 13, sizes[i]);
    if (i < 3) putchar(' ');
  }
}
static void put_group(const struct input *in, const struct view *view, const struct row *r) {
  if (view->by_heap) printf(" %8" PRIu64, r->heap);
  if (view->by_tid) put_thread(in, r->tid);
  putchar('\n');
}

/* ---- summary ---- */

static void say(const char *name, uint64_t value) { printf("%-18s %" PRIu64 "\n", name, value); }
static void say_size(const struct view *view, const char *name, uint64_t bytes) {
  printf("%-18s ", name);
  put_size(view, 0, bytes);
  putchar('\n');
}

static void say_slices(const struct input *in, const struct view *view) {
  static const char *const names[SLICE_STATES] = {"slices-of-pages", "slices-other",
                                                  "slices-free",     "slices-to-purge",
                                                  "slices-purged",   "slices-outside"};
  const struct snapshot *s = &in->snapshot;
  uint64_t size = 0, all = 0, sums[SLICE_STATES] = {0}, counts[SLICE_STATES];
  for (size_t i = 0; i < s->n_arenas; i++) {
    arena_count(s, &s->arenas[i], counts);
    for (int k = 0; k < SLICE_STATES; k++) sums[k] += counts[k];
    size = add_bytes(size, s->arenas[i].size);
    all += s->arenas[i].slices;
  }
  say("arenas", s->n_arenas);
  say_size(view, "address-space", size);
  say("slices", all);
  for (int k = 0; k < SLICE_STATES; k++) say(names[k], sums[k]);
}

static void say_pages(const struct snapshot *s) {
  uint64_t kinds[PAGE_KINDS] = {0}, own = 0, abandoned = 0, full = 0;
  for (size_t i = 0; i < s->n_pages; i++) {
    kinds[s->pages[i].kind]++;
    own += s->pages[i].own_mapping;
    abandoned += s->pages[i].abandoned;
    full += s->pages[i].full;
  }
  say("pages", s->n_pages);
  for (unsigned k = 0; k < PAGE_KINDS; k++) {
    char name[32];
    snprintf(name, sizeof name, "pages-%s", page_kind_name(k));
    say(name, kinds[k]);
  }
  say("pages-own-mapping", own);
  say("pages-abandoned", abandoned);
  say("pages-full", full);
}

void report_summary(const struct input *in, const struct view *view) {
  const struct snapshot *s = &in->snapshot;
  struct rows rows = sum_rows(s, false, view->by_heap, view->by_tid);
  struct row total = total_of(&rows);
  printf("%-18s %s\n", "file", in->path);
  printf("%-18s %" PRIu32 ", %" PRIu32 " bits, %s\n", "format", s->version, s->pointer_size * 8,
         s->flags & SNAPSHOT_BLOCKS ? "with maps of blocks" : "without maps of blocks");
  say("clock-ms", s->clock_ms);
  printf("%-17s", "written-by");
  put_thread(in, s->tid);
  putchar('\n');
  say_slices(in, view);
  say_pages(s);
  say("further-heaps", s->n_heaps);
  say("used-blocks", total.blocks);
  say_size(view, "used", total.used);
  say_size(view, "committed", total.committed);
  say_size(view, "waste", total.waste);
  say_size(view, "holes", total.holes);
  if (total.committed > 0)
    printf("%-18s %.1f\n", "waste-percent", (double)total.waste / (double)total.committed * 100);
  if (view->by_heap || view->by_tid) {
    if (rows.n > 0) qsort(rows.all, rows.n, sizeof rows.all[0], by_committed);
    putchar('\n');
    head_row(view, "");
    for (size_t i = 0; i < rows.n && i < view->top; i++) {
      put_row(view, &rows.all[i]);
      put_group(in, view, &rows.all[i]);
    }
  }
  free(rows.all);
}

/* ---- sizes ---- */

void report_sizes(const struct input *in, const struct view *view) {
  struct rows rows = sum_rows(&in->snapshot, true, view->by_heap, view->by_tid);
  struct row total = total_of(&rows);
  if (rows.n > 0) qsort(rows.all, rows.n, sizeof rows.all[0], by_committed);
  head_row(view, "   block-size ");
  for (size_t i = 0; i < rows.n && i < view->top; i++) {
    put_size(view, 13, rows.all[i].block_size);
    putchar(' ');
    put_row(view, &rows.all[i]);
    put_group(in, view, &rows.all[i]);
  }
  printf("%13s ", "total");
  put_row(view, &total);
  putchar('\n');
  free(rows.all);
}

/* ---- diff ---- */

struct change {
  struct row before, after;
};

static uint64_t distance(const struct change *c) {
  return c->after.committed > c->before.committed ? c->after.committed - c->before.committed
                                                  : c->before.committed - c->after.committed;
}
static int by_distance(const void *a, const void *b) {
  const struct change *x = a, *y = b;
  int c = compare(distance(y), distance(x));
  return c != 0 ? c : compare(x->after.block_size, y->after.block_size);
}

static void put_change(const struct view *view, const struct change *c) {
  putchar(' ');
  put_size(view, 13, c->before.committed);
  putchar(' ');
  put_size(view, 13, c->after.committed);
  putchar(' ');
  put_signed(view, 13, c->before.committed, c->after.committed, true);
  putchar(' ');
  put_signed(view, 8, c->before.pages, c->after.pages, false);
  putchar(' ');
  put_signed(view, 11, c->before.blocks, c->after.blocks, false);
  putchar('\n');
}

void report_diff(const struct input *before, const struct input *after, const struct view *view) {
  struct rows old = sum_rows(&before->snapshot, true, false, false);
  struct rows new = sum_rows(&after->snapshot, true, false, false);
  struct change *all = need(old.n + new.n, sizeof *all), total;
  size_t n = 0, i = 0, k = 0;
  while (i < old.n || k < new.n) {
    struct change c = {{0}, {0}};
    int order = i == old.n   ? 1
                : k == new.n ? -1
                             : compare(old.all[i].block_size, new.all[k].block_size);
    if (order <= 0) c.before = old.all[i++];
    if (order >= 0) c.after = new.all[k++];
    c.after.block_size = order < 0 ? c.before.block_size : c.after.block_size;
    if (distance(&c) != 0 || c.before.pages != c.after.pages || c.before.blocks != c.after.blocks)
      all[n++] = c;
  }
  if (n > 0) qsort(all, n, sizeof *all, by_distance);
  char text[128];
  snprintf(text, sizeof text, "%13s %13s %13s %13s %8s %11s", "block-size", "old-committed",
           "new-committed", "change", "pages", "used-blocks");
  heading(view, text);
  for (i = 0; i < n && i < view->top; i++) {
    put_size(view, 13, all[i].after.block_size);
    put_change(view, &all[i]);
  }
  total = (struct change){total_of(&old), total_of(&new)};
  printf("%13s", "total");
  put_change(view, &total);
  free(old.all);
  free(new.all);
  free(all);
}
