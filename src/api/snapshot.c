/* SPDX-License-Identifier: MIT */
/* Heap snapshots, in the format of doc/snapshot.md.
 *
 * Nothing is allocated and no lock is held while something is written, so the file may be a pipe
 * whose reader is this process, or slow. The page that is being written is pinned (heap/visit.h).
 * Threads: any, while others work. */
#include "api/snapshot.h"
#include "api/stats.h"
#include "arena/arena.h"
#include "heap/registry.h"
#include "heap/subproc.h"
#include "heap/thread.h"
#include "heap/visit.h"
#include "os/os.h"
#include "page/page.h"
#include "rt/message.h"
#include "rt/option.h"
#include <errno.h>
#include <string.h>

#define MAGIC 0x5348494Du
#define FORMAT 1u
#define TAG_ARENA 0x414E5241u
#define TAG_PAGES 0x45474150u
#define TAG_HEAP 0x50414548u
#define TAG_END 0x444E4520u
#define NO_INDEX UINT32_MAX

struct out {
  int fd;
  int error; /* errno value of the first write that failed; nothing is written after it */
  bool maps;
  uint64_t n_pages;
  struct mi_subproc *subproc;
  const struct mi__arena_facts *arena; /* whose pages are written; NULL: mappings of their own */
  const char *end;           /* of the slices of the page before */
  size_t n;
  char buf[4096];
};

/* ---- bytes ---- */

static void flush(struct out *out) {
  if (out->error == 0 && out->n > 0) out->error = mi__os_write(out->fd, out->buf, out->n);
  out->n = 0;
}

static void put(struct out *out, const void *data, size_t size) {
  const char *at = data;
  while (size > 0 && out->error == 0) {
    if (out->n == sizeof out->buf) flush(out);
    size_t n = mi__min(size, sizeof out->buf - out->n);
    memcpy(out->buf + out->n, at, n);
    out->n += n;
    at += n;
    size -= n;
  }
}
static void put8(struct out *out, unsigned x) {
  uint8_t byte = (uint8_t)x;
  put(out, &byte, sizeof byte);
}
static void put32(struct out *out, size_t x) {
  uint32_t word = x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
  put(out, &word, sizeof word);
}
static void put64(struct out *out, uint64_t x) { put(out, &x, sizeof x); }
static void put_address(struct out *out, const void *p) { put64(out, (uintptr_t)p); }

/* ---- pages ---- */

/* Where it has not: all of a huge page is its block, and what of a damaged page lives is unknown.
 */
static bool has_blocks(const struct mi_page *page) {
  return page->kind != MI_PAGE_HUGE && !mi__page_flag(page, MI_PAGE_BROKEN);
}

static uint32_t count_bits(const uint64_t *bits, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t w = 0; w < (n + 63) / 64; w++) sum += (uint32_t)__builtin_popcountll(bits[w]);
  return sum;
}

/* A bit for each block that is not live. */
static void put_map(struct out *out, const uint64_t *free, const uint64_t *formed, uint32_t n) {
  uint32_t bytes = (n + 7) / 8;
  put32(out, bytes);
  for (uint32_t i = 0; i < bytes; i++) {
    uint32_t shift = i % 8 * 8;
    unsigned bits = (unsigned)((free[i / 8] | ~formed[i / 8]) >> shift) & 0xff;
    if (i == bytes - 1 && n % 8 != 0) bits &= (1u << n % 8) - 1;
    put8(out, bits);
  }
}

