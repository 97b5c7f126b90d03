/* SPDX-License-Identifier: MIT */
/* Checks of invariants. mi__assert is compiled always and evaluated in the debug build
 * (--enable-debug) only. A failed check calls the hook that a higher layer registered (a message),
 * then stops the process. */
#ifndef MI_BASE_CHECK_H
#define MI_BASE_CHECK_H

#include "base/compiler.h"

/* -DMI_BAD_PURGE=n builds a known fault into the purging, for tests/idle/purge-faults, which proves
 * that the stress program finds it. 0: none.
 *   1 a pass that resets the schedule at its end   2 the background thread clears the schedule
 *   3 a pass clears marks that it has not claimed  4 a due park that was not swept whole is dropped
 *   5 a pass does not look at the arenas again at its end */
#ifndef MI_BAD_PURGE
#define MI_BAD_PURGE 0
#endif

typedef void mi__check_fun(const char *condition, const char *file, unsigned line);

/* Registered once, at process start, by rt/message.c. */
void mi__check_set_hook(mi__check_fun *hook);
_Noreturn void mi__check_failed(const char *condition, const char *file, unsigned line);

#define mi__assert(cond) \
  do { \
    if (MI_DEBUG && mi__unlikely(!(cond))) mi__check_failed(#cond, __FILE__, __LINE__); \
  } while (0)

#endif
