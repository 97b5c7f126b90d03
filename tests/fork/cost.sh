#!/bin/sh
# SPDX-License-Identifier: MIT
# C04 fork-cost-many-threads: 300 parked threads that each hold one block; 200 times fork, _exit and wait from main are
# measured with and without preload. The median is at most 2 times that of the C library plus 1 ms.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
try=0
while [ $((try += 1)) -le 5 ]; do # a busy machine makes single runs worthless, not all of them
  without=$(timeout 60 "$plain/fork/cost") || exit $?
  with=$(limited 60 "$plain/fork/cost") || exit $?
  echo "median of fork and wait: $with us, without the library $without us"
  [ "$with" -gt $((2 * without + 1000)) ] || exit 0
done
fail "fork takes more than twice as long as without the library"