static bool put_page(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                     size_t block_size, void *arg) {
  struct out *out = arg;
  const struct mi_page *page = area->reserved1;
  /* A huge page may be resized meanwhile: what lies in another that was written is left out, and
   * its figures are of one look. */
  if (page->start < out->end) return true;
  out->end = page->start + area->reserved;
  uint64_t free[MI_PAGE_MAX_BLOCKS / 64], formed[MI_PAGE_MAX_BLOCKS / 64] = {0};
  (void)heap;
  (void)block;
  (void)block_size;
  bool huge = page->kind == MI_PAGE_HUGE;
  uint32_t reserved = huge ? 1 : page->n_blocks;
  uint32_t used = (uint32_t)area->used, capacity = used;
  size_t size = mi__min(area->block_size, area->reserved), committed = size;
  if (!huge) {
    size_t gone = mi__visit_map(page, free, formed);
    capacity = count_bits(formed, reserved);
    used = has_blocks(page) ? capacity - count_bits(free, reserved) : capacity;
    committed = mi__max(capacity * size, gone) - gone;
  }
  bool owned = (mi__load(&page->xremote, relaxed) & MI_REMOTE_OWNED) != 0 || huge;
  bool map = out->maps && has_blocks(page);
  put_address(out, page->start);
  put_address(out, page->start);
  put64(out, size);
  put32(out, reserved);
  put32(out, capacity);
  put32(out, used);
  put64(out, committed);
  put64(out, owned ? mi__thread_number(mi__load(&page->owner, relaxed)) : 0);
  put64(out, mi__heap_id(mi__page_heap(page)) - 1);
  const struct mi__arena_facts *arena = out->arena;
  put32(out, arena == NULL ? NO_INDEX : arena->number);
  put32(out, arena == NULL ? 0 : (size_t)(page->start - arena->start) / MI_SLICE_SIZE);
  put32(out, area->reserved / MI_SLICE_SIZE);
  put8(out, arena == NULL);
  put8(out, page->kind - MI_PAGE_SMALL);
  put8(out, !owned);
  put8(out, used == reserved);
  put8(out, map);
  put(out, "\0\0", 3);
  if (map) put_map(out, free, formed, reserved);
  out->n_pages++;
  return out->error == 0;
}

static void begin_pages(struct out *out) {
  put32(out, TAG_PAGES);
  out->end = NULL;
}
static void end_pages(struct out *out) { put64(out, 0); }

/* ---- arenas and heaps ---- */

static void put_bits(struct out *out, const struct mi__arena *arena,
                     const struct mi__arena_facts *facts, enum mi__slice_bit bit) {
  size_t n_chunks = facts->n_slices / 64;
  put32(out, n_chunks);
  put32(out, sizeof(uint64_t));
  for (size_t c = 0; c < n_chunks; c++) put64(out, mi__arena_bits(arena, c, bit));
}

static void put_arena(struct out *out, const struct mi__arena *arena,
                      const struct mi__arena_facts *facts) {
  put32(out, TAG_ARENA);
  put32(out, facts->number);
  put_address(out, facts->start);
  put64(out, (uint64_t)facts->n_slices * MI_SLICE_SIZE);
  put32(out, facts->n_slices);
  put32(out, facts->n_outside);
  put32(out, facts->numa_node < 0 ? NO_INDEX : (size_t)facts->numa_node);
  put8(out, facts->pinned);
  put8(out, facts->exclusive);
  put8(out, facts->mapped);
  put8(out, facts->has_commit_fun);
  put_bits(out, arena, facts, MI_SLICE_COMMITTED);
  put_bits(out, arena, facts, MI_SLICE_FREE);
  put_bits(out, arena, facts, MI_SLICE_MARKED);
  out->arena = facts;
  begin_pages(out);
  (void)mi__visit_arena(out->subproc->arenas, facts, put_page, out);
  end_pages(out);
  out->arena = NULL;
}

/* Arenas that come while we write are left out: their number is written first. */
static void put_arenas(struct out *out) {
  struct mi__arena_facts facts;
  size_t n = 0;
  struct mi__arena *arena = mi__arenas_picture(out->subproc->arenas, NULL, &facts);
  for (; arena != NULL; arena = mi__arenas_picture(out->subproc->arenas, arena, &facts)) n++;
  put32(out, n);
  arena = mi__arenas_picture(out->subproc->arenas, NULL, &facts);
  for (; n > 0 && arena != NULL; n--) {
    put_arena(out, arena, &facts);
    arena = mi__arenas_picture(out->subproc->arenas, arena, &facts);
  }
}

