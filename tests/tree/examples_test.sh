#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs in the manual pages, those whose .EX follows a comment `example: NAME`: as man shows them they compile without a
# warning, are linked with the library that was built, run, and end with status 0.
set -u
[ -n "$MI_TEST_LIB" ] && [ -f "$MI_TEST_LIB" ] || { echo "skipped: there is no shared library"; exit 77; }
[ -z "$MI_TEST_SANITIZE" ] || { echo "not under sanitizers"; exit 77; }
command -v mandoc >/dev/null || { echo "skipped: no mandoc"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
status=0
n=0
for page in "$MI_TEST_SRCDIR"/man/*.3 "$MI_TEST_SRCDIR"/man/*.7; do
  for name in $(sed -n 's/^\.\\" example: \([a-z_]*\)$/\1/p' "$page"); do
    n=$((n + 1))
    # The page with nothing but this example, so that what mandoc shows is the program.
    awk -v name="$name" '
      $0 == ".\\\" example: " name { found = 1 }
      found && /^\.EX/ { print ".TH x 3"; print ".nf"; show = 1; next }
      show && /^\.EE/ { exit }
      show { print }' "$page" >"$work/$name.man"
    mandoc -T ascii -O width=200 "$work/$name.man" 2>/dev/null | sed '1d;$d' >"$work/$name.c"
    $MI_TEST_CC -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror -pthread -I"$MI_TEST_SRCDIR/include" "$work/$name.c" \
      "$MI_TEST_LIB" -Wl,-rpath,"$(dirname "$MI_TEST_LIB")" -o "$work/$name" || {
      echo "FAIL: $page: example $name does not compile"
      cat "$work/$name.c"
      status=1
      continue
    }
    timeout 60 "$work/$name" || { echo "FAIL: $page: example $name: status $?"; status=1; }
  done
done
[ "$n" -ge 2 ] || { echo "FAIL: only $n examples were found"; status=1; }
exit $status
