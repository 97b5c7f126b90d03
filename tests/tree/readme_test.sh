#!/bin/sh
# SPDX-License-Identifier: MIT
# What README.md and the pages of doc/ name is there: options with the default that is told, targets of make, options of
# configure, files and folders; the two commands of the set-up stand at the top.
set -u
cd "$MI_TEST_SRCDIR" || exit 99
status=0
fail() { echo "FAIL: $*"; status=1; }
pages='README.md NEWS src/README doc/*.md tests/README'

# ---- options of the library ----
names=$(sed -n 's/^OPTION([0-9]*, *\([a-z_0-9]*\),.*/\1/p' src/rt/option.def | tr a-z A-Z)
[ -n "$names" ] || fail "no options found in src/rt/option.def"
for variable in $(cat $pages | tr -c 'A-Z_0-9' '\n' | grep '^MIMALLOC_[A-Z]' | sort -u); do
  case $variable in MIMALLOC_SNAPSHOT_PATH | MIMALLOC_PROF* | MIMALLOC_H | MIMALLOC_) continue ;; esac
  echo "$names" | grep -q -x "${variable#MIMALLOC_}" || fail "$variable is no option"
done
sed -n 's/^| `MIMALLOC_\([A-Z_]*\)` | \([^ ]*\) |.*/\1 \2/p' README.md >"${TMPDIR:-/tmp}/readme.$$"
n=0
while read -r name told; do
  n=$((n + 1))
  has=$(sed -n "s/^OPTION([0-9]*, *$(echo "$name" | tr A-Z a-z), *\([^,]*\),.*/\1/p" src/rt/option.def)
  case $has in
  MI_DEBUG) has=0 ;;
  *[!0-9-]*) continue ;; # an expression
  esac
  case $told in *G) told=$((${told%G} * 1048576)) ;; esac
  [ "$has" = "$told" ] || fail "README tells the default $told for $name, it is $has"
done <"${TMPDIR:-/tmp}/readme.$$"
rm -f "${TMPDIR:-/tmp}/readme.$$"
[ $n -ge 5 ] || fail "only $n options in the table of README.md"

# ---- configure ----
for flag in $(cat $pages | grep -o -e '--\(enable\|disable\)-[a-z-]*' | sort -u); do
  name=${flag#--*able-}
  grep -q "AC_ARG_ENABLE(\[$name\]" configure.ac || case $name in static | shared | silent-rules) ;; *)
    fail "$flag is no option of configure"
    ;;
  esac
done

# ---- make ----
for target in $(grep -o '`make [a-z-]*' README.md | sed 's/.*make //' | sort -u); do
  case $target in check | distcheck | install) continue ;; esac
  cat Makefile.am */Makefile.inc | grep -q "^$target:" || fail "make $target: no such target"
done

# ---- files ----
for file in $(grep -o '`[A-Za-z.]*/[A-Za-z._]*`' README.md src/README doc/*.md | sed 's/.*:`//;s/`//g' | sort -u); do
  case $file in src/* | doc/* | tests/* | bench/* | man/* | include/*) ;; *) continue ;; esac
  [ -e "$file" ] || fail "$file is named, and not there"
done
for file in bootstrap .ci/run src/README doc tests/README NEWS COPYING; do
  grep -q -F "$file" README.md || fail "README.md does not name $file"
  [ -e "$file" ] || fail "there is no $file"
done

# ---- the top ----
first=$(grep -n -m 1 '^    ' README.md | cut -d: -f1)
sed -n "${first}p" README.md | grep -q '^    \./bootstrap demo' || fail "./bootstrap demo does not come first"
sed -n "$((first + 1))p" README.md | grep -q '^    \./bootstrap check' || fail "./bootstrap check does not come second"
exit $status
