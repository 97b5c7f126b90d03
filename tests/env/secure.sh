#!/bin/sh
# SPDX-License-Identifier: MIT
# A10 setuid-ignores-options: a program linked with the library, owned by root, mode 4755, run by an
# ordinary user with variables set: nothing printed, defaults in force; the same program without the
# set-uid bit prints.
set -u
fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }

[ "$(id -u)" = 0 ] || skip "only root can make a set-uid program"
command -v setpriv >/dev/null || skip "no setpriv"
[ -z "${MI_TEST_SANITIZE:-}" ] || skip "built for a sanitizer"
: "${MI_TEST_SRCDIR:?}" "${MI_TEST_BUILDDIR:?}"
archive=$MI_TEST_BUILDDIR/.libs/libmimalloc.a
# The loader of a set-uid program ignores the path to a shared library that is not installed.
[ -f "$archive" ] || skip "there is no static library"

work=$(mktemp -d "${TMPDIR:-/tmp}/mi-secure.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
${MI_TEST_CC:-cc} -I"$MI_TEST_SRCDIR/include" -o "$work/plain" \
  "$MI_TEST_SRCDIR/tests/env/secure.c" "$archive" -pthread || exit 99
cp "$work/plain" "$work/setuid" && chown 0 "$work/setuid" && chmod 4755 "$work/setuid" || exit 99

MIMALLOC_VERBOSE=2 MIMALLOC_SHOW_STATS=1 MIMALLOC_SHOW_ERRORS=1
MIMALLOC_PURGE_DELAY=7 MIMALLOC_ALLOW_THP=junk MIMALLOC_RESET_DECOMMITS=0
export MIMALLOC_VERBOSE MIMALLOC_SHOW_STATS MIMALLOC_SHOW_ERRORS
export MIMALLOC_PURGE_DELAY MIMALLOC_ALLOW_THP MIMALLOC_RESET_DECOMMITS
run() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@" >"$work/out" 2>"$work/err"; }

run "$work/plain" || fail "the plain program ended with $?"
grep -q '^secure 0 delay 7$' "$work/out" || fail "the plain program says: $(cat "$work/out")"
[ -s "$work/err" ] || fail "the plain program prints nothing"

run "$work/setuid" || fail "the set-uid program ended with $?"
grep -q '^secure 1' "$work/out" || skip "this file system or sandbox ignores the set-uid bit"
grep -q '^secure 1 delay 100$' "$work/out" || fail "the set-uid program says: $(cat "$work/out")"
[ -s "$work/err" ] && fail "the set-uid program prints: $(cat "$work/err")"
exit 0
