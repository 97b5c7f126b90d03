/* SPDX-License-Identifier: MIT */
/* Blocks above arena_max_object_size come straight from the OS and go back to it: a cycle of them
 * leaves no address space behind. */
#include "common.h"
#include <mimalloc.h>

#define MIB ((size_t)1 << 20)

static size_t address_space_kib(void) {
  static char text[256];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) exit(MI_TEST_ERROR);
  ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return strtoul(text, NULL, 10) * ((size_t)sysconf(_SC_PAGESIZE) / 1024);
}

static void cycle(size_t align) {
  char *p = mi_malloc_aligned(520 * MIB, align);
  CHECK(p != NULL && (uintptr_t)p % align == 0);
  p[0] = p[520 * MIB - 1] = 1;
  mi_free(p);
}

int main(void) {
  mi_test_not_under("thread");
  mi_test_not_under("address");
  if (sizeof(void *) < 8) return MI_TEST_SKIP;
  mi_option_set(mi_option_arena_max_object_size, 256 * 1024);
  for (size_t align = 4096; align <= 64 * MIB; align *= 16) {
    for (int i = 0; i < 2; i++) cycle(align);
    size_t before = address_space_kib();
    for (int i = 0; i < 10; i++) cycle(align);
    size_t after = address_space_kib();
    CHECK(after <= before + 192);
  }
  return 0;
}
