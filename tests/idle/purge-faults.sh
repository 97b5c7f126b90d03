#!/bin/sh
# SPDX-License-Identifier: MIT
# The stress program of the purging finds each fault that MI_BAD_PURGE builds into the library (src/base/check.h): only
# the two files that have them are compiled again. One of them in make check, all in make check-long. They are met
# after some hundreds or thousands of rounds; a machine so busy that it does not come to 10000 in the time says nothing.
set -u
skip() { echo "skipped: $*"; exit 77; }
[ -z "${MI_TEST_SANITIZE:-}" ] || skip "a sanitizer changes the pace"
[ -f "$MI_TEST_BUILDDIR/tests/libinternal.a" ] || skip "no libinternal.a was built"
src=$MI_TEST_SRCDIR
tmp=$(mktemp -d) || exit 99
trap 'cd / && rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
flags="$(sed -n 's/^COVERAGE_FLAGS = *//p' "$MI_TEST_BUILDDIR/Makefile") -std=gnu11 -O2 -pthread -D_GNU_SOURCE -DHAVE_CONFIG_H
  -DMI_OVERRIDE=0 -I$MI_TEST_BUILDDIR -I$src/include -I$src/src -I$src/tests"

# What is compiled here comes before the archive, whose own copies are then left out.
build() {
  $MI_TEST_CC $flags -DMI_BAD_PURGE="$1" "$src/src/arena/purge.c" "$src/src/idle/sweep.c" \
    purge-stress.o "$MI_TEST_BUILDDIR/tests/libinternal.a" -o "stress$1" || exit 99
}

status=0
case ${MI_TEST_SIZE:-short} in short) faults=1 ;; *) faults='1 2 3 4 5' ;; esac
$MI_TEST_CC $flags -c "$src/tests/idle/purge-stress.c" -o purge-stress.o || exit 99
build 0
MI_TEST_SIZE=stress MI_STRESS_SECONDS=1 ./stress0 >out 2>&1 || { cat out; echo "FAIL: without a fault"; exit 1; }
for n in $faults; do
  build "$n"
  began=$(date +%s)
  if MI_TEST_SIZE=stress MI_STRESS_SECONDS=90 timeout -k 10 120 "./stress$n" >out 2>&1; then
    cat out
    rounds=$(sed -n 's/^\([0-9]*\) rounds, .*/\1/p' out)
    if [ "${rounds:-0}" -lt 10000 ]; then
      echo "fault $n is not found: too few rounds"
      continue
    fi
    echo "FAIL: fault $n is not found"
    status=1
  elif grep -q '^round ' out; then
    echo "fault $n: after $(($(date +%s) - began)) s: $(sed -n '/^round /p' out)"
  else
    cat out
    echo "FAIL: fault $n fails in another way"
    status=1
  fi
done
exit $status
