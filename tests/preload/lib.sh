# SPDX-License-Identifier: MIT
# Sourced by the tests that run programs under LD_PRELOAD. tests/README tells the variables of the harness.
#   work           a folder for this test alone, removed at the end
#   lib            the shared library
#   need PROGRAM   skip the test where a program is missing
#   same TEXT COMMAND...   run with and without the library: output, errors and exit code must be the same
#   ours TEXT COMMAND...   every malloc, calloc, realloc and free of the run is bound to the library
#   limited SECONDS COMMAND...   run under the library, for so long at most
set -u
LC_ALL=C
TZ=UTC
export LC_ALL TZ
unset LD_PRELOAD
for name in $(env | sed -n 's/^\(MIMALLOC_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "FAIL: $*"
  exit 1
}

lib=${MI_TEST_LIB:-}
[ -z "${MI_TEST_SANITIZE:-}" ] || skip "built for a sanitizer"
[ "${MI_TEST_OVERRIDE:-1}" = 1 ] || skip "the library does not replace malloc"
[ -n "$lib" ] && [ -f "$lib" ] || skip "there is no shared library"
: "${MI_TEST_SRCDIR:?}" "${MI_TEST_BUILDDIR:?}"
: "${MI_TEST_CC:=cc}" "${MI_TEST_CXX:=}"
here=$MI_TEST_SRCDIR/tests/preload
plain=$MI_TEST_BUILDDIR/tests
case ${MI_TEST_SIZE:-short} in
short) long_run=no ;;
*) long_run=yes ;;
esac

work=$(mktemp -d "${TMPDIR:-/tmp}/mi-preload.XXXXXX") || exit 99
trap 'cd / && rm -rf "$work"' EXIT
cd "$work" || exit 99

need() {
  for program; do
    command -v "$program" >/dev/null 2>&1 || skip "$program is not installed"
  done
}

limited() {
  limit=$1
  shift
  timeout -k 5 "$limit" env LD_PRELOAD="$lib" "$@"
}

# The standard input of both runs is the file $input.
input=/dev/null
same() {
  text=$1
  shift
  timeout -k 5 60 "$@" <$input >"$work/out.without" 2>"$work/err.without"
  code_without=$?
  limited 60 "$@" <$input >"$work/out.with" 2>"$work/err.with"
  code_with=$?
  if [ $code_with -ne $code_without ]; then
    cat "$work/err.with"
    fail "$text: exit code $code_with, without the library $code_without"
  fi
  for stream in out err; do
    cmp -s "$work/$stream.without" "$work/$stream.with" && continue
    diff -a "$work/$stream.without" "$work/$stream.with" | head -20
    fail "$text: std$stream differs under the library"
  done
}

ours() {
  text=$1
  shift
  rm -f "$work"/bind.*
  timeout -k 5 60 env LD_DEBUG=bindings LD_DEBUG_OUTPUT="$work/bind" LD_PRELOAD="$lib" "$@" <$input >/dev/null 2>&1 ||
    fail "$text: fails with LD_DEBUG=bindings"
  cat "$work"/bind.* >"$work/bindings" 2>/dev/null || skip "the loader does not tell its bindings"
  rm -f "$work"/bind.*
  for symbol in malloc free; do
    grep -q "to $lib .*symbol .$symbol'" "$work/bindings" || fail "$text: $symbol is never bound to the library"
  done
  # The library's own look-ups are no business of the program's. An executable that is not position independent is the
  # home of every function whose address it takes; that is a jump to the library.
  grep -v "binding file $lib " "$work/bindings" |
    grep -E "normal symbol .(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|memalign|reallocarray)'" |
    grep -E "to [^ ]*\\.so[^ ]* " | grep -v "to $lib " >"$work/strays"
  [ ! -s "$work/strays" ] || fail "$text: bound elsewhere: $(head -3 "$work/strays")"
}
