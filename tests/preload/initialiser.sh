#!/bin/sh
# SPDX-License-Identifier: MIT
# A06 static-initialiser-alloc: three shared libraries each with a global object that allocates in its constructor (priority
# 101 and default), and a .preinit_array function in the main program that calls malloc, calloc(1, 1672) and free; linked with
# the allocator last. Exit code 0, all blocks usable in main and freeable in destructors.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
[ -n "$MI_TEST_CXX" ] || skip "there is no C++ compiler"
for i in 1 2 3; do
  $MI_TEST_CXX -std=c++11 -O1 -fPIC -shared -DNUMBER=$i -o early$i.so "$here/initialiser-lib.cc" || exit 99
done
$MI_TEST_CXX -std=c++11 -O1 -o early "$here/initialiser.cc" ./early1.so ./early2.so ./early3.so \
  -Wl,--no-as-needed "$lib" -Wl,-rpath,"$(dirname "$lib")" || exit 99
$MI_TEST_CXX -std=c++11 -O1 -o unlinked "$here/initialiser.cc" ./early1.so ./early2.so ./early3.so || exit 99
timeout 100 ./early >out 2>&1 || fail "linked last: exit code $?: $(cat out)"
[ "$(cat out)" = "all 7 are gone" ] || fail "linked last: printed $(cat out)"
limited 100 ./unlinked >out 2>&1 || fail "preloaded: exit code $?: $(cat out)"
[ "$(cat out)" = "all 7 are gone" ] || fail "preloaded: printed $(cat out)"
