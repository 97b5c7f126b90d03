#!/bin/sh
# SPDX-License-Identifier: MIT
# C13 single-threaded-stays-single: preload; `unshare -U true`, `grep Threads /proc/self/status`, `bash -c 'true'`, a program
#   that calls unshare(CLONE_NEWUSER) after 10000 small malloc/free. Exit code 0; Threads: 1 for programs that never freed a
#   large amount; the number of system calls at the start of `true` is at most 25 more than without preload.
# D11 tiny-program-footprint: a program that mallocs 100 bytes and sleeps; 8 threads doing the same; Private_Dirty against no
#   preload. Single thread: at most 1.0 MiB more; 8 threads: at most 2.5 MiB more.
# D12 malloc-trim-works: preload; purge delay -1 or 10000; allocate and free 128 MiB; malloc_trim(0) returns 1 and the
#   resident memory falls by 75% at least; a second call returns 0 or 1.
# E05 thp-flag-not-inherited: preload with each value of the option for huge pages: THP_enabled is 1 in the process and in a
#   child that it executes without preload; opting out is done per mapping (VmFlags nh), where the system gives huge pages by
#   itself.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
program=$plain/idle/plain
[ -x "$program" ] || exit 99

# ---- C13 ----
if unshare -U true 2>/dev/null; then
  limited 100 unshare -U true >out 2>&1 || fail "unshare -U true: exit code $?: $(cat out)"
  limited 100 "$program" unshare >out 2>&1 || fail "unshare in a program: exit code $?: $(cat out)"
else
  echo "no user namespaces here: unshare is left out"
fi
limited 100 grep Threads /proc/self/status >out 2>&1 || fail "grep: exit code $?"
[ "$(cut -f 2 out)" = 1 ] || fail "grep has more than one thread: $(cat out)"
limited 100 sh -c true || fail "sh -c true: exit code $?"
if command -v bash >/dev/null 2>&1; then
  limited 100 bash -c true || fail "bash -c true: exit code $?"
  limited 100 bash -c 'for i in {1..20000}; do :; done; grep Threads /proc/$$/status' >out || fail "bash: exit code $?"
  [ "$(cut -f 2 out)" = 1 ] || fail "bash has more than one thread: $(cat out)"
fi
# strace itself must not run under the library.
calls() {
  strace -f -o trace "$@" >/dev/null 2>&1 && grep -c '(' trace
}
if calls true >without 2>/dev/null; then
  calls env LD_PRELOAD= true >without
  calls env LD_PRELOAD="$lib" true >with || fail "true under strace"
  # The environment of env is not preloaded; so both have the same calls before true begins.
  more=$(($(cat with) - $(cat without)))
  [ $more -le 25 ] || fail "$more system calls more in true"
fi

# ---- D11 ----
for n in 0 8; do
  without=$("$program" tiny $n) || fail "tiny $n without the library"
  with=$(limited 100 "$program" tiny $n) || fail "tiny $n"
  [ "$without" -gt 0 ] || break # no smaps_rollup
  most=1024
  [ $n -eq 0 ] || most=2560
  [ $((with - without)) -le $most ] || fail "$n threads: $with KiB are dirty, $without KiB without the library"
done

# ---- D12 ----
for delay in -1 10000; do
  MIMALLOC_PURGE_DELAY=$delay limited 100 "$program" trim >out 2>&1 || fail "trim, delay $delay: exit code $?: $(cat out)"
done

# ---- E05 ----
if grep -q THP_enabled /proc/self/status; then
  was=$(grep THP_enabled /proc/self/status)
  for value in 0 1 2; do
    MIMALLOC_ALLOW_THP=$value limited 100 grep THP_enabled /proc/self/status >out || fail "THP_enabled, $value"
    [ "$(cat out)" = "$was" ] || fail "allow_thp $value: $(cat out), $was without the library"
    MIMALLOC_ALLOW_THP=$value limited 100 sh -c 'grep THP_enabled /proc/$$/status; LD_PRELOAD= grep THP_enabled /proc/self/status' >out ||
      fail "THP_enabled in a child, $value"
    [ "$(sort -u out)" = "$was" ] || fail "allow_thp $value, in a child: $(cat out), $was without the library"
    flags=$(MIMALLOC_ALLOW_THP=$value limited 100 "$program" flags) || fail "flags, $value"
    case $value$(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null) in
    [01]*\[always\]*) [ "$flags" -gt 0 ] || fail "allow_thp $value: no mapping opts out" ;;
    *\[*) [ "$flags" -eq 0 ] || fail "allow_thp $value: $flags mappings opt out" ;;
    esac
  done
fi
