/* SPDX-License-Identifier: MIT */
/* The ways in which the stress test obtains, resizes and gives back a block, chosen at random.
 * A block knows what was promised for it, so that whoever holds it later can check that promise.
 * Threads: any; a block belongs to one thread at a time. */
#ifndef MI_TESTS_STRESS_FORMS_H
#define MI_TESTS_STRESS_FORMS_H

#include "thread/behave.h"

struct block {
  unsigned char *p;
  size_t size;      /* bytes that carry the pattern: those asked for, or all that are usable */
  size_t alignment; /* what p must be a multiple of */
  uint64_t tag;     /* what the pattern is made from */
};

/* Where an obtained block breaks its promise: at once zero, aligned, usable. */
static inline void check_fresh(const struct block *b, size_t asked, bool zero, const char *form) {
  if (b->p == NULL) FAIL("%s(%zu) gave NULL, errno %d", form, asked, errno);
  size_t natural = asked > 8 ? 16 : 8;
  size_t want = b->alignment > natural ? b->alignment : natural;
  if (b->alignment == 1) want = 1; /* an offset form: p itself is not aligned */
  if (((uintptr_t)b->p & (want - 1)) != 0) FAIL("%s(%zu) gave %p, want alignment %zu", form, asked, (void *)b->p, want);
  size_t usable = malloc_usable_size(b->p);
  if (usable < asked) FAIL("%s(%zu) gave %zu usable bytes", form, asked, usable);
  if (zero && !behave_is_zero(b->p, asked)) FAIL("%s(%zu) gave %p, which is not zero", form, asked, (void *)b->p);
}

static inline size_t random_alignment(uint64_t *rng, size_t size) {
  unsigned most = size > BEHAVE_MiB ? 22 : size > 4096 ? 17 : 13;
  return (size_t)1 << (3 + behave_random(rng) % (most - 2));
}

static inline struct block take_plain(uint64_t *rng, size_t size) {
  struct block b = {.size = size, .alignment = 8};
  bool zero = false;
  const char *form = "malloc";
  switch (behave_random(rng) % 12) {
  case 0: case 1:
    zero = true;
    form = "calloc";
    b.p = (behave_random(rng) & 1) ? calloc(1, size) : calloc(size, 1);
    break;
  case 2:
    form = "aligned_alloc";
    b.alignment = random_alignment(rng, size);
    b.p = aligned_alloc(b.alignment, size);
    break;
  case 3: {
    form = "posix_memalign";
    b.alignment = random_alignment(rng, size);
    void *p = NULL;
    int err = posix_memalign(&p, b.alignment, size);
    if (err != 0) FAIL("posix_memalign(%zu, %zu) gave %d", b.alignment, size, err);
    b.p = p;
    break;
  }
  case 4:
    form = "realloc";
    b.p = realloc(NULL, size);
    break;
  default:
    b.p = malloc(size);
  }
  check_fresh(&b, size, zero, form);
  return b;
}

#ifdef MI_TEST_PLAIN
static inline struct block take_block(uint64_t *rng, size_t size) { return take_plain(rng, size); }
static inline void drop_block(uint64_t *rng, struct block *b) {
  (void)rng;
  free(b->p);
}
static inline void resize_more(uint64_t *rng, struct block *b, size_t size) {
  (void)rng;
  b->p = realloc(b->p, size);
}

#else
static inline struct block take_block(uint64_t *rng, size_t size) {
  struct block b = {.size = size, .alignment = 8};
  bool zero = false;
  const char *form;
  size_t alignment = random_alignment(rng, size);
  size_t block_size = 0;
  switch (behave_random(rng) % 24) {
  case 0: form = "mi_zalloc"; zero = true; b.p = mi_zalloc(size); break;
  case 1: form = "mi_zalloc_aligned"; zero = true; b.alignment = alignment; b.p = mi_zalloc_aligned(size, alignment); break;
  case 2: form = "mi_malloc_aligned"; b.alignment = alignment; b.p = mi_malloc_aligned(size, alignment); break;
  case 3: {
    form = "mi_malloc_aligned_at";
    size_t offset = (behave_random(rng) % (size / 8 + 1)) * 8;
    b.alignment = 1;
    b.p = mi_malloc_aligned_at(size, alignment, offset);
    if ((((uintptr_t)b.p + offset) & (alignment - 1)) != 0) FAIL("%s(%zu, %zu, %zu) gave %p", form, size, alignment, offset, (void *)b.p);
    break;
  }
  case 4: form = "mi_new_nothrow"; b.p = mi_new_nothrow(size); break;
  case 5:
    form = "mi_umalloc";
    b.p = mi_umalloc(size, &block_size);
    if (block_size < size) FAIL("%s(%zu) told a block size of %zu", form, size, block_size);
    break;
  case 6: form = "mi_calloc_aligned"; zero = true; b.alignment = alignment; b.p = mi_calloc_aligned(1, size, alignment); break;
  case 7: form = "mi_mallocn"; b.p = mi_mallocn(1, size); break;
  case 8:
    if (size > MI_SMALL_SIZE_MAX) return take_plain(rng, size);
    form = "mi_zalloc_small"; zero = true; b.p = mi_zalloc_small(size);
    break;
  case 9:
    if (size > MI_SMALL_SIZE_MAX) return take_plain(rng, size);
    form = "mi_malloc_small"; b.p = mi_malloc_small(size);
    break;
  default: return take_plain(rng, size);
  }
  check_fresh(&b, size, zero, form);
  return b;
}

static inline void drop_block(uint64_t *rng, struct block *b) {
  size_t block_size = 0;
  switch (behave_random(rng) % 16) {
  case 0: mi_free_size(b->p, b->size); break;
  case 1: mi_ufree(b->p, &block_size); break;
  case 2: mi_free_aligned(b->p, b->alignment == 1 ? 8 : b->alignment); break;
  case 3: mi_cfree(b->p); break;
  default: mi_free(b->p);
  }
}

/* The resizing forms beyond realloc. The caller checks what was kept. */
static inline void resize_more(uint64_t *rng, struct block *b, size_t size) {
  size_t before = mi_usable_size(b->p);
  switch (behave_random(rng) % 8) {
  case 0: b->p = mi_rezalloc(b->p, size); break;
  case 1: {
    void *p = mi_expand(b->p, size);
    if (p != NULL && p != b->p) FAIL("mi_expand(%p, %zu) moved the block to %p", (void *)b->p, size, p);
    if (p == NULL) b->p = mi_realloc(b->p, size);
    return;
  }
  case 2: {
    size_t alignment = b->alignment == 1 ? 16 : b->alignment;
    b->p = mi_realloc_aligned(b->p, size, alignment);
    if (((uintptr_t)b->p & (alignment - 1)) != 0) FAIL("mi_realloc_aligned(%zu, %zu) gave %p", size, alignment, (void *)b->p);
    return;
  }
  case 3: b->p = mi_reallocf(b->p, size); return;
  case 4: b->p = mi_reallocarray(b->p, 1, size); return;
  default: b->p = mi_realloc(b->p, size); return;
  }
  if (b->p != NULL && size > before && !behave_is_zero(b->p + before, size - before)) {
    FAIL("mi_rezalloc(%zu) left bytes beyond the old %zu that are not zero", size, before);
  }
}
#endif

#endif
