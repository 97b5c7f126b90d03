/* SPDX-License-Identifier: MIT */
/* All of a snapshot as JSON. Addresses and numbers of threads are strings, as many readers keep
 * numbers in 53 bits; bitmaps and maps are strings too, their bytes in hexadecimal. */
#include "report.h"

#include <inttypes.h>

static const char *truth(bool b) { return b ? "true" : "false"; }

static void put_address(const char *key, uint64_t address) {
  printf("\"%s\": \"0x%" PRIx64 "\", ", key, address);
}
static void put_number(const char *key, uint64_t value) {
  printf("\"%s\": %" PRIu64 ", ", key, value);
}
static void put_index(const char *key, uint32_t index) {
  if (index == NO_INDEX) {
    printf("\"%s\": null, ", key);
  } else {
    put_number(key, index);
  }
}

/* names.c has taken control characters and malformed UTF-8 out. */
static void put_string(const char *text) {
  putchar('"');
  for (; *text != 0; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar(*text);
  }
  putchar('"');
}

static void put_hex(const char *key, const uint8_t *bytes, size_t n) {
  printf("\"%s\": \"", key);
  for (size_t i = 0; i < n; i++) printf("%02x", bytes[i]);
  printf("\"");
}

static void put_page(const struct page *p) {
  printf("    {");
  put_address("address", p->address);
  put_address("slice_address", p->slice_address);
  put_number("block_size", p->block_size);
  put_number("reserved", p->reserved);
  put_number("capacity", p->capacity);
  put_number("used", p->used);
  put_number("committed", p->committed);
  put_number("waste", page_waste(p));
  put_number("holes", page_hole_bytes(p));
  put_address("thread", p->tid);
  put_number("heap", p->heap);
  put_index("arena", p->own_mapping ? NO_INDEX : p->arena);
  put_index("slice", p->own_mapping ? NO_INDEX : p->slice);
  put_number("slices", p->slices);
  printf("\"kind\": \"%s\", \"own_mapping\": %s, \"abandoned\": %s, \"full\": %s",
         page_kind_name(p->kind), truth(p->own_mapping), truth(p->abandoned), truth(p->full));
  if (p->map != NULL) {
    printf(", ");
    put_hex("not_live", p->map, ((size_t)p->reserved + 7) / 8);
  }
  putchar('}');
}

static void put_arena(const struct snapshot *s, const struct arena *a) {
  static const char *const names[SLICE_STATES] = {"of_pages", "other",  "free",
                                                  "to_purge", "purged", "outside"};
  uint64_t counts[SLICE_STATES];
  size_t bytes = ((size_t)a->slices + 63) / 64 * 8;
  arena_count(s, a, counts);
  printf("    {");
  put_number("index", a->index);
  put_address("address", a->address);
  put_number("size", a->size);
  put_number("slices", a->slices);
  put_index("numa_node", a->numa_node);
  printf("\"huge_os_pages\": %s, \"exclusive\": %s, \"mapped\": %s, \"commits\": %s,\n"
         "     \"slice_counts\": {", truth(a->huge_os_pages), truth(a->exclusive),
         truth(a->mapped), truth(a->commits));
  for (int k = 0; k < SLICE_STATES; k++)
    printf("%s\"%s\": %" PRIu64, k > 0 ? ", " : "", names[k], counts[k]);
  printf("},\n     ");
  put_hex("committed", a->committed, bytes);
  printf(",\n     ");
  put_hex("free", a->free, bytes);
  printf(",\n     ");
  put_hex("purge", a->purge, bytes);
  putchar('}');
}

void write_json(const struct input *in) {
  const struct snapshot *s = &in->snapshot;
  printf("{\n  ");
  put_number("version", s->version);
  put_number("pointer_size", s->pointer_size);
  put_number("slice_size", SLICE_BYTES);
  put_number("clock_ms", s->clock_ms);
  put_address("written_by", s->tid);
  printf("\"maps\": %s,\n  \"arenas\": [", truth((s->flags & SNAPSHOT_BLOCKS) != 0));
  for (size_t i = 0; i < s->n_arenas; i++) {
    printf("%s\n", i > 0 ? "," : "");
    put_arena(s, &s->arenas[i]);
  }
  printf("],\n  \"heaps\": [");
  for (size_t i = 0; i < s->n_heaps; i++) {
    printf("%s\n    {", i > 0 ? "," : "");
    put_number("seq", s->heaps[i].seq);
    put_index("arena", s->heaps[i].arena);
    printf("\"address\": \"0x%" PRIx64 "\"}", s->heaps[i].address);
  }
  printf("],\n  \"pages\": [");
  for (size_t i = 0; i < s->n_pages; i++) {
    printf("%s\n", i > 0 ? "," : "");
    put_page(&s->pages[i]);
  }
  printf("],\n  \"threads\": {");
  const struct name *last = NULL; /* a key comes once */
  for (size_t i = 0; i < in->names.n; last = &in->names.all[i++]) {
    if (last != NULL && last->tid == in->names.all[i].tid) continue;
    printf("%s\"0x%" PRIx64 "\": ", last != NULL ? ", " : "", in->names.all[i].tid);
    put_string(in->names.all[i].text);
  }
  printf("}\n}\n");
}
