#!/bin/sh
# SPDX-License-Identifier: MIT
# The enum of the public header is that of the table of options, and its numbers have no gap.
set -u
src=$MI_TEST_SRCDIR
status=0
sh "$src/maint/options" --check "$src/src/rt/option.def" "$src/include/mimalloc.h" ||
  { echo "FAIL: the header differs from src/rt/option.def (make update-options)"; status=1; }
sed -n 's/^OPTION(\([0-9]*\),.*/\1/p' "$src/src/rt/option.def" |
  awk '$1 != NR - 1 { print "FAIL: option " $1 " stands in place " NR - 1; bad = 1 } END { exit bad || NR < 56 }' ||
  { echo "FAIL: the numbers of the options"; status=1; }
exit $status
