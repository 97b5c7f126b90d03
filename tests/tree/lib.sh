# SPDX-License-Identifier: MIT
# Sourced by the tests of the tree and of what is built.
#   src, include   the sources and the public headers
#   tmp            a folder for this test alone, removed at the end
#   status         exit status: `fail WHAT` tells, makes it 1 and goes on
#   have COMMAND   is it installed? What stands behind a blank is not looked at
#   value NAME     of the variable in the Makefile of the build
#   known COMPILER STANDARD SUFFIX   does it know the standard? Asked once
set -u
src=$MI_TEST_SRCDIR
include=$src/include
tmp=$(mktemp -d) || exit 99
trap 'cd / && rm -rf "$tmp"' EXIT
status=0
fail() { echo "FAIL: $*"; status=1; }
have() { command -v "${1%% *}" >/dev/null 2>&1; }
value() { sed -n "s/^$1 = //p" "$MI_TEST_BUILDDIR/Makefile"; }
known() {
  answer=$tmp/known-$(echo "$1-$2" | tr ' /' '__')
  if [ ! -f "$answer" ]; then
    echo 'int ok;' >"$tmp/none.$3"
    $1 -std="$2" -fsyntax-only "$tmp/none.$3" 2>/dev/null && echo yes >"$answer" || echo no >"$answer"
  fi
  grep -q yes "$answer"
}
