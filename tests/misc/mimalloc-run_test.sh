#!/bin/sh
# SPDX-License-Identifier: MIT
# mimalloc-run: help, version, the program's exit code and arguments, and a message where it cannot work.
set -u
run=$MI_TEST_BUILDDIR/mimalloc-run
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
status=0
fail() { echo "FAIL: $*"; status=1; }
# expect STATUS COMMAND...: output to $tmp/out, errors to $tmp/err
expect() {
  want=$1
  shift
  "$@" >"$tmp/out" 2>"$tmp/err"
  got=$?
  [ $got = "$want" ] || { cat "$tmp/out" "$tmp/err"; fail "status $got, not $want: $*"; }
}

expect 0 "$run" --help
grep -q '^Usage: mimalloc-run' "$tmp/out" || fail "--help prints no usage"
expect 0 "$run" --version
grep -q -x 'mimalloc-run (mimalloc) 3\.5\.2' "$tmp/out" || fail "--version"

# Without the library: a message, and the program does not run.
unset LD_LIBRARY_PATH
mkdir "$tmp/none"
if ! LD_PRELOAD=libmimalloc.so.3 /bin/sh -c : 2>&1 | grep -q libmimalloc; then
  echo "the message for a missing library: skipped, one is installed"
else
  expect 125 "$run" echo ran
  grep -q 'libmimalloc\.so\.3 cannot be loaded' "$tmp/err" || fail "no message for a missing library"
  [ -s "$tmp/out" ] && fail "the program ran without the library"
fi

[ -f "$MI_TEST_LIB" ] || { echo "the rest: skipped, no shared library was built"; exit $status; }
[ -z "$MI_TEST_SANITIZE" ] || { echo "the rest: skipped, a sanitizer cannot be preloaded so"; exit $status; }
LD_LIBRARY_PATH=${MI_TEST_LIB%/*}
export LD_LIBRARY_PATH

expect 125 "$run"
expect 125 "$run" --no-such-option
expect 127 "$run" no-such-program-anywhere
expect 127 "$run" "$tmp/missing"
echo text >"$tmp/file"
expect 126 "$run" "$tmp/file"
expect 126 "$run" "$tmp/none"
expect 7 "$run" sh -c 'exit 7'
expect 0 "$run" sh -c 'printf "%s|" "$@"' sh 'a b' '' '*'
[ "$(cat "$tmp/out")" = 'a b||*|' ] || fail "the arguments do not arrive: $(cat "$tmp/out")"
expect 0 "$run" -- printf x
# The program and its children have the library; what was preloaded before stays behind it.
expect 0 "$run" sh -c 'sh -c "cat /proc/self/maps"'
grep -q libmimalloc "$tmp/out" || fail "a child runs without the library"
expect 0 env LD_PRELOAD=libc.so.6 "$run" sh -c 'echo "$LD_PRELOAD"'
[ "$(cat "$tmp/out")" = libmimalloc.so.3:libc.so.6 ] || fail "LD_PRELOAD is $(cat "$tmp/out")"
exit $status
