#!/bin/sh
# SPDX-License-Identifier: MIT
# A04 foreign-free, under LD_PRELOAD: a program obtains blocks from its own mmap region, a static array, the C library's
# __libc_malloc; calls free(), realloc(), malloc_usable_size() on them, with the error messages off and on. They are ignored,
# with a one-line message when errors are shown; exit code 0; a loop of 100000 malloc and free passes after it.
# A program that carries its own allocator for a part of its blocks starts and lists a folder.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
limited 60 "$plain/death/foreign-free-plain" || fail "foreign-free: exit code $?"
limited 60 "$plain/death/foreign-realloc-plain" || fail "foreign-realloc: exit code $?"
for program in fd fdfind; do
  command -v $program >/dev/null 2>&1 || continue
  mkdir folder && touch folder/a folder/b
  same "$program" $program -j 1 . folder
done
