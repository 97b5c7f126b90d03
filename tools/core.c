/* SPDX-License-Identifier: MIT */
/* Reading of core files. As with snapshots, no number of the file is believed. */
#include "core.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#if UINTPTR_MAX > UINT32_MAX
typedef Elf64_Ehdr elf_head;
typedef Elf64_Phdr elf_segment;
typedef Elf64_Shdr elf_section;
#define CLASS ELFCLASS64
#else
typedef Elf32_Ehdr elf_head;
typedef Elf32_Phdr elf_segment;
typedef Elf32_Shdr elf_section;
#define CLASS ELFCLASS32
#endif

static bool fail(char *error, size_t error_size, const char *what) {
  snprintf(error, error_size, "%s", what);
  return false;
}

static bool read_at(FILE *f, uint64_t offset, void *to, size_t size) {
  return offset <= INT64_MAX && fseeko(f, (off_t)offset, SEEK_SET) == 0 &&
         fread(to, 1, size, f) == size;
}

static unsigned char byte_order(void) {
  static const uint16_t one = 1;
  unsigned char low;
  memcpy(&low, &one, 1);
  return low != 0 ? ELFDATA2LSB : ELFDATA2MSB;
}

static int by_address(const void *a, const void *b) {
  uint64_t x = ((const struct segment *)a)->address, y = ((const struct segment *)b)->address;
  return (x > y) - (x < y);
}

/* Note the part of a segment that lies in the range and in the file. */
static bool note(struct core *core, const elf_segment *p, uint64_t address, uint64_t size) {
  uint64_t start = p->p_vaddr, bytes = p->p_filesz, offset = p->p_offset;
  if (p->p_type != PT_LOAD || bytes > UINT64_MAX - start || bytes > UINT64_MAX - offset)
    return true;
  if (start + bytes <= address || start >= address + size) return true;
  struct segment *grown = realloc(core->segments, (core->n + 1) * sizeof *grown);
  if (grown == NULL) return false;
  core->segments = grown;
  grown[core->n++] = (struct segment){start, bytes, offset};
  return true;
}

bool core_open(const char *path, uint64_t address, uint64_t size, struct core *core, char *error,
               size_t error_size) {
  elf_head head;
  memset(core, 0, sizeof *core);
  core->file = fopen(path, "rb");
  if (core->file == NULL) return fail(error, error_size, strerror(errno));
  if (!read_at(core->file, 0, &head, sizeof head) ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_CORE) {
    core_close(core);
    return fail(error, error_size, "not an ELF core file of this kind of machine");
  }
  if (head.e_ident[EI_CLASS] != CLASS || head.e_ident[EI_DATA] != byte_order() ||
      head.e_phentsize != sizeof(elf_segment)) {
    core_close(core);
    return fail(error, error_size, "a core file of another kind of machine");
  }
  uint64_t n = head.e_phnum;
  elf_section first; /* has the number where it is too large for the head */
  if (n == PN_XNUM && read_at(core->file, head.e_shoff, &first, sizeof first)) n = first.sh_info;
  for (uint64_t i = 0; i < n; i++) {
    elf_segment p;
    bool there = i == 0 ? read_at(core->file, head.e_phoff, &p, sizeof p)
                        : fread(&p, 1, sizeof p, core->file) == sizeof p;
    if (!there || !note(core, &p, address, size)) {
      core_close(core);
      return fail(error, error_size, there ? "out of memory" : "truncated core file");
    }
  }
  if (core->n > 0) qsort(core->segments, core->n, sizeof core->segments[0], by_address);
  return true;
}

void core_close(struct core *core) {
  if (core->file != NULL) fclose(core->file);
  free(core->segments);
  memset(core, 0, sizeof *core);
}

size_t core_bytes(struct core *core, uint64_t address, void *to, size_t size, uint64_t *next) {
  *next = UINT64_MAX;
  for (; core->current < core->n; core->current++) {
    const struct segment *s = &core->segments[core->current];
    if (s->address > address) {
      *next = s->address;
      return 0;
    }
    uint64_t skipped = address - s->address;
    if (skipped >= s->size) continue;
    if (size > s->size - skipped) size = (size_t)(s->size - skipped);
    uint64_t offset = s->offset + skipped;
    if (offset > INT64_MAX || fseeko(core->file, (off_t)offset, SEEK_SET) != 0) continue;
    size_t got = fread(to, 1, size, core->file);
    if (got > 0) return got; /* else the file was cut before */
  }
  return 0;
}
