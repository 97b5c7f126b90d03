/* SPDX-License-Identifier: MIT */
/* Reading of snapshots. No number of the file is believed: each is held against what the format
 * allows and against the other numbers before it is used, and memory grows with what was read. */
#include "snapshot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT32_C(0x5348494D)
#define MAGIC_SWAPPED UINT32_C(0x4D494853)
#define TAG_ARENA UINT32_C(0x414E5241)
#define TAG_PAGES UINT32_C(0x45474150)
#define TAG_HEAP UINT32_C(0x50414548)
#define TAG_END UINT32_C(0x444E4520)

enum {
  HEAD_BYTES = 44,
  ARENA_BYTES = 40,
  HEAP_BYTES = 24,
  PAGE_BYTES = 80,
  CHUNK_BYTES = 8,
  SPARE_CHUNKS = 64,    /* that a bitmap may have behind those that its slices need */
  PIECE_BYTES = 1 << 20 /* what is allocated before the first byte of it was read */
};

struct reader {
  FILE *file;
  uint64_t offset;
  char *error;
  size_t error_size;
};

/* ---- bytes ---- */

__attribute__((format(printf, 2, 3))) static bool fail(struct reader *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(r->error, r->error_size, format, args);
  va_end(args);
  return false;
}

static bool damaged(struct reader *r, const char *what) {
  return fail(r, "damaged before byte %llu: %s", (unsigned long long)r->offset, what);
}

static bool take(struct reader *r, void *to, size_t size) {
  size_t got = fread(to, 1, size, r->file);
  r->offset += got;
  if (got == size) return true;
  if (ferror(r->file)) return fail(r, "%s", strerror(errno));
  if (r->offset == 0) return fail(r, "empty file");
  return fail(r, "truncated: it ends after %llu bytes", (unsigned long long)r->offset);
}

static uint32_t u32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static uint64_t u64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static bool take_u32(struct reader *r, uint32_t *value) { return take(r, value, sizeof *value); }

/* `size` bytes in memory of their own. */
static bool take_bytes(struct reader *r, size_t size, uint8_t **to) {
  size_t have = 0;
  uint8_t *bytes = NULL;
  while (have < size || bytes == NULL) {
    size_t more = have < PIECE_BYTES ? PIECE_BYTES : have;
    if (more > size - have) more = size - have;
    uint8_t *grown = realloc(bytes, have + more > 0 ? have + more : 1);
    if (grown == NULL || !take(r, grown + have, more)) {
      if (grown == NULL) fail(r, "out of memory");
      free(grown != NULL ? grown : bytes);
      return false;
    }
    bytes = grown;
    have += more;
  }
  *to = bytes;
  return true;
}

/* Room for one more element, zeroed; capacities are the powers of two. NULL: no memory. */
static void *one_more(struct reader *r, void **array, size_t *n, size_t size) {
  if ((*n & (*n - 1)) == 0) {
    size_t capacity = *n == 0 ? 1 : *n * 2;
    void *grown = capacity > SIZE_MAX / size ? NULL : realloc(*array, capacity * size);
    if (grown == NULL) {
      fail(r, "out of memory");
      return NULL;
    }
    *array = grown;
  }
  return memset((char *)*array + (*n)++ * size, 0, size);
}

/* ---- parts ---- */

static bool page_is_sound(struct reader *r, const struct page *p, const struct arena *a) {
  if (p->kind >= PAGE_KINDS) return damaged(r, "a page of an unknown kind");
  if (p->block_size == 0 || p->reserved == 0) return damaged(r, "a page without blocks");
  if (p->block_size > (UINT64_MAX - p->address) / p->reserved)
    return damaged(r, "a page that ends behind the address space");
  if (p->capacity > p->reserved || p->used > p->reserved)
    return damaged(r, "a page with more blocks than it has room for");
  if (p->committed > p->reserved * p->block_size)
    return damaged(r, "a page with more memory than its blocks have");
  if (p->slices == 0 || p->slice_address > p->address ||
      p->slices * SLICE_BYTES > UINT64_MAX - p->slice_address)
    return damaged(r, "a page whose slices cannot be right");
  if (p->own_mapping != (a == NULL)) return damaged(r, "a page in the wrong section");
  if (a == NULL) return true;
  if (p->arena != a->index || p->slice >= a->slices || p->slices > a->slices - p->slice)
    return damaged(r, "a page that is not of its arena");
  uint64_t start = a->address + p->slice * SLICE_BYTES, size = p->slices * SLICE_BYTES;
  if (p->slice_address < start || p->slice_address - start >= SLICE_BYTES ||
      p->address - start > size || p->reserved * p->block_size > size - (p->address - start))
    return damaged(r, "a page that does not lie in its slices");
  return true;
}

