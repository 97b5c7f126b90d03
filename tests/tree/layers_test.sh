#!/bin/sh
# SPDX-License-Identifier: MIT
# A file of src/ includes only its own layer and lower ones; its includes are relative to src/; nothing of the public
# interface is used below src/rt but its types; every source is built; long lines and long files are none.
set -u
case ${MI_TEST_SANITIZE:-}${MI_TEST_VALGRIND:-0}${MI_TEST_DEBUG:-0} in
00) ;;
*) echo "skipped: looks at the sources only"; exit 77 ;;
esac
cd "$MI_TEST_SRCDIR" || exit 99
status=0
fail() { echo "FAIL: $*"; status=1; }

# A file that is seen once is there; one without a line is not seen, but in the list of arguments.
awk '
  function fail(text) { print "FAIL: " text; status = 1 }
  function is_file(name,   line) {
    if (!(name in there)) { there[name] = (getline line < name) >= 0; close(name) }
    return there[name]
  }
  function include(name,   other) {
    n++
    other = name
    sub(/\/.*/, "", other)
    if (name == "config.h") {
      if (FILENAME != "src/base/compiler.h") fail(FILENAME " includes config.h: only base/compiler.h does")
    } else if (name ~ /^mimalloc.*\.h$/) {
      if (rank[layer] < rank["rt"]) fail(FILENAME " includes " name ": the public interface is above it")
    } else if (name ~ /\//) {
      if (!is_file("src/" name)) fail(FILENAME " includes " name ": not below src/")
      if (!(other in rank) || rank[other] > rank[layer]) fail(FILENAME " includes " name ", of a layer above")
    } else fail(FILENAME " includes " name ": not relative to src/")
  }
  BEGIN {
    n_layers = split("base os rt arena page heap idle api", name, " ")
    for (i = 1; i <= n_layers; i++) rank[name[i]] = i
    while ((getline line < "src/Makefile.inc") > 0) { sub(/ \\$/, "", line); built[line] = 1 }
  }
  FNR == 1 {
    seen[FILENAME] = 1
    split(FILENAME, part, "/")
    layer = part[2]
    if (!(layer in rank)) fail(FILENAME ": no layer has this folder")
    if (!("  " FILENAME in built)) fail(FILENAME " is not in src/Makefile.inc")
    if ($0 != "/* SPDX-License-Identifier: MIT */") fail(FILENAME " does not begin with its licence")
  }
  /^ *# *include *"[^"]*"/ {
    text = $0
    sub(/^ *# *include *"/, "", text)
    sub(/".*/, "", text)
    if (layer in rank) include(text)
  }
  END {
    for (i = 1; i < ARGC; i++) if (!(ARGV[i] in seen)) fail(ARGV[i] " is empty")
    if (n < 50) fail("only " n + 0 " includes found")
    exit status
  }
' src/*/*.[ch] || status=1

# Every test is run.
find tests -name '*.c' -o -name '*.cc' -o -name '*.sh' | awk '
  BEGIN {
    while ((getline line < "tests/Makefile.inc") > 0) {
      n = split(line, words, /[ \\]+/)
      for (i = 1; i <= n; i++) listed[words[i]] = 1
    }
  }
  {
    program = $0
    sub(/\.c$/, "", program)
    if ($0 in listed || program in listed) next
    print "FAIL: " $0 " is not in tests/Makefile.inc"
    status = 1
  }
  END { exit status || NR < 50 }
' || status=1

# The operating system is known in one place.
grep -n '#.*include *<\(sys/mman\|sys/syscall\|linux/.*\)\.h>' src/*/*.[ch] | grep -v '^src/os/' && fail "system calls outside src/os"
# No stdio, no locale inside the library; malloc_info writes to a FILE.
grep -n '#.*include *<\(stdio\|locale\)\.h>' src/*/*.[ch] | grep -v '^src/api/companions.c:' && fail "stdio or locale in the library"
exit $status
