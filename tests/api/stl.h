/* SPDX-License-Identifier: MIT */
/* Use of the containers of the C++ standard library with one of the allocators of mimalloc.h; any
 * standard from C++11. A failed check ends the process. */
#ifndef MI_TESTS_API_STL_H
#define MI_TESTS_API_STL_H

#include "common.h"
#include <mimalloc.h>

#include <algorithm>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

/* Over-aligned. */
template <std::size_t alignment> struct alignas(alignment) stl_aligned {
  int x;
  explicit stl_aligned(int value = 0) : x(value) {}
};
typedef stl_aligned<64> stl_wide;

/* A type whose own container holds it while it is not complete yet. */
template <template <class> class A> struct stl_tree {
  std::vector<stl_tree, A<stl_tree>> children;
  int value;
};

/* Does the block come from where the allocator allocates? For heaps there are overloads. */
template <class A> void stl_check_block(const A &, const void *p) {
  CHECK(p != nullptr && mi_check_owned(p));
}

template <template <class> class A> void stl_sequences(const A<int> &a) {
  std::vector<int, A<int>> v(a);
  for (int i = 0; i < 10000; i++) v.push_back(i);
  stl_check_block(a, v.data());
  std::deque<int, A<int>> d(v.begin(), v.end(), a);
  std::list<int, A<int>> l(d.rbegin(), d.rend(), a);
  std::forward_list<int, A<int>> f(l.begin(), l.end(), a);
  l.sort();
  f.sort();
  CHECK(std::equal(v.begin(), v.end(), l.begin()) && std::equal(v.begin(), v.end(), f.begin()));
  stl_check_block(a, &l.front());
  stl_check_block(a, &f.front());
  stl_check_block(a, &d.front());
  std::list<int, A<int>> other(a);
  other.splice(other.end(), l); /* allowed for equal allocators */
  CHECK(other.size() == 10000 && l.empty());
  v.erase(v.begin(), v.begin() + 5000);
  v.shrink_to_fit();
  CHECK(v.size() == 5000 && v.front() == 5000 && d[1234] == 1234);
  std::vector<bool, A<bool>> bits(1000, true, A<bool>(a));
  CHECK(std::count(bits.begin(), bits.end(), true) == 1000);
}

template <template <class> class A> void stl_associative(const A<int> &a) {
  typedef std::pair<const int, std::string> entry;
  std::map<int, std::string, std::less<int>, A<entry>> m{std::less<int>(), A<entry>(a)};
  std::unordered_map<int, std::string, std::hash<int>, std::equal_to<int>, A<entry>> u{
      16, std::hash<int>(), std::equal_to<int>(), A<entry>(a)};
  std::set<int, std::less<int>, A<int>> s{std::less<int>(), a};
  for (int i = 0; i < 1000; i++) {
    m[i * 7 % 1000] = std::string(40, 'x');
    u[i] = "value";
    s.insert(i % 500);
  }
  CHECK(m.size() == 1000 && u.size() == 1000 && s.size() == 500);
  stl_check_block(a, &*m.begin());
  stl_check_block(a, &*u.begin());
  stl_check_block(a, &*s.begin());
  for (int i = 0; i < 1000; i += 2) m.erase(i), u.erase(i);
  CHECK(m.size() == 500 && u.count(1) == 1 && u.count(2) == 0);
}

template <template <class> class A> void stl_strings(const A<int> &a) {
  typedef std::basic_string<char, std::char_traits<char>, A<char>> text;
  text t(100, 'a', A<char>(a));
  for (int i = 0; i < 1000; i++) t += "more";
  stl_check_block(a, t.data());
  text copy = t, moved = std::move(copy);
  CHECK(moved == t && t.size() == 4100);
  std::vector<text, A<text>> list{A<text>(a)};
  for (int i = 0; i < 100; i++) list.push_back(t.substr(0, static_cast<std::size_t>(i)));
  std::sort(list.begin(), list.end());
  CHECK(list[50].size() == 50);
}

template <template <class> class A, std::size_t alignment> void stl_alignment(const A<int> &a) {
  typedef stl_aligned<alignment> T;
  std::vector<T, A<T>> v(3, T(5), A<T>(a));
  for (int i = 0; i < 40; i++) {
    v.emplace_back(i);
    CHECK(reinterpret_cast<uintptr_t>(v.data()) % alignment == 0);
  }
  stl_check_block(a, v.data());
  std::list<T, A<T>> nodes(10, T(), A<T>(a));
  for (const T &node : nodes) CHECK(reinterpret_cast<uintptr_t>(&node) % alignment == 0);
}

