#!/bin/sh
# SPDX-License-Identifier: MIT
# In a program that declares idle points a purge that is asked for gives the free pieces of a 4 MiB chunk back by one system call,
# where the system has one for several pieces (process_madvise with MADV_DONTNEED: Linux 6.13), else by as many calls as there
# are pieces. Other programs see no system calls but those that they expect of malloc: a filter may end them for it.
set -u
command -v strace >/dev/null || { echo "no strace"; exit 77; }
[ -z "$MI_TEST_SANITIZE" ] || { echo "not under sanitizers"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
strace -f -o "$work/probe" true 2>/dev/null || { echo "no process may be traced here"; exit 77; }
MIMALLOC_PURGE_DELAY=100000 strace -f -o "$work/calls" ./tests/idle/runs || { echo "FAIL: status $?"; exit 1; }
if grep -q ' process_madvise(\| prctl(PR_GET_SECCOMP' "$work/calls"; then
  echo "FAIL: without an idle point:"
  grep ' process_madvise(\| prctl(PR_GET_SECCOMP' "$work/calls"
  exit 1
fi
MIMALLOC_PURGE_DELAY=100000 strace -f -o "$work/calls" ./tests/idle/runs idle || { echo "FAIL: status $?"; exit 1; }
single=$(grep -c ' madvise(.*MADV_DONTNEED' "$work/calls")
several=$(grep -c ' process_madvise(.* = [1-9]' "$work/calls")
echo "$single calls for one piece, $several for several"
if [ "$several" -eq 0 ]; then
  grep -q ' process_madvise(.* = -1' "$work/calls" || { echo "FAIL: several pieces were not tried in one call"; exit 1; }
  [ "$single" -ge 100 ] || { echo "FAIL: they were not given back one by one either"; exit 1; }
  exit 0
fi
[ "$single" -le 20 ] && [ "$several" -le 20 ] || { echo "FAIL: more calls than chunks"; exit 1; }
