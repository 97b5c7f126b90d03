#!/bin/sh
# SPDX-License-Identifier: MIT
# A05 dlopened-lib-new-delete-mix: a C++ plug-in (.so, not linked with the library) gives out a std::string, a std::vector, a
# strdup() result and a getline() buffer; the host, linked with the library (no preload), frees and deletes them; and the
# other way round. Exit code 0 with RTLD_LOCAL and RTLD_GLOBAL. With RTLD_DEEPBIND and preload, exit code 0 for blocks that
# are freed on the side that made them.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
[ -n "$MI_TEST_CXX" ] || skip "there is no C++ compiler"
$MI_TEST_CXX -std=c++11 -O1 -fPIC -shared -o plugin.so "$here/plugin.cc" || exit 99
$MI_TEST_CXX -std=c++11 -O1 -DLINKED -o linked "$here/plugin-host.cc" "$lib" -ldl -Wl,-rpath,"$(dirname "$lib")" || exit 99
$MI_TEST_CXX -std=c++11 -O1 -o unlinked "$here/plugin-host.cc" -ldl || exit 99
for mode in local global; do
  for program in linked unlinked; do
    preload=
    [ $program = linked ] || preload=$lib
    timeout 100 env LD_PRELOAD="$preload" ./$program ./plugin.so $mode >out 2>&1 ||
      fail "$program host, $mode: exit code $?: $(cat out)"
    [ ! -s out ] || fail "$program host, $mode: printed $(cat out)"
  done
done
limited 100 ./unlinked ./plugin.so deepbind >out 2>&1 || fail "deepbind under preload: exit code $?: $(cat out)"
