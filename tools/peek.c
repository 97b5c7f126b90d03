/* SPDX-License-Identifier: MIT */
/* The contents of one block, out of a core file. */
#include "core.h"
#include "report.h"

#include <inttypes.h>

enum { LINE = 16 };

static const char *const slice_words[SLICE_STATES] = {
    "part of a page",           "used, and of no page",
    "free",                     "free, and to be purged",
    "free, and has been purged", "not the arena's"};

/* Why an address is in no block. */
static bool no_block(const struct input *in, uint64_t address, char *error, size_t error_size) {
  const struct page *p = snapshot_page_at(&in->snapshot, address);
  const struct arena *a = snapshot_arena_at(&in->snapshot, address);
  if (p != NULL) {
    snprintf(error, error_size, "0x%" PRIx64 " is in no block of the page at 0x%" PRIx64, address,
             p->slice_address);
  } else if (a != NULL) {
    uint32_t slice = (uint32_t)((address - a->address) / SLICE_BYTES);
    snprintf(error, error_size, "0x%" PRIx64 " is in slice %" PRIu32 " of arena %" PRIu32
             ", which is %s", address, slice, a->index, slice_words[arena_slice_state(a, slice)]);
  } else {
    snprintf(error, error_size, "0x%" PRIx64 " is in no arena and in no page", address);
  }
  return false;
}

static const char *block_state(const struct page *p, uint32_t block) {
  if (p->used == 0) return "free (its page has no live block)";
  if (p->map != NULL) return page_block_live(p, block) ? "live" : "free";
  return p->used == p->reserved ? "live" : "not known (the page has no map)";
}

static void put_line(uint64_t address, const unsigned char *bytes, size_t n) {
  printf("0x%016" PRIx64 " ", address);
  for (size_t i = 0; i < LINE; i++) {
    if (i == LINE / 2) putchar(' ');
    if (i < n) {
      printf(" %02x", bytes[i]);
    } else {
      printf("   ");
    }
  }
  printf("  |");
  for (size_t i = 0; i < n; i++) putchar(bytes[i] >= 0x20 && bytes[i] < 0x7f ? bytes[i] : '.');
  printf("|\n");
}

bool peek(const struct input *in, const char *core_path, uint64_t address,
          const struct view *view, const char **blamed, char *error, size_t error_size) {
  const struct page *p = snapshot_page_at(&in->snapshot, address);
  *blamed = in->path;
  if (p == NULL || address < p->address ||
      (address - p->address) / p->block_size >= p->reserved)
    return no_block(in, address, error, error_size);
  uint32_t block = (uint32_t)((address - p->address) / p->block_size);
  uint64_t at = p->address + block * p->block_size, end = at + p->block_size, next;
  struct core core;
  *blamed = core_path;
  if (!core_open(core_path, at, p->block_size, &core, error, error_size)) return false;

  char size[SIZE_TEXT];
  const char *name = names_find(&in->names, p->tid);
  printf("block  0x%" PRIx64 ", %s%s, %s\n", at, size_text(size, p->block_size, view->human),
         view->human ? "" : " bytes", block_state(p, block));
  printf("page   0x%" PRIx64 ", %s, block %" PRIu32 " of %" PRIu32 ", heap %" PRIu64
         ", thread 0x%" PRIx64 "%s%s\n", p->address, page_kind_name(p->kind), block, p->reserved,
         p->heap, p->tid, name != NULL ? " " : "", name != NULL ? name : "");
  uint64_t lines = 0;
  bool some = false;
  while (at < end && lines < view->top) {
    unsigned char bytes[LINE];
    size_t wanted = end - at < LINE ? (size_t)(end - at) : LINE, n = 0, got;
    while (n < wanted && (got = core_bytes(&core, at + n, bytes + n, wanted - n, &next)) > 0)
      n += got;
    if (n > 0) {
      put_line(at, bytes, n);
      some = true;
    } else {
      uint64_t gap_end = next < end ? next : end;
      printf("0x%016" PRIx64 "  %" PRIu64 " bytes are not in the core\n", at, gap_end - at);
      at = gap_end;
    }
    at += n;
    lines++;
  }
  core_close(&core);
  if (some) return true;
  snprintf(error, error_size, "the core file lacks the block");
  return false;
}
