/* SPDX-License-Identifier: MIT */
/* Writes snapshot files of the format of doc/snapshot.md, and what else heapview_test.sh needs; it knows nothing of the tool.
 *
 *   make_snapshot full OUT      two arenas, pages of all kinds with maps, mappings of their own, heap 7: see full()
 *   make_snapshot later OUT     the same, but the page of 64-byte blocks in slice 2 has gone, and one of 128-byte blocks come
 *   make_snapshot plain OUT     as full, without maps
 *   make_snapshot tiny OUT      one page; 289 bytes
 *   make_snapshot bare OUT      nothing
 *   make_snapshot gib OUT       an arena of 16384 slices with 16000 small pages
 *   make_snapshot swapped OUT   the head of a machine with the other byte order
 *   make_snapshot core OUT      an ELF core for full: 128 bytes of slice 1, 4000 of slice 8
 *   make_snapshot patch IN OFFSET HEX OUT   a copy with other bytes
 *   make_snapshot mutate IN SEED OUT        a copy with some bytes by chance */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 65536u
#define NONE UINT32_MAX
enum { SMALL, MEDIUM, LARGE, HUGE };

static FILE *out;
static bool maps;
static uint64_t n_pages;

static void put(const void *data, size_t size) {
  if (fwrite(data, 1, size, out) != size) exit(99);
}
static void put8(unsigned x) { put(&(uint8_t){(uint8_t)x}, 1); }
static void put32(uint32_t x) { put(&x, sizeof x); }
static void put64(uint64_t x) { put(&x, sizeof x); }

static void head(bool with_maps, uint32_t n_arenas) {
  maps = with_maps;
  put32(0x5348494D);
  put32(1);
  put32(sizeof(void *));
  put32(SLICE);
  put32(maps ? 1 : 0);
  put32(0);
  put64(123456);
  put64(0xa1);
  put32(n_arenas);
}
static void tag_pages(void) { put32(0x45474150); }
static void end_pages(void) { put64(0); }
static void end(void) {
  put32(0x444E4520);
  put64(n_pages);
}

/* Of slices by ranges: 0-2,8-109 */
static void bitmap(uint32_t slices, const char *ranges) {
  uint32_t chunks = (slices + 63) / 64;
  uint64_t *bits = calloc(chunks, sizeof *bits);
  if (bits == NULL) exit(99);
  while (*ranges != 0) {
    char *at;
    unsigned long from = strtoul(ranges, &at, 10), to = *at == '-' ? strtoul(at + 1, &at, 10) : from;
    for (; from <= to; from++) bits[from / 64] |= UINT64_C(1) << from % 64;
    ranges = *at == ',' ? at + 1 : at;
  }
  put32(chunks);
  put32(8);
  put(bits, chunks * sizeof *bits);
  free(bits);
}

struct flags {
  unsigned huge, exclusive, mapped, commits;
};
static void arena(uint32_t index, uint64_t address, uint32_t slices, uint32_t outside, uint32_t numa, struct flags f,
                  const char *committed, const char *not_used, const char *purge) {
  put32(0x414E5241);
  put32(index);
  put64(address);
  put64((uint64_t)slices * SLICE);
  put32(slices);
  put32(outside);
  put32(numa);
  put8(f.huge);
  put8(f.exclusive);
  put8(f.mapped);
  put8(f.commits);
  bitmap(slices, committed);
  bitmap(slices, not_used);
  bitmap(slices, purge);
  tag_pages();
}

struct page {
  uint64_t address, slice_address, block_size;
  uint32_t reserved, capacity, used;
  uint64_t holes; /* bytes */
  uint64_t tid, heap;
  uint32_t arena, slice, slices;
  unsigned kind;
  uint32_t step; /* block 0, step, 2 step ... are live; 0: no map */
};
static void page(struct page p) {
  bool own = p.arena == NONE, map = maps && p.step != 0;
  put64(p.address);
  put64(p.slice_address);
  put64(p.block_size);
  put32(p.reserved);
  put32(p.capacity);
  put32(p.used);
  put64(p.capacity * p.block_size - p.holes);
  put64(p.tid);
  put64(p.heap);
  put32(p.arena);
  put32(p.slice);
  put32(p.slices);
  put8(own);
  put8(p.kind);
  put8(p.tid == 0);
  put8(p.used == p.reserved);
  put8(map);
  put("\0\0", 3);
  n_pages++;
  if (!map) return;
  put32((p.reserved + 7) / 8);
  for (uint32_t i = 0; i < (p.reserved + 7) / 8; i++) {
    unsigned byte = 0;
    for (uint32_t b = 0; b < 8 && i * 8 + b < p.reserved; b++) {
      uint32_t block = i * 8 + b;
      byte |= (unsigned)(block % p.step != 0 || block / p.step >= p.used) << b;
    }
    put8(byte);
  }
}

