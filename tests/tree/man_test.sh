#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual pages: every exported function and every option has one, their prototypes are those of
# the headers, and the tools that read pages find nothing to complain about. A check whose tool is
# missing is skipped with a message.
#
# From the environment: srcdir, CC, NM, LIB (the shared library).
set -u
case ${MI_TEST_SANITIZE:-}${MI_TEST_VALGRIND:-0}${MI_TEST_DEBUG:-0} in
00) ;;
*) echo "skipped: looks at the sources, and at what any build exports"; exit 77 ;;
esac

srcdir=${srcdir:-.}
CC=${CC:-cc}
NM=${NM:-nm}
LIB=${LIB:-.libs/libmimalloc.so}
status=0
tmp=$(mktemp -d "${TMPDIR:-/tmp}/man_test.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT

fail() { echo "man_test: FAIL: $*"; status=1; }
skip() { echo "man_test: skipped: $*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# The generated page is in the build tree, or in the source tree of a tarball.
options_page=man/mimalloc-options.7
[ -f "$options_page" ] || options_page=$srcdir/man/mimalloc-options.7
[ -f "$options_page" ] || { echo "man_test: FAIL: no mimalloc-options.7"; exit 1; }
pages=
for page in "$srcdir"/man/*.[137]; do
  case $page in */mimalloc-options.7) ;; *) pages="$pages $page" ;; esac
done
pages="$pages $options_page"

# ---- what pages there are: man1/, man3/ and man7/ as they are installed ----
for section in 1 3 7; do
  mkdir -p "$tmp/man/man$section"
  of_section=
  for page in $pages; do
    case $page in *.$section) of_section="$of_section $page" ;; esac
  done
  cp $of_section "$tmp/man/man$section/" || fail "no pages of section $section"
