#!/bin/sh
# SPDX-License-Identifier: MIT
# K01 valgrind: valgrind --leak-check=no on a program linked with the library, and with LD_PRELOAD, threads 4, 1 s. The program's
# exit code is kept, no crash or assertion of the library; false "uninitialised" reports are allowed.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need valgrind
# under_valgrind TEXT COMMAND...: must leave with exit code 7. By default valgrind lets one thread run for as long as it does
# not wait, and the others of this program may starve for minutes, whatever the allocator.
under_valgrind() {
  text=$1
  shift
  timeout -k 5 120 valgrind -q --fair-sched=try --leak-check=no --error-limit=no --log-file=log "$@" >out 2>err
  code=$?
  [ $code -eq 7 ] || fail "$text: exit code $code: $(head -20 err log)"
  ! grep -E "mimalloc: |SIGSEGV|SIGABRT|SIGILL|SIGTRAP" log err || fail "$text: $(head -20 err log)"
}
$MI_TEST_CC -O1 -g -I"$MI_TEST_SRCDIR/include" -I"$MI_TEST_SRCDIR/tests" -o linked "$here/valgrind.c" "$lib" \
  -Wl,-rpath,"$(dirname "$lib")" -pthread || exit 99
valgrind -q true >out 2>&1 || skip "valgrind does not work here: $(cat out)"
under_valgrind "linked" ./linked
LD_PRELOAD=$lib
export LD_PRELOAD
under_valgrind "preloaded" "$plain/preload/valgrind"
# By default valgrind puts a malloc of its own in the place of any other: this is the run in which ours serves the program.
under_valgrind "preloaded, malloc left to the library" --soname-synonyms=somalloc=nouserintercepts "$plain/preload/valgrind"
