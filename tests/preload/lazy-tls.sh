#!/bin/sh
# SPDX-License-Identifier: MIT
# A15 no-lazy-tls-in-free-path: main opens and closes 50 .so that each have a thread variable, with 4 threads that allocate
# meanwhile and touch the variables. Exit code 0 within 20 s. Static check: no undefined __tls_get_addr in the library.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
cat >variable.c <<'END'
static __thread char variable[2000] __attribute__((tls_model("global-dynamic"))) = {1};
char *variable_touch(void) { variable[77]++; return variable; }
END
$MI_TEST_CC -O1 -fPIC -shared -o variable.so variable.c || exit 99
i=0
while [ $((i += 1)) -le 50 ]; do cp variable.so variable$i.so; done
limited 100 "$plain/preload/lazy-tls" ./variable?*.so || fail "lazy-tls: exit code $?"
"${NM:-nm}" -D -u "$lib" >undefined 2>/dev/null || skip "nm does not read the library"
! grep -w __tls_get_addr undefined || fail "the library needs __tls_get_addr"
