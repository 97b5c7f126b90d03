#!/bin/sh
# SPDX-License-Identifier: MIT
# Instructions that the loops of bench/micro.c take under the library, loop included: the slope between
# two counts of iterations under callgrind, so that start and end of the program do not matter. An
# iteration of batch and batch-lifo is 1000 pairs. The budgets are for x86-64 and an optimised build by
# gcc, where the counts are the same from run to run. The same for bench/heap.c: what mi_heap_malloc
# takes over mi_malloc, and a heap's whole life.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need valgrind
case $(uname -m) in x86_64 | amd64) ;; *) skip "the budgets are those of x86-64" ;; esac
makefile=$MI_TEST_BUILDDIR/Makefile
cflags=$(sed -n 's/^CFLAGS = *//p' "$makefile")
case " $cflags " in *" -O2 "* | *" -O3 "*) ;; *) skip "built without -O2: CFLAGS are \"$cflags\"" ;; esac
case $(sed -n 's/^COVERAGE_FLAGS = *//p' "$makefile") in ?*) skip "built to count lines" ;; esac
grep -q '^#define MI_DEBUG 1' "$MI_TEST_BUILDDIR/config.h" && skip "built to check itself"
[ "${MI_TEST_VALGRIND:-0}" = 0 ] || skip "built with --enable-valgrind"
$MI_TEST_CC --version 2>&1 | grep -qi clang && skip "the budgets are those of gcc"

$MI_TEST_CC -O2 -fno-builtin -pthread "$MI_TEST_SRCDIR/bench/micro.c" -o micro || exit 99

# Instructions of the whole program; runs beside its twin.
count() {
  limited 60 valgrind --tool=callgrind --callgrind-out-file=/dev/null ./micro "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : *\([0-9]*\).*/\1/p' >"$1.$2"
}

status=0
while read -r mode few many per budget; do
  count "$mode" "$few" </dev/null &
  count "$mode" "$many" </dev/null
  wait
  a=$(cat "$mode.$few") b=$(cat "$mode.$many")
  [ -n "$a" ] && [ -n "$b" ] || skip "callgrind does not run here"
  awk -v a="$a" -v b="$b" -v n=$(((many - few) * per)) -v mode="$mode" -v budget="$budget" 'BEGIN {
    figure = (b - a) / n
    printf "%-12s %7.2f of %s\n", mode, figure, budget
    exit (figure > budget || figure < 5)
  }' || { echo "FAIL: $mode is over its budget"; status=1; }
done <<'END'
fixed        50000 150000    1  46
random      100000 300000    1  64
batch           50    150 1000  50
batch-lifo      50    150 1000  50.1
calloc       50000 150000    1  96
large        20000  60000    1  75
replace-512  50000 150000    1  62
replace-16k  30000  90000    1 160
replace-100k 20000  60000    1 130
replace-300k 20000  60000    1 200
END

$MI_TEST_CC -O2 -I"$MI_TEST_SRCDIR/include" -I"$MI_TEST_BUILDDIR/include" "$MI_TEST_SRCDIR/bench/heap.c" "$lib" \
  -Wl,-rpath,"$(dirname "$lib")" -o heap || exit 99
# Passes come by the clock, so how many there are depends on the machine: none, with a delay that is never over.
figure_of() { # MODE FEW MANY
  for n in "$2" "$3"; do
    MIMALLOC_PURGE_DELAY=100000 limited 60 valgrind --tool=callgrind --callgrind-out-file=/dev/null ./heap "$1" "$n" 2>&1 |
      sed -n 's/.*Collected : *\([0-9]*\).*/\1/p' >"$1.$n"
  done
  awk -v a="$(cat "$1.$2")" -v b="$(cat "$1.$3")" -v n=$(($3 - $2)) 'BEGIN { print (b - a) / n }'
}
# over TEXT FIGURE LESS AT-MOST
over() {
  awk -v text="$1" -v f="$2" -v less="$3" -v budget="$4" 'BEGIN {
    printf "%-12s %7.2f of %s\n", text, f - less, budget
    exit (f - less > budget || f < 5)
  }' || { echo "FAIL: $1 is over its budget"; status=1; }
}
plain=$(figure_of plain 10000 30000)
over heap-last "$(figure_of last 10000 30000)" "$plain" 8
over heap-other "$(figure_of other 10000 30000)" "$plain" 16
over heap-cycle "$(figure_of cycle 1000 3000)" 0 4000
exit $status
