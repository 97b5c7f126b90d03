/* SPDX-License-Identifier: MIT */
/* Spans straight from the OS: a mapping each, for objects too large for arenas, and where no arena
 * can be had.
 *
 * Owns: nothing; a span is its taker's. Locks: none. Threads: any. */
#include "arena/types.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/option.h"

static void count_bytes(int64_t bytes) {
  mi__gauge_add(&mi__counters.reserved, bytes);
  mi__gauge_add(&mi__counters.committed, bytes);
}

static char *map_direct(size_t n_slices, const struct mi__span_request *request) {
  size_t size = n_slices * MI_SLICE_SIZE;
  size_t align = mi__max(request->align_slices, 1) * MI_SLICE_SIZE;
  /* The records of such a page must be neighbours: keep it inside of a granule. */
  if (!request->cross_granules && n_slices > 1)
    align = mi__max(align, (size_t)2 << mi__log2(size - 1));
  char *start = mi__os_map(size, align, MI_OS_COMMIT);
  mi__count(&mi__counters.mmap_calls, 1);
  if (start == NULL) return NULL;
  if (mi__pagemap_ensure(start, size)) return start;
  (void)mi__os_unmap(start, size);
  return NULL;
}

bool mi__direct_alloc(const struct mi__span_request *request, int numa_node, struct mi__span *out) {
  if (mi__option_get(mi_option_disallow_os_alloc) != 0) return false;
  if (request->n_slices > PTRDIFF_MAX / MI_SLICE_SIZE ||
      request->align_slices > MI_MAX_ALIGN_SLICES)
    return false;
  size_t n = request->n_slices;
  char *start = map_direct(n, request);
  if (start == NULL && request->min_slices < n)
    start = map_direct(n = request->min_slices, request);
  if (start == NULL) return false;
  if (mi__unlikely(numa_node >= 0)) mi__os_bind_numa(start, n * MI_SLICE_SIZE, numa_node);
  mi__pagemap_mark_direct(start, n * MI_SLICE_SIZE, true);
  count_bytes((int64_t)(n * MI_SLICE_SIZE));
  *out = (struct mi__span){.start = start, .n_slices = n, .zero = true};
  return true;
}

void mi__direct_free(char *start, size_t n_slices) {
  size_t size = n_slices * MI_SLICE_SIZE;
  mi__pagemap_mark_direct(start, size, false);
  /* Where the OS cannot unmap (too many mappings) the contents at least go back; the addresses are
   * lost. */
  if (!mi__os_unmap(start, size)) (void)mi__os_discard(start, size, false);
  count_bytes(-(int64_t)size);
}

bool mi__direct_grow(char *start, size_t n_slices, size_t new_slices) {
  if (new_slices > PTRDIFF_MAX / MI_SLICE_SIZE) return false;
  if (mi__option_get(mi_option_disallow_os_alloc) != 0) return false;
  size_t size = n_slices * MI_SLICE_SIZE;
  size_t more = new_slices * MI_SLICE_SIZE - size;
  /* First of all: what is grown must have records. */
  if (!mi__pagemap_ensure(start + size, more)) return false;
  if (mi__os_remap(start, size, size + more, MI_SLICE_SIZE, false) == NULL) return false;
  mi__pagemap_mark_direct(start + size, more, true);
  count_bytes((int64_t)more);
  return true;
}

bool mi__direct_shrink(char *start, size_t n_slices, size_t new_slices) {
  size_t size = new_slices * MI_SLICE_SIZE;
  size_t less = n_slices * MI_SLICE_SIZE - size;
  /* Before: the OS may hand the addresses to another thread at once. */
  mi__pagemap_mark_direct(start + size, less, false);
  if (!mi__os_unmap(start + size, less)) {
    mi__pagemap_mark_direct(start + size, less, true);
    return false;
  }
  count_bytes(-(int64_t)less);
  return true;
}

/* Move to a mapping of the new size, with the record arrays at hand that the new place may need:
 * once moved, there is no way back. */
static char *move_direct(char *start, size_t size, size_t new_size, size_t align) {
  size_t n_spare = mi__pagemap_arrays_for(new_size);
  char *spare = mi__os_map(n_spare * MI_GRANULE_META_BYTES, mi__os_facts.page_size, MI_OS_COMMIT);
  mi__count(&mi__counters.mmap_calls, 1);
  if (spare == NULL) return NULL;
  mi__pagemap_mark_direct(start, size, false);
  char *moved = mi__os_remap(start, size, new_size, align, true);
  size_t used = 0;
  if (moved != NULL) used = mi__pagemap_ensure_from(moved, new_size, spare, n_spare);
  mi__assert(used <= n_spare); /* mi__os_remap keeps to the range of the page table */
  if (used < n_spare) {
    (void)mi__os_unmap(spare + used * MI_GRANULE_META_BYTES,
                       (n_spare - used) * MI_GRANULE_META_BYTES);
  }
  mi__pagemap_mark_direct(moved != NULL ? moved : start, moved != NULL ? new_size : size, true);
  if (moved != NULL) count_bytes((int64_t)new_size - (int64_t)size);
  return moved;
}

char *mi__span_remap(char *start, size_t n_slices, size_t new_slices, size_t align_slices) {
  if (new_slices > PTRDIFF_MAX / MI_SLICE_SIZE || align_slices > MI_MAX_ALIGN_SLICES) return NULL;
  if (new_slices == n_slices) return start;
  if (new_slices < n_slices) return mi__direct_shrink(start, n_slices, new_slices) ? start : NULL;
  if (mi__direct_grow(start, n_slices, new_slices)) return start;
  if (mi__option_get(mi_option_disallow_os_alloc) != 0) return NULL;
  size_t align = mi__max(align_slices, 1) * MI_SLICE_SIZE;
  return move_direct(start, n_slices * MI_SLICE_SIZE, new_slices * MI_SLICE_SIZE, align);
}
