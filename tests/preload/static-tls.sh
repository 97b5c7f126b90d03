#!/bin/sh
# SPDX-License-Identifier: MIT
# A12 dlopen-static-tls: a program first dlopens libraries that eat static TLS (ten with 128-byte initial-exec thread
# variables), then dlopen("libmimalloc.so.3", RTLD_NOW), and calls mi_malloc and mi_free from the main and from 4 threads. Also
# python3 -c 'import ctypes; ctypes.CDLL(...)'. dlopen succeeds with default GLIBC_TUNABLES; static TLS used by the library
# stays at or below 64 bytes (readelf -lW: size of the TLS segment).
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
unset GLIBC_TUNABLES
cat >eater.c <<'END'
static __thread char eaten[128] __attribute__((tls_model("initial-exec"), used)) = {1};
char *eater_touch(void) { return eaten; }
END
$MI_TEST_CC -O1 -fPIC -shared -o eater.so eater.c || exit 99
i=0
while [ $((i += 1)) -le 10 ]; do cp eater.so eater$i.so; done
timeout 100 "$plain/preload/static-tls" "$lib" ./eater*.so || fail "static-tls: exit code $?"
if command -v python3 >/dev/null 2>&1; then
  timeout 100 python3 -c 'import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.mi_malloc.restype = ctypes.c_void_p
lib.mi_malloc.argtypes = [ctypes.c_size_t]
lib.mi_free.argtypes = [ctypes.c_void_p]
for size in range(0, 100000, 77):
    p = lib.mi_malloc(size)
    ctypes.memset(p, 1, size)
    lib.mi_free(p)' "$lib" || fail "python3 does not load the library: exit code $?"
fi
if command -v "${READELF:-readelf}" >/dev/null 2>&1; then
  size=$("${READELF:-readelf}" -lW "$lib" | awk '$1 == "TLS" { print $6 }')
  [ -z "$size" ] || [ $((size)) -le 64 ] || fail "the TLS segment has $((size)) bytes"
fi
