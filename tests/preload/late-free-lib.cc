// SPDX-License-Identifier: MIT
// A library of late-free.sh (G01): ten global objects whose destructors free, allocate and verify; and
// one that owns a heap (F12: heap-in-static-destructor, in a library that is loaded before the
// allocator's).
#include <cstdlib>
#include <map>
#include <string>

extern "C" {
#define WEAK __attribute__((weak))
WEAK void *mi_heap_new();
WEAK void *mi_heap_malloc(void *heap, size_t size);
WEAK void *mi_heap_of(const void *p);
WEAK void mi_heap_destroy(void *heap);
WEAK void mi_heap_delete(void *heap);
}

namespace {

struct Owner {
  void *heap;
  char *block;
  Owner() : heap(mi_heap_new()), block(static_cast<char *>(mi_heap_malloc(heap, 300))) { block[299] = 7; }
  ~Owner() {
    void *p = mi_heap_malloc(heap, 5000), *huge = mi_heap_malloc(heap, 3 << 20), *second = mi_heap_new();
    if (mi_heap_of(p) != heap || mi_heap_of(huge) != heap || mi_heap_of(block) != heap) abort();
    if (block[299] != 7 || mi_heap_malloc(second, 100) == nullptr) abort();
    mi_heap_destroy(heap);
    mi_heap_delete(second);
  }
};

Owner owner;

struct Late {
  std::map<int, std::string> map;
  std::string text;
  Late() : text(2000, 't') {
    for (int i = 0; i < 200; i++) map[i] = std::string(static_cast<size_t>(i), 'm');
  }
  ~Late() {
    for (auto &entry : map) {
      if (entry.second != std::string(static_cast<size_t>(entry.first), 'm')) abort();
    }
    if (text != std::string(2000, 't')) abort();
    free(malloc(300000));
    map[1000] = std::string(100, 'n');
  }
};

Late all[10];

}
