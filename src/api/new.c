/* SPDX-License-Identifier: MIT */
/* mi_new and its relatives: allocation with the failure rules of C++'s operator new. */
#include "api/new.h"
#include "api/cxx.h"
#include "heap/registry.h"
#include "rt/message.h"

#include <errno.h>
#include <stdlib.h>

/* NULL: the program has none. */
static mi__new_handler *find_handler(struct mi__cxx *cxx, const void *caller) {
  mi__cxx_find(cxx, caller);
  return cxx->get_new_handler != NULL ? cxx->get_new_handler() : NULL;
}

static _Noreturn void throw_bad_alloc(const struct mi__cxx *cxx) {
  if (cxx->throw_bad_alloc != NULL) cxx->throw_bad_alloc();
  mi__error(ENOMEM, "out of memory in operator new, and no C++ runtime to throw std::bad_alloc");
  abort();
}

/* Returns when it is worth another try; throws else. The handler runs as a call from here: an
 * exception that it throws passes on to the caller. */
static void ask_handler(const void *caller) {
  struct mi__cxx cxx;
  mi__new_handler *handler = find_handler(&cxx, caller);
  if (handler == NULL) throw_bad_alloc(&cxx);
  handler();
}

static bool ask_handler_nothrow(const void *caller) {
  struct mi__cxx cxx;
  mi__new_handler *handler = find_handler(&cxx, caller);
  return handler != NULL && mi__cxx_call_caught(&cxx, handler);
}

/* An alignment that is no power of two is a mistake that no handler can mend: NULL and EINVAL. */
mi__cold void *mi__new_again(size_t size, size_t alignment, const void *caller) {
  void *p = NULL;
  while (p == NULL && mi__is_power_of_two(alignment)) {
    ask_handler(caller);
    p = mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
  }
  return p;
}

mi__cold void *mi__new_again_nothrow(size_t size, size_t alignment, const void *caller) {
  void *p = NULL;
  while (p == NULL && mi__is_power_of_two(alignment)) {
    if (!ask_handler_nothrow(caller)) {
      errno = ENOMEM; /* whatever the handler and the look-up made of it */
      break;
    }
    p = mi__malloc_aligned_in(mi__theap_default(), size, alignment, 0, false);
  }
  return p;
}

/* count * size overflows: no handler can help. */
static mi__cold _Noreturn void new_overflow(size_t count, size_t size, const void *caller) {
  struct mi__cxx cxx;
  mi__overflow(count, size);
  mi__cxx_find(&cxx, caller);
  throw_bad_alloc(&cxx);
}

mi__export void *mi_new(size_t size) { return mi__new(size, MI_CALLER); }

mi__export void *mi_new_aligned(size_t size, size_t alignment) {
  return mi__new_aligned(size, alignment, MI_CALLER);
}

mi__export void *mi_new_nothrow(size_t size) { return mi__new_nothrow(size, MI_CALLER); }

mi__export void *mi_new_aligned_nothrow(size_t size, size_t alignment) {
  return mi__new_aligned_nothrow(size, alignment, MI_CALLER);
}

mi__export void *mi_new_n(size_t count, size_t size) {
  size_t total;
  if (mi__unlikely(mi__mul_overflow(count, size, &total))) new_overflow(count, size, MI_CALLER);
  return mi__new(total, MI_CALLER);
}

static inline void *new_realloc(void *p, size_t newsize, const void *caller) {
  for (;;) {
    void *q = mi__realloc_in(mi__theap_default(), p, newsize, 0, 0, false);
    if (mi__likely(q != NULL)) return q;
    if (p != NULL && !mi__is_owned(p)) return NULL; /* EINVAL: not a lack of memory */
    ask_handler(caller);
  }
}

mi__export void *mi_new_realloc(void *p, size_t newsize) {
  return new_realloc(p, newsize, MI_CALLER);
}

mi__export void *mi_new_reallocn(void *p, size_t newcount, size_t size) {
  size_t total;
  if (mi__unlikely(mi__mul_overflow(newcount, size, &total))) {
    new_overflow(newcount, size, MI_CALLER);
  }
  return new_realloc(p, total, MI_CALLER);
}

/* ---- in a heap ---- */

static inline void *heap_new(mi_heap_t *heap, size_t size, const void *caller) {
  for (;;) {
    void *p = mi_heap_malloc(heap, size);
    if (mi__likely(p != NULL)) return p;
    if (heap == NULL || !mi__heap_is_live(heap)) return NULL; /* EINVAL: not a lack of memory */
    ask_handler(caller);
  }
}

mi__export void *mi_heap_alloc_new(mi_heap_t *heap, size_t size) {
  return heap_new(heap, size, MI_CALLER);
}

mi__export void *mi_heap_alloc_new_n(mi_heap_t *heap, size_t count, size_t size) {
  size_t total;
  if (mi__unlikely(mi__mul_overflow(count, size, &total))) new_overflow(count, size, MI_CALLER);
  return heap_new(heap, total, MI_CALLER);
}
