#!/bin/sh
# SPDX-License-Identifier: MIT
# A01 grep-realloc-null-zero: `grep foo` on a small text file with one match, then with none; also a C program:
# realloc(NULL, 0). grep exits 0 and 1 exactly as without preload, standard error is empty; realloc(NULL, 0) is not NULL, and
# free() of it works.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need grep
printf 'one\ntwo foo\nthree\n' >match
printf 'one\ntwo\nthree\n' >none
same "grep with a match" grep foo match
[ $code_with -eq 0 ] && [ ! -s err.with ] || fail "grep with a match: exit code $code_with, $(cat err.with)"
same "grep without a match" grep foo none
[ $code_with -eq 1 ] && [ ! -s err.with ] || fail "grep without a match: exit code $code_with, $(cat err.with)"
same "grep -E -i -c" grep -E -i -c 'T(W|H)[a-z]+' match none
same "grep -F -f" grep -F -f none match
same "grep -o -b -n" grep -o -b -n 'o*' match
limited 100 "$plain/preload/realloc-zero" || fail "realloc-zero: exit code $?"
