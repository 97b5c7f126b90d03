#!/bin/sh
# SPDX-License-Identifier: MIT
# The interface is, to the number, that of the tables in tests/tree/abi: prototypes and attributes of functions, options,
# constants, layouts; and every function that is exported has an address, in the shared library and in the archive.
. "$MI_TEST_SRCDIR/tests/tree/lib.sh"
tables=$src/tests/tree/abi
LC_ALL=C
export LC_ALL
for variable in $(env | sed -n 's/^\(MIMALLOC_[A-Za-z_]*\)=.*/\1/p'); do unset "$variable"; done
same() { diff -u "$2" "$3" >"$tmp/diff" || { fail "$1 (-: table, +: found)"; cat "$tmp/diff"; }; }
flags="$(value SANITIZER_FLAGS) $(value COVERAGE_FLAGS)"
for table in functions options structs types constants; do
  grep -v '^#' "$tables/$table.tsv" >"$tmp/$table" && [ -s "$tmp/$table" ] || fail "no table of $table"
done
headers() {
  echo '#include <mimalloc.h>'
  echo '#include <mimalloc-stats.h>'
  echo '#include <mimalloc-profile.h>'
  echo '#include <stdio.h>'
}

# ---- the table is complete: what the headers declare, inline or not ----
awk -F '\t' '$4 != "inline" { print $1 }' "$tmp/functions" | sort >"$tmp/names"
CC=$MI_TEST_CC sh "$src/maint/declared" "$include" >"$tmp/declared"
same "functions of the table and of the headers" "$tmp/names" "$tmp/declared"
headers | $MI_TEST_CC -E -P -I"$include" - 2>/dev/null | tr '\n' ' ' | sed 's/[;{}]/&\
/g' >"$tmp/statements"
sed -n 's/.*static inline.*[ *]\(mi_[a-z_0-9]*\)(.*/\1/p' "$tmp/statements" |
  grep -v '^mi_stats_.*init$' | sort -u >"$tmp/declared"
awk -F '\t' '$4 == "inline" { print $1 }' "$tmp/functions" | sort >"$tmp/inline"
same "inline functions of the table and of the headers" "$tmp/inline" "$tmp/declared"
awk -F '\t' '{ print $2 }' "$tmp/options" >"$tmp/options.names"
sed -n '/options: begin/,/options: end/s/^ *\(mi_option_[a-z_0-9]*\) =.*/\1/p' "$include/mimalloc.h" >"$tmp/declared"
same "options of the table and of the header" "$tmp/options.names" "$tmp/declared"

# ---- types, prototypes, numbers, layouts: in C ----
{
  headers
  echo '#define SAME(what, a, b) _Static_assert(__builtin_types_compatible_p(a, b), what)'
  echo '#define EQUAL(what, a, b) _Static_assert((a) == (b), what)'
  awk -F '\t' '{ printf "SAME(\"type of %s\", __typeof__(&%s), %s (*)(%s));\n", $1, $1, $2, $3 }' "$tmp/functions"
  awk -F '\t' '{ printf "SAME(\"%s\", %s, %s);\n", $1, $1, $2 }' "$tmp/types"
  awk -F '\t' '{ printf "EQUAL(\"%s\", %s, %s);\n", $1, $1, $2 }' "$tmp/constants"
  awk -F '\t' '{ printf "EQUAL(\"%s\", %s, %s);\n", $2, $2, $1 }' "$tmp/options"
  # A struct of the table's fields beside the header's.
  awk -F '\t' '
    function base(name) { sub(/\[.*/, "", name); return name }
    $2 == "sizeof" {
      printf "struct table_%s { %s };\n%s", $1, fields, checks
      printf "EQUAL(\"size of %s\", sizeof(%s), sizeof(struct table_%s));\n", $1, $1, $1
      printf "#if __SIZEOF_POINTER__ == 8\n"
      printf "EQUAL(\"size of %s\", sizeof(%s), %s);\n%s#endif\n", $1, $1, $4, on64
      fields = checks = on64 = ""
      next
    }
    {
      type = $3
      if (sub(/\(\*\)/, "(*" $2 ")", type)) fields = fields type "; "
      else fields = fields type " " $2 "; "
      where = $1 "." base($2)
      checks = checks sprintf("EQUAL(\"offset of %s\", offsetof(%s, %s), offsetof(struct table_%s, %s));\n",
        where, $1, base($2), $1, base($2))
      checks = checks sprintf("SAME(\"type of %s\", __typeof__(((%s *)0)->%s), __typeof__(((struct table_%s *)0)->%s));\n",
        where, $1, base($2), $1, base($2))
      on64 = on64 sprintf("EQUAL(\"offset of %s\", offsetof(%s, %s), %s);\n", where, $1, base($2), $4)
    }' "$tmp/structs"
} >"$tmp/types.c"
[ "$(grep -c '^SAME\|^EQUAL' "$tmp/types.c")" -ge 580 ] || fail "only $(grep -c '^SAME\|^EQUAL' "$tmp/types.c") checks"
$MI_TEST_CC -std=gnu11 -Wall -Wextra -I"$include" -fsyntax-only "$tmp/types.c" >"$tmp/log" 2>&1 ||
  { grep 'error:' "$tmp/log" || cat "$tmp/log"; fail "types, constants or layouts"; }

# ---- noexcept and types once more: in C++ ----
if [ -n "${MI_TEST_CXX-}" ]; then
  {
    headers
    echo '#include <type_traits>'
    awk -F '\t' '$4 != "inline" {
      printf "static_assert(std::is_same<decltype(&%s), %s (*)(%s)%s>::value, \"%s\");\n",
        $1, $2, $3, $4 ~ /nothrow/ ? " noexcept" : "", $1 }' "$tmp/functions"
  } >"$tmp/types.cc"
  if echo 'static_assert(__cplusplus >= 201703L, "");' | $MI_TEST_CXX -x c++ -std=c++17 -fsyntax-only - 2>/dev/null; then
    $MI_TEST_CXX -std=c++17 -Wall -Wextra -I"$include" -fsyntax-only "$tmp/types.cc" >"$tmp/log" 2>&1 ||
      { grep 'error:' "$tmp/log" || cat "$tmp/log"; fail "types in C++"; }
  else
    echo "types in C++: skipped, the compiler has no C++17"
  fi
