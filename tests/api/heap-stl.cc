/* SPDX-License-Identifier: MIT */
/* mi_heap_stl_allocator and mi_heap_destroy_stl_allocator: blocks come from their heap; a heap of
 * their own lives as long as the last copy, one that was handed over stays; containers of different
 * heaps can be assigned, moved and swapped. */
#include "stl.h"

#if !defined(MI_HAS_HEAP_STL_ALLOCATOR)
#error "MI_HAS_HEAP_STL_ALLOCATOR tells that these allocators are there"
#endif

/* Blocks of the heap allocators are looked for in the heap of `expected`. */
static mi_heap_t *expected;
template <class T> void stl_check_block(const mi_heap_stl_allocator<T> &, const void *p) {
  CHECK(p != nullptr && mi_heap_contains(expected, p));
}
template <class T> void stl_check_block(const mi_heap_destroy_stl_allocator<T> &, const void *p) {
  CHECK(p != nullptr && mi_heap_contains(expected, p));
}

template <template <class> class A> static void check_heap_of_the_program() {
  mi_heap_t *heap = mi_heap_new();
  CHECK(heap != nullptr);
  expected = heap;
  {
    A<int> a(heap);
    static_assert(!A<int>::is_always_equal::value, "heaps differ");
    CHECK(a == A<int>(heap) && a == A<char>(heap) && a != A<int>());
    stl_all<A>(a);
    std::vector<int, A<int>> v(heap); /* a heap will do for an allocator */
    v.push_back(1);
    stl_check_block(a, v.data());
    a.collect(true);
    CHECK(v[0] == 1);
  }
  void *p = mi_heap_malloc(heap, 100); /* the allocators are gone; the heap is not */
  CHECK(mi_heap_contains(heap, p));
  mi_free(p);
  mi_heap_destroy(heap);
}

/* A fresh heap for each; what holds for two of them. */
template <template <class> class A> static void check_two_heaps() {
  typedef std::vector<int, A<int>> vector;
  vector v, w;
  v.assign(1000, 1);
  w.assign(2000, 2);
  CHECK(v.get_allocator() != w.get_allocator());
  mi_heap_t *heap_v = mi_heap_of(v.data()), *heap_w = mi_heap_of(w.data());
  CHECK(heap_v != nullptr && heap_w != nullptr && heap_v != heap_w);
  CHECK(heap_v != mi_heap_main() && heap_w != mi_heap_main());
  const int *data = w.data();
  v.swap(w);
  CHECK(v.data() == data && v.size() == 2000 && mi_heap_of(w.data()) == heap_v);
  v = w; /* takes the allocator along */
  CHECK(v.size() == 1000 && v.get_allocator() == w.get_allocator());
  CHECK(mi_heap_of(v.data()) == heap_v);
  vector x;
  x.assign(10, 3);
  x = std::move(v);
  CHECK(x.size() == 1000 && x[999] == 1 && x.get_allocator() == w.get_allocator());
  vector y(x, A<int>());
  CHECK(y == x && mi_heap_of(y.data()) != heap_v);
}

/* The heap lives until the last copy is gone, whatever its type. */
template <template <class> class A> static void *check_last_copy() {
  int *p;
  std::unique_ptr<A<char>> last;
  {
    A<int> a;
    p = a.allocate(100);
    last.reset(new A<char>(a));
  }
  std::fill(p, p + 100, 7);
  mi_heap_t *heap = mi_heap_of(p);
  char *q = last->allocate(10);
  CHECK(mi_heap_of(q) == heap && p[99] == 7);
  last->deallocate(q, 10);
  last.reset();
  return p;
}

/* The destroying allocator frees nothing before the heap goes: no address is given out twice. */
static void check_nothing_is_freed() {
  mi_heap_destroy_stl_allocator<int> a;
  std::set<int *> seen;
  for (int i = 0; i < 1000; i++) {
    int *p = a.allocate(25);
    *p = i;
    a.deallocate(p, 25);
    CHECK(*p == i && seen.insert(p).second);
  }
}

int main() {
  check_heap_of_the_program<mi_heap_stl_allocator>();
  check_heap_of_the_program<mi_heap_destroy_stl_allocator>();
  check_two_heaps<mi_heap_stl_allocator>();
  check_two_heaps<mi_heap_destroy_stl_allocator>();
  int *kept = static_cast<int *>(check_last_copy<mi_heap_stl_allocator>());
  CHECK(kept[0] == 7 && kept[99] == 7); /* deleted: the block stays */
  CHECK(mi_heap_of(kept) == mi_heap_main());
  mi_free(kept);
  check_nothing_is_freed();
  void *gone = check_last_copy<mi_heap_destroy_stl_allocator>();
  CHECK(mi_heap_of(gone) == nullptr && !mi_any_heap_contains(gone)); /* destroyed, with the block */
  for (int i = 0; i < 3000; i++) { /* no heap is left behind */
    std::list<int, mi_heap_destroy_stl_allocator<int>> l(10);
    std::list<int, mi_heap_stl_allocator<int>> m(10);
  }
  return 0;
}
