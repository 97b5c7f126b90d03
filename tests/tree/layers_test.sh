#!/bin/sh
# SPDX-License-Identifier: MIT
# A file of src/ includes only its own layer and lower ones; its includes are relative to src/; nothing of the public
# interface is used below src/rt but its types; every source is built; long lines and long files are none.
set -u
cd "$MI_TEST_SRCDIR" || exit 99
layers='base os rt arena page heap idle api'
status=0
fail() { echo "FAIL: $*"; status=1; }

rank() {
  r=0
  for l in $layers; do
    [ "$l" = "$1" ] && { echo $r; return; }
    r=$((r + 1))
  done
  echo none
}

n=0
for file in src/*/*.[ch]; do
  layer=${file#src/}
  layer=${layer%%/*}
  own=$(rank "$layer")
  [ "$own" = none ] && { fail "$file: no layer has this folder"; continue; }
  for included in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file"); do
    n=$((n + 1))
    case $included in
    config.h) [ "$file" = src/base/compiler.h ] || fail "$file includes config.h: only base/compiler.h does" ;;
    mimalloc*.h) [ "$own" -ge 2 ] || fail "$file includes $included: the public interface is above it" ;;
    */*)
      [ -f "src/$included" ] || fail "$file includes $included: not below src/"
      other=$(rank "${included%%/*}")
      if [ "$other" = none ] || [ "$other" -gt "$own" ]; then fail "$file includes $included, of a layer above"; fi
      ;;
    *) fail "$file includes $included: not relative to src/" ;;
    esac
  done
  grep -q -x -F "  $file \\" src/Makefile.inc || grep -q -x -F "  $file" src/Makefile.inc ||
    fail "$file is not in src/Makefile.inc"
  [ "$(head -n 1 "$file")" = '/* SPDX-License-Identifier: MIT */' ] || fail "$file does not begin with its licence"
done
[ $n -ge 50 ] || fail "only $n includes found"

# Every test is run.
for file in $(find tests -name '*.c' -o -name '*.cc' -o -name '*.sh'); do
  tr -s ' \\' '\n\n' <tests/Makefile.inc | grep -q -x -F -e "$file" -e "${file%.c}" ||
    fail "$file is not in tests/Makefile.inc"
done

# The operating system is known in one place.
grep -n '#.*include *<\(sys/mman\|sys/syscall\|linux/.*\)\.h>' src/*/*.[ch] | grep -v '^src/os/' && fail "system calls outside src/os"
# No stdio, no locale inside the library; malloc_info writes to a FILE.
grep -n '#.*include *<\(stdio\|locale\)\.h>' src/*/*.[ch] | grep -v '^src/api/companions.c:' && fail "stdio or locale in the library"
exit $status
