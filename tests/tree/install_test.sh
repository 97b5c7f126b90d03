#!/bin/sh
# SPDX-License-Identifier: MIT
# make install puts the right files in place (below DESTDIR), a program builds and runs with what was installed, by
# pkg-config, statically and by CMake, and make uninstall takes all files away again.
. "$MI_TEST_SRCDIR/tests/tree/lib.sh"
dest=$tmp/dest
unset MAKEFLAGS MFLAGS MAKELEVEL

# -o: what is built is up to date; another make may be running here.
cd "$MI_TEST_BUILDDIR" || exit 99
$MAKE install DESTDIR="$dest" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "make install"; exit 1; }
prefix=$(value prefix)
libdir=$(value libdir | sed "s|\${exec_prefix}|$prefix|;s|\${prefix}|$prefix|")
lib=$dest$libdir
shared=yes
[ -f "$MI_TEST_LIB" ] || shared=no
static=yes
[ -f .libs/libmimalloc.a ] || static=no

# ---- the list ----
(
  cd "$dest$prefix" || exit 99
  find . ! -type d | sed 's|^\./||' | sed "s|^${libdir#"$prefix/"}/|LIB/|" | grep -v '^share/man/man[37]/' | sort
) >"$tmp/found"
{
  cat <<X
LIB/cmake/mimalloc/mimalloc-config-version.cmake
LIB/cmake/mimalloc/mimalloc-config.cmake
LIB/pkgconfig/mimalloc.pc
bin/mi-heapview
bin/mimalloc-run
include/mimalloc-new-delete.h
include/mimalloc-override.h
include/mimalloc-profile.h
include/mimalloc-stats.h
include/mimalloc.h
share/doc/mimalloc/NEWS
share/doc/mimalloc/README.md
share/doc/mimalloc/examples/worker_pool.c
share/man/man1/mi-heapview.1
share/man/man1/mimalloc-run.1
X
  for page in "$MI_TEST_SRCDIR"/doc/*.md; do [ -f "$page" ] && echo "share/doc/mimalloc/${page##*/}"; done
  [ $static = yes ] && echo LIB/libmimalloc.a
  [ $shared = yes ] && printf 'LIB/libmimalloc.so\nLIB/libmimalloc.so.3\nLIB/libmimalloc.so.3.5.2\n'
} | sort >"$tmp/wanted"
diff -u "$tmp/wanted" "$tmp/found" || fail "installed files (-: wanted, +: found)"
for page in man3/mi_malloc.3 man3/mi_zalloc.3 man7/mimalloc.7; do
  [ -f "$dest$prefix/share/man/$page" ] || fail "no $page"
done
grep -rl "$tmp" "$dest" && fail "files that name the folder they were installed to"

# ---- a program ----
cat >"$tmp/program.c" <<'X'
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  char *p = mi_malloc(100), *q = malloc(100);
  (void)argv;
  if (p == NULL || q == NULL || mi_version() != MI_MALLOC_VERSION) return 1;
  memset(p, argc, 100);
  memset(q, argc, 100);
  if (!mi_check_owned(p)) return 2;
  if (mi_check_owned(q) != mi_is_redirected()) return 3;
  free(q);
  mi_free(p);
  return 0;
}
X
flags="$(value SANITIZER_FLAGS) $(value COVERAGE_FLAGS)"
if command -v "${PKG_CONFIG:-pkg-config}" >/dev/null 2>&1; then
  PKG_CONFIG_LIBDIR=$lib/pkgconfig
  PKG_CONFIG_SYSROOT_DIR=$dest
  PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
  PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
  export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS PKG_CONFIG_ALLOW_SYSTEM_LIBS
  pc=${PKG_CONFIG:-pkg-config}
  [ "$($pc --modversion mimalloc)" = 3.5.2 ] || fail "pkg-config --modversion"
  if [ $shared = yes ]; then
    $MI_TEST_CC $flags "$tmp/program.c" -o "$tmp/shared" $($pc --cflags --libs mimalloc) &&
      LD_LIBRARY_PATH=$lib "$tmp/shared" || fail "a program linked by pkg-config"
  fi
  if [ $static = yes ] && [ -z "$MI_TEST_SANITIZE" ]; then
    echo 'int main(void) { return 0; }' >"$tmp/empty.c"
    if $MI_TEST_CC -static "$tmp/empty.c" -o "$tmp/empty" 2>/dev/null; then
      $MI_TEST_CC $flags -static "$tmp/program.c" -o "$tmp/static" $($pc --static --cflags --libs mimalloc) 2>"$tmp/log" &&
        "$tmp/static" || { cat "$tmp/log"; fail "a static program"; }
    else
      echo "a static program: skipped, the C library cannot be linked statically"
    fi
  fi
else
  echo "pkg-config: skipped, not found"
fi
if [ $shared = yes ] && [ -z "$MI_TEST_SANITIZE" ]; then
  if command -v cmake >/dev/null 2>&1; then
    mkdir "$tmp/cmake"
    cp "$tmp/program.c" "$tmp/cmake/"
    targets='mimalloc'
    [ $static = yes ] && targets='mimalloc mimalloc-static'
    cat >"$tmp/cmake/CMakeLists.txt" <<X
cmake_minimum_required(VERSION 3.10)
project(probe C)
find_package(mimalloc 3.4 REQUIRED)
foreach(target $targets)
  get_target_property(dir \${target} INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(\${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$dest\${dir}")
  add_executable(with-\${target} program.c)
  target_link_libraries(with-\${target} PRIVATE \${target})
endforeach()
X
    (
      cd "$tmp/cmake" &&
        cmake -Dmimalloc_DIR="$lib/cmake/mimalloc" -DCMAKE_C_FLAGS="$flags" . && $MAKE &&
        for target in $targets; do ./with-$target || exit 1; done
    ) >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "a program built by CMake"; }
  else
    echo "CMake: skipped, not found"
  fi
fi

# ---- and away again ----
$MAKE uninstall DESTDIR="$dest" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "make uninstall"; }
find "$dest" ! -type d >"$tmp/left"
[ -s "$tmp/left" ] && { cat "$tmp/left"; fail "files that make uninstall leaves"; }
exit $status
