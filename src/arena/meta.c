/* SPDX-License-Identifier: MIT */
/* Memory for the library's own records: bumped out of blocks that are never given back.
 *
 * Owns: the current block. Locks: mi__meta_lock. Threads: any.
 * The first block is static, so that a small program needs no mapping for it; like all others it is
 * untouched until used. */
#include "arena/meta.h"
#include "base/bits.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"

#define FIRST_BLOCK (128 * MI_KIB) /* holds the first arena and the data of some ten threads */
#define NEXT_BLOCK (256 * MI_KIB)

struct mi__lock mi__meta_lock = MI_LOCK_INIT(MI_LOCK_META);

static char first_block[FIRST_BLOCK] mi__aligned(4096);
static char *block = first_block; /* under mi__meta_lock */
static size_t block_size = FIRST_BLOCK;
static size_t block_used;

static void *bump(size_t size, size_t align) {
  size_t at = mi__align_up(block_used, align);
  if (at > block_size || size > block_size - at) return NULL;
  block_used = at + size;
  return block + at;
}

static void *map_fresh(size_t size) {
  mi__count(&mi__counters.mmap_calls, 1);
  return mi__os_map(size, mi__os_facts.page_size, MI_OS_COMMIT);
}

static void *alloc_locked(size_t size, size_t align) {
  void *p = bump(size, align);
  if (p != NULL) return p;
  size_t page = mi__os_facts.page_size;
  /* What would waste most of a block, or does not fit into one, gets a mapping for itself. */
  if (size > NEXT_BLOCK / 4) return map_fresh(mi__align_up(size, page));
  char *fresh = map_fresh(NEXT_BLOCK);
  if (fresh == NULL)
    return map_fresh(mi__align_up(size, page)); /* memory is short: as little as will do */
  block = fresh;
  block_size = NEXT_BLOCK;
  block_used = 0;
  return bump(size, align);
}

void *mi__meta_alloc(size_t size, size_t align) {
  mi__assert(mi__is_power_of_two(align) && align <= 4096);
  if (size == 0 || size > PTRDIFF_MAX - MI_MIB) return NULL;
  mi__lock_acquire(&mi__meta_lock);
  void *p = alloc_locked(size, align);
  mi__lock_release(&mi__meta_lock);
  return p;
}
