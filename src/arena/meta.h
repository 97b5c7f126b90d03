/* SPDX-License-Identifier: MIT */
/* Memory for the library's own records (thread data, arenas, bitmaps): its own mappings, never next
 * to blocks, never given back to the OS, zero when first handed out. Allocated by bumping; freed
 * pieces are kept by their users (type-stable). Threads: any. Locks: MI_LOCK_META. */
#ifndef MI_ARENA_META_H
#define MI_ARENA_META_H

#include "base/compiler.h"
#include "rt/lock.h"

/* `size` zero bytes at a multiple of `align` (a power of two, at most the OS page). NULL: no
 * memory. Touches nothing: fresh OS pages stay untouched until used. */
void *mi__meta_alloc(size_t size, size_t align);
extern struct mi__lock mi__meta_lock; /* for the fork handlers */

#endif
