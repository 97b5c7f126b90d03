#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/holes.c at its smallest size: every mode runs to its end under the library, also with purge_holes off, and no byte of a
# block that stays is damaged (status 3); with holes the rest takes less memory than without. The chart is well-formed.
set -u
[ "$MI_TEST_OVERRIDE" = 1 ] && [ -n "$MI_TEST_LIB" ] && [ -f "$MI_TEST_LIB" ] || { echo "no library to preload"; exit 77; }
[ -z "$MI_TEST_SANITIZE" ] || { echo "not under sanitizers"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
$MI_TEST_CC -std=gnu11 -O2 -fno-builtin -pthread "$MI_TEST_SRCDIR/bench/holes.c" -o "$work/holes" || exit 99

status=0
fail() { echo "FAIL: $*"; status=1; }
run() { # name mode scale variable
  name=$1 mode=$2 size=$3
  shift 3
  env "$@" LD_PRELOAD="$MI_TEST_LIB" timeout 60 "$work/holes" "$mode" "$size" >"$work/$name" 2>&1
  echo $? >"$work/$name.status"
}
value() { sed -n "s/^$2 //p" "$work/$1"; }

modes='inline park threads buffers server'
for mode in $modes; do # they mostly wait: all at once
  size=0.1
  [ $mode = server ] && size=1
  run on-$mode $mode $size MIMALLOC_PURGE_HOLES=1 MIMALLOC_PURGE_HOLES_LARGE_FLOOR=0 &
  run off-$mode $mode $size MIMALLOC_PURGE_HOLES=0 &
done
wait
for mode in $modes; do
  for name in on-$mode off-$mode; do
    [ "$(cat "$work/$name.status")" = 0 ] || { fail "$name: status $(cat "$work/$name.status")"; cat "$work/$name"; }
  done
  [ -s "$work/off-$mode" ] || continue # no parks here
  [ $mode = server ] && continue
  [ "$(value off-$mode discard-calls)" = 0.000 ] || fail "$mode: discards with holes off"
  awk "BEGIN { exit !($(value on-$mode rest) < 0.8 * $(value off-$mode rest)) }" ||
    fail "$mode: $(value on-$mode rest) MiB at rest, $(value off-$mode rest) without holes"
done

if command -v python3 >/dev/null 2>&1; then
  PYTHONDONTWRITEBYTECODE=1 python3 - "$MI_TEST_SRCDIR/bench" "$work/chart.svg" <<'PY' || fail "no chart"
import sys
import xml.dom.minidom
sys.path.insert(0, sys.argv[1])
from chart import write_chart
write_chart(sys.argv[2], [('a & b', 'seconds', 'MiB', [('x', [(0, 1), (1, 300)]), ('y', [(0, 2), (2.5, 7)])]),
                          ('nothing', 'seconds', 'MiB', [])])
svg = xml.dom.minidom.parse(sys.argv[2])
assert len(svg.getElementsByTagName('polyline')) == 4
words = [t.firstChild.data for t in svg.getElementsByTagName('text')]
assert all(w in words for w in ('a & b', 'seconds', 'MiB', 'x', 'y', '0', '300', '2')), words
PY
fi
exit $status
