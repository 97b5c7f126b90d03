/* SPDX-License-Identifier: MIT */
/* Renames malloc and its family, in the source that includes this header, to the functions of
 * libmimalloc. Not needed where the library replaces malloc for the whole program, and harmless
 * there.
 * - All sources that share blocks must include it: a block of one allocator must not be freed by
 *   the other. That goes for functions of the C library that allocate, too: what getline, asprintf
 *   and others of that kind give is not freed by mi_free, unless the library replaces malloc.
 * - Names are replaced wherever they stand, so that functions are renamed also where they are not
 *   called (`&free`), and a member called `free` is renamed with its uses. A class or struct with
 *   such a member must be seen with this header by all sources, or by none.
 *   An attribute is to be spelled __malloc__.
 * - The best place is after the system's headers. `-include mimalloc-override.h` works as well; but
 *   in C with _FORTIFY_SOURCE, realpath then stays the C library's, as its header defines it. */
#ifndef MIMALLOC_OVERRIDE_H
#define MIMALLOC_OVERRIDE_H

#include "mimalloc.h"

/* The system's own declarations come before the names change. In C that would be too early where
 * nothing of the system was included yet, because the source may still define what it wants to see
 * (_GNU_SOURCE and the like); so the declarations then follow, and fit the new names. */
#if defined(__cplusplus)
#include <cstdlib>
#include <cstring>
#include <cwchar>
#elif defined(_FEATURES_H)
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#endif
#if (defined(__cplusplus) || defined(_FEATURES_H)) && defined(__linux__)
#include <malloc.h>
#endif

#if defined(__cplusplus)
/* For std::malloc and the others of <cstdlib>. */
namespace std {
using ::mi_aligned_alloc;
using ::mi_calloc;
using ::mi_free;
using ::mi_malloc;
using ::mi_realloc;
} // namespace std
#endif

/* C */
#define malloc mi_malloc
#define calloc mi_calloc
#define realloc mi_realloc
#define free mi_free
#define aligned_alloc mi_aligned_alloc
#define free_sized mi_free_size
#define free_aligned_sized(p, a, n) mi_free_size_aligned(p, n, a)

#define strdup mi_strdup
#define strndup mi_strndup
#define realpath mi_realpath
#define wcsdup mi_wcsdup

/* POSIX, BSD, glibc */
#define reallocf mi_reallocf
#define malloc_size mi_usable_size
#define malloc_good_size mi_malloc_good_size
#define cfree mi_free
#define valloc mi_valloc
#define pvalloc mi_pvalloc
#define reallocarray mi_reallocarray
#define reallocarr mi_reallocarr
#define memalign mi_memalign
#define posix_memalign mi_posix_memalign
#if defined(__cplusplus) || defined(_FEATURES_H)
#define malloc_usable_size mi_usable_size
#else
/* Fits a declaration without const, as <malloc.h> may still bring it. */
static inline size_t mi_override_usable_size(void *p) {
  return mi_usable_size(p);
}
#define malloc_usable_size mi_override_usable_size
#endif

/* Microsoft */
#define _expand mi_expand
#define _msize mi_usable_size
#define _recalloc mi_recalloc
#define _strdup mi_strdup
#define _strndup mi_strndup
#define _wcsdup mi_wcsdup
#define _mbsdup mi_mbsdup
#define _dupenv_s mi_dupenv_s
#define _wdupenv_s mi_wdupenv_s
#define _aligned_malloc mi_malloc_aligned
#define _aligned_realloc mi_realloc_aligned
#define _aligned_recalloc mi_aligned_recalloc
#define _aligned_msize(p, a, o) mi_usable_size(p)
#define _aligned_free mi_free
#define _aligned_offset_malloc mi_malloc_aligned_at
#define _aligned_offset_realloc mi_realloc_aligned_at
#define _aligned_offset_recalloc mi_aligned_offset_recalloc

#endif
