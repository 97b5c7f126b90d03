#!/bin/sh
# SPDX-License-Identifier: MIT
# G01 late-frees-at-exit: 50 global std::map and std::string objects in 5 .so, freed after the allocator's own exit hook; atexit
# handlers that malloc, setenv and print; with destroy-on-exit 0 and 1, show-stats 0 and 1, verbose; exits by return, exit(),
# quick_exit, pthread_exit from main. The exit code is kept, within 2 s, 100 of 100; with destroy-on-exit=1 no crash.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
[ -n "$MI_TEST_CXX" ] || skip "there is no C++ compiler"
$MI_TEST_CXX -std=c++11 -O1 -fPIC -shared -o late1.so "$here/late-free-lib.cc" || exit 99
for i in 2 3 4 5; do cp late1.so late$i.so; done
$MI_TEST_CXX -std=c++11 -O1 -o linked "$here/late-free.cc" "$lib" ./late1.so ./late2.so ./late3.so ./late4.so ./late5.so \
  -Wl,--no-as-needed -Wl,-rpath,"$(dirname "$lib")" -pthread || exit 99
$MI_TEST_CXX -std=c++11 -O1 -o unlinked "$here/late-free.cc" ./late1.so ./late2.so ./late3.so ./late4.so ./late5.so \
  -pthread || exit 99

# exits HOW CODE PROGRAM VARIABLE...: the exit code is kept, what the handlers print arrives, nothing else is printed.
exits() {
  how=$1
  code=$2
  program=$3
  shift 3
  preload=
  [ "$program" = linked ] || preload=$lib
  timeout -k 5 100 env "$@" LD_PRELOAD="$preload" ./"$program" $how $code >out 2>err
  got=$?
  [ $got -eq $code ] || fail "$program, $how, $*: exit code $got, want $code: $(cat out err)"
  want="handlers ran"
  [ "$how" != quick_exit ] || want="quick handlers ran"
  [ "$(cat out)" = "$want" ] || fail "$program, $how, $*: printed $(cat out)"
  case "$*" in
  *VERBOSE* | *STATS*) ;;
  *) [ ! -s err ] || fail "$program, $how, $*: printed $(cat err)" ;;
  esac
}

# pthread_exit of the main thread ends with 0 when the last thread ends.
for variables in A=b MIMALLOC_DESTROY_ON_EXIT=1 MIMALLOC_SHOW_STATS=1 MIMALLOC_VERBOSE=1 \
  "MIMALLOC_DESTROY_ON_EXIT=1 MIMALLOC_SHOW_STATS=1 MIMALLOC_VERBOSE=2" "MIMALLOC_DESTROY_ON_EXIT=1 MIMALLOC_PURGE_DELAY=0"; do
  for program in linked unlinked; do
    exits return 7 $program $variables
    exits exit 8 $program $variables
    exits quick_exit 9 $program $variables
    exits pthread_exit 0 $program $variables
  done
done
[ $long_run = yes ] || exit 0
i=0
while [ $((i += 1)) -le 100 ]; do
  exits return 7 unlinked A=b
  exits exit 8 unlinked MIMALLOC_DESTROY_ON_EXIT=1
done
