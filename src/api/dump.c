/* SPDX-License-Identifier: MIT */
/* The heaps of a sub-process, their pages and live blocks, as JSON.
 *
 * The text goes into a block that should be long enough by the counters, and once more into a
 * longer one where it is not. So nothing is allocated while pages are shown, which would change
 * what there is to show.
 * Threads: any, while others work: what they change meanwhile may be in the text or not. */
#include "api/heap.h"
#include "api/stats.h"
#include "heap/subproc.h"
#include "heap/thread.h"
#include "heap/visit.h"
#include "os/os.h"
#include "rt/json.h"

#define MAX_TRIES 8 /* what others allocate meanwhile may need more room each time */
/* Bytes of text, about. */
#define TEXT_OF_HEAP 32
#define TEXT_OF_PAGE 110
#define TEXT_OF_BLOCK 30

struct dump {
  struct mi__json json;
  bool blocks;
  uint64_t key;  /* 0: addresses are shown */
  bool in_page;  /* the brackets of a page are open */
};

/* One to one, and not to be undone without the key. */
static uint64_t hash(uint64_t x, uint64_t key) {
  for (int i = 0; i < 3; i++) {
    x ^= key;
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
  }
  return x;
}

/* One for the whole life of the process, so that two dumps can be compared. */
static uint64_t hash_key(void) {
  static _Atomic(uint64_t) the_key;
  uint64_t key = mi__load(&the_key, relaxed);
  if (key != 0) return key;
  uint64_t fresh = mi__os_random() | 1;
  return mi__cas(&the_key, &key, fresh, relaxed) ? fresh : key;
}

static uint64_t id_of(const struct dump *dump, const void *p) {
  uint64_t address = (uintptr_t)p;
  return dump->key == 0 ? address : hash(address, dump->key);
}

static void end_page(struct dump *dump) {
  if (!dump->in_page) return;
  if (dump->blocks) mi__json_close(&dump->json);
  mi__json_close(&dump->json);
  dump->in_page = false;
}

static bool put_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                     size_t block_size, void *arg) {
  struct dump *dump = arg;
  struct mi__json *json = &dump->json;
  (void)heap;
  if (block != NULL) {
    mi__json_open(json, NULL, '[');
    mi__json_hex(json, NULL, id_of(dump, block));
    mi__json_number(json, NULL, (int64_t)block_size);
    mi__json_close(json);
    return true;
  }
  end_page(dump);
  const struct mi_page *page = area->reserved1;
  uintptr_t thread = mi__thread_number(mi__load(&page->owner, relaxed));
  mi__json_open(json, NULL, '{');
  mi__json_hex(json, "id", id_of(dump, area->blocks));
  mi__json_number(json, "block_size", (int64_t)area->block_size);
  mi__json_number(json, "used", (int64_t)area->used);
  mi__json_number(json, "reserved", (int64_t)area->reserved);
  mi__json_number(json, "thread_id", (int64_t)thread);
  if (dump->blocks) mi__json_open(json, "blocks", '[');
  dump->in_page = true;
  return true;
}

static bool put_heap(struct mi_heap_s *heap, void *arg) {
  struct dump *dump = arg;
  size_t id = mi__heap_id(heap);
  if (id == 0) return true; /* it has just ended */
  struct mi__visit visit = {.heap = heap, .blocks = dump->blocks, .visitor = put_area, .arg = dump};
  mi__json_open(&dump->json, NULL, '{');
  mi__json_number(&dump->json, "seq", (int64_t)(id - 1));
  mi__json_open(&dump->json, "pages", '[');
  (void)mi__visit(&visit);
  end_page(dump);
  mi__json_close(&dump->json);
  mi__json_close(&dump->json);
  return true;
}

static void put_all(struct dump *dump, char *buf, size_t size) {
  mi__json_begin(&dump->json, buf, size);
  mi__json_open(&dump->json, NULL, '{');
  mi__json_open(&dump->json, "heaps", '[');
  (void)mi__subproc_each_heap(mi__stats_own_subproc(), put_heap, dump);
  mi__json_close(&dump->json);
  mi__json_close(&dump->json);
}

/* By the counters, to which other threads have not added all. */
static size_t likely_length(struct mi_subproc *subproc, bool blocks) {
  struct mi__stats stats = {0};
  mi__stats_merge_own();
  mi__stats_of_subproc(subproc, &stats);
  int64_t n = stats.s.heaps.current * TEXT_OF_HEAP + stats.s.pages.current * TEXT_OF_PAGE;
  for (unsigned bin = 0; blocks && bin <= MI_STAT_BIN_HUGE; bin++) {
    n += stats.s.malloc_bins[bin].current * TEXT_OF_BLOCK;
  }
  return n > 0 ? (size_t)n : 0;
}

mi__export char *mi_heap_dump_json(bool include_blocks, bool hash_addresses) {
  struct dump dump = {.blocks = include_blocks, .key = hash_addresses ? hash_key() : 0};
  struct mi_thread *self = mi__thread_self(false);
  if (self != NULL) mi__thread_note_number(self);
  size_t length = likely_length(mi__stats_own_subproc(), include_blocks);
  for (int i = 0;; i++) {
    size_t size = length + length / 4 + 4096;
    char *text = mi_malloc(size);
    if (text == NULL) return NULL;
    put_all(&dump, text, size);
    if (!dump.json.full || i == MAX_TRIES) return text; /* JSON also where it ends early */
    length = dump.json.needed;
    mi_free(text);
  }
}
