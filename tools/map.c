/* SPDX-License-Identifier: MIT */
/* The arenas as an SVG picture. A slice is a cell of a grid, COLUMNS in a row. A page covers its
 * slices with one shape in each row, filled from below: live blocks, waste, holes, and what was
 * never formed. Runs of slices without a page have one shape, patterned like cells. */
#include "report.h"

#include <inttypes.h>

enum {
  COLUMNS = 128, /* 8 MiB in a row: 1 GiB is a square */
  PITCH = 9,
  CELL = PITCH - 1, /* a line of 1 between cells */
  MARGIN = 24,
  LINE = 20,
  WIDTH = 2 * MARGIN + COLUMNS * PITCH,
  LEGEND_LINES = 3,
  LEGEND_WIDTH = 190 /* of an entry */
};

/* Classes of the style sheet. The letters of a kind of page: live (u), waste (w). */
static const char style[] =
    "text{font:13px sans-serif;fill:#222}\n"
    ".h{font-weight:bold}\n"
    ".u0{fill:#2f6fc4}.w0{fill:#a9c8ee}\n"
    ".u1{fill:#1f8a5b}.w1{fill:#a3dbc0}\n"
    ".u2{fill:#c8641b}.w2{fill:#f3c79f}\n"
    ".u3{fill:#7d4bb0}.w3{fill:#d3bdea}\n"
    ".hole{fill:url(#hole)}.raw{fill:#dde1e6}\n"
    ".s1{fill:url(#s1)}.s2{fill:url(#s2)}.s3{fill:url(#s3)}.s4{fill:url(#s4)}.s5{fill:url(#s5)}\n";

static const char *const state_names[SLICE_STATES] = {
    "page",         "used, not by a page", "free, memory kept",
    "to be purged", "purged",              "not the arena's"};
static const char *const state_fills[SLICE_STATES] = {"",        "#4a4f57", "#c3c9d1",
                                                      "#f2cf3f", "#ffffff", "#202225"};

/* ---- shapes ---- */

static void put_text(FILE *out, int x, uint64_t y, const char *class) {
  fprintf(out, "<text x=\"%d\" y=\"%" PRIu64 "\"%s>", x, y, class);
}

static void put_escaped(FILE *out, const char *text) {
  for (; *text != 0; text++) {
    switch (*text) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    default: {
      unsigned char c = (unsigned char)*text;
      putc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
    }
  }
}

/* A piece of a row of cells, between two heights in parts of a cell. */
static void put_band(FILE *out, const char *class, unsigned n, uint32_t x, uint64_t y,
                     uint32_t cells, double from, double to) {
  char name[16];
  if (to - from < 0.005) return;
  snprintf(name, sizeof name, class, n);
  fprintf(out, "<rect class=\"%s\" x=\"%" PRIu32 "\" y=\"%.2f\" width=\"%" PRIu32 "\"", name,
          x * PITCH, (double)(y * PITCH) + (1 - to) * CELL, cells * PITCH - 1);
  fprintf(out, " height=\"%.2f\"/>", (to - from) * CELL);
}

/* The next piece of a run that lies in one row; false at its end. */
struct piece {
  uint32_t x, cells;
  uint64_t y;
};
static bool next_piece(uint32_t *slice, uint32_t end, struct piece *piece) {
  if (*slice >= end) return false;
  piece->x = *slice % COLUMNS;
  piece->y = *slice / COLUMNS;
  piece->cells = COLUMNS - piece->x;
  if (piece->cells > end - *slice) piece->cells = end - *slice;
  *slice += piece->cells;
  return true;
}

/* ---- an arena ---- */

static void put_page(FILE *out, const struct input *in, const struct page *p) {
  char size[SIZE_TEXT], used[SIZE_TEXT], committed[SIZE_TEXT], holes[SIZE_TEXT];
  const char *name = names_find(&in->names, p->tid);
  fprintf(out, "<g><title>%s page 0x%" PRIx64 "\n%" PRIu32 " of %" PRIu32 " blocks of %s live: %s"
          "\ncommitted %s, holes %s\nheap %" PRIu64 ", thread 0x%" PRIx64, page_kind_name(p->kind),
          p->address, p->used, p->reserved, size_text(size, p->block_size, true),
          size_text(used, page_used_bytes(p), true), size_text(committed, p->committed, true),
          size_text(holes, page_hole_bytes(p), true), p->heap, p->tid);
  if (name != NULL) {
    fputc(' ', out);
    put_escaped(out, name);
  }
  fprintf(out, "%s%s</title>", p->abandoned ? "\nabandoned" : "", p->full ? "\nfull" : "");

  double all = (double)p->reserved * (double)p->block_size;
  double live = (double)page_used_bytes(p) / all;
  double waste = live + (double)page_waste(p) / all;
  double hole = waste + (double)page_hole_bytes(p) / all;
  if (waste > 1) waste = 1;
  if (hole > 1) hole = 1;
  if (waste > 0.995) waste = hole = 1;
  uint32_t slice = p->slice;
  struct piece at;
  while (next_piece(&slice, p->slice + p->slices, &at)) {
    put_band(out, "u%u", p->kind, at.x, at.y, at.cells, 0, live);
    put_band(out, "w%u", p->kind, at.x, at.y, at.cells, live, waste);
    put_band(out, "hole", 0, at.x, at.y, at.cells, waste, hole);
    put_band(out, "raw", 0, at.x, at.y, at.cells, hole, 1);
  }
  fputs("</g>\n", out);
}

