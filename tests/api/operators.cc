/* SPDX-License-Identifier: MIT */
/* B12 cxx-operator-set-complete. Symptom: nothrow or aligned or sized forms fall through to
 * libstdc++. Right: all 8 operators new and 12 operators delete are the library's; all blocks
 * owned, alignments 32 to 4096; malloc and operator new meet in realloc-free pairs that are legal
 * here. (The test of the exported symbols counts the 20.)
 * B05's second half: std::pmr::synchronized_pool_resource with largest block 16 MiB. */
#include "common.h"
#include <mimalloc.h>

#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#ifndef __cpp_sized_deallocation /* clang has them, and declares them only when asked to */
void operator delete(void *, std::size_t) noexcept;
void operator delete[](void *, std::size_t) noexcept;
void operator delete(void *, std::size_t, std::align_val_t) noexcept;
void operator delete[](void *, std::size_t, std::align_val_t) noexcept;
#endif

using align = std::align_val_t;

static void *take(void *p, std::size_t alignment, const char *what) {
  if (p == nullptr || !mi_check_owned(p) || (uintptr_t)p % alignment != 0) {
    fprintf(stderr, "%s: %p is not the library's, or not aligned to %zu\n", what, p, alignment);
    _exit(1);
  }
  memset(p, 0x5a, 100);
  return p;
}
#define NEW(alignment, ...) take(::operator new(__VA_ARGS__), alignment, "operator new")
#define NEW_ARRAY(alignment, ...) take(::operator new[](__VA_ARGS__), alignment, "operator new[]")

/* The block at this address was freed: the next block of its size is the same one. */
static void expect_freed(uintptr_t address, std::size_t size) {
  void *q = mi_malloc(size);
  CHECK((uintptr_t)q == address);
  mi_free(q);
}

static void check_plain(std::size_t size) {
  const std::nothrow_t &nothrow = std::nothrow;
  void *p = NEW(16, size);
  uintptr_t at = (uintptr_t)p;
  ::operator delete(p);
  expect_freed(at, size);
  p = NEW(16, size);
  at = (uintptr_t)p;
  ::operator delete(p, size);
  expect_freed(at, size);
  p = NEW(16, size, nothrow);
  at = (uintptr_t)p;
  ::operator delete(p, nothrow);
  expect_freed(at, size);
  p = NEW_ARRAY(16, size);
  at = (uintptr_t)p;
  ::operator delete[](p);
  expect_freed(at, size);
  p = NEW_ARRAY(16, size);
  at = (uintptr_t)p;
  ::operator delete[](p, size);
  expect_freed(at, size);
  p = NEW_ARRAY(16, size, nothrow);
  at = (uintptr_t)p;
  ::operator delete[](p, nothrow);
  expect_freed(at, size);
  ::operator delete(nullptr);
  ::operator delete[](nullptr, size);
}

/* As expect_freed; the block goes back to where blocks of this alignment come from. */
static void expect_freed_aligned(uintptr_t address, std::size_t size, std::size_t a) {
  void *q = mi_malloc_aligned(size, a);
  CHECK((uintptr_t)q == address);
  mi_free(q);
}

static void check_aligned(std::size_t a) {
  const std::nothrow_t &nothrow = std::nothrow;
  const std::size_t size = 100;
  void *p = NEW(a, size, align(a));
  uintptr_t at = (uintptr_t)p;
  ::operator delete(p, align(a));
  expect_freed_aligned(at, size, a);
  p = NEW(a, size, align(a));
  at = (uintptr_t)p;
  ::operator delete(p, size, align(a));
  expect_freed_aligned(at, size, a);
  p = NEW(a, size, align(a), nothrow);
  at = (uintptr_t)p;
  ::operator delete(p, align(a), nothrow);
  expect_freed_aligned(at, size, a);
  p = NEW_ARRAY(a, size, align(a));
  at = (uintptr_t)p;
  ::operator delete[](p, align(a));
  expect_freed_aligned(at, size, a);
  p = NEW_ARRAY(a, size, align(a));
  at = (uintptr_t)p;
  ::operator delete[](p, size, align(a));
  expect_freed_aligned(at, size, a);
  p = NEW_ARRAY(a, size, align(a), nothrow);
  at = (uintptr_t)p;
  ::operator delete[](p, align(a), nothrow);
  expect_freed_aligned(at, size, a);
}

struct alignas(256) wide {
  char bytes[300];
};

static void check_language() {
  auto *one = new wide;
  auto *many = new wide[7];
  take(one, 256, "new wide");
  take(many, 256, "new wide[7]");
  delete one;
  delete[] many;
  std::string text(1000, 'x');
  std::vector<wide> wides(10);
  take(text.data(), 1, "std::string");
  take(wides.data(), 256, "std::vector");
  void *(*volatile plain_malloc)(size_t) = malloc; /* hidden from the compiler, which would warn */
  void (*volatile plain_free)(void *) = free;
  ::operator delete(plain_malloc(100)); /* with this library, both name the same */
  plain_free(::operator new(100));
}

static void check_pool() {
  std::pmr::pool_options options;
  options.largest_required_pool_block = (std::size_t)16 << 20;
  std::pmr::synchronized_pool_resource pool(options);
  std::vector<std::pair<void *, std::size_t>> blocks;
  for (std::size_t size = 64; size <= (std::size_t)16 << 20; size *= 2) {
    std::size_t alignment = size < ((std::size_t)4 << 20) ? size : (std::size_t)4 << 20;
    void *p = pool.allocate(size, alignment);
    CHECK(p != nullptr && (uintptr_t)p % alignment == 0);
    CHECK(mi_check_owned(p));
    memset(p, 1, size < 4096 ? size : 4096);
    blocks.emplace_back(p, size);
  }
  for (auto &block : blocks) {
    std::size_t size = block.second;
    pool.deallocate(block.first, size, size < ((std::size_t)4 << 20) ? size : (std::size_t)4 << 20);
  }
}

int main() {
  if (!mi_is_redirected()) return MI_TEST_SKIP;
  for (std::size_t size : {100, 1000, 5000}) check_plain(size);
  for (std::size_t a = 32; a <= 4096; a *= 2) check_aligned(a);
  check_language();
  check_pool();
  return 0;
}