done
(cd "$tmp/man" && ls -d man*/*) | sort >"$tmp/own_pages"
sh "$srcdir/man/aliases.sh" install "$tmp/man" $pages || fail "aliases.sh"
sh "$srcdir/man/aliases.sh" list $pages | awk '{ print $1 }' | sort >"$tmp/aliases"
uniq -d "$tmp/aliases" >"$tmp/twice"
[ -s "$tmp/twice" ] && fail "pages that two others claim: $(cat "$tmp/twice")"
comm -12 "$tmp/aliases" "$tmp/own_pages" >"$tmp/own"
[ -s "$tmp/own" ] && fail "names that have a page of their own and are an alias: $(cat "$tmp/own")"

# ---- every exported function has a page ----
if [ -e "$LIB" ] && have "$NM"; then
  $NM -D --defined-only "$LIB" |
    awk '$3 ~ /^mi_/ { sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/exported"
  [ -s "$tmp/exported" ] || fail "$LIB exports nothing that begins with mi_"
  while read -r name; do
    [ -f "$tmp/man/man3/$name.3" ] || fail "no page for $name, which $LIB exports"
  done <"$tmp/exported"
else
  skip "exported functions ($LIB or $NM is missing)"
fi

# ---- every option has a page under each of its names, and is reserved or used ----
sed -n 's/^ *\(mi_option_[a-z_0-9]*\) *=.*/\1/p' "$srcdir/include/mimalloc.h" >"$tmp/options"
[ "$(wc -l <"$tmp/options")" -ge 56 ] || fail "fewer than 56 options found in mimalloc.h"
sed 's/^mi_option_//' "$tmp/options" | tr a-z A-Z | paste -d ' ' "$tmp/options" - >"$tmp/variables"
while read -r option variable; do
  [ -f "$tmp/man/man3/$option.3" ] || fail "no page for $option"
  [ "$option" = mi_option_visit_abandoned ] || [ -f "$tmp/man/man7/MIMALLOC_$variable.7" ] ||
    fail "no page for MIMALLOC_$variable"
done <"$tmp/variables"
# What is reserved is used nowhere, and the other way round; old options and those of other systems
# are neither.
sed -n 's/^OPTION([0-9]*, \([a-z_0-9]*\),.*/\1/p' "$srcdir/src/rt/option.def" |
  grep -v -x -e 'deprecated_.*' -e os_tag -e retry_on_oom >"$tmp/live"
find "$srcdir/src/" -name '*.c' ! -name option.c -exec cat {} + | tr -c 'a-z_0-9' '\n' |
  sed -n 's/^mi_option_//p' | sort -u >"$tmp/used"
awk '
  FILENAME == ARGV[1] { reserved[$0] = 1; next }
  FILENAME == ARGV[2] { used[$0] = 1; next }
  ($0 in reserved) && ($0 in used) { print $0 " is in man/options.reserved, but used in src" }
  !($0 in reserved) && !($0 in used) { print $0 " is used nowhere in src, and not in man/options.reserved" }
' "$srcdir/man/options.reserved" "$tmp/used" "$tmp/live" >"$tmp/wrong"
[ -s "$tmp/wrong" ] && { cat "$tmp/wrong"; fail "options"; }

# ---- the prototypes are those of the headers ----
# One line for each declaration of a SYNOPSIS: the formatting taken off, continued lines joined.
awk '
    function unfinished() { if (whole != "") print "unfinished: " whole; whole = "" }
    function plain(line,   out, n) {   # the arguments of .B or .BI, without quotes
      sub(/^\.BI? +/, "", line)
      out = ""
      while (line != "") {
        if (substr(line, 1, 1) == "\"") {
          line = substr(line, 2); n = index(line, "\"")
          out = out substr(line, 1, n - 1); line = substr(line, n + 1)
        } else {
          n = index(line, " "); if (n == 0) n = length(line) + 1
          out = out substr(line, 1, n - 1); line = substr(line, n)
        }
        sub(/^ +/, "", line)
      }
      return out
    }
    FNR == 1 { unfinished(); in_synopsis = 0 }
    /^\.SH/ { in_synopsis = ($2 == "SYNOPSIS"); next }
    in_synopsis && /^\.BI? / {
      text = plain($0)
      if (text ~ /^#/) next
      whole = whole (whole == "" ? "" : " ") text
      if (whole ~ /;$/) { gsub(/ +/, " ", whole); print whole; whole = "" }
    }
    END { unfinished() }
' "$srcdir"/man/*.3 >"$tmp/prototypes"
[ "$(wc -l <"$tmp/prototypes")" -ge 80 ] || fail "fewer than 80 prototypes found in the pages"
grep '^unfinished' "$tmp/prototypes" && fail "a declaration without an end"

# The compiler compares the types: a declaration that differs from that of the header is an error.
if have "${CC%% *}"; then
  {
    echo '#include <mimalloc.h>'
    [ -f "$srcdir/include/mimalloc-stats.h" ] && echo '#include <mimalloc-stats.h>'
    [ -f "$srcdir/include/mimalloc-profile.h" ] && echo '#include <mimalloc-profile.h>'
    cat "$tmp/prototypes"
  } >"$tmp/prototypes.c"
  $CC -std=gnu11 -fsyntax-only -Werror -I"$srcdir/include" "$tmp/prototypes.c" ||
    fail "types of prototypes"

  # And awk the names of the functions and of the parameters.
  sed '/^typedef/d' "$tmp/prototypes" >"$tmp/functions"
  { echo '#include <mimalloc.h>'; sed -n '/#include/p' "$tmp/prototypes.c"; } >"$tmp/headers.c"
  $CC -std=gnu11 -E -P -I"$srcdir/include" "$tmp/headers.c" >"$tmp/headers.i"
  awk '
    function squeeze(s) {
      gsub(/_Bool/, "bool", s); gsub(/[ \t]+/, " ", s)
      gsub(/ ?[*] ?/, "*", s); gsub(/ ?, ?/, ",", s); gsub(/^ | $/, "", s)
      return s
    }
    function name_of(s) { sub(/\(.*/, "", s); sub(/.*[ *]/, "", s); return s }
    function params_of(s) {
      s = substr(s, index(s, "(") + 1); sub(/\).*/, "", s)
      return squeeze(s)
    }
    FILENAME == ARGV[1] { header = header " " $0; next }
    {
      name = name_of($0); want = params_of($0)
      if (!match(header, "[ *]" name " *\\([^)]*\\)")) { print name ": not in a header"; next }
      got = params_of(substr(header, RSTART, RLENGTH))
      if (got != want) print name ": the page has (" want "), the header (" got ")"
    }
  ' "$tmp/headers.i" "$tmp/functions" >"$tmp/differ"
  [ -s "$tmp/differ" ] && { cat "$tmp/differ"; fail "parameters of prototypes"; }

  # The inline functions of the headers are exported by no library, and have pages all the same;
  # those of theaps and of statistics from the version on that exports what they are about.
  awk '{ all = all " " $0 }
    END {
      while (match(all, /static inline[^(;]*\(/)) {
        head = substr(all, RSTART, RLENGTH - 1)
        all = substr(all, RSTART + RLENGTH)
        sub(/.*[ *]/, "", head)
        print head
      }
    }
  ' "$tmp/headers.i" | grep '^mi_' | sort -u >"$tmp/inline"
  for family in mi_theap_malloc mi_stats_get; do
    grep -q -x $family "$tmp/exported" 2>/dev/null && continue
    grep -v "^${family%_*}_" "$tmp/inline" >"$tmp/inline.left"
    mv "$tmp/inline.left" "$tmp/inline"
  done
  [ -s "$tmp/inline" ] || fail "no inline functions found in the headers"
  while read -r name; do
    [ -f "$tmp/man/man3/$name.3" ] || fail "no page for the inline function $name"
  done <"$tmp/inline"
else
  skip "prototypes (no C compiler)"
fi

# ---- sections come in order ----
awk '
    BEGIN {
      n = split("NAME,LIBRARY,SYNOPSIS,DESCRIPTION,OPTIONS,EXIT STATUS,RETURN VALUE,ERRORS," \
                "ENVIRONMENT,FILES,ATTRIBUTES,VERSIONS,STANDARDS,HISTORY,NOTES,CAVEATS,BUGS," \
                "EXAMPLES,SEE ALSO", order, ",")
      for (i = 1; i <= n; i++) rank[order[i]] = i
    }
    FNR == 1 { last = 0 }
    !/^\.SH / { next }
    { sub(/^\.SH /, "") }
    !($0 in rank) { print FILENAME ": unknown section " $0; next }
    rank[$0] <= last { print FILENAME ": section " $0 " is out of order" }
    { last = rank[$0] }
' $pages >"$tmp/sections"
[ -s "$tmp/sections" ] && { cat "$tmp/sections"; fail "sections"; }

# ---- references lead to pages ----
sed -n 's/^\.BR \(mi[^ ]*\) (\([137]\)).*/\1 \2/p' $pages | sed 's/\\-/-/g' | sort -u |
  while read -r name section; do
    [ -f "$tmp/man/man$section/$name.$section" ] || echo "$name($section)"
  done >"$tmp/dangling"
[ -s "$tmp/dangling" ] && fail "no such pages: $(tr '\n' ' ' <"$tmp/dangling")"

# ---- the tools ----
# Each is called once, for all pages.
if have mandoc; then
  mandoc -Tlint -Wwarning $pages || fail "mandoc"
else
  skip "mandoc -Tlint (not installed)"
fi
if have groff; then
  complaints=$(groff -man -ww -z $pages 2>&1)
  [ -z "$complaints" ] || { echo "$complaints"; fail "groff"; }
else
  skip "groff -man -ww (not installed)"
fi
if have lexgrog; then
  lexgrog $pages >"$tmp/lexgrog" 2>&1 || { grep -v ': "' "$tmp/lexgrog"; fail "lexgrog"; }
else
  skip "lexgrog (not installed)"
fi

exit $status
