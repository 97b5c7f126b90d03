/* SPDX-License-Identifier: MIT */
/* The page table: makes record arrays exist, and remembers which slices are mappings of their own.
 *
 * Owns: the directory, the record arrays (as memory), the bits of direct mappings.
 * Locks: none. An entry is set once by CAS from 0; who loses the race unmaps his array.
 * Threads: any. The release of that CAS pairs with the acquire below of a thread that finds the
 * entry set, and for all others with whatever hands them a pointer into the granule. */
#include "arena/pagemap.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/option.h"

struct mi__pagemap mi__pagemap mi__aligned(4096);

_Static_assert(offsetof(struct mi__pagemap, directory) % sizeof(intptr_t) == 0,
               "entries are words");
_Static_assert(MI_GRANULE_META_BYTES - MI_RECORDS_BYTES >= MI_GRANULE_SLICES / 8, "a bit a slice");

struct granule_range {
  size_t first, last; /* inclusive */
};

static bool find_granules(const void *start, size_t size, struct granule_range *out) {
  uint64_t from = (uintptr_t)start;
  if (size == 0 || from >= MI_ADDRESS_LIMIT || size > MI_ADDRESS_LIMIT - from) return false;
  out->first = (size_t)(from >> MI_GRANULE_SHIFT);
  out->last = (size_t)((from + size - 1) >> MI_GRANULE_SHIFT);
  return true;
}

static bool is_set(size_t granule) {
  return mi__load(&mi__pagemap.directory[granule], acquire) != 0;
}

/* False: another thread was first. */
static bool try_set(size_t granule, char *records) {
  intptr_t none = 0;
  intptr_t distance = (intptr_t)((uintptr_t)records - (uintptr_t)mi__pagemap.zero);
  return mi__cas(&mi__pagemap.directory[granule], &none, distance, release);
}

/* One mapping serves all neighbouring granules that lack records: it is untouched, so it costs
 * address space only. */
static bool fill_gap(size_t first, size_t n) {
  size_t size = n * MI_GRANULE_META_BYTES;
  char *records = mi__os_map(size, mi__os_facts.page_size, MI_OS_COMMIT);
  mi__count(&mi__counters.mmap_calls, 1);
  if (records == NULL) return false;
  for (size_t i = 0; i < n; i++) {
    char *mine = records + i * MI_GRANULE_META_BYTES;
    if (!try_set(first + i, mine)) (void)mi__os_unmap(mine, MI_GRANULE_META_BYTES);
  }
  return true;
}

bool mi__pagemap_ensure(const void *start, size_t size) {
  struct granule_range range;
  if (!find_granules(start, size, &range)) return false;
  for (size_t g = range.first; g <= range.last; g++) {
    if (is_set(g)) continue;
    size_t n = 1;
    bool alone = mi__option_get(mi_option_disallow_os_alloc) != 0; /* small mappings only */
    while (!alone && g + n <= range.last && !is_set(g + n)) n++;
    if (!fill_gap(g, n)) return false;
    g += n - 1;
  }
  return true;
}

size_t mi__pagemap_ensure_from(const void *start, size_t size, char *spare, size_t n_spare) {
  struct granule_range range;
  if (!find_granules(start, size, &range)) return SIZE_MAX;
  size_t used = 0;
  for (size_t g = range.first; g <= range.last; g++) {
    if (is_set(g)) continue;
    if (used == n_spare) return SIZE_MAX;
    if (try_set(g, spare + used * MI_GRANULE_META_BYTES)) used++;
  }
  return used;
}

/* ---- mappings of their own ---- */

static _Atomic(uint64_t) *direct_word(uintptr_t address, unsigned *bit) {
  size_t slice = (address >> MI_SLICE_SHIFT) & (MI_GRANULE_SLICES - 1);
  intptr_t distance = mi__load(&mi__pagemap.directory[address >> MI_GRANULE_SHIFT], acquire);
  char *bits = mi__pagemap.zero;
  mi__pin_base(bits); /* the distance leads to another object */
  bits += distance + (intptr_t)MI_RECORDS_BYTES;
  *bit = (unsigned)(slice % 64);
  return (_Atomic(uint64_t) *)(void *)bits + slice / 64;
}

void mi__pagemap_mark_direct(const void *start, size_t size, bool direct) {
  uintptr_t at = (uintptr_t)start;
  uintptr_t end = at + size;
  while (at < end) {
    unsigned bit;
    _Atomic(uint64_t) *word = direct_word(at, &bit);
    size_t n = mi__min(64 - bit, mi__div_up(end - at, MI_SLICE_SIZE));
    uint64_t mask = (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1) << bit;
    if (direct) {
      mi__fetch_or(word, mask, relaxed);
    } else {
      mi__fetch_and(word, ~mask, relaxed);
    }
    at += n * MI_SLICE_SIZE;
  }
}

bool mi__pagemap_is_direct(const void *p) {
  if ((uint64_t)(uintptr_t)p >= MI_ADDRESS_LIMIT) return false;
  unsigned bit;
  _Atomic(uint64_t) *word = direct_word((uintptr_t)p, &bit);
  return ((mi__load(word, relaxed) >> bit) & 1) != 0;
}

void mi__pagemap_init(bool commit) {
  mi__os_advise_thp(&mi__pagemap, sizeof mi__pagemap);
  if (!commit) return;
  size_t step = mi__os_facts.page_size / sizeof(intptr_t);
  for (size_t i = 0; i < MI_GRANULES; i += step) {
    mi__fetch_add(&mi__pagemap.directory[i], 0,
                  relaxed); /* writes what is there: safe beside other threads */
  }
}

const char *mi__pagemap_next(const char *from) {
  uintptr_t a = (uintptr_t)from;
  if (a == 0) a = MI_SLICE_SIZE; /* slice 0 is nobody's */
  if ((uint64_t)a >= MI_ADDRESS_LIMIT) return NULL;
  for (size_t granule = a >> MI_GRANULE_SHIFT; granule < MI_GRANULES; granule++) {
    if (mi__load(&mi__pagemap.directory[granule], acquire) != 0) return (const char *)a;
    a = (granule + 1) << MI_GRANULE_SHIFT;
  }
  return NULL;
}