static void put_direct(struct out *out, struct mi_heap_s *heap) {
  struct mi__visit visit = {.heap = heap, .direct = true, .visitor = put_page, .arg = out};
  begin_pages(out);
  (void)mi__visit(&visit);
  end_pages(out);
}

/* Of a heap that may be ending: compared, not followed. */
__attribute__((no_sanitize("thread"))) static const struct mi__arena *
arena_of(const struct mi_heap_s *heap) {
  return *(struct mi__arena *const volatile *)&heap->only;
}

static uint32_t number_of(const struct out *out, const struct mi__arena *wanted) {
  struct mi__arena_facts facts;
  struct mi__arena *arena = NULL;
  if (wanted == NULL) return NO_INDEX;
  while ((arena = mi__arenas_picture(out->subproc->arenas, arena, &facts)) != NULL) {
    if (arena == wanted) return facts.number;
  }
  return NO_INDEX;
}

static bool put_heap(struct mi_heap_s *heap, void *arg) {
  struct out *out = arg;
  size_t id = mi__heap_id(heap);
  if (heap == out->subproc->main || id == 0) return true; /* 0: it has just ended */
  put32(out, TAG_HEAP);
  put64(out, id - 1);
  put32(out, number_of(out, arena_of(heap)));
  put_address(out, heap);
  put_direct(out, heap);
  return out->error == 0;
}

static int write_snapshot(struct mi_subproc *subproc, int fd, unsigned flags) {
  struct out out = {.fd = fd,
                    .maps = (flags & MI_SNAPSHOT_BLOCKS) != 0,
                    .subproc = subproc};
  struct mi_thread *self = mi__thread_self(false);
  if (self != NULL) mi__thread_note_number(self);
  put32(&out, MAGIC);
  put32(&out, FORMAT);
  put32(&out, sizeof(void *));
  put32(&out, MI_SLICE_SIZE);
  put32(&out, flags);
  put32(&out, 0);
  put64(&out, mi__os_clock_ms());
  put64(&out, mi__os_thread_id());
  put_arenas(&out);
  put_direct(&out, subproc->main);
  (void)mi__subproc_each_heap(subproc, put_heap, &out);
  put32(&out, TAG_END);
  put64(&out, out.n_pages);
  flush(&out);
  return out.error;
}

static int write_to_path(struct mi_subproc *subproc, const char *path, unsigned flags) {
  int fd, error = mi__os_create(path, &fd);
  if (error != 0) return error;
  error = write_snapshot(subproc, fd, flags);
  int at_close = mi__os_close(fd);
  return error != 0 ? error : at_close;
}

/* ---- the public functions ---- */

static int result(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

mi__export int mi_heap_snapshot(int fd, unsigned flags) {
  if ((flags & ~(unsigned)MI_SNAPSHOT_BLOCKS) != 0) return result(EINVAL);
  return result(write_snapshot(mi__stats_own_subproc(), fd, flags));
}

mi__export int mi_heap_snapshot_to_file(const char *path, unsigned flags) {
  if (path == NULL || (flags & ~(unsigned)MI_SNAPSHOT_BLOCKS) != 0) return result(EINVAL);
  return result(write_to_path(mi__stats_own_subproc(), path, flags));
}

/* ---- at exit ---- */

void mi__snapshot_at_exit(void) {
  long level = mi__option_get(mi_option_snapshot_on_exit);
  if (level <= 0 || mi__os_is_secure()) return;
  char path[MI__OPTION_TEXT_MAX + 16];
  mi__option_path(mi__option_snapshot_path, "mimalloc-snapshot.%p.bin", path, sizeof path);
  int error = write_to_path(&mi__subproc_main, path, level >= 2 ? MI_SNAPSHOT_BLOCKS : 0);
  if (error != 0) mi__warning("snapshot: cannot write %s: error %d\n", path, error);
}
