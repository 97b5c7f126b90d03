/* SPDX-License-Identifier: MIT */
/* Blocks with a page of their own: larger than 512 KiB, or aligned to more than a slice. No thread
 * owns such a page; who holds the block may free and resize it. Threads: any. */
#ifndef MI_HEAP_HUGE_H
#define MI_HEAP_HUGE_H

#include "heap/heap.h"

/* (result + offset) is a multiple of align, a power of two. *zero: the block reads as zeros. NULL:
 * no memory. */
void *mi__huge_alloc(struct mi_heap_s *heap, size_t size, size_t align, size_t offset, bool *zero);
void mi__huge_free(struct mi_page *page, void *p);
/* Make the block at least `size` bytes without moving it, or smaller. *zero: what is new reads as
 * zeros. */
bool mi__huge_resize(struct mi_page *page, void *p, size_t size, bool *zero);
/* The same where the OS can move the memory to another address; NULL: not possible, nothing
 * changed. */
void *mi__huge_remap(struct mi_page *page, void *p, size_t size);

#endif
