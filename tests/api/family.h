/* SPDX-License-Identifier: MIT */
/* The functions that have two names, so that a test goes through both: the library's own name, and
 * that of the C library, which the library replaces unless it was built without. */
#ifndef MI_TESTS_API_FAMILY_H
#define MI_TESTS_API_FAMILY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "common.h"
#include <errno.h>
#include <malloc.h>
#include <mimalloc.h>

struct family {
  const char *name;
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  void *(*reallocarray)(void *, size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  size_t (*usable)(const void *);
};

static inline size_t family_usable(const void *p) {
  return malloc_usable_size((void *)(uintptr_t)p);
}

static const struct family families[] = {
    {"mi_", mi_malloc, mi_calloc, mi_realloc, mi_free, mi_reallocarray, mi_posix_memalign,
     mi_memalign, mi_aligned_alloc, mi_valloc, mi_pvalloc, mi_malloc_usable_size},
    {"plain", malloc, calloc, realloc, free, reallocarray, posix_memalign, memalign, aligned_alloc,
     valloc, pvalloc, family_usable},
};

/* Is the second family the library's? The build says what must be, the library what is. */
static inline bool is_overriding(void) {
  const char *wanted = getenv("MI_TEST_OVERRIDE");
  if (wanted != NULL && *wanted != 0) CHECK(mi_is_redirected() == (strcmp(wanted, "1") == 0));
  return mi_is_redirected();
}
/* Compilers know malloc and free, drop pairs of them, and take it that two blocks differ. What goes
 * through these is hidden from them. */
static const struct family *volatile const hidden_families = families;
#define FOR_FAMILIES(f) \
  for (const struct family *f = hidden_families, *end_of_##f = f + 1 + is_overriding(); \
       f < end_of_##f; f++)
static inline bool is_same(const void *volatile p, const void *volatile q) { return p == q; }

/* Sizes that no system has, hidden from the compiler, which would warn of them. */
static volatile const size_t absurd_sizes[] = {
    (size_t)PTRDIFF_MAX + 1, SIZE_MAX, SIZE_MAX - 64,
#if SIZE_MAX > UINT32_MAX
    (size_t)784271641 << 30,
#endif
};
#define N_ABSURD_SIZES (sizeof absurd_sizes / sizeof absurd_sizes[0])

static inline bool is_aligned(const void *p, size_t alignment) {
  return (uintptr_t)p % alignment == 0;
}

/* A check that names the family it failed in. */
#define CHECK_IN(f, cond) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "%s family, %s:%d: not true: %s (errno %d)\n", (f)->name, __FILE__, \
              __LINE__, #cond, errno); \
      _exit(1); \
    } \
  } while (0)

#endif
