/* SPDX-License-Identifier: MIT */
/* B14 usable-size-is-writable. Symptom: usable size larger than what the block really holds;
 * assertion or overwrite. Right: usable >= requested, patterns intact, malloc_usable_size(NULL)==0;
 * waste at most 25% + 16 bytes for 1 KiB..1 MiB requests. realloc(p, usable) must not move,
 * realloc(p, usable+1) keeps content. */
#include "family.h"

enum { LIVE = 2000 };
static const size_t budget = (size_t)160 << 20; /* bytes live at once, so that small machines do */

static struct {
  unsigned char *p;
  size_t usable;
} live[LIVE];
static size_t n_live, oldest, live_bytes;

static unsigned char pattern_of(const void *p) {
  return (unsigned char)(((uintptr_t)p >> 4) * 167 + 13);
}

/* Large blocks are looked at in both ends and in steps: their middle has no neighbour. */
static void check_pattern(const unsigned char *p, size_t size) {
  size_t step = size > 65536 ? 509 : 1;
  unsigned char pattern = pattern_of(p);
  for (size_t i = 0; i < size; i += step) CHECK(p[i] == pattern);
  for (size_t i = size < 64 ? 0 : size - 64; i < size; i++) CHECK(p[i] == pattern);
}

static void drop_oldest(const struct family *f) {
  check_pattern(live[oldest].p, live[oldest].usable);
  f->free(live[oldest].p);
  live_bytes -= live[oldest].usable;
  oldest = (oldest + 1) % LIVE;
  n_live--;
}

static void keep(const struct family *f, unsigned char *p, size_t usable) {
  while (n_live == LIVE || (n_live > 0 && live_bytes + usable > budget)) drop_oldest(f);
  size_t at = (oldest + n_live) % LIVE;
  live[at].p = p;
  live[at].usable = usable;
  live_bytes += usable;
  n_live++;
}

static void check_block(const struct family *f, size_t size, size_t alignment) {
  unsigned char *p = alignment == 0 ? f->malloc(size) : f->memalign(alignment, size);
  CHECK_IN(f, p != NULL);
  size_t usable = f->usable(p);
  if (usable < size) fprintf(stderr, "%zu bytes at %zu: usable %zu\n", size, alignment, usable);
  CHECK_IN(f, usable >= size);
  if (alignment == 0 && size >= 1024 && size <= (size_t)1 << 20) {
    CHECK_IN(f, usable <= size + size / 4 + 16);
    CHECK_IN(f, mi_good_size(size) == usable && mi_malloc_good_size(size) == usable);
  }
  memset(p, pattern_of(p), usable);
  keep(f, p, usable);
}

static void check_realloc(const struct family *f, size_t size) {
  unsigned char *p = f->malloc(size);
  CHECK_IN(f, p != NULL);
  size_t usable = f->usable(p);
  memset(p, 0x3c, usable);
  unsigned char *q = f->realloc(p, usable);
  CHECK_IN(f, is_same(p, q));
  q = f->realloc(q, usable + 1);
  CHECK_IN(f, q != NULL && f->usable(q) > usable);
  for (size_t i = 0; i < usable; i += usable > 65536 ? 509 : 1) CHECK_IN(f, q[i] == 0x3c);
  CHECK_IN(f, usable == 0 || q[usable - 1] == 0x3c); /* 0: of 0 bytes, in the tracking build */
  f->free(q);
}

int main(void) {
  FOR_FAMILIES(f) {
    size_t step = mi_test_scale(203, 7);
    size_t most = mi_test_scale((size_t)2 << 20, (size_t)64 << 20);
    for (size_t size = 0; size <= 70000; size += step) {
      check_block(f, size, 0);
      check_block(f, size, (size_t)1 << (3 + size / step % 10));
      check_realloc(f, size);
    }
    for (size_t power = 8; power <= (size_t)64 << 20; power *= 2) {
      for (size_t size = power - 1; size <= power + 1; size++) {
        check_block(f, size, 0);
        if (size <= most) check_block(f, size, 4096);
        if (size <= most) check_realloc(f, size);
      }
    }
    while (n_live > 0) drop_oldest(f);
    CHECK_IN(f, f->usable(NULL) == 0);
  }
  return 0;
}
