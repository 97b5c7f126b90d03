/* SPDX-License-Identifier: MIT */
#include "heap/visit.h"
#include "base/track.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "page/holes.h"

struct mi__lock mi__visit_lock = MI_LOCK_INIT(MI_LOCK_VISIT);

/* How often the lists are read anew when the page changes hands meanwhile: each time takes a free
 * that claims the page. */
#define MAX_TRIES 8

/* ---- words that the page's owner may be writing ---- */

/* volatile: else the compiler may have the caller load it, which the sanitizer does look at. */
__attribute__((no_sanitize("thread"))) static uint32_t now32(const uint32_t *word) {
  return *(const volatile uint32_t *)word;
}
__attribute__((no_sanitize("thread"))) static size_t now(const size_t *word) {
  return *(const volatile size_t *)word;
}

/* ---- pins ---- */

static bool pin(struct mi_page *page) {
  mi__lock_acquire(&mi__visit_lock);
  bool pinned = mi__remote_pin(page); /* not one that is dead, though somebody has it pinned */
  if (pinned) page->n_pins++;
  mi__lock_release(&mi__visit_lock);
  return pinned;
}

/* The arenas are those of the visited heap, not of the heap that the page names. The slice was a
 * page of the former a moment before it was pinned, so it lies in its set. But what was pinned may
 * be a later page, of a heap that has ended since, and whose record is used again. */
static void unpin(struct mi_page *page, struct mi__arenas *arenas) {
  mi__lock_acquire(&mi__visit_lock);
  bool dead = --page->n_pins == 0 && mi__remote_unpin(page);
  mi__lock_release(&mi__visit_lock);
  if (dead) mi__page_delete(arenas, page);
}

/* ---- which blocks are free ---- */

struct map {
  const struct mi_page *page;
  uint64_t free[MI_PAGE_MAX_BLOCKS / 64]; /* a bit for each block on a list */
  uint32_t n_free;
};

/* Up to a block that is known already, or a link that leads out of the page. */
__attribute__((no_sanitize("thread"))) static void mark_list(struct map *map,
                                                             const struct mi_block *block) {
  while (block != NULL && mi__page_is_block(map->page, block)) {
    uint32_t index = mi__page_index(map->page, block);
    uint64_t bit = (uint64_t)1 << index % 64;
    if (map->free[index / 64] & bit) return;
    map->free[index / 64] |= bit;
    map->n_free++;
    block = block->next;
  }
}

/* The page's lists, ours and foreign, and holes. Unsynchronised reads of the owner's words: see
 * visit.h. Under the lock no sweep is making the list anew, or moving blocks from it to holes. */
__attribute__((no_sanitize("thread"))) static void mark_locked(struct map *map) {
  const struct mi_page *page = map->page;
  map->n_free += mi__holes_mark(page, map->free);
  for (int i = 0; i < MAX_TRIES; i++) {
    uint64_t before = mi__load(&page->xremote, acquire);
    mark_list(map, (const struct mi_block *)(uintptr_t)(before & MI_REMOTE_LIST));
    struct mi_block *const *push = page->push;
    if (push != NULL && push != &page->free) mark_list(map, *push);
    mark_list(map, page->free);
    mi__fence(acquire);
    uint64_t after = mi__load(&page->xremote, relaxed);
    /* A list that was taken may be nowhere for a moment. */
    if ((before & MI_REMOTE_OWNED) == (after & MI_REMOTE_OWNED) &&
        ((before & MI_REMOTE_LIST) == 0 || (after & MI_REMOTE_LIST) != 0)) {
      return;
    }
  }
}

static void mark_lists(struct map *map) {
  mi__lock_acquire(mi__holes_lock(map->page));
  mark_locked(map);
  mi__lock_release(mi__holes_lock(map->page));
}

/* ---- a page ---- */

static bool call(const struct mi__visit *visit, const mi_heap_area_t *area, void *block,
                 size_t size) {
  unsigned depth = mi__track_pause();
  bool more = visit->visitor(visit->heap, area, block, size, visit->arg);
  mi__track_resume(depth);
  return more;
}

static void flush_own_run(void) {
  struct mi_thread *self = mi__thread_self(false);
  if (self != NULL) mi__run_flush(self);
}