/* `a`: the arena whose pages they are, NULL: mappings of their own. */
static bool read_pages(struct reader *r, struct snapshot *s, struct arena *a) {
  uint32_t tag = 0, end = 0; /* end: of the slices of the page before */
  if (!take_u32(r, &tag)) return false;
  if (tag != TAG_PAGES) return damaged(r, "a page section was expected");
  if (a != NULL) a->first_page = s->n_pages;
  for (;;) {
    uint8_t b[PAGE_BYTES];
    if (!take(r, b, 8)) return false;
    if (u64(b) == 0) return true;
    if (!take(r, b + 8, PAGE_BYTES - 8)) return false;
    struct page *p = one_more(r, (void **)&s->pages, &s->n_pages, sizeof *p);
    if (p == NULL) return false;
    p->address = u64(b);
    p->slice_address = u64(b + 8);
    p->block_size = u64(b + 16);
    p->reserved = u32(b + 24);
    p->capacity = u32(b + 28);
    p->used = u32(b + 32);
    p->committed = u64(b + 36);
    p->tid = u64(b + 44);
    p->heap = u64(b + 52);
    p->arena = u32(b + 60);
    p->slice = u32(b + 64);
    p->slices = u32(b + 68);
    for (int i = 72; i < 77; i++)
      if (b[i] > 1 && i != 73) return damaged(r, "a page with a flag that is neither 0 nor 1");
    p->own_mapping = b[72] != 0;
    p->kind = b[73];
    p->abandoned = b[74] != 0;
    p->full = b[75] != 0;
    if (!page_is_sound(r, p, a)) return false;
    if (a != NULL) {
      if (p->slice < end) return damaged(r, "pages out of order, or two in one slice");
      end = p->slice + p->slices;
      a->n_pages++;
    }
    if (b[76] != 0) {
      uint32_t size;
      if ((s->flags & SNAPSHOT_BLOCKS) == 0) return damaged(r, "a map in a file without maps");
      if (!take_u32(r, &size)) return false;
      if (size != ((uint64_t)p->reserved + 7) / 8) return damaged(r, "a map of the wrong size");
      if (!take_bytes(r, size, &p->map)) return false;
    }
  }
}

static bool read_bitmap(struct reader *r, const struct arena *a, uint8_t **to) {
  uint8_t b[8];
  uint64_t needed = ((uint64_t)a->slices + 63) / 64;
  if (!take(r, b, sizeof b)) return false;
  if (u32(b + 4) != CHUNK_BYTES || u32(b) < needed || u32(b) - needed > SPARE_CHUNKS)
    return damaged(r, "a bitmap that does not fit its arena");
  uint64_t size = (uint64_t)u32(b) * CHUNK_BYTES;
  if ((size_t)size != size) return fail(r, "out of memory");
  return take_bytes(r, (size_t)size, to);
}

static bool read_arena(struct reader *r, struct snapshot *s) {
  uint8_t b[ARENA_BYTES];
  if (!take(r, b, sizeof b)) return false;
  if (u32(b) != TAG_ARENA) return damaged(r, "an arena was expected");
  struct arena *a = one_more(r, (void **)&s->arenas, &s->n_arenas, sizeof *a);
  if (a == NULL) return false;
  a->index = u32(b + 4);
  a->address = u64(b + 8);
  a->size = u64(b + 16);
  a->slices = u32(b + 24);
  a->outside = u32(b + 28);
  a->numa_node = u32(b + 32);
  for (int i = 36; i < 40; i++)
    if (b[i] > 1) return damaged(r, "an arena with a flag that is neither 0 nor 1");
  a->huge_os_pages = b[36] != 0;
  a->exclusive = b[37] != 0;
  a->mapped = b[38] != 0;
  a->commits = b[39] != 0;
  if (a->slices == 0 || a->outside > a->slices || a->slices > a->size / SLICE_BYTES ||
      a->size > UINT64_MAX - a->address)
    return damaged(r, "an arena whose sizes cannot be right");
  return read_bitmap(r, a, &a->committed) && read_bitmap(r, a, &a->free) &&
         read_bitmap(r, a, &a->purge) && read_pages(r, s, a);
}

static bool read_heap(struct reader *r, struct snapshot *s) {
  uint8_t b[HEAP_BYTES - 4]; /* the tag was read */
  if (!take(r, b, sizeof b)) return false;
  struct heap *h = one_more(r, (void **)&s->heaps, &s->n_heaps, sizeof *h);
  if (h == NULL) return false;
  h->seq = u64(b);
  h->arena = u32(b + 8);
  h->address = u64(b + 12);
  return read_pages(r, s, NULL);
}