/* Slices without a page. */
static void put_slices(FILE *out, const struct arena *a, uint32_t slice, uint32_t end) {
  while (slice < end) {
    enum slice_state state = arena_slice_state(a, slice);
    uint32_t stop = slice + 1;
    while (stop < end && arena_slice_state(a, stop) == state) stop++;
    fprintf(out, "<g><title>slices %" PRIu32 " to %" PRIu32 ": %s</title>", slice, stop - 1,
            state_names[state]);
    struct piece at;
    while (next_piece(&slice, stop, &at))
      put_band(out, "s%u", state, at.x, at.y, at.cells, 0, 1);
    fputs("</g>\n", out);
  }
}

static uint64_t arena_height(const struct arena *a) {
  return ((uint64_t)a->slices + COLUMNS - 1) / COLUMNS * PITCH + 2 * LINE;
}

static void put_arena(FILE *out, const struct input *in, const struct arena *a, uint64_t y) {
  const struct snapshot *s = &in->snapshot;
  char size[SIZE_TEXT];
  put_text(out, MARGIN, y + LINE - 6, " class=\"h\"");
  fprintf(out, "arena %" PRIu32 " at 0x%" PRIx64 ", %s, slices %" PRIu32 ", pages %zu</text>\n",
          a->index, a->address, size_text(size, a->size, true), a->slices, a->n_pages);
  fprintf(out, "<g transform=\"translate(%d %" PRIu64 ")\">\n", MARGIN, y + LINE);
  uint32_t slice = 0;
  for (size_t i = 0; i < a->n_pages; i++) {
    const struct page *p = &s->pages[a->first_page + i];
    put_slices(out, a, slice, p->slice);
    put_page(out, in, p);
    slice = p->slice + p->slices;
  }
  put_slices(out, a, slice, a->slices);
  fputs("</g>\n", out);
}

/* ---- the picture ---- */

static void put_patterns(FILE *out) {
  fprintf(out, "<defs>\n<pattern id=\"hole\" width=\"3\" height=\"3\" "
          "patternUnits=\"userSpaceOnUse\"><rect width=\"3\" height=\"3\" fill=\"#fff\"/>"
          "<path d=\"M0 3L3 0\" stroke=\"#9aa1aa\" stroke-width=\".6\"/></pattern>\n");
  for (int k = SLICE_USED; k < SLICE_STATES; k++)
    fprintf(out, "<pattern id=\"s%d\" width=\"%d\" height=\"%d\" patternUnits=\"userSpaceOnUse\">"
            "<rect x=\".25\" y=\".25\" width=\"%d.5\" height=\"%d.5\" fill=\"%s\" "
            "stroke=\"#c3c9d1\" stroke-width=\".5\"/></pattern>\n",
            k, PITCH, PITCH, CELL - 1, CELL - 1, state_fills[k]);
  fputs("</defs>\n", out);
}

static void put_entry(FILE *out, int i, const char *class, unsigned n, const char *text,
                      const char *more) {
  char name[16];
  snprintf(name, sizeof name, class, n);
  int x = i % 6 * LEGEND_WIDTH, y = i / 6 * LINE;
  fprintf(out, "<g transform=\"translate(%d %d)\"><rect class=\"%s\" width=\"%d\" height=\"%d\"/>"
          "<text x=\"%d\" y=\"%d\">%s%s</text></g>\n", x, y, name, 2 * PITCH - 1, CELL,
          2 * PITCH + 6, PITCH, text, more);
}

static void put_legend(FILE *out, uint64_t y) {
  fprintf(out, "<g transform=\"translate(%d %" PRIu64 ")\">\n", MARGIN, y);
  for (unsigned k = 0; k < PAGE_KINDS; k++) {
    put_entry(out, (int)k, "u%u", k, page_kind_name(k), " page: live");
    put_entry(out, 6 + (int)k, "w%u", k, page_kind_name(k), " page: waste");
  }
  put_entry(out, 4, "hole", 0, "hole in a page", "");
  put_entry(out, 10, "raw", 0, "never formed in a page", "");
  for (unsigned k = SLICE_USED; k < SLICE_STATES; k++)
    put_entry(out, 12 + (int)k - SLICE_USED, "s%u", k, state_names[k], "");
  fputs("</g>\n", out);
}

void write_map(const struct input *in, FILE *out) {
  const struct snapshot *s = &in->snapshot;
  uint64_t top = MARGIN + 2 * LINE + (LEGEND_LINES + 2) * LINE, height = top + MARGIN, own = 0;
  uint64_t own_bytes = 0;
  char size[SIZE_TEXT];
  for (size_t i = 0; i < s->n_arenas; i++) height += arena_height(&s->arenas[i]);
  for (size_t i = 0; i < s->n_pages; i++) {
    if (!s->pages[i].own_mapping) continue;
    own++;
    own_bytes = add_bytes(own_bytes, s->pages[i].committed);
  }
  fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu64
          "\" viewBox=\"0 0 %d %" PRIu64 "\">\n<style>\n%s</style>\n", WIDTH, height, WIDTH,
          height, style);
  put_patterns(out);
  fputs("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", out);
  put_text(out, MARGIN, MARGIN + 10, " class=\"h\"");
  fprintf(out, "Heap snapshot: arenas %zu, pages %zu</text>\n", s->n_arenas, s->n_pages);
  put_text(out, MARGIN, MARGIN + 10 + LINE, "");
  fprintf(out, "A cell is a slice of 64 KiB, %d in a row; a page is filled from below. Pages with "
          "mappings of their own, not shown: %" PRIu64 ", %s.</text>\n", COLUMNS, own,
          size_text(size, own_bytes, true));
  put_legend(out, MARGIN + 3 * LINE);
  for (size_t i = 0; i < s->n_arenas; i++) {
    put_arena(out, in, &s->arenas[i], top);
    top += arena_height(&s->arenas[i]);
  }
  fputs("</svg>\n", out);
}
