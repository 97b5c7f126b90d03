#!/bin/sh
# SPDX-License-Identifier: MIT
# J05 override-header-in-cxx. Programs that use malloc and its family under all names compile without a warning with
# mimalloc-override.h, forced in before everything else or included after the system's headers, in C and C++, and all their
# blocks are the library's. The operators of mimalloc-new-delete.h: twice in a source is once, in two sources the
# linker refuses, and with a library that has them as well the program's are used.
. "$MI_TEST_SRCDIR/tests/tree/lib.sh"
n=0
flags="$(value SANITIZER_FLAGS) $(value COVERAGE_FLAGS)"
libs=$(value LIBS)
warn='-Wall -Wextra -Wpedantic -Wshadow -Werror'

archive=$MI_TEST_BUILDDIR/.libs/libmimalloc.a
library=$MI_TEST_LIB
[ -f "$library" ] || library=$archive
[ -f "$library" ] || { echo "no library was built"; exit 1; }
with() { echo "$1 -Wl,-rpath,${1%/*} $libs"; }

# run NAME COMPILER FLAGS...: a program that is built so runs and exits with 0
run() {
  name=$1
  shift
  n=$((n + 1))
  "$@" -I"$include" -o "$tmp/program" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "build of $name: $*"; return; }
  timeout 100 "$tmp/program" || fail "$name: exit code $?: $*"
}
compilers() { for cc; do [ -n "$cc" ] && have "$cc" && echo "$cc"; done | awk '!seen[$1]++'; }
optimize=-O0
size=${MI_TEST_SIZE:-short}
if [ $size = short ]; then
  all_cc=$(compilers "$MI_TEST_CC")
  all_cxx=$(compilers "${MI_TEST_CXX-}")
  c_standards='c99 c2x'
  cxx_standards='c++11 c++2b'
else
  [ -z "$MI_TEST_SANITIZE" ] && all_cc=$(compilers "$MI_TEST_CC" gcc clang) || all_cc=$(compilers "$MI_TEST_CC")
  [ -z "$MI_TEST_SANITIZE" ] && all_cxx=$(compilers "${MI_TEST_CXX-}" g++ clang++) || all_cxx=$(compilers "${MI_TEST_CXX-}")
  c_standards='c99 gnu99 c11 c17 c2x'
  cxx_standards='c++11 c++14 c++17 c++20 c++2b'
  optimize=-O2
fi
forced='-include mimalloc-override.h'
cxx_program() {
  run "C++, $*" $cxx -std=$std $optimize $warn $flags "$@" "$src/tests/tree/override/names.cc" $(with "$library")
}

IFS='
'
set -- $all_cc
unset IFS
for cc; do
  for std in $c_standards; do
    known "$cc" $std c || continue
    for how in "$forced" -DAFTER; do
      run "C, $how" $cc -std=$std $optimize $warn $flags $how "$src/tests/tree/override/names.c" $(with "$library")
    done
  done
done

IFS='
'
set -- $all_cxx
unset IFS
for cxx; do
  for std in $cxx_standards; do
    known "$cxx" $std cc || continue
    [ $size$std = shortc++2b ] || cxx_program $forced
    [ $size$std = shortc++11 ] || cxx_program -DAFTER -DDEFINE_NEW
  done
done

if [ -n "${MI_TEST_CXX-}" ]; then
  # In two sources: the linker names the operators; nothing runs with half of them.
  printf '#include "mimalloc-new-delete.h"\nint main() { delete new int; }\n' >"$tmp/one.cc"
  printf '#include "mimalloc-new-delete.h"\nint other;\n' >"$tmp/two.cc"
  if $MI_TEST_CXX $flags -I"$include" "$tmp/one.cc" "$tmp/two.cc" -o "$tmp/program" $(with "$library") >"$tmp/log" 2>&1; then
    fail "the operators of two sources were linked"
  elif ! grep -q 'multiple definition\|duplicate symbol' "$tmp/log"; then
    cat "$tmp/log"
    fail "operators in two sources"
  fi
  # In one, with each library: the program's hold, also for what the C++ library allocates.
  cat >"$tmp/once.cc" <<'X'
#include "mimalloc-new-delete.h"
#include <cstdlib>
#include <string>
#include <vector>
struct thing { char c[200]; };
int main() {
  std::vector<std::string> v(10, std::string(100, 'x'));
  thing *one = new thing, *many = new thing[5], *quiet = new (std::nothrow) thing;
  bool ours = mi_check_owned(v.data()) && mi_check_owned(v[3].data()) && mi_check_owned(one) && mi_check_owned(many) &&
              mi_check_owned(quiet);
  delete one;
  delete[] many;
  delete quiet;
  int thrown = 0;
  volatile std::size_t huge = PTRDIFF_MAX;
  try { void *volatile p = ::operator new(huge); (void)p; } catch (std::bad_alloc &) { thrown++; }
  void *volatile p = std::malloc(10);
  std::free(p);
  return ours && thrown == 1 ? 0 : 1;
}
X
  for library in "$MI_TEST_LIB" "$archive"; do
    [ -f "$library" ] || continue
    run "operators in the program, ${library##*/}" $MI_TEST_CXX $flags "$tmp/once.cc" $(with "$library")
  done
else
  echo "C++: skipped, no compiler"
fi
[ $n -ge 4 ] || fail "only $n programs were built"
echo "$n programs"
exit $status