/* n_formed blocks from index `first` up, wrapping. */
static bool show_blocks(const struct mi__visit *visit, const mi_heap_area_t *area,
                        struct map *map, uint32_t n_formed) {
  const struct mi_page *page = map->page;
  uint32_t index = page->first;
  for (uint32_t i = 0; i < n_formed; i++, index++) {
    if (index == page->n_blocks) index = 0;
    if (map->free[index / 64] >> index % 64 & 1) continue;
    char *block = page->start + (size_t)index * page->block_size;
    if (!call(visit, area, block, page->block_size)) return false;
    flush_own_run();
    mark_lists(map); /* what the function has freed */
  }
  return true;
}

static uint32_t formed(const struct mi_page *page) {
  return now32(&page->n_formed) + mi__page_n_holes(page);
}

static bool show_page(const struct mi__visit *visit, struct mi_page *page) {
  mi_heap_area_t area = {
      .blocks = page->start,
      .reserved = now32(&page->n_slices) * MI_SLICE_SIZE, /* a huge page may be resized */
      .block_size = now(&page->block_size),
      .reserved1 = page,
  };
  area.full_block_size = area.block_size;
  if (page->kind == MI_PAGE_HUGE) {
    area.committed = area.block_size;
    area.used = 1;
    if (!call(visit, &area, NULL, area.block_size)) return false;
    return !visit->blocks || call(visit, &area, page->start, area.block_size);
  }
  uint32_t n_formed = formed(page);
  struct map map = {.page = page};
  /* All of a broken page counts as used; which of its blocks live, nobody knows: none is shown. */
  bool broken = mi__page_flag(page, MI_PAGE_BROKEN);
  if (!broken) mark_lists(&map);
  area.committed = n_formed * page->block_size;
  area.used = n_formed > map.n_free ? n_formed - map.n_free : 0;
  if (!call(visit, &area, NULL, page->block_size)) return false;
  return !visit->blocks || broken || show_blocks(visit, &area, &map, n_formed);
}

size_t mi__visit_map(const struct mi_page *page, uint64_t *free, uint64_t *are_formed) {
  struct map map = {.page = page};
  mi__lock_acquire(mi__holes_lock(page));
  uint32_t n = formed(page), index = page->first;
  size_t bytes = mi__holes_bytes(page);
  mark_locked(&map);
  mi__lock_release(mi__holes_lock(page));
  for (uint32_t i = 0; i < n; i++, index++) {
    if (index >= page->n_blocks) index = 0;
    are_formed[index / 64] |= (uint64_t)1 << index % 64;
  }
  for (uint32_t w = 0; w <= (page->n_blocks - 1) / 64; w++) free[w] = map.free[w] & are_formed[w];
  return bytes;
}

static bool wanted(const struct mi__visit *visit, const struct mi_page *page, uint32_t arena) {
  if (arena != 0) return now32(&page->arena) == arena && mi__page_heap(page) != NULL;
  if (mi__page_heap(page) != visit->heap) return false;
  if (visit->direct && now32(&page->arena) != 0) return false;
  if (visit->theap != NULL && mi__load(&page->theap, relaxed) != visit->theap) return false;
  bool owned = (mi__load(&page->xremote, relaxed) & MI_REMOTE_OWNED) != 0;
  return !(visit->abandoned && owned) && !(visit->theap != NULL && !owned);
}

/* ---- all pages ---- */

/* Of slices [from, to); `to` NULL: no end. arena: 0, or that in which all wanted pages lie. */
static bool visit_range(const struct mi__visit *visit, struct mi__arenas *set, uint32_t arena,
                        const char *from, const char *to) {
  bool more = true;
  flush_own_run();
  mi__track_begin();
  const char *slice = mi__pagemap_next(from);
  while (more && slice != NULL && (to == NULL || slice < to)) {
    struct mi_page *page = mi__record_of(slice);
    size_t n = 1;
    if (wanted(visit, page, arena) && pin(page)) {
      if (wanted(visit, page, arena)) more = show_page(visit, page);
      n = now32(&page->n_slices);
      unpin(page, set);
    }
    slice = mi__pagemap_next(slice + n * MI_SLICE_SIZE);
  }
  mi__track_end();
  return more;
}

bool mi__visit(const struct mi__visit *visit) {
  return visit_range(visit, mi__heap_arenas(visit->heap), 0, NULL, NULL);
}

bool mi__visit_arena(struct mi__arenas *set, const struct mi__arena_facts *arena,
                     mi_block_visit_fun *visitor, void *arg) {
  struct mi__visit visit = {.visitor = visitor, .arg = arg};
  return visit_range(&visit, set, arena->number + 1, arena->start,
                     arena->start + arena->n_slices * MI_SLICE_SIZE);
}
