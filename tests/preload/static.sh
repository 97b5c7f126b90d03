#!/bin/sh
# SPDX-License-Identifier: MIT
# A07 fully-static-glibc: g++ -static, a program that starts one std::thread and joins; the static library is linked before
# the C library; run with and without option variables set; also a plain C hello. Exit code 0. Allocation goes through the
# library (mi_is_in_heap_region says yes for a malloc block).
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
archive=${MI_TEST_ARCHIVE:-$MI_TEST_BUILDDIR/.libs/libmimalloc.a}
[ -f "$archive" ] || skip "there is no static library"
cat >hello.c <<'END'
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
bool mi_is_in_heap_region(const void *p);
int main(void) {
  void *p = malloc(100), *q = calloc(1, 100000);
  if (!mi_is_in_heap_region(p) || !mi_is_in_heap_region(q)) return 1;
  free(p);
  free(q);
  puts("hello");
  return 0;
}
END
cat >thread.cc <<'END'
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
extern "C" bool mi_is_in_heap_region(const void *p);
static std::string early(1000, 'e');
int main() {
  std::vector<std::string> all;
  bool ours = mi_is_in_heap_region(early.data());
  std::thread t([&] { for (int i = 0; i < 1000; i++) all.push_back(std::string(static_cast<size_t>(i), 'x')); });
  t.join();
  for (auto &s : all) if (s.size() > 30 && !mi_is_in_heap_region(s.data())) ours = false;
  try { throw std::string("thrown"); } catch (std::string &s) { if (s != "thrown") return 2; }
  std::puts("hello");
  return ours ? 0 : 1;
}
END
echo 'int main(void) { return 0; }' >empty.c
$MI_TEST_CC -static -o empty empty.c -pthread 2>/dev/null || skip "the C library cannot be linked statically"
$MI_TEST_CC -static -O1 -o hello hello.c "$archive" -pthread || fail "a static C program does not link"
programs=hello
if [ -n "$MI_TEST_CXX" ]; then
  $MI_TEST_CXX -std=c++11 -static -O1 -o thread thread.cc "$archive" -pthread || fail "a static C++ program does not link"
  programs="hello thread"
fi
for program in $programs; do
  for variables in A=b MIMALLOC_PURGE_DELAY=0 "MIMALLOC_SHOW_ERRORS=1 MIMALLOC_ARENA_RESERVE=64MiB" MIMALLOC_SCAVENGER=0; do
    timeout 100 env $variables ./$program >out 2>err || fail "$program with $variables: exit code $?: $(cat err)"
    [ "$(cat out)" = hello ] && [ ! -s err ] || fail "$program with $variables: printed $(cat out err)"
  done
  timeout 100 env MIMALLOC_VERBOSE=1 ./$program >out 2>err || fail "$program, verbose: exit code $?"
  grep -q '^mimalloc: ' err || fail "$program, verbose: printed $(cat err)"
done
