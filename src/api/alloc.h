/* SPDX-License-Identifier: MIT */
/* The allocation primitives that the other files of this layer are made of. All keep errno on
 * success, set ENOMEM on failure of memory, EINVAL on a bad alignment; a size above PTRDIFF_MAX
 * fails with ENOMEM (and EOVERFLOW to the error hook). `theap` is the calling thread's:
 * mi__theap_default() or that of another heap. */
#ifndef MI_API_ALLOC_H
#define MI_API_ALLOC_H

#include "base/bits.h"
#include "base/compiler.h"
#include "mimalloc.h"

/* May be a static dummy before the first allocation: pass it on all the same. */
mi_theap_t *mi__theap_default(void);

void *mi__malloc_in(mi_theap_t *theap, size_t size);
void *mi__zalloc_in(mi_theap_t *theap, size_t size);
/* Plain, zeroed and offset forms: (result + offset) is a multiple of alignment. Any power of two;
 * else NULL and EINVAL. */
void *mi__malloc_aligned_in(mi_theap_t *theap, size_t size, size_t alignment, size_t offset,
                            bool zero);
/* Every realloc. alignment 0: none asked for. zero: bytes between the old usable size and the new
 * size are zeroed. p NULL: a fresh block. newsize 0: a fresh minimal block, p freed. Foreign p:
 * NULL and EINVAL. On failure p is unchanged. */
void *mi__realloc_in(mi_theap_t *theap, void *p, size_t newsize, size_t alignment, size_t offset,
                     bool zero);
/* Is p in a live page of ours (any address inside a block)? */
bool mi__is_owned(const void *p);
/* Report count * size overflow: error hook EOVERFLOW, errno ENOMEM; returns NULL. */
void *mi__overflow(size_t count, size_t size);
/* Declares `name` as count * size; where that overflows the function returns NULL. */
#define MI_TOTAL(name, count, size) \
  size_t name;                      \
  if (mi__unlikely(mi__mul_overflow(count, size, &name))) return mi__overflow(count, size)

/* Hidden twins of the exported functions, for calls from inside the library (no PLT). */
void mi__free(void *p);
size_t mi__usable_size(const void *p);
size_t mi__good_size(size_t size); /* block size that malloc(size) would give */

#endif
