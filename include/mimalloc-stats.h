/* SPDX-License-Identifier: MIT */
/* Statistics of heaps, sub-processes and the process, as numbers, JSON and text.
 * Totals and current values are exact once the threads concerned ended, collected, merged or idled;
 * of a running thread some free blocks count as allocated. */
#ifndef MIMALLOC_STATS_H
#define MIMALLOC_STATS_H

#include "mimalloc.h"
#include <stdint.h>
#include <string.h>

#define MI_STAT_VERSION 5 /* of the layout of mi_stats_t */

/* An amount that rises and falls. */
typedef struct mi_stat_count_s {
  int64_t total;   /* all that was ever added */
  int64_t peak;    /* highest value of current */
  int64_t current; /* now */
} mi_stat_count_t;

/* An amount that only rises. */
typedef struct mi_stat_counter_s {
  int64_t total;
} mi_stat_counter_t;

#define MI_BIN_HUGE 73 /* the last size class; 1 to 72 are the others */

/* Kinds of slices in an arena. */
typedef enum mi_chunkbin_e {
  MI_CBIN_SMALL,
  MI_CBIN_OTHER,
  MI_CBIN_MEDIUM,
  MI_CBIN_LARGE,
  MI_CBIN_HUGE,
  MI_CBIN_NONE,
  MI_CBIN_COUNT
} mi_chunkbin_t;

#if defined(__GNUC__) || defined(__clang__)
#define mi_decl_align8 __attribute__((__aligned__(8)))
#else
#define mi_decl_align8
#endif

/* A caller sets size and version (mi_stats_init does) and gets false where the library's differ. */
typedef struct mi_stats_s {
  size_t size;    /* sizeof(mi_stats_t) */
  size_t version; /* MI_STAT_VERSION */

  mi_stat_count_t pages mi_decl_align8;          /* pages in use */
  mi_stat_count_t reserved;                      /* bytes of address space */
  mi_stat_count_t committed;                     /* bytes handed out and not purged since */
  mi_stat_counter_t reset;                       /* bytes marked as reclaimable */
  mi_stat_counter_t purged;                      /* bytes given back */
  mi_stat_count_t page_committed;                /* not used */
  mi_stat_count_t pages_abandoned;               /* pages whose thread ended or that are full */
  mi_stat_count_t threads;                       /* threads */
  mi_stat_count_t malloc_normal;                 /* bytes in blocks up to 512 KiB */
  mi_stat_count_t malloc_huge;                   /* bytes in larger blocks */
  mi_stat_count_t malloc_requested;              /* bytes in all blocks */
  mi_stat_counter_t mmap_calls;                  /* calls to map memory */
  mi_stat_counter_t commit_calls;                /* calls to commit memory */
  mi_stat_counter_t reset_calls;                 /* calls to mark memory as reclaimable */
  mi_stat_counter_t purge_calls;                 /* calls to give memory back */
  mi_stat_counter_t arena_count;                 /* arenas */
  mi_stat_counter_t malloc_normal_count;         /* blocks up to 512 KiB */
  mi_stat_counter_t malloc_huge_count;           /* larger blocks */
  mi_stat_counter_t malloc_guarded_count;        /* blocks with a guard page */
  mi_stat_counter_t arena_rollback_count;        /* arena claims that were undone */
  mi_stat_counter_t arena_purges;                /* purge passes into an arena */
  mi_stat_counter_t pages_extended;              /* times that a page formed more blocks */
  mi_stat_counter_t pages_retire;                /* empty pages that were given back */
  mi_stat_counter_t page_searches;               /* pages looked at in searches */
  mi_stat_counter_t page_searches_count;         /* searches among pages with room */
  mi_stat_count_t segments;                      /* not used */
  mi_stat_count_t segments_abandoned;            /* not used */
  mi_stat_count_t segments_cache;                /* not used */
  mi_stat_count_t _segments_reserved;            /* not used */
  mi_stat_count_t heaps;                         /* heaps */
  mi_stat_count_t theaps;                        /* theaps */
  mi_stat_counter_t pages_reclaim_on_alloc;      /* abandoned pages taken over by a refill */
  mi_stat_counter_t pages_reclaim_on_free;       /* abandoned pages taken over by a free */
  mi_stat_counter_t pages_reabandon_full;        /* full pages that were abandoned */
  mi_stat_counter_t pages_unabandon_busy_wait;   /* waits for a page that another thread held */
  mi_stat_counter_t heaps_delete_wait;           /* waits in the end of a heap */

  mi_stat_count_t _stat_reserved[4];
  mi_stat_counter_t _stat_counter_reserved[4];

  mi_stat_count_t malloc_bins[MI_BIN_HUGE + 1]; /* blocks of each size class */
  mi_stat_count_t page_bins[MI_BIN_HUGE + 1];   /* pages of each size class */
  mi_stat_count_t chunk_bins[MI_CBIN_COUNT];    /* not used */
} mi_stats_t;

