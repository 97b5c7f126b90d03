/* SPDX-License-Identifier: MIT */
/* The tracking build (--enable-valgrind): what valgrind's memcheck is told. In other builds
 * everything here is empty. The requests do nothing where the process does not run under valgrind.
 *
 * Invariants:
 *   TRACK-1  of the memory of pages, memcheck takes for accessible exactly what the program holds:
 *            the bytes asked for of each live block. Links, marks and trailers lie in memory that
 *            is not accessible, so that the program's own access to them is reported.
 *   TRACK-2  so the library's own work on blocks runs with reports off: between mi__track_begin
 *            and mi__track_end, which nest. What is loaded from inaccessible memory counts as
 *            initialised.
 *   TRACK-3  words of the library that hold the address of a block's first byte (as that of its
 *            page, arena or mapping) are hidden, or left out, for a leak check takes them for
 *            references; to read them is work as in TRACK-2.
 *   TRACK-4  the program's functions are called between mi__track_pause and mi__track_resume.
 *
 * Threads: any; reports are switched for the calling thread. */
#ifndef MI_BASE_TRACK_H
#define MI_BASE_TRACK_H

#include "base/compiler.h"

#if MI_VALGRIND
#include <valgrind/memcheck.h>
#else
#define VALGRIND_DISABLE_ERROR_REPORTING ((void)0)
#define VALGRIND_ENABLE_ERROR_REPORTING ((void)0)
#define VALGRIND_MAKE_MEM_NOACCESS(p, n) ((void)(p), (void)(n))
#define VALGRIND_MAKE_MEM_DEFINED(p, n) ((void)(p), (void)(n))
#define VALGRIND_MALLOCLIKE_BLOCK(p, n, redzone, zero) ((void)(p), (void)(n), (void)(zero))
#define VALGRIND_FREELIKE_BLOCK(p, redzone) ((void)(p))
#endif

/* How deep the calling thread is in the library's work; exists in the tracking build only. */
extern mi__thread_local unsigned mi__track_depth __attribute__((visibility("hidden")));

mi__inline void mi__track_begin(void) {
  if (MI_VALGRIND && mi__track_depth++ == 0) VALGRIND_DISABLE_ERROR_REPORTING;
}
mi__inline void mi__track_end(void) {
  if (MI_VALGRIND && --mi__track_depth == 0) VALGRIND_ENABLE_ERROR_REPORTING;
}

/* The program's code runs until mi__track_resume, which gets what this returns. It may also leave
 * by an exception or longjmp: then reports are on, as they must be. */
mi__inline unsigned mi__track_pause(void) {
  unsigned depth = 0;
  if (MI_VALGRIND && mi__track_depth > 0) {
    depth = mi__track_depth;
    mi__track_depth = 0;
    VALGRIND_ENABLE_ERROR_REPORTING;
  }
  return depth;
}
mi__inline void mi__track_resume(unsigned depth) {
  if (!MI_VALGRIND || depth == 0) return;
  mi__track_depth = depth;
  VALGRIND_DISABLE_ERROR_REPORTING;
}

/* Not the program's, and not looked at by a leak check. */
mi__inline void mi__track_hide(const void *p, size_t n) {
  if (MI_VALGRIND) VALGRIND_MAKE_MEM_NOACCESS(p, n);
}
/* Accessible again; also what makes a large memset quick, for memcheck handles each access to
 * hidden memory by itself. */
mi__inline void mi__track_show(const void *p, size_t n) {
  if (MI_VALGRIND) VALGRIND_MAKE_MEM_DEFINED(p, n);
}

/* The program gets `size` bytes at p. */
mi__inline void mi__track_give(void *p, size_t size, bool zero) {
  if (MI_VALGRIND) VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, zero);
}
/* The program has freed them. Before anybody else can get the block. */
mi__inline void mi__track_take(void *p) {
  if (MI_VALGRIND) VALGRIND_FREELIKE_BLOCK(p, 0);
}

#endif
