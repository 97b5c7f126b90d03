/* SPDX-License-Identifier: MIT */
/* malloc and its family in the tracking build: functions of their own instead of aliases. Unless it
 * is told otherwise (nouserintercepts) valgrind puts a malloc of its own in the place of each
 * library's, by address. The mi_ functions must not go with it, for not all of them would. */
#include "api/alloc.h"
#include "api/override.h"

extern const char mi__override_tracked __attribute__((visibility("hidden"))); /* for override.c */
const char mi__override_tracked = 1;

#if MI_OVERRIDE && MI_VALGRIND
#include <malloc.h>
#include <stdlib.h>

MI_OVERRIDE_ANCHORED;

mi__export void *malloc(size_t size) { return mi_malloc(size); }
mi__export void *calloc(size_t count, size_t size) { return mi_calloc(count, size); }
mi__export void *realloc(void *p, size_t size) { return mi_realloc(p, size); }
mi__export void *reallocarray(void *p, size_t count, size_t size) {
  return mi_reallocarray(p, count, size);
}
mi__export void free(void *p) { mi_free(p); }
extern bool cfree(void *p);
mi__export bool cfree(void *p) { return mi_cfree(p); }
mi__export int posix_memalign(void **p, size_t alignment, size_t size) {
  return mi_posix_memalign(p, alignment, size);
}
mi__export void *memalign(size_t alignment, size_t size) { return mi_memalign(alignment, size); }
mi__export void *aligned_alloc(size_t alignment, size_t size) {
  return mi_aligned_alloc(alignment, size);
}
mi__export void *valloc(size_t size) { return mi_valloc(size); }
mi__export void *pvalloc(size_t size) { return mi_pvalloc(size); }
mi__export size_t malloc_usable_size(void *p) { return mi_malloc_usable_size(p); }

#endif
