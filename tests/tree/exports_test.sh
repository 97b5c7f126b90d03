#!/bin/sh
# SPDX-License-Identifier: MIT
# What the built library shows to the outside is exactly what it should: names, versions, soname, and how it loads.
. "$MI_TEST_SRCDIR/tests/tree/lib.sh"
lib=$MI_TEST_LIB
archive=$MI_TEST_BUILDDIR/.libs/libmimalloc.a
LC_ALL=C
export LC_ALL
# same WHAT WANTED GOT
same() { diff -u "$2" "$3" >"$tmp/diff" || { fail "$1 (-: wanted, +: found)"; cat "$tmp/diff"; }; }

[ -f "$lib" ] || { echo "no shared library was built"; exit 77; }

# ---- lists ----
sed -n 's/^ *\(mi_[a-z_0-9]*\);$/\1/p' "$src/src/mimalloc.map" | sort >"$tmp/map"
[ -s "$tmp/map" ] || fail "no mi_ names in src/mimalloc.map"
letter=m
[ "$($READELF -h "$lib" | awk '/Class:/ { print $2 }')" = ELF32 ] && letter=j
if [ "$MI_TEST_OVERRIDE" = 1 ]; then
  sed -e '/^#/d' -e "s/Z\$/$letter/;s/^\(_Zn[wa]\)Z/\1$letter/;s/^\(_Zd[la]Pv\)Z/\1$letter/" \
    "$src/tests/tree/overrides.list" | sort >"$tmp/overrides"
else
  : >"$tmp/overrides"
fi

# ---- the shared library exports them and nothing else; each with the right version ----
$NM -D --defined-only "$lib" | awk '$2 != "A" { print $3 }' | grep -v '^__\(gcov\|llvm\)_' >"$tmp/seen"
if grep -q '@@' "$tmp/seen"; then
  sed -n 's/@@MIMALLOC_3\.5$//p' "$tmp/seen" | sort >"$tmp/versioned"
  same "symbols with the version MIMALLOC_3.5" "$tmp/map" "$tmp/versioned"
  grep -v '@' "$tmp/seen" | sort >"$tmp/plain"
  same "symbols without a version" "$tmp/overrides" "$tmp/plain"
else
  # --disable-symvers
  sort "$tmp/seen" >"$tmp/all"
  sort "$tmp/map" "$tmp/overrides" >"$tmp/wanted"
  same "symbols" "$tmp/wanted" "$tmp/all"
fi

# ---- each is declared; each that is declared is exported, or on the list of those to come ----
CC=$MI_TEST_CC sh "$src/maint/declared" "$src/include" >"$tmp/declared"
grep -v '^#' "$src/tests/tree/later.list" | sort >"$tmp/later"
comm -12 "$tmp/map" "$tmp/later" >"$tmp/both"
[ -s "$tmp/both" ] && fail "exported, and on later.list: $(tr '\n' ' ' <"$tmp/both")"
sort "$tmp/map" "$tmp/later" >"$tmp/known"
same "functions that the headers declare" "$tmp/known" "$tmp/declared"

# ---- the archive: the same functions, and every name that another object could meet has a prefix of ours ----
if [ -f "$archive" ]; then
  $NM -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 && ($3 ~ /^mi_[^_]/ || $3 == "mi__expand") { print $3 }' |
    sort >"$tmp/public"
  same "public functions in the archive" "$tmp/map" "$tmp/public"
  $NM -g --defined-only "$archive" 2>/dev/null | awk 'NF == 3 { print $3 }' |
    grep -v '^mi_\|^__gcov_\|^__odr_asan\|^__asan\|^DW.ref.' | sort -u >"$tmp/foreign"
  same "names without prefix in the archive" "$tmp/overrides" "$tmp/foreign"
fi

# ---- how it loads ----
$READELF -d "$lib" >"$tmp/dynamic"
grep -q 'SONAME.*\[libmimalloc\.so\.3\]' "$tmp/dynamic" || fail "the soname is not libmimalloc.so.3"
grep -q 'NODELETE' "$tmp/dynamic" || fail "the library could be unloaded"
grep -q 'NOW' "$tmp/dynamic" || fail "symbols are not bound when it is loaded"
grep -q 'TEXTREL' "$tmp/dynamic" && fail "text relocations"
grep -q 'R.*PATH' "$tmp/dynamic" && fail "a search path is built in"
$READELF -W -l "$lib" >"$tmp/segments"
awk '/GNU_STACK/ { print $(NF - 1) }' "$tmp/segments" | grep -q E && fail "the stack is executable"
if [ -z "$MI_TEST_SANITIZE" ]; then
  needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$tmp/dynamic" |
    grep -v '^libc\.\|^ld-linux\|^ld64\|^ld-musl\|^libpthread\.\|^libdl\.\|^libatomic\.\|^libgcc_s\.' | tr '\n' ' ')
  [ -z "$needed" ] || fail "it needs $needed"
  tls=$(awk '/^ *TLS / { print $6 }' "$tmp/segments")
  [ $((${tls:-0})) -le 64 ] || fail "$((tls)) bytes of thread-local storage; the loader's reserve is small"
  # A call of __tls_get_addr could allocate.
  $NM -D "$lib" | grep -q '__tls_get_addr' && fail "thread-local storage is reached by a call"
fi
ls "$MI_TEST_BUILDDIR"/.libs/libmimalloc.so.3.*.* >/dev/null 2>&1 || fail "no libmimalloc.so.3.*.*"
exit $status