/* In arena 0: slice 0 the arena's own; 1, 2 small; 8-15 medium; 16-79 large; 80-83 huge; 84-99 to be purged; 100-109 free;
 * 3-7 and 110-119 purged; 120-127 not the arena's. Arena 1 is all purged. */
static void full(bool with_maps, bool later) {
  const uint64_t base = 0x10000000;
  head(with_maps, 2);
  arena(0, base, 128, 8, NONE, (struct flags){.mapped = 1}, later ? "0-1,3-3,8-109" : "0-2,8-109",
        later ? "2,4-7,84-119" : "3-7,84-119", "84-99");
  page((struct page){base + SLICE, base + SLICE, 64, 1024, 100, 40, 0, 0xa1, 0, 0, 1, 1, SMALL, 2});
  if (later) {
    page((struct page){base + 3 * SLICE, base + 3 * SLICE, 128, 512, 512, 10, 0, 0xa2, 0, 0, 3, 1, SMALL, 1});
  } else {
    page((struct page){base + 2 * SLICE, base + 2 * SLICE, 64, 1024, 1024, 1024, 0, 0xa2, 0, 0, 2, 1, SMALL, 1});
  }
  page((struct page){base + 8 * SLICE, base + 8 * SLICE, 4096, 128, 128, 32, 262144, 0xa1, 7, 0, 8, 8, MEDIUM, 1});
  page((struct page){base + 16 * SLICE, base + 16 * SLICE, 524288, 8, 8, 8, 0, 0, 7, 0, 16, 64, LARGE, 1});
  page((struct page){base + 80 * SLICE, base + 80 * SLICE, 262144, 1, 1, 1, 0, 0xa2, 0, 0, 80, 4, HUGE, 0});
  end_pages();
  arena(1, 0x20000000, 64, 0, 1, (struct flags){.huge = 1, .exclusive = 1, .commits = 1}, "", "0-63", "");
  end_pages();
  tag_pages();
  page((struct page){0x30001000, 0x30000000, 1000000, 1, 1, 1, 0, 0xa1, 0, NONE, 0, 16, HUGE, 0});
  end_pages();
  put32(0x50414548);
  put64(7);
  put32(0);
  put64(0x10000100);
  tag_pages();
  page((struct page){0x40000000, 0x40000000, 2000000, 1, 1, 1, 0, 0xa2, 7, NONE, 0, 31, HUGE, 0});
  end_pages();
  end();
}

static void tiny(void) {
  head(true, 1);
  arena(0, 0x10000000, 64, 0, NONE, (struct flags){.mapped = 1}, "0", "1-63", "");
  page((struct page){0x10000000, 0x10000000, 8192, 8, 8, 3, 0, 0xa1, 0, 0, 0, 1, SMALL, 2});
  end_pages();
  tag_pages();
  end_pages();
  put32(0x50414548);
  put64(7);
  put32(NONE);
  put64(0x10000100);
  tag_pages();
  end_pages();
  end();
}

static void bare(void) {
  head(false, 0);
  tag_pages();
  end_pages();
  end();
}

static void gib(void) {
  head(true, 1);
  arena(0, 0x10000000, 16384, 0, NONE, (struct flags){.mapped = 1}, "0-16199", "16100-16383", "16100-16199");
  for (uint32_t i = 100; i < 16100; i++) {
    uint64_t address = 0x10000000 + (uint64_t)i * SLICE;
    page((struct page){address, address, 512, 128, 128 - i % 3, i % 97, 0, 0xa1 + i % 5, 0, 0, i, 1, SMALL, 1});
  }
  end_pages();
  tag_pages();
  end_pages();
  end();
}

