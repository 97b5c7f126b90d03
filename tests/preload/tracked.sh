#!/bin/sh
# SPDX-License-Identifier: MIT
# K01, the tracking build (--enable-valgrind): memcheck reports each mistake once, for what it is, with the size that
# was asked for; a wrong free is reported by the library itself; correct programs give no report.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
[ "${MI_TEST_VALGRIND:-0}" = 1 ] || skip "not built with --enable-valgrind"
need valgrind
valgrind -q true >out 2>&1 || skip "valgrind does not work here: $(cat out)"
$MI_TEST_CC -O0 -g -w -I"$MI_TEST_SRCDIR/include" -I"$MI_TEST_SRCDIR/tests" -o tracked "$here/tracked.c" "$lib" \
  -Wl,-rpath,"$(dirname "$lib")" -pthread || exit 99
MIMALLOC_SHOW_ERRORS=1
MIMALLOC_ARENA_RESERVE=64M
export MIMALLOC_SHOW_ERRORS MIMALLOC_ARENA_RESERVE
# By default valgrind puts a malloc of its own in the place of any library's; the mi_ functions are not concerned.
ours=--soname-synonyms=somalloc=nouserintercepts
status=0
wrong() {
  echo "FAIL: $*"
  grep -v Warning: log | head -40
  cat err
  status=1
}
# memcheck COMMAND...: exit code, number of errors and of the library's messages, in $code, $errors, $messages
memcheck() {
  timeout -k 5 100 valgrind --leak-check=full --fair-sched=try --log-file=log "$@" >out 2>err
  code=$?
  errors=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) errors.*/\1/p' log | tail -1)
  messages=$(grep -c '^mimalloc: ' err)
}

# expect MISUSE COMMAND...: in the log, or on standard error, stand what `first` and `second` are.
expect() {
  text=$1
  shift
  memcheck "$@"
  case $first in
  none) want_errors=0 want_messages=0 ;;
  mimalloc:*) want_errors=0 want_messages=1 ;;
  *) want_errors=1 want_messages=0 ;;
  esac
  if [ $code -ne 0 ]; then wrong "$text: exit code $code"
  elif [ "$errors" != $want_errors ]; then wrong "$text: $errors errors, not $want_errors"
  elif [ "$messages" != $want_messages ]; then wrong "$text: $messages messages, not $want_messages"
  elif [ "$first" != none ] && ! grep -q -e "$first" log err; then wrong "$text: no \"$first\""
  elif [ -n "$second" ] && ! grep -q -e "$second" log; then wrong "$text: no \"$second\""
  fi
}

n=0
while IFS='|' read -r misuse first second; do
  [ -n "$misuse" ] || continue
  expect "$misuse, mi" ./tracked "$misuse" mi </dev/null
  case $misuse in *_offset | heap_*) ;; *) expect "$misuse, plain" $ours ./tracked "$misuse" plain </dev/null ;; esac
  n=$((n + 1))
done <<'END'
nothing|none|
uninitialised|depends on uninitialised value|
uninitialised_again|depends on uninitialised value|
uninitialised_grown|depends on uninitialised value|
uninitialised_kept|depends on uninitialised value|
overrun|Invalid write of size 1|is 0 bytes after a block of size 100 alloc'd
overrun_full|Invalid write of size 1|is 0 bytes after a block of size 96 alloc'd
overrun_calloc|Invalid write of size 1|is 0 bytes after a block of size 21 alloc'd
overrun_realloc|Invalid write of size 1|is 0 bytes after a block of size 333 alloc'd
overrun_aligned|Invalid write of size 1|is 0 bytes after a block of size 5,000 alloc'd
overrun_huge|Invalid write of size 1|is 0 bytes after a block of size 1,000,000 alloc'd
overrun_nothing|Invalid write of size 1|is 0 bytes after a block of size 0 alloc'd
overrun_usable|Invalid write of size 1|is 0 bytes after a block of size 77 alloc'd
overrun_in_callback|Invalid write of size 1|is 0 bytes after a block of size 100 alloc'd
overrun_offset|Invalid write of size 1|is 0 bytes after a block of size 100 alloc'd
underrun|Invalid write of size 1|is 1 bytes before a block of size 100 alloc'd
use_after_free|Invalid read of size 1|is 0 bytes inside a block of size 100 free'd
use_after_free_huge|Invalid read of size 1|is 0 bytes inside a block of size 3,000,000 free'd
store_after_free|Invalid write of size 1|is 20 bytes inside a block of size 100 free'd
use_after_realloc|Invalid read of size 1|is 5 bytes inside a block of size 100 free'd
use_after_remote_free|Invalid read of size 1|is 0 bytes inside a block of size 100 free'd
leak|500 bytes in 1 blocks are definitely lost|
leak_first|16 bytes in 1 blocks are definitely lost|
leak_huge|3,000,000 bytes in 1 blocks are definitely lost|
double_free|mimalloc: error: double free of |
double_free_late|mimalloc: error: double free of |
interior_free|mimalloc: error: free: invalid pointer .*inside a block|
interior_free_huge|mimalloc: error: free: invalid pointer |
interior_free_offset|mimalloc: error: free: invalid pointer .*inside a block|
heap_nothing|none|
heap_walks|none|
heap_deleted|none|
heap_use_after_destroy|Invalid read of size 1|is 0 bytes inside a block of size 100 free'd
heap_use_after_destroy_huge|Invalid read of size 1|is 0 bytes inside a block of size 3,000,000 free'd
heap_use_after_destroy_inside|Invalid read of size 1|is 0 bytes inside a block of size 100 free'd
heap_use_after_destroy_huge_inside|Invalid read of size 1|is 0 bytes inside a block of size 3,000,000 free'd
heap_overrun|Invalid write of size 1|is 0 bytes after a block of size 100 alloc'd
heap_leak|500 bytes in 1 blocks are definitely lost|
heap_leak_deleted|500 bytes in 1 blocks are definitely lost|
END
[ $n -ge 39 ] || wrong "only $n misuses tried"

# Correct programs, those of the public interface and many threads among them.
clean() {
  want_code=$1
  shift
  memcheck "$@"
  if [ $code -ne $want_code ]; then wrong "$*: exit code $code"
  elif [ "$errors" != 0 ]; then wrong "$*: $errors errors"
  fi
}
unset MIMALLOC_SHOW_ERRORS
LD_LIBRARY_PATH=$(dirname "$lib")
export LD_LIBRARY_PATH
for program in aligned forms strings; do
  built=$plain/api/.libs/$program
  [ -f "$built" ] || built=$plain/api/$program
  clean 0 $ours "$built"
done
LD_PRELOAD=$lib
export LD_PRELOAD
clean 7 $ours "$plain/preload/valgrind"
exit $status
