/* SPDX-License-Identifier: MIT */
/* Statistics as the public structure has them; for stats.c and the text forms. */
#ifndef MI_API_STATS_H
#define MI_API_STATS_H

#include "heap/heap.h"
#include "mimalloc-stats.h"

struct mi__stats {
  mi_stats_t s;
  int64_t refills; /* has no place there */
};

/* Add what the calling thread has counted to its heaps. */
void mi__stats_merge_own(void);
void mi__stats_of_heap(struct mi_heap_s *heap, struct mi__stats *out);
void mi__stats_of_subproc(struct mi_subproc *subproc, struct mi__stats *out);
struct mi_subproc *mi__stats_own_subproc(void);
/* The heap that the program means: NULL is the main heap. NULL: none, which was reported. */
struct mi_heap_s *mi__stats_heap(struct mi_heap_s *heap, const char *what);

#endif
