/* SPDX-License-Identifier: MIT */
/* The process: start, fork, exit. Start happens at the first allocation or in the library's
 * constructor, whichever is first; it must work before the C library is set up, so what needs more
 * than memory (fork handlers) waits for the constructor. */
#ifndef MI_HEAP_PROCESS_H
#define MI_HEAP_PROCESS_H

#include "base/compiler.h"

void mi__process_init(void);
void mi__process_done(void);
/* Called first by mi__process_done (prints statistics). Registered by the layer above; NULL:
 * nobody. */
extern void (*mi__process_on_exit)(void);
/* Called last in a fork child, where all locks are free. */
extern void (*mi__process_on_fork_child)(void);

#endif
