#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header compiles alone, without a warning, in the standards of C and C++ that the compilers know (in make
# check in the oldest, and all of them together in the newest); the macros
# and allocators for C++ compile when used; no header depends on how the library was configured.
case ${MI_TEST_SANITIZE:-}${MI_TEST_VALGRIND:-0}${MI_TEST_DEBUG:-0} in
00) ;;
*) echo "skipped: looks at the headers only"; exit 77 ;;
esac
. "$MI_TEST_SRCDIR/tests/tree/lib.sh"
n=0

# each COMPILERS STANDARDS SUFFIX FLAGS: compile $tmp/t.SUFFIX
each() {
  for cc in $1; do
    have "$cc" || continue
    for std in $2; do
      known $cc $std $3 || continue
      n=$((n + 1))
      $cc -std=$std -Wall -Wextra -Wpedantic -Wshadow $4 -Werror -I"$include" -fsyntax-only "$tmp/t.$3" ||
        fail "$5: $cc -std=$std"
    done
  done
}
# In make check the compilers of the build; in longer runs what else is there, each once.
compilers() { for cc; do [ -n "$cc" ] && echo "${cc%% *}"; done | awk '!seen[$0]++' | tr '\n' ' '; }
if [ "${MI_TEST_SIZE:-short}" = short ]; then
  all_cc=$(compilers "$MI_TEST_CC")
  all_cxx=$(compilers "${MI_TEST_CXX-}")
  c_standards='c99 c2x'
  cxx_standards='c++11 c++2b'
  alone_c=c99
  alone_cxx=c++11
else
  all_cc=$(compilers "$MI_TEST_CC" gcc clang)
  all_cxx=$(compilers "${MI_TEST_CXX-}" g++ clang++)
  c_standards='c99 gnu99 c11 gnu11 c17 gnu17 c2x gnu2x'
  cxx_standards='c++11 gnu++11 c++14 c++17 gnu++17 c++20 c++2b'
  alone_c=$c_standards
  alone_cxx=$cxx_standards
fi

for header in "$include"/*.h; do
  name=${header##*/}
  printf '#include <%s>\n#include <%s>\nint ok;\n' "$name" "$name" >"$tmp/t.c"
  cp "$tmp/t.c" "$tmp/t.cc"
  each "$all_cc" "$alone_c" c "-Wstrict-prototypes" "$name"
  each "$all_cxx" "$alone_cxx" cc "" "$name"
  grep -n 'HAVE_\|config\.h\|@' "$header" && fail "$name depends on the configuration"
  # The one that renames functions stands last.
  case $name in *override*) all_headers=${all_headers-}$name ;; *) all_headers="$name ${all_headers-}" ;; esac
done
if [ "$alone_c" != "$c_standards" ]; then
  printf '#include <%s>\n' $all_headers >"$tmp/t.c"
  echo 'int ok;' >>"$tmp/t.c"
  cp "$tmp/t.c" "$tmp/t.cc"
  each "$all_cc" c2x c "-Wstrict-prototypes" "all headers"
  each "$all_cxx" c++2b cc "" "all headers"
fi

cat >"$tmp/t.c" <<'X'
#include <mimalloc.h>
#include <mimalloc-stats.h>
struct thing { double d; char c[3000]; };
extern int use(void *p);
int all(mi_heap_t *heap);
int all(mi_heap_t *heap) {
  mi_stats_t_decl(stats);
  struct thing *t = mi_malloc_tp(struct thing), *z = mi_zalloc_tp(struct thing), *c = mi_calloc_tp(struct thing, 3);
  struct thing *m = mi_mallocn_tp(struct thing, 3), *h = mi_heap_malloc_tp(struct thing, heap);
  m = mi_reallocn_tp(m, struct thing, 4);
  m = mi_recalloc_tp(m, struct thing, 5);
  h = mi_heap_reallocn_tp(h, heap, struct thing, 4);
  h = mi_heap_recalloc_tp(h, heap, struct thing, 5);
  mi_free_tp(t, struct thing);
  void *small = mi_malloc_csize(10), *large = mi_zalloc_csize(5000);
  mi_free_csize(large, 5000);
  mi_free_csize_nonnull(small, 10);
  return use(z) + use(c) + use(m) + use(h) + (int)stats.size + use(mi_heap_zalloc_tp(struct thing, heap)) +
         use(mi_heap_calloc_tp(struct thing, heap, 2)) + use(mi_heap_mallocn_tp(struct thing, heap, 2)) +
         (int)mi_wsize_from_size(9);
}
X
each "$all_cc" "$c_standards" c "-Wstrict-prototypes" "use of the macros"

cat >"$tmp/t.cc" <<'X'
#include <mimalloc.h>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>
template <template <class> class A> std::size_t use() {
  struct alignas(64) wide { int x; };
  std::vector<int, A<int>> v;
  v.push_back(1);
  std::list<std::string, A<std::string>> l;
  l.push_back("text");
  std::map<int, int, std::less<int>, A<std::pair<const int, int>>> m;
  m[1] = 2;
  auto w = v;
  w = std::move(v);
  std::vector<wide, A<wide>> a(3);
  return w.size() + l.size() + m.size() + a.size() + (A<int>() == A<int>()) + (A<int>() != A<char>());
}
std::size_t all();
std::size_t all() {
  return use<mi_stl_allocator>() + use<mi_heap_stl_allocator>() + use<mi_heap_destroy_stl_allocator>();
}
X
each "$all_cxx" "$cxx_standards" cc "" "use of the C++ allocators"
each "$all_cxx" c++11 cc "-fno-exceptions -fno-rtti" "use of the C++ allocators without exceptions"

[ $n -ge 10 ] || fail "only $n compilations were tried"
echo "$n compilations"
exit $status
