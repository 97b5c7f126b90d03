/* SPDX-License-Identifier: MIT */
/* The C++ forms of allocation. When memory has run out, the program's new-handler is called until
 * it helps, throws, or is gone; then std::bad_alloc is thrown.
 * The files that include this are compiled with -fexceptions: exceptions pass through them.
 * Threads: any. */
#ifndef MI_API_NEW_H
#define MI_API_NEW_H

#include "api/alloc.h"
#include "base/bits.h"
#include "heap/heap.h"

/* After a failure: ask the handler and try again, until there is memory or an exception is thrown.
 * `alignment` 1: none. The forms that may not throw return NULL instead.
 * `caller`: see mi__cxx_find. */
void *mi__new_again(size_t size, size_t alignment, const void *caller);
void *mi__new_again_nothrow(size_t size, size_t alignment, const void *caller);

#define MI_CALLER __builtin_return_address(0)

mi__inline void *mi__new(size_t size, const void *caller) {
  void *p = mi__malloc_in(mi__tls.theap, size);
  return mi__likely(p != NULL) ? p : mi__new_again(size, 1, caller);
}

mi__inline void *mi__new_nothrow(size_t size, const void *caller) {
  void *p = mi__malloc_in(mi__tls.theap, size);
  return mi__likely(p != NULL) ? p : mi__new_again_nothrow(size, 1, caller);
}

mi__inline void *mi__new_aligned(size_t size, size_t alignment, const void *caller) {
  void *p = mi__malloc_aligned_in(mi__tls.theap, size, alignment, 0, false);
  return mi__likely(p != NULL) ? p : mi__new_again(size, alignment, caller);
}

mi__inline void *mi__new_aligned_nothrow(size_t size, size_t alignment, const void *caller) {
  void *p = mi__malloc_aligned_in(mi__tls.theap, size, alignment, 0, false);
  return mi__likely(p != NULL) ? p : mi__new_again_nothrow(size, alignment, caller);
}

#endif
