/* SPDX-License-Identifier: MIT */
/* What the files about heaps share. */
#ifndef MI_API_HEAP_H
#define MI_API_HEAP_H

#include "api/alloc.h"
#include "api/core.h"
#include "heap/heap.h"
#include "heap/registry.h"

/* NULL, or a record that is no heap any more: reported, and true. */
bool mi__heap_is_bad(const struct mi_heap_s *heap, const char *what);

/* The calling thread's theap of the heap. NULL: reported, errno is set. */
mi_theap_t *mi__heap_theap_or_report(mi_heap_t *heap);
mi__inline mi_theap_t *mi__theap_for(mi_heap_t *heap) {
  mi_theap_t *theap = mi__heap_theap_quick(heap);
  return mi__likely(theap != NULL) ? theap : mi__heap_theap_or_report(heap);
}

#endif
