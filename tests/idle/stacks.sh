#!/bin/sh
# SPDX-License-Identifier: MIT
# Threads with stacks of 16 MiB end and are joined. The C library keeps some of the stacks and frees others, with a lock held
# that making a thread needs too, and frees what the threads had of thread-local memory with them: more than what makes the
# background thread worth while. No hang.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
cat >plugin.c <<'END'
static __thread char memory[3 << 20];
char *thread_memory(void) { return memory; }
END
$MI_TEST_CC -O1 -fPIC -shared -ftls-model=global-dynamic -o plugin.so plugin.c || exit 99
for delay in 100 1000000; do
  for i in 1 2 3; do
    MIMALLOC_PURGE_DELAY=$delay limited 100 "$plain/idle/plain" stacks ./plugin.so >out 2>&1 ||
      fail "delay $delay: exit code $?: $(cat out)"
  done
done