#if UINTPTR_MAX > UINT32_MAX
typedef Elf64_Ehdr elf_head;
typedef Elf64_Phdr elf_segment;
#define CLASS ELFCLASS64
#else
typedef Elf32_Ehdr elf_head;
typedef Elf32_Phdr elf_segment;
#define CLASS ELFCLASS32
#endif

static void core(void) {
  elf_head h = {.e_type = ET_CORE, .e_version = EV_CURRENT, .e_phoff = sizeof h, .e_ehsize = sizeof h, .e_phnum = 3,
                .e_phentsize = sizeof(elf_segment)};
  elf_segment note = {.p_type = PT_NOTE};
  elf_segment second = {.p_type = PT_LOAD, .p_offset = 1000, .p_vaddr = 0x10080000, .p_filesz = 4000, .p_memsz = 524288};
  elf_segment first = {.p_type = PT_LOAD, .p_offset = 5000, .p_vaddr = 0x10010000, .p_filesz = 128, .p_memsz = SLICE};
  memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = CLASS;
  h.e_ident[EI_DATA] = *(const char *)&(const uint16_t){1} != 0 ? ELFDATA2LSB : ELFDATA2MSB;
  h.e_ident[EI_VERSION] = EV_CURRENT;
  char memory[5128] = {0};
  memset(memory + 1000, 'M', 4000);
  memcpy(memory + 5000, "the first block", 15);
  for (int i = 64; i < 128; i++) memory[5000 + i] = (char)i;
  put(&h, sizeof h);
  put(&note, sizeof note);
  put(&second, sizeof second);
  put(&first, sizeof first);
  size_t heads = sizeof h + 3 * sizeof note;
  put(memory + heads, sizeof memory - heads);
}

/* ---- copies ---- */

static unsigned char *bytes;
static size_t n_bytes;
static void read_in(const char *path) {
  FILE *f = fopen(path, "rb");
  bytes = malloc(1 << 20);
  if (f == NULL || bytes == NULL) exit(99);
  n_bytes = fread(bytes, 1, 1 << 20, f);
  fclose(f);
}

static void patch(size_t offset, const char *hex) {
  for (; hex[0] != 0 && hex[1] != 0; hex += 2, offset++) {
    char two[3] = {hex[0], hex[1], 0};
    if (offset >= n_bytes) exit(99);
    bytes[offset] = (unsigned char)strtoul(two, NULL, 16);
  }
}

static uint32_t state;
static uint32_t chance(uint32_t n) {
  state = state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(state >> 8) * n >> 24);
}
/* Single bits, bytes, or words of all ones, some of them. */
static void mutate(uint32_t seed) {
  state = seed * 2654435761u;
  for (uint32_t n = 1 + chance(3); n > 0; n--) {
    uint32_t at = chance((uint32_t)n_bytes), kind = chance(4);
    if (kind == 0) bytes[at] ^= (unsigned char)(1u << chance(8));
    if (kind == 1) bytes[at] = (unsigned char)chance(256);
    for (uint32_t i = 0; kind >= 2 && i < 4 && at + i < n_bytes; i++) bytes[at + i] = kind == 2 ? 0xff : 0;
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 99;
  out = fopen(argv[argc - 1], "wb");
  if (out == NULL) return 99;
  const char *what = argv[1];
  if (strcmp(what, "full") == 0) full(true, false);
  if (strcmp(what, "later") == 0) full(true, true);
  if (strcmp(what, "plain") == 0) full(false, false);
  if (strcmp(what, "tiny") == 0) tiny();
  if (strcmp(what, "bare") == 0) bare();
  if (strcmp(what, "gib") == 0) gib();
  if (strcmp(what, "swapped") == 0) put32(0x4D494853);
  if (strcmp(what, "core") == 0) core();
  if (argc > 4) {
    read_in(argv[2]);
    if (strcmp(what, "patch") == 0 && argc == 6) patch(strtoul(argv[3], NULL, 0), argv[4]);
    if (strcmp(what, "mutate") == 0) mutate((uint32_t)strtoul(argv[3], NULL, 10));
    put(bytes, n_bytes);
    free(bytes);
  }
  return fclose(out) == 0 ? 0 : 99;
}