else
  echo "types in C++: skipped, no compiler"
fi

# ---- the other attributes: in the declarations ----
grep '__visibility__' "$tmp/statements" | sed 's/ *, */,/g' |
  sed -n 's/^\(.*[ *]\)\(mi_[a-z_0-9]*\)(\(.*\)$/\2 \1 \3/p' | awk '
    {
      line = $1 "\t"
      if (/__warn_unused_result__/) line = line "nodiscard "
      if (/__malloc__/) line = line "malloc "
      if (match($0, /__alloc_size__\([0-9,]*\)/)) line = line "alloc_size" substr($0, RSTART + 14, RLENGTH - 14) " "
      if (match($0, /__alloc_align__\([0-9,]*\)/)) line = line "alloc_align" substr($0, RSTART + 15, RLENGTH - 15) " "
      print line
    }' | sort >"$tmp/found"
awk -F '\t' '$4 != "inline" {
  attributes = $4 " "
  gsub(/nothrow |^- /, "", attributes)
  print $1 "\t" attributes
}' "$tmp/functions" | sort >"$tmp/wanted"
same "attributes" "$tmp/wanted" "$tmp/found"

# ---- addresses of all that is there, and defaults of the options, in programs that are linked ----
grep -v '^#' "$src/tests/tree/later.list" | sort | comm -23 "$tmp/names" - >"$tmp/there"
debug=0
grep -q '^#define MI_DEBUG 1' "$MI_TEST_BUILDDIR/config.h" && debug=1
{
  headers
  echo 'typedef void (*any)(void);'
  echo 'static const any volatile functions[] = {'
  sed 's/.*/  (any)&,/' "$tmp/there"
  cat <<'X'
};
static int n_wrong;
static void option(const char *name, mi_option_t number, long wanted) {
  if (mi_option_get(number) == wanted) return;
  printf("the default of %s is %ld, not %ld\n", name, mi_option_get(number), wanted);
  n_wrong++;
}
int main(void) {
  size_t n = sizeof(functions) / sizeof(functions[0]);
  for (size_t i = 0; i < n; i++)
    if (functions[i] == 0) n_wrong++;
X
  awk -F '\t' -v debug=$debug '{
    wanted = debug && $4 != "-" ? $4 : $3
    if ($2 == "mi_option_arena_reserve") wanted = "sizeof(void *) == 8 ? 1048576 : 131072"
    printf "  option(\"%s\", %s, %s);\n", $2, $2, wanted
  }' "$tmp/options"
  echo '  return n_wrong != 0;'
  echo '}'
} >"$tmp/program.c"
archive=$MI_TEST_BUILDDIR/.libs/libmimalloc.a
n=0
for library in "$MI_TEST_LIB" "$archive"; do
  [ -f "$library" ] || continue
  n=$((n + 1))
  $MI_TEST_CC $flags -I"$include" "$tmp/program.c" -o "$tmp/program" "$library" -Wl,-rpath,"${library%/*}" \
    $(value LIBS) >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "a program with every function, linked with $library"; continue; }
  "$tmp/program" || fail "functions or options of $library"
done
[ $n -gt 0 ] || fail "no library was built"
echo "$(wc -l <"$tmp/there") functions of $(wc -l <"$tmp/names"), $n libraries"
exit $status
