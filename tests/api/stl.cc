/* SPDX-License-Identifier: MIT */
/* mi_stl_allocator in the containers of the standard library: every block is the library's and
 * aligned, containers of it exchange their contents, and failures throw what the standard says. */
#include "stl.h"

static void check_equal_everywhere() {
  typedef mi_stl_allocator<int> A;
#if __cplusplus >= 201703L
  static_assert(std::allocator_traits<A>::is_always_equal::value, "all instances are equal");
#endif
  static_assert(A::is_always_equal::value, "all instances are equal");
  static_assert(std::is_empty<A>::value, "takes no room");
  static_assert(sizeof(std::vector<int, A>) == sizeof(std::vector<int>), "nor in a container");
  static_assert(std::is_nothrow_default_constructible<A>::value, "");
  CHECK(A() == mi_stl_allocator<char>() && !(A() != A()));
  std::vector<int, A> v(1000, 1), w;
  const int *data = v.data();
  w = std::move(v);
  CHECK(w.data() == data);
  v.assign(10, 2);
  v.swap(w);
  CHECK(v.data() == data && w.size() == 10);
}

/* Where most blocks are aligned by themselves, since their sizes are multiples: other blocks, of
 * nine times 64 KiB, come in between. */
static void check_large_alignment() {
  typedef stl_aligned<(std::size_t)1 << 19> T;
  mi_stl_allocator<T> a;
  T *p[8];
  void *between[8];
  for (std::size_t i = 0; i < 8; i++) {
    between[i] = mi_malloc(((std::size_t)9 << 16) - 100);
    p[i] = a.allocate(i % 3 + 1);
    CHECK(reinterpret_cast<uintptr_t>(p[i]) % alignof(T) == 0);
  }
  for (std::size_t i = 0; i < 8; i++) {
    a.deallocate(p[i], i % 3 + 1);
    mi_free(between[i]);
  }
}

int main() {
  check_equal_everywhere();
  check_large_alignment();
  stl_all<mi_stl_allocator>(mi_stl_allocator<int>());
  return 0;
}
