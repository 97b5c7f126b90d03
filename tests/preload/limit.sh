#!/bin/sh
# SPDX-License-Identifier: MIT
# E01 rlimit-as-ladder: under prlimit --as=N: true, ls -l, bash -c, python3 -c, and a C program that uses 50% of N in mixed
# blocks, then frees. Exit code 0 for true, ls and bash down to 128 MiB, python3 down to 256 MiB; the C program gets its
# memory; over the limit malloc gives NULL and ENOMEM, no abort, and smaller requests keep working.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
need prlimit
export MIMALLOC_SHOW_ERRORS=0 # a debug build shows errors by default, and running out of memory is one
ladder='128 340 1150 2200'
[ $long_run = no ] || ladder='128 160 192 256 340 512 768 1024 1150 1200 1500 2200 4096'
for mib in $ladder; do
  under="prlimit --as=$((mib * 1048576))"
  limited 100 $under true 2>err || fail "true in $mib MiB: exit code $?: $(cat err)"
  limited 100 $under ls -l / >out 2>>err || fail "ls in $mib MiB: exit code $?: $(cat err)"
  if command -v bash >/dev/null 2>&1; then
    limited 100 $under bash -c 'a=$(echo {1..2000}); echo ${#a}' >out 2>>err || fail "bash in $mib MiB: $(cat err)"
    [ "$(cat out)" = 8892 ] || fail "bash in $mib MiB printed $(cat out)"
  fi
  if [ $mib -ge 256 ] && command -v python3 >/dev/null 2>&1; then
    limited 100 $under python3 -c 'print(len([str(i) for i in range(100000)]))' >out 2>>err ||
      fail "python3 in $mib MiB: exit code $?: $(cat err)"
  fi
  limited 100 $under "$plain/preload/limit" 2>>err || fail "limit in $mib MiB: exit code $?: $(cat err)"
  [ ! -s err ] || fail "in $mib MiB: printed $(cat err)"
done