static bool read_head(struct reader *r, struct snapshot *s, uint32_t *n_arenas) {
  uint8_t b[HEAD_BYTES];
  if (!take(r, b, 4)) return false;
  if (u32(b) == MAGIC_SWAPPED) return fail(r, "of a machine with the other byte order");
  if (u32(b) != MAGIC) return fail(r, "not a heap snapshot");
  if (!take(r, b + 4, HEAD_BYTES - 4)) return false;
  s->version = u32(b + 4);
  s->pointer_size = u32(b + 8);
  s->flags = u32(b + 16);
  s->clock_ms = u64(b + 24);
  s->tid = u64(b + 32);
  *n_arenas = u32(b + 40);
  if (s->version != 1) return fail(r, "of format version %lu, not 1", (unsigned long)s->version);
  if (s->pointer_size != sizeof(void *))
    return fail(r, "pointers have %lu bytes there, not %d", (unsigned long)s->pointer_size,
                (int)sizeof(void *));
  if (u32(b + 12) != SLICE_BYTES)
    return fail(r, "slices have %lu bytes there, not 65536", (unsigned long)u32(b + 12));
  if ((s->flags & ~(uint32_t)SNAPSHOT_BLOCKS) != 0 || u32(b + 20) != 0)
    return damaged(r, "a flag that format version 1 does not have");
  return true;
}

static bool read_all(struct reader *r, struct snapshot *s) {
  uint32_t n_arenas = 0, tag;
  uint8_t b[8];
  if (!read_head(r, s, &n_arenas)) return false;
  for (uint32_t i = 0; i < n_arenas; i++)
    if (!read_arena(r, s)) return false;
  if (!read_pages(r, s, NULL)) return false;
  for (;;) {
    if (!take_u32(r, &tag)) return false;
    if (tag == TAG_END) break;
    if (tag != TAG_HEAP) return damaged(r, "a heap or the end was expected");
    if (!read_heap(r, s)) return false;
  }
  if (!take(r, b, sizeof b)) return false;
  if (u64(b) != s->n_pages) return damaged(r, "the number of pages at the end is not that before");
  if (fgetc(r->file) != EOF) return damaged(r, "something follows the end");
  return true;
}

bool snapshot_read(const char *path, struct snapshot *s, char *error, size_t error_size) {
  struct reader r = {.error = error, .error_size = error_size};
  memset(s, 0, sizeof *s);
  r.file = fopen(path, "rb");
  if (r.file == NULL) return fail(&r, "%s", strerror(errno));
  bool done = read_all(&r, s);
  fclose(r.file);
  if (!done) snapshot_free(s);
  return done;
}

void snapshot_free(struct snapshot *s) {
  for (size_t i = 0; i < s->n_arenas; i++) {
    free(s->arenas[i].committed);
    free(s->arenas[i].free);
    free(s->arenas[i].purge);
  }
  for (size_t i = 0; i < s->n_pages; i++) free(s->pages[i].map);
  free(s->arenas);
  free(s->pages);
  free(s->heaps);
  memset(s, 0, sizeof *s);
}

/* ---- questions ---- */

const struct page *snapshot_page_at(const struct snapshot *s, uint64_t address) {
  for (size_t i = 0; i < s->n_pages; i++) {
    const struct page *p = &s->pages[i];
    if (address >= p->slice_address && address - p->slice_address < p->slices * SLICE_BYTES)
      return p;
    if (address >= p->address && address - p->address < p->reserved * p->block_size) return p;
  }
  return NULL;
}

const struct arena *snapshot_arena_at(const struct snapshot *s, uint64_t address) {
  for (size_t i = 0; i < s->n_arenas; i++) {
    const struct arena *a = &s->arenas[i];
    if (address >= a->address && address - a->address < a->slices * SLICE_BYTES) return a;
  }
  return NULL;
}

static bool bit(const uint8_t *bitmap, uint32_t i) { return (bitmap[i / 8] >> (i % 8) & 1) != 0; }

enum slice_state arena_slice_state(const struct arena *a, uint32_t slice) {
  /* The bitmaps of a machine whose low byte comes last have the bytes of a chunk the other way. */
  static const uint16_t one = 1;
  uint8_t low_first;
  memcpy(&low_first, &one, 1);
  uint32_t i = low_first != 0 ? slice : slice ^ 56;
  if (bit(a->free, i)) {
    if (bit(a->purge, i)) return SLICE_PURGE;
    return bit(a->committed, i) ? SLICE_FREE : SLICE_PURGED;
  }
  return !bit(a->committed, i) && a->outside > 0 ? SLICE_OUTSIDE : SLICE_USED;
}

void arena_count(const struct snapshot *s, const struct arena *a, uint64_t counts[SLICE_STATES]) {
  memset(counts, 0, SLICE_STATES * sizeof counts[0]);
  uint32_t slice = 0;
  for (size_t i = 0; i <= a->n_pages; i++) {
    const struct page *p = i < a->n_pages ? &s->pages[a->first_page + i] : NULL;
    uint32_t end = p != NULL ? p->slice : a->slices;
    for (; slice < end; slice++) counts[arena_slice_state(a, slice)]++;
    if (p == NULL) continue;
    counts[SLICE_PAGE] += p->slices;
    slice += p->slices;
  }
}
