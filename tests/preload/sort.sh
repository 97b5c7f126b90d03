#!/bin/sh
# SPDX-License-Identifier: MIT
# sort under LD_PRELOAD, with threads and with temporary files, gives the same output as without.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need sort awk
awk 'BEGIN { x = 1; for (i = 0; i < 150000; i++) { x = (x * 48271) % 2147483647; print x, i % 97, "line " x % 1009 } }' >lines
same "sort" sort lines
same "sort in parallel" sort --parallel=4 -S 64M -k2,2n -k3 lines
same "sort with temporary files" sort -S 1M -T "$work" -r -n lines
same "sort -u -R refused" sort -u --no-such-option lines
ours "sort" sort --parallel=4 -S 64M lines