/* Incomplete types, shared_ptr, and what is moved from. */
template <template <class> class A> void stl_objects(const A<int> &a) {
  typedef stl_tree<A> tree_type;
  std::vector<tree_type, A<tree_type>> none{A<tree_type>(a)};
  tree_type tree{none, 1};
  tree.children.push_back(tree_type{none, 2});
  CHECK(tree.children.size() == 1 && tree.children[0].value == 2);
  A<void> nothing(a);
  std::shared_ptr<int> shared = std::allocate_shared<int>(A<int>(nothing), 7);
  CHECK(*shared == 7);
  stl_check_block(a, shared.get());
  A<int> source(a), target(std::move(source));
  CHECK(source == a && target == a && !(source != target)); /* a move leaves the value as it was */
}

/* What std::allocator_traits sees, before C++20 and since. */
template <template <class> class A> void stl_traits(const A<int> &a) {
  typedef std::allocator_traits<A<int>> traits;
  static_assert(std::is_same<typename traits::value_type, int>::value, "value_type");
  static_assert(std::is_same<typename traits::pointer, int *>::value, "pointer");
  static_assert(std::is_same<typename traits::size_type, std::size_t>::value, "size_type");
  typedef typename traits::template rebind_alloc<char> rebound;
  static_assert(std::is_same<rebound, A<char>>::value, "rebind");
  static_assert(traits::propagate_on_container_copy_assignment::value, "copy");
  static_assert(traits::propagate_on_container_move_assignment::value, "move");
  static_assert(traits::propagate_on_container_swap::value, "swap");
  static_assert(std::is_nothrow_copy_constructible<A<int>>::value, "copying must not throw");
  static_assert(std::is_nothrow_copy_assignable<A<int>>::value, "copying must not throw");
  static_assert(std::is_nothrow_constructible<A<int>, const A<char> &>::value, "nor converting");
  A<int> b(a);
  CHECK(traits::max_size(b) == static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(int));
  CHECK(traits::select_on_container_copy_construction(b) == b);
  CHECK(A<char>(b) == b && A<int>(A<char>(b)) == b);
  int *p = traits::allocate(b, 4, nullptr);
  traits::construct(b, p, 42);
  CHECK(*p == 42 && b.address(*p) == p);
  traits::destroy(b, p);
  traits::deallocate(b, p, 4);
  const int **constant = A<const int *>(b).allocate(1);
  A<const int *>(b).construct(constant, nullptr);
  A<const int *>(b).deallocate(constant, 1);
}

/* 0: it returned; 1: bad_alloc; 2: bad_array_new_length */
template <class A> int stl_thrown(A a, std::size_t count) {
  try {
    void *volatile p = a.allocate(count);
    (void)p;
  } catch (std::bad_array_new_length &) {
    return 2;
  } catch (std::bad_alloc &) {
    return 1;
  }
  return 0;
}

static int stl_handler_calls;
inline void stl_handler() {
  if (++stl_handler_calls == 3) std::set_new_handler(nullptr);
}

/* count * size beyond what fits is no matter of memory: the handler is not asked. */
template <template <class> class A> void stl_failures(const A<int> &a) {
  const std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX);
  std::set_new_handler(stl_handler);
  stl_handler_calls = 0;
  CHECK(stl_thrown(a, most) == 2);
  CHECK(stl_thrown(a, SIZE_MAX / sizeof(int) + 2) == 2);
  CHECK(stl_thrown(A<stl_wide>(a), most) == 2);
  CHECK(stl_thrown(A<stl_wide>(a), SIZE_MAX / 64 + 2) == 2);
  CHECK(stl_handler_calls == 0);
  CHECK(stl_thrown(A<char>(a), most) == 1 && stl_handler_calls == 3);
  std::set_new_handler(stl_handler);
  stl_handler_calls = 0;
  CHECK(stl_thrown(A<stl_wide>(a), most / 64) == 1 && stl_handler_calls == 3);
  int *none = A<int>(a).allocate(0);
  A<int>(a).deallocate(none, 0);
}

template <template <class> class A> void stl_all(const A<int> &a) {
  stl_sequences<A>(a);
  stl_associative<A>(a);
  stl_strings<A>(a);
  stl_alignment<A, 32>(a);
  stl_alignment<A, 1024>(a);
  stl_alignment<A, 16384>(a);
  stl_objects<A>(a);
  stl_traits<A>(a);
  stl_failures<A>(a);
}

#endif