/* Set size and version only. */
static inline void mi_stats_header_init(mi_stats_t *stats) {
  stats->size = sizeof(mi_stats_t);
  stats->version = MI_STAT_VERSION;
}
/* Set size and version, and all else to 0. */
static inline void mi_stats_init(mi_stats_t *stats) {
  memset(stats, 0, sizeof(*stats));
  mi_stats_header_init(stats);
}
/* Declares a local variable that is ready for mi_stats_get. */
#define mi_stats_t_decl(name) \
  mi_stats_t name; \
  mi_stats_init(&name)

#ifdef __cplusplus
extern "C" {
#endif

/* The JSON functions write to buf (at most buf_size bytes, with 0 at the end; 32 KiB are enough;
 * what does not fit is left out at the end of the text, which is JSON all the same) and return it;
 * with buf NULL they return a block to be freed by mi_free, or NULL when there is no memory.
 * The print functions print to `out`; NULL: the registered output function. */

/* The statistics of the calling thread's sub-process. False: size or version differ, or stats is
 * NULL. */
mi_decl_export bool mi_stats_get(mi_stats_t *stats) mi_attr_noexcept;
/* The same as JSON. */
mi_decl_export char *mi_stats_get_json(size_t buf_size, char *buf) mi_attr_noexcept;
/* The same as text. */
mi_decl_export void mi_stats_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;
/* Any statistics as JSON. */
mi_decl_export char *mi_stats_as_json(mi_stats_t *stats, size_t buf_size, char *buf)
    mi_attr_noexcept;
/* The block size of a size class in bytes; 0 for a number that is none. */
mi_decl_export size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept;
/* The statistics of a heap; heap NULL: the main heap. False as for mi_stats_get. */
mi_decl_export bool mi_heap_stats_get(mi_heap_t *heap, mi_stats_t *stats) mi_attr_noexcept;
/* The same as JSON. */
mi_decl_export char *mi_heap_stats_get_json(mi_heap_t *heap, size_t buf_size, char *buf)
    mi_attr_noexcept;
/* The same as text. */
mi_decl_export void mi_heap_stats_print_out(mi_heap_t *heap, mi_output_fun *out, void *arg)
    mi_attr_noexcept;
/* Add the heap's counts to its sub-process, and set them back to 0. */
mi_decl_export void mi_heap_stats_merge_to_subproc(mi_heap_t *heap);
/* The statistics of a sub-process with those of its heaps. False as for mi_stats_get. */
mi_decl_export bool mi_subproc_stats_get(mi_subproc_id_t subproc_id, mi_stats_t *stats)
    mi_attr_noexcept;
/* Those of the sub-process alone, without its heaps. Takes no lock and allocates nothing. */
mi_decl_export bool mi_subproc_stats_get_exclusive(mi_subproc_id_t subproc_id, mi_stats_t *stats)
    mi_attr_noexcept;
/* mi_subproc_stats_get as JSON. */
mi_decl_export char *mi_subproc_stats_get_json(mi_subproc_id_t subproc_id, size_t buf_size,
    char *buf) mi_attr_noexcept;
/* The same as text. */
mi_decl_export void mi_subproc_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun *out,
    void *arg) mi_attr_noexcept;
/* Likewise, and then each of its heaps. */
mi_decl_export void mi_subproc_heap_stats_print_out(mi_subproc_id_t subproc_id, mi_output_fun *out,
    void *arg) mi_attr_noexcept;
/* All heaps of the calling thread's sub-process and their pages as JSON, in a block to be freed by
 * mi_free; include_blocks: with the live blocks; hash_addresses: with numbers in place of
 * addresses. NULL when there is no memory. */
mi_decl_export char *mi_heap_dump_json(bool include_blocks, bool hash_addresses) mi_attr_noexcept;
/* The number of a heap, never used twice in a process; heap NULL: the main heap. */
mi_decl_export size_t mi_heap_get_seq(mi_heap_t *heap) mi_attr_noexcept;

#ifdef __cplusplus
}
#endif

#endif
