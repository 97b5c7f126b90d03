/* SPDX-License-Identifier: MIT */
/* Lists of single things: pages, ranked or as they come, arenas, blocks. */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

const char *page_kind_name(unsigned kind) {
  static const char *const names[PAGE_KINDS] = {"small", "medium", "large", "huge"};
  return names[kind];
}

static void heading(const struct view *view, const char *text) {
  printf(view->color ? "\033[1m%s\033[0m\n" : "%s\n", text);
}

static void put_size(const struct view *view, int width, uint64_t bytes) {
  char text[SIZE_TEXT];
  printf(" %*s", width, size_text(text, bytes, view->human));
}

static void put_thread(const struct input *in, uint64_t tid) {
  const char *name = names_find(&in->names, tid);
  printf("0x%" PRIx64 "%s%s", tid, name != NULL ? " " : "", name != NULL ? name : "");
}

/* ---- pages ---- */

static const char page_head[] =
    "           address    block-size   reserved   capacity       used     committed"
    "         waste         holes kind     heap flags thread";

/* Flags: m a mapping of its own, a abandoned, f full, b has a map of blocks. */
static void put_page(const struct input *in, const struct view *view, const struct page *p) {
  printf("%#18" PRIx64, p->address);
  put_size(view, 13, p->block_size);
  printf(" %10" PRIu32 " %10" PRIu32 " %10" PRIu32, p->reserved, p->capacity, p->used);
  put_size(view, 13, p->committed);
  uint64_t waste = page_waste(p);
  bool red = view->color && waste > p->committed / 2;
  if (red) fputs("\033[31m", stdout);
  put_size(view, 13, waste);
  if (red) fputs("\033[0m", stdout);
  put_size(view, 13, page_hole_bytes(p));
  printf(" %-6s %6" PRIu64 " %c%c%c%c  ", page_kind_name(p->kind), p->heap,
         p->own_mapping ? 'm' : '-', p->abandoned ? 'a' : '-', p->full ? 'f' : '-',
         p->map != NULL ? 'b' : '-');
  put_thread(in, p->tid);
  putchar('\n');
}

void list_pages(const struct input *in, const struct view *view) {
  heading(view, page_head);
  for (size_t i = 0; i < in->snapshot.n_pages && i < view->top; i++)
    put_page(in, view, &in->snapshot.pages[i]);
}

/* ---- frag ---- */

/* A page with its group; pages of one group come together, those with the most waste first. */
struct ranked {
  const struct page *page;
  uint64_t heap, tid;               /* of the group; 0 where not asked for */
  uint64_t pages, committed, waste; /* of the whole group */
};

static int compare(uint64_t x, uint64_t y) { return (x > y) - (x < y); }

static int by_group(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  int c = compare(x->heap, y->heap);
  return c != 0 ? c : compare(x->tid, y->tid);
}
static int by_waste(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  int c = compare(y->waste, x->waste);
  if (c == 0) c = by_group(a, b);
  if (c == 0) c = compare(page_waste(y->page), page_waste(x->page));
  return c != 0 ? c : compare(x->page->address, y->page->address);
}

static void put_group(const struct input *in, const struct view *view, const struct ranked *r) {
  char waste[SIZE_TEXT], committed[SIZE_TEXT];
  if (view->by_heap) printf("heap %" PRIu64 " ", r->heap);
  if (view->by_tid) {
    printf("thread ");
    put_thread(in, r->tid);
    putchar(' ');
  }
  printf("pages %" PRIu64 " committed %s waste %s\n", r->pages,
         size_text(committed, r->committed, view->human), size_text(waste, r->waste, view->human));
}

void list_frag(const struct input *in, const struct view *view) {
  const struct snapshot *s = &in->snapshot;
  struct ranked *all = need(s->n_pages, sizeof *all);
  for (size_t i = 0; i < s->n_pages; i++) {
    const struct page *p = &s->pages[i];
    all[i] = (struct ranked){p, view->by_heap ? p->heap : 0, view->by_tid ? p->tid : 0, 0, 0, 0};
  }
  if (s->n_pages > 0) qsort(all, s->n_pages, sizeof *all, by_group);
  for (size_t i = 0, end; i < s->n_pages; i = end) {
    uint64_t committed = 0, waste = 0;
    for (end = i; end < s->n_pages && by_group(&all[i], &all[end]) == 0; end++) {
      committed = add_bytes(committed, all[end].page->committed);
      waste = add_bytes(waste, page_waste(all[end].page));
    }
    for (size_t k = i; k < end; k++) {
      all[k].pages = end - i;
      all[k].committed = committed;
      all[k].waste = waste;
    }
  }
  if (s->n_pages > 0) qsort(all, s->n_pages, sizeof *all, by_waste);
  heading(view, page_head);
  uint64_t rank = 0;
  for (size_t i = 0; i < s->n_pages; i++) {
    if (i == 0 || by_group(&all[i - 1], &all[i]) != 0) {
      rank = 0;
      if (view->by_heap || view->by_tid) put_group(in, view, &all[i]);
    }
    if (rank++ < view->top) put_page(in, view, all[i].page);
  }
  free(all);
}

/* ---- arenas ---- */

void list_arenas(const struct input *in, const struct view *view) {
  const struct snapshot *s = &in->snapshot;
  heading(view, " index            address          size   slices  page-slices    other     free"
                " to-purge   purged  outside    pages numa flags");
  for (size_t i = 0; i < s->n_arenas && i < view->top; i++) {
    const struct arena *a = &s->arenas[i];
    uint64_t counts[SLICE_STATES];
    arena_count(s, a, counts);
    printf("%6" PRIu32 " %#18" PRIx64, a->index, a->address);
    put_size(view, 13, a->size);
    printf(" %8" PRIu32 " %12" PRIu64, a->slices, counts[SLICE_PAGE]);
    for (int k = SLICE_USED; k < SLICE_STATES; k++) printf(" %8" PRIu64, counts[k]);
    printf(" %8zu ", a->n_pages);
    if (a->numa_node == NO_INDEX) {
      printf("   -");
    } else {
      printf("%4" PRIu32, a->numa_node);
    }
    /* Flags: h huge OS pages, x exclusive, m mapped by the library, c the program commits. */
    printf(" %c%c%c%c\n", a->huge_os_pages ? 'h' : '-', a->exclusive ? 'x' : '-',
           a->mapped ? 'm' : '-', a->commits ? 'c' : '-');
  }
}

/* ---- blocks ---- */

bool list_blocks(const struct input *in, const struct view *view) {
  const struct snapshot *s = &in->snapshot;
  uint64_t rows = 0, unknown = 0;
  if ((s->flags & SNAPSHOT_BLOCKS) == 0) return false;
  for (size_t i = 0; i < s->n_pages; i++) {
    const struct page *p = &s->pages[i];
    char size[SIZE_TEXT];
    size_text(size, p->block_size, view->human);
    /* Without a map: what has one block needs none, of others (damaged pages) nothing is known. */
    if (p->map == NULL && p->reserved > 1) unknown++;
    uint32_t n = p->map != NULL ? p->reserved : p->reserved == 1 && p->used == 1 ? 1 : 0;
    for (uint32_t b = 0; b < n && rows < view->top; b++) {
      if (p->map != NULL && !page_block_live(p, b)) continue;
      printf("0x%" PRIx64 " %s\n", p->address + b * p->block_size, size);
      rows++;
    }
  }
  if (unknown > 0)
    fprintf(stderr, "mi-heapview: %s: %" PRIu64 " pages have no map, their blocks are left out\n",
            in->path, unknown);
  return true;
}
