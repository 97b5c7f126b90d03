/* SPDX-License-Identifier: MIT */
/* What alloc.c, realloc.c and aligned.c share besides alloc.h. */
#ifndef MI_API_CORE_H
#define MI_API_CORE_H

#include "base/compiler.h"
#include "mimalloc.h"

/* Report, set errno to ENOMEM, return NULL. */
void *mi__no_memory(size_t size);
void *mi__too_large(size_t size);
/* A block of a bin, not tracked; `theap` may be a dummy. */
void *mi__alloc_bin(mi_theap_t *theap, unsigned bin, bool zero);
/* The page that p lies in, any address; NULL: none of ours. */
struct mi_page *mi__page_with(const void *p);
/* n bytes of s, and `end` zero bytes after them. */
void *mi__copy_bytes_in(mi_theap_t *theap, const void *s, size_t n, size_t end);
char *mi__realpath_in(mi_theap_t *theap, const char *fname, char *resolved_name);
/* How long mi_purge_all and malloc_trim wait for threads that run. */
#define MI_PURGE_WAIT_MS 100
/* At process exit, after the background thread has ended: print the statistics where show_stats
 * asks for them. */
void mi__print_at_exit(void);
/* The background thread ends, then the snapshot is written, then the statistics are printed. */
void mi__at_exit(void);

#endif
