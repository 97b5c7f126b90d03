#!/bin/sh
# SPDX-License-Identifier: MIT
# Every message of the library stands in doc/diagnostics.md, in its own words, and nothing stands
# there that the library does not say.
set -u
case ${MI_TEST_SANITIZE:-}${MI_TEST_VALGRIND:-0}${MI_TEST_DEBUG:-0} in
00) ;;
*) echo "skipped: looks at the sources only"; exit 77 ;;
esac

srcdir=${srcdir:-.}
status=0
tmp=$(mktemp -d "${TMPDIR:-/tmp}/diagnostics_test.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT

# The text of each call: the first string after the name of a message function, its parts joined,
# without the end of the line. A call is looked at from the line with its name to one that ends with a semicolon.
find "$srcdir/src/" -name '*.c' -exec cat {} + | awk '
  function texts(   call, text, part) {
    while (match(all, /mi__(error|warning|verbose)\([^";]*"/)) {
      call = substr(all, RSTART, RLENGTH)
      all = substr(all, RSTART + RLENGTH - 1)
      if (call ~ /const char/) continue
      text = ""
      while (match(all, /^ *"([^"\\]|\\.)*"/)) {
        part = substr(all, RSTART, RLENGTH); all = substr(all, RSTART + RLENGTH)
        sub(/^ *"/, "", part); sub(/"$/, "", part)
        text = text part
      }
      sub(/\\n$/, "", text)
      print (call ~ /error/ ? "error: " : call ~ /warning/ ? "warning: " : "") text
    }
    all = ""
  }
  all != "" || /mi__(error|warning|verbose)\(/ { all = all " " $0 }
  all != "" && /; *$/ { texts() }
  END { texts() }
' | sort -u >"$tmp/said"
sed -n 's/^`mimalloc: \(.*\)`.*/\1/p' "$srcdir/doc/diagnostics.md" |
  grep -v '^check failed' | sort -u >"$tmp/told"

if [ "$(wc -l <"$tmp/said")" -lt 10 ]; then
  echo "diagnostics_test: FAIL: fewer than 10 messages found in src"
  status=1
fi
comm -23 "$tmp/said" "$tmp/told" >"$tmp/untold"
comm -13 "$tmp/said" "$tmp/told" >"$tmp/unsaid"
if [ -s "$tmp/untold" ]; then
  echo "diagnostics_test: FAIL: doc/diagnostics.md does not tell of:"
  sed 's/^/  /' "$tmp/untold"
  status=1
fi
if [ -s "$tmp/unsaid" ]; then
  echo "diagnostics_test: FAIL: the library does not say what doc/diagnostics.md tells of:"
  sed 's/^/  /' "$tmp/unsaid"
  status=1
fi
exit $status
