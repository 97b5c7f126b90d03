/* SPDX-License-Identifier: MIT */
/* The public interface of libmimalloc: a general-purpose memory allocator.
 *
 * Words: a heap owns blocks and may be shared by threads; a theap is the part of a heap that one
 * thread uses; an arena is a range of address space from which heaps take their memory.
 *
 * What holds for every function that gives out memory, unless its comment says otherwise:
 * - sizes are in bytes; a size of 0 gives a block of the smallest size, with an address of its own;
 * - the block is aligned to 16 bytes (8 for sizes up to 8) and its contents are undefined;
 * - failure gives NULL with errno ENOMEM, and everything is as before the call; so fail a size
 *   above PTRDIFF_MAX and a product of count and size that overflows;
 * - an alignment is a power of two; any other gives NULL with errno EINVAL;
 * - any thread may call it, and any thread may free the block;
 * - success keeps errno, and so does every free.
 * Functions that take a block take NULL too, and then do nothing, or allocate (the realloc
 * family). */
#ifndef MIMALLOC_H
#define MIMALLOC_H

/* Major version, two digits for the minor version, two for the patch. */
#define MI_MALLOC_VERSION 30502

#include <stdbool.h>
#include <stddef.h>

/* ---- Attributes, where the compiler knows them ---- */

#if defined(__GNUC__) || defined(__clang__)
#define mi_decl_export __attribute__((__visibility__("default")))
#define mi_decl_restrict
#define mi_attr_malloc __attribute__((__malloc__))
#define mi_attr_alloc_size(s) __attribute__((__alloc_size__(s)))
#define mi_attr_alloc_size2(n, s) __attribute__((__alloc_size__(n, s)))
#define mi_attr_alloc_align(a) __attribute__((__alloc_align__(a)))
#else
#define mi_decl_export
#define mi_decl_restrict
#define mi_attr_malloc
#define mi_attr_alloc_size(s)
#define mi_attr_alloc_size2(n, s)
#define mi_attr_alloc_align(a)
#endif

#if defined(__cplusplus) && __cplusplus >= 201703L
#define mi_decl_nodiscard [[nodiscard]]
#elif defined(__GNUC__) || defined(__clang__)
#define mi_decl_nodiscard __attribute__((__warn_unused_result__))
#else
#define mi_decl_nodiscard
#endif

#if defined(__cplusplus)
#define mi_attr_noexcept noexcept
#else
#define mi_attr_noexcept
#endif

/* The calling convention of callbacks; needed on Windows alone. */
#define mi_cdecl

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ---- */

typedef struct mi_heap_s mi_heap_t;   /* a heap */
typedef struct mi_theap_s mi_theap_t; /* one thread's part of a heap; only that thread may use it */
typedef void *mi_arena_id_t;          /* an arena; NULL is none */

/* A sub-process: heaps and arenas that share nothing with those of another sub-process. By
 * value. */
typedef struct mi_subproc_id_s {
  void *_mi_subproc;
} mi_subproc_id_t;

/* Called now and then from allocations, so that the program can free what it put off. `force`: free
 * all of it now; `heartbeat` counts the calls. May allocate and free. */
typedef void(mi_cdecl mi_deferred_free_fun)(bool force, unsigned long long heartbeat, void *arg);
/* Takes a text to print. Must not allocate with this library. */
typedef void(mi_cdecl mi_output_fun)(const char *msg, void *arg);
/* Told of an error: EAGAIN double free, EFAULT corrupt free list, EINVAL bad pointer or argument,
 * ENOMEM out of memory, EOVERFLOW count * size overflows. */
typedef void(mi_cdecl mi_error_fun)(int err, void *arg);
/* Gives or takes away memory of a managed range; *is_zero (may be NULL): it reads as zeros now.
 * Returns false when it cannot. Must not allocate with this library. */
typedef bool(mi_cdecl mi_commit_fun_t)(bool commit, void *start, size_t size, bool *is_zero,
                                       void *arg);

/* An area of blocks of one size, as visits show it. */
typedef struct mi_heap_area_s {
  void *blocks;           /* start of the area */
  size_t reserved;        /* bytes of address space */
  size_t committed;       /* bytes in use for blocks, free ones too */
  size_t used;            /* number of blocks that are allocated */
  size_t block_size;      /* bytes that a block can hold */
  size_t full_block_size; /* bytes from one block to the next */
  void *reserved1;        /* for the library */
} mi_heap_area_t;

/* Sees an area (block NULL), and then each of its live blocks. False ends the visit. */
typedef bool(mi_cdecl mi_block_visit_fun)(const mi_heap_t *heap, const mi_heap_area_t *area,
                                          void *block, size_t block_size, void *arg);
/* Sees a heap. False ends the visit. */
typedef bool(mi_cdecl mi_heap_visit_fun)(mi_heap_t *heap, void *arg);

/* Counts of holes: memory of free blocks that was given back while its page is in use. A name with
 * `total` only grows; unformed memory is the part of a page that never was a block. */
typedef struct mi_purge_holes_stats_s {
  size_t purged_bytes;             /* in holes now */
  size_t purged_blocks;            /* free blocks in holes now */
  size_t purged_bytes_total;       /* ever put in holes */
  size_t discard_calls;            /* calls of the OS to make holes */
  size_t reuse_calls;              /* holes taken into use again */
  size_t pages_freed;              /* pages that were freed with holes in them */
  size_t ineligible_pages;         /* pages with room that cannot have holes, last sweep */
  size_t ineligible_bytes;         /* their bytes */
  size_t ineligible_free_bytes;    /* the free bytes of them */
  size_t unformed_bytes;           /* given back from unformed parts, now */
  size_t unformed_bytes_total;     /* ever */
  size_t unformed_discard_calls;   /* calls of the OS for it */
  size_t unformed_reuse_calls;     /* such parts taken into use again */
  size_t pages_skipped;            /* pages that a sweep passed over as unchanged */
  size_t blocks_visited;           /* free blocks that sweeps looked at */
  size_t full_sweeps;              /* sweeps that looked at every page */
} mi_purge_holes_stats_t;

/* What mi_purge_all_ex did. */
typedef struct mi_purge_all_report_s {
  size_t arena_bytes;     /* bytes of free arena memory given back */
  size_t hole_bytes;      /* bytes of holes made */
  size_t theaps_swept;    /* theaps whose memory was gone through */
  size_t theaps_pending;  /* theaps whose thread runs and has not answered yet */
  size_t theaps_orphaned; /* theaps of ended threads that were gone through */
  bool complete;          /* nothing is pending */
} mi_purge_all_report_t;

#define MI_PURGE_OK 0      /* everything was gone through */
#define MI_PURGE_PARTIAL 1 /* some threads have not answered yet; they will */
#define MI_PURGE_BUSY 2    /* another purge was running; nothing was done */
#define MI_PURGE_FORCE 0x01

#define MI_SNAPSHOT_BLOCKS 0x01 /* with the map of live blocks */

/* Small objects, for the functions with `small` in their name: in machine words and in bytes. */
#define MI_SMALL_WSIZE_MAX 128
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void *))

/* ---- The standard interface ---- */

/* A block of `size` bytes. */
mi_decl_nodiscard mi_decl_export void *mi_malloc(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* A zeroed block for `count` objects of `size` bytes. */
mi_decl_nodiscard mi_decl_export void *mi_calloc(size_t count, size_t size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size2(1, 2);
/* Resize p, moving it if need be; contents are kept up to the lesser size. p NULL: as mi_malloc.
 * newsize 0: a fresh block of the smallest size, p freed. A p that is not ours: NULL and EINVAL. */
mi_decl_nodiscard mi_decl_export void *mi_realloc(void *p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);
/* Resize p where it is: p, or NULL when it does not fit there (p is unchanged; errno is kept) or
 * p is NULL. */
mi_decl_export void *mi_expand(void *p, size_t newsize) mi_attr_noexcept mi_attr_alloc_size(2);
/* Free a block. A pointer that is not ours is ignored, and reported where errors are shown. */
mi_decl_export void mi_free(void *p) mi_attr_noexcept;
/* A copy of s; NULL gives NULL. */
mi_decl_nodiscard mi_decl_export char *mi_strdup(const char *s) mi_attr_noexcept mi_attr_malloc;
/* A copy of at most n bytes of s, ended by 0; NULL gives NULL. */
mi_decl_nodiscard mi_decl_export char *mi_strndup(const char *s, size_t n) mi_attr_noexcept
    mi_attr_malloc;
/* realpath(3), with the result in a block of this library where resolved_name is NULL. */
mi_decl_nodiscard mi_decl_export char *mi_realpath(const char *fname, char *resolved_name)
    mi_attr_noexcept;

/* ---- Extended ---- */

/* mi_malloc for a size of at most MI_SMALL_SIZE_MAX; a larger size works, more slowly. */
mi_decl_nodiscard mi_decl_export void *mi_malloc_small(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* Likewise, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_zalloc_small(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* A zeroed block of `size` bytes. */
mi_decl_nodiscard mi_decl_export void *mi_zalloc(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* A block for `count` objects of `size` bytes. */
mi_decl_nodiscard mi_decl_export void *mi_mallocn(size_t count, size_t size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size2(1, 2);
/* mi_realloc to count * size bytes. */
mi_decl_nodiscard mi_decl_export void *mi_reallocn(void *p, size_t count, size_t size)
    mi_attr_noexcept mi_attr_alloc_size2(2, 3);
/* mi_realloc that frees p when it fails. */
mi_decl_nodiscard mi_decl_export void *mi_reallocf(void *p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);
/* Bytes that may be used in the block p: at least what was asked for. 0 for NULL and for what is
 * not ours. */
mi_decl_nodiscard mi_decl_export size_t mi_usable_size(const void *p) mi_attr_noexcept;
/* The usable size that mi_malloc(size) would give. */
mi_decl_nodiscard mi_decl_export size_t mi_good_size(size_t size) mi_attr_noexcept;
/* mi_free for a block that was asked for with a size of at most MI_SMALL_SIZE_MAX. */
mi_decl_export void mi_free_small(void *p) mi_attr_noexcept;
/* Likewise; p is not NULL. */
mi_decl_export void mi_free_small_nonnull(void *p) mi_attr_noexcept;
/* A block of `wsize` machine words, at most MI_SMALL_WSIZE_MAX. */
mi_decl_nodiscard mi_decl_export void *mi_wmalloc_small(size_t wsize) mi_attr_noexcept;
/* Likewise, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_wzalloc_small(size_t wsize) mi_attr_noexcept;
/* mi_wmalloc_small in a theap of the calling thread. */
mi_decl_nodiscard mi_decl_export void *mi_theap_wmalloc_small(mi_theap_t *theap, size_t wsize)
    mi_attr_noexcept;
/* mi_wzalloc_small in a theap of the calling thread. */
mi_decl_nodiscard mi_decl_export void *mi_theap_wzalloc_small(mi_theap_t *theap, size_t wsize)
    mi_attr_noexcept;

/* ---- Aligned ---- */
/* `_at`: the address plus `offset` is a multiple of the alignment. Blocks are freed by mi_free. */

/* A block whose address is a multiple of `alignment`. */
mi_decl_nodiscard mi_decl_export void *mi_malloc_aligned(size_t size, size_t alignment)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);
/* A block with (address + offset) a multiple of `alignment`. */
mi_decl_nodiscard mi_decl_export void *mi_malloc_aligned_at(size_t size, size_t alignment,
    size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
/* As mi_malloc_aligned, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_zalloc_aligned(size_t size, size_t alignment)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);
/* As mi_malloc_aligned_at, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_zalloc_aligned_at(size_t size, size_t alignment,
    size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
/* As mi_malloc_aligned, for count objects of `size` bytes, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_calloc_aligned(size_t count, size_t size,
    size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(3);
/* As mi_malloc_aligned_at, for count objects of `size` bytes, zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_calloc_aligned_at(size_t count, size_t size,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc;
/* mi_realloc; the result is a multiple of `alignment`, also where p was not. */
mi_decl_nodiscard mi_decl_export void *mi_realloc_aligned(void *p, size_t newsize, size_t alignment)
    mi_attr_noexcept mi_attr_alloc_size(2) mi_attr_alloc_align(3);
/* Likewise for (result + offset). */
mi_decl_nodiscard mi_decl_export void *mi_realloc_aligned_at(void *p, size_t newsize,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_alloc_size(2);

/* ---- Zeroed resizing ---- */
/* For blocks that were allocated zeroed and resized by these functions only: what was not asked for
 * before reads as zeros. */

/* mi_realloc; bytes past the old usable size are zeroed. */
mi_decl_nodiscard mi_decl_export void *mi_rezalloc(void *p, size_t newsize) mi_attr_noexcept
    mi_attr_alloc_size(2);
/* mi_rezalloc to newcount * size bytes. */
mi_decl_nodiscard mi_decl_export void *mi_recalloc(void *p, size_t newcount, size_t size)
    mi_attr_noexcept mi_attr_alloc_size2(2, 3);
/* mi_rezalloc with an alignment. */
mi_decl_nodiscard mi_decl_export void *mi_rezalloc_aligned(void *p, size_t newsize,
    size_t alignment) mi_attr_noexcept mi_attr_alloc_size(2) mi_attr_alloc_align(3);
/* mi_rezalloc with an alignment of (result + offset). */
mi_decl_nodiscard mi_decl_export void *mi_rezalloc_aligned_at(void *p, size_t newsize,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_alloc_size(2);
/* mi_recalloc with an alignment. */
mi_decl_nodiscard mi_decl_export void *mi_recalloc_aligned(void *p, size_t newcount, size_t size,
    size_t alignment) mi_attr_noexcept mi_attr_alloc_size2(2, 3) mi_attr_alloc_align(4);
/* mi_recalloc with an alignment of (result + offset). */
mi_decl_nodiscard mi_decl_export void *mi_recalloc_aligned_at(void *p, size_t newcount, size_t size,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_alloc_size2(2, 3);

/* ---- With the usable size ---- */
/* Each also stores the usable size of a block where its pointer is not NULL; 0 where there is no
 * block. */

/* mi_malloc; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_umalloc(size_t size, size_t *block_size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size(1);
/* mi_calloc; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_ucalloc(size_t count, size_t size, size_t *block_size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size2(1, 2);
/* mi_realloc; *block_size_pre: of p before the call; *block_size_post: of the result. */
mi_decl_nodiscard mi_decl_export void *mi_urealloc(void *p, size_t newsize, size_t *block_size_pre,
    size_t *block_size_post) mi_attr_noexcept mi_attr_alloc_size(2);
/* mi_free; *block_size: of the block that was freed. */
mi_decl_export void mi_ufree(void *p, size_t *block_size) mi_attr_noexcept;
/* mi_malloc_aligned; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_umalloc_aligned(size_t size, size_t alignment,
    size_t *block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1)
    mi_attr_alloc_align(2);
/* mi_zalloc_aligned; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_uzalloc_aligned(size_t size, size_t alignment,
    size_t *block_size) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1)
    mi_attr_alloc_align(2);
/* mi_malloc_small; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_umalloc_small(size_t size, size_t *block_size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);
/* mi_zalloc_small; *block_size: of the new block. */
mi_decl_nodiscard mi_decl_export void *mi_uzalloc_small(size_t size, size_t *block_size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1);

/* ---- The process and its threads ---- */

/* Give back what the calling thread can: blocks freed by other threads are taken in and empty
 * pages returned. force: also memory that waits for its purge delay, and runs that other threads
 * hold. */
mi_decl_export void mi_collect(bool force) mi_attr_noexcept;
/* mi_collect(true); the target is not used. */
mi_decl_export void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept;
/* MI_MALLOC_VERSION of the library that runs, which may differ from the header's. */
mi_decl_export int mi_version(void);
/* What the start of the process does by itself. Harmless when done again. */
mi_decl_export void mi_process_init(void) mi_attr_noexcept;
/* What the end of the process does by itself. Allocation works afterwards. */
mi_decl_export void mi_process_done(void) mi_attr_noexcept;
/* What the first allocation of a thread does by itself. Harmless when done again. */
mi_decl_export void mi_thread_init(void) mi_attr_noexcept;
/* What the end of a thread does by itself: its pages are left to others. The thread may allocate
 * again. */
mi_decl_export void mi_thread_done(void) mi_attr_noexcept;
/* Tell that the calling thread belongs to a pool, and takes turns with others at the same work. */
mi_decl_export void mi_thread_set_in_threadpool(void) mi_attr_noexcept;
/* Set the function to be called now and then from allocations; NULL: none. Never called within
 * itself. */
mi_decl_export void mi_register_deferred_free(mi_deferred_free_fun *deferred_free, void *arg)
    mi_attr_noexcept;
/* Set where messages go, all at once or later ones only; NULL: standard error. */
mi_decl_export void mi_register_output(mi_output_fun *out, void *arg) mi_attr_noexcept;
/* Set who is told of errors; NULL: nobody. Called with nothing locked. */
mi_decl_export void mi_register_error(mi_error_fun *fun, void *arg);
/* Are malloc and its family served by this library in this process? */
mi_decl_nodiscard mi_decl_export bool mi_is_redirected(void) mi_attr_noexcept;
/* Is p in a live page of this library? Any pointer may be asked about. */
mi_decl_export bool mi_check_owned(const void *p);
/* The same as mi_check_owned. */
mi_decl_nodiscard mi_decl_export bool mi_is_in_heap_region(const void *p) mi_attr_noexcept;
/* The same as mi_check_owned. */
mi_decl_nodiscard mi_decl_export bool mi_any_heap_contains(const void *p);
/* Time since the start, user and system time (ms), resident memory now and at its peak,
 * committed memory now and at its peak (bytes), page faults that needed I/O. Each pointer may be
 * NULL. */
mi_decl_export void mi_process_info(size_t *elapsed_msecs, size_t *user_msecs, size_t *system_msecs,
    size_t *current_rss, size_t *peak_rss, size_t *current_commit, size_t *peak_commit,
    size_t *page_faults) mi_attr_noexcept;
/* Print them to the registered output function. */
mi_decl_export void mi_process_info_print(void) mi_attr_noexcept;
/* Print them to `out`; NULL: the registered output function. */
mi_decl_export void mi_process_info_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;
/* Print the version, and each option with its value, to the registered output function. */
mi_decl_export void mi_options_print(void) mi_attr_noexcept;
/* Likewise to `out`; NULL: the registered output function. */
mi_decl_export void mi_options_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;
/* Set the statistics of the calling thread's sub-process back: totals to 0, peaks to what there is
 * now. */
mi_decl_export void mi_stats_reset(void) mi_attr_noexcept;
/* Add the calling thread's counts to those of its heaps, so that others see them. */
mi_decl_export void mi_stats_merge(void) mi_attr_noexcept;
/* Print the statistics of the process to the registered output function. The argument is
 * ignored. */
mi_decl_export void mi_stats_print(void *out) mi_attr_noexcept;
/* Print those of the calling thread's heap to `out`; NULL: the registered output function. */
mi_decl_export void mi_thread_stats_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;

/* ---- Options ---- */
/* Each is read from the environment when the process starts: MIMALLOC_ and the name in capitals.
 * See mimalloc(7) for their meaning. */

typedef enum mi_option_e {
/* options: begin (from src/rt/option.def) */
  mi_option_show_errors = 0,
  mi_option_show_stats = 1,
  mi_option_verbose = 2,
  mi_option_deprecated_eager_commit = 3,
  mi_option_arena_eager_commit = 4,
  mi_option_purge_decommits = 5,
  mi_option_allow_large_os_pages = 6,
  mi_option_reserve_huge_os_pages = 7,
  mi_option_reserve_huge_os_pages_at = 8,
  mi_option_reserve_os_memory = 9,
  mi_option_deprecated_segment_cache = 10,
  mi_option_deprecated_page_reset = 11,
  mi_option_deprecated_abandoned_page_purge = 12,
  mi_option_deprecated_segment_reset = 13,
  mi_option_deprecated_eager_commit_delay = 14,
  mi_option_purge_delay = 15,
  mi_option_use_numa_nodes = 16,
  mi_option_disallow_os_alloc = 17,
  mi_option_os_tag = 18,
  mi_option_max_errors = 19,
  mi_option_max_warnings = 20,
  mi_option_deprecated_max_segment_reclaim = 21,
  mi_option_destroy_on_exit = 22,
  mi_option_arena_reserve = 23,
  mi_option_arena_purge_mult = 24,
  mi_option_deprecated_purge_extend_delay = 25,
  mi_option_disallow_arena_alloc = 26,
  mi_option_retry_on_oom = 27,
  mi_option_deprecated_visit_abandoned = 28,
  mi_option_guarded_min = 29,
  mi_option_guarded_max = 30,
  mi_option_guarded_precise = 31,
  mi_option_guarded_sample_rate = 32,
  mi_option_guarded_sample_seed = 33,
  mi_option_generic_collect = 34,
  mi_option_page_reclaim_on_free = 35,
  mi_option_page_full_retain = 36,
  mi_option_page_max_candidates = 37,
  mi_option_max_vabits = 38,
  mi_option_pagemap_commit = 39,
  mi_option_page_commit_on_demand = 40,
  mi_option_page_max_reclaim = 41,
  mi_option_page_cross_thread_max_reclaim = 42,
  mi_option_allow_thp = 43,
  mi_option_minimal_purge_size = 44,
  mi_option_arena_max_object_size = 45,
  mi_option_arena_is_numa_local = 46,
  mi_option_collect_merges_stats = 47,
  mi_option_snapshot_on_exit = 48,
  mi_option_scavenger = 49,
  mi_option_purge_holes = 50,
  mi_option_purge_holes_eager_zero = 51,
  mi_option_purge_holes_min_interval = 52,
  mi_option_purge_holes_full_every = 53,
  mi_option_purge_holes_large_floor = 54,
  mi_option_purge_holes_large_floor_epochs = 55,
/* options: end */
  _mi_option_last,
  /* older names */
  mi_option_large_os_pages = mi_option_allow_large_os_pages,
  mi_option_eager_region_commit = mi_option_arena_eager_commit,
  mi_option_reset_decommits = mi_option_purge_decommits,
  mi_option_reset_delay = mi_option_purge_delay,
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc,
  mi_option_visit_abandoned = mi_option_deprecated_visit_abandoned
} mi_option_t;

/* Is the value other than 0? */
mi_decl_nodiscard mi_decl_export bool mi_option_is_enabled(mi_option_t option);
/* Set it to 1. */
mi_decl_export void mi_option_enable(mi_option_t option);
/* Set it to 0. */
mi_decl_export void mi_option_disable(mi_option_t option);
/* Set it to 1 or 0. */
mi_decl_export void mi_option_set_enabled(mi_option_t option, bool enable);
/* Set it to 1 or 0 unless the environment or the program has set it. */
mi_decl_export void mi_option_set_enabled_default(mi_option_t option, bool enable);
/* The value in the option's unit (KiB for sizes); 0 for an unknown number. */
mi_decl_nodiscard mi_decl_export long mi_option_get(mi_option_t option);
/* The value, but at least min and at most max. */
mi_decl_nodiscard mi_decl_export long mi_option_get_clamp(mi_option_t option, long min, long max);
/* The value in bytes where the unit is KiB, else as it is; below 0 is 0. */
mi_decl_nodiscard mi_decl_export size_t mi_option_get_size(mi_option_t option);
/* Set the value. Nothing happens for an unknown number or a value out of range. Some options
 * matter at the start only. */
mi_decl_export void mi_option_set(mi_option_t option, long value);
/* Set the value unless the environment or the program has set it. */
mi_decl_export void mi_option_set_default(mi_option_t option, long value);

/* ---- POSIX and other names ---- */

/* Free p if it is ours: true; else do nothing: false. */
mi_decl_export bool mi_cfree(void *p) mi_attr_noexcept;
/* mi_expand, but a failure sets errno to ENOMEM. */
mi_decl_export void *mi__expand(void *p, size_t newsize) mi_attr_noexcept;
/* mi_usable_size under the names of other systems. */
mi_decl_nodiscard mi_decl_export size_t mi_malloc_size(const void *p) mi_attr_noexcept;
mi_decl_nodiscard mi_decl_export size_t mi_malloc_usable_size(const void *p) mi_attr_noexcept;
/* mi_good_size under the name of another system. */
mi_decl_nodiscard mi_decl_export size_t mi_malloc_good_size(size_t size) mi_attr_noexcept;
/* *p: a block of `size` bytes, aligned. Returns 0, EINVAL (p NULL; alignment no power of two or
 * no multiple of sizeof(void *)) or ENOMEM, with *p unchanged and errno kept. */
mi_decl_export int mi_posix_memalign(void **p, size_t alignment, size_t size);
/* mi_malloc_aligned with the arguments the other way round. */
mi_decl_nodiscard mi_decl_export void *mi_memalign(size_t alignment, size_t size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(1);
/* Likewise, as C17 names it; size need not be a multiple of the alignment. */
mi_decl_nodiscard mi_decl_export void *mi_aligned_alloc(size_t alignment, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(1);
/* A block aligned to the OS page. */
mi_decl_nodiscard mi_decl_export void *mi_valloc(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* Likewise, with the size rounded up to whole OS pages. */
mi_decl_nodiscard mi_decl_export void *mi_pvalloc(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* mi_reallocn that also sets errno to ENOMEM when count * size overflows. */
mi_decl_nodiscard mi_decl_export void *mi_reallocarray(void *p, size_t count, size_t size)
    mi_attr_noexcept mi_attr_alloc_size2(2, 3);
/* Resize the block that the pointer at ptrp points to, and store the result there. Returns 0, or
 * an errno value with the pointer and the block unchanged. errno is kept. */
mi_decl_nodiscard mi_decl_export int mi_reallocarr(void *ptrp, size_t count, size_t size)
    mi_attr_noexcept;
/* mi_recalloc_aligned. */
mi_decl_nodiscard mi_decl_export void *mi_aligned_recalloc(void *p, size_t newcount, size_t size,
    size_t alignment) mi_attr_noexcept;
/* mi_recalloc_aligned_at. */
mi_decl_nodiscard mi_decl_export void *mi_aligned_offset_recalloc(void *p, size_t newcount,
    size_t size, size_t alignment, size_t offset) mi_attr_noexcept;
/* mi_free for a block that was asked for with `size`; a wrong size is reported in the debug
 * build only. */
mi_decl_export void mi_free_size(void *p, size_t size) mi_attr_noexcept;
/* Likewise, with its alignment. */
mi_decl_export void mi_free_size_aligned(void *p, size_t size, size_t alignment) mi_attr_noexcept;
/* mi_free for a block with this alignment. */
mi_decl_export void mi_free_aligned(void *p, size_t alignment) mi_attr_noexcept;
/* *buf: a copy of the environment variable, *size (may be NULL): its bytes with the ending 0.
 * Returns 0, EINVAL (buf or name NULL) or ENOMEM; an absent variable gives 0, *buf NULL and
 * *size 0. */
mi_decl_export int mi_dupenv_s(char **buf, size_t *size, const char *name) mi_attr_noexcept;
/* Likewise for wide characters; EINVAL where the system has no wide environment. */
mi_decl_export int mi_wdupenv_s(wchar_t **buf, size_t *size, const wchar_t *name) mi_attr_noexcept;
/* A copy of the wide string s; NULL gives NULL. */
mi_decl_nodiscard mi_decl_export wchar_t *mi_wcsdup(const wchar_t *s) mi_attr_noexcept
    mi_attr_malloc;
/* A copy of the multi-byte string s; NULL gives NULL. */
mi_decl_nodiscard mi_decl_export unsigned char *mi_mbsdup(const unsigned char *s) mi_attr_noexcept
    mi_attr_malloc;

/* ---- C++ ---- */
/* mi_new and kin do not return NULL for lack of memory: they call the new-handler and try again,
 * and throw std::bad_alloc without one (in a program without C++ they abort). NULL with errno
 * EINVAL: the alignment is no power of two, or p is no block of this allocator. */

/* operator new. */
mi_decl_nodiscard mi_decl_export void *mi_new(size_t size) mi_attr_malloc mi_attr_alloc_size(1);
/* operator new with an alignment. */
mi_decl_nodiscard mi_decl_export void *mi_new_aligned(size_t size, size_t alignment) mi_attr_malloc
    mi_attr_alloc_size(1) mi_attr_alloc_align(2);
/* operator new that gives NULL instead of throwing. */
mi_decl_nodiscard mi_decl_export void *mi_new_nothrow(size_t size) mi_attr_noexcept mi_attr_malloc
    mi_attr_alloc_size(1);
/* The same with an alignment. */
mi_decl_nodiscard mi_decl_export void *mi_new_aligned_nothrow(size_t size, size_t alignment)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(1) mi_attr_alloc_align(2);
/* operator new for count objects of `size` bytes; an overflow is as out of memory. */
mi_decl_nodiscard mi_decl_export void *mi_new_n(size_t count, size_t size) mi_attr_malloc;
/* mi_realloc that fails as mi_new does. */
mi_decl_nodiscard mi_decl_export void *mi_new_realloc(void *p, size_t newsize)
    mi_attr_alloc_size(2);
/* mi_reallocn that fails as mi_new does. */
mi_decl_nodiscard mi_decl_export void *mi_new_reallocn(void *p, size_t newcount, size_t size);

/* ---- Heaps ---- */
/* Any thread may allocate in any heap. No thread may use a heap that is being deleted or
 * destroyed. */

/* A new heap; NULL when there is no memory. */
mi_decl_nodiscard mi_decl_export mi_heap_t *mi_heap_new(void);
/* A new heap that takes its memory from this arena only. */
mi_decl_nodiscard mi_decl_export mi_heap_t *mi_heap_new_in_arena(mi_arena_id_t arena_id);
/* End a heap; its blocks stay valid and belong to the main heap then. Not for the main heap. */
mi_decl_export void mi_heap_delete(mi_heap_t *heap);
/* End a heap and free all its blocks at once. Not for the main heap. */
mi_decl_export void mi_heap_destroy(mi_heap_t *heap);
/* Prefer memory of this NUMA node for the heap; -1: none preferred. */
mi_decl_export void mi_heap_set_numa_affinity(mi_heap_t *heap, int numa_node);
/* mi_collect for the calling thread's part of a heap, and for its pages of threads that ended. */
mi_decl_export void mi_heap_collect(mi_heap_t *heap, bool force);
/* The main heap of the calling thread's sub-process, where mi_malloc allocates. */
mi_decl_nodiscard mi_decl_export mi_heap_t *mi_heap_main(void);
/* The heap that the block p is in; NULL for what is not ours. */
mi_decl_nodiscard mi_decl_export mi_heap_t *mi_heap_of(const void *p);
/* Is p in a live page of this heap? */
mi_decl_nodiscard mi_decl_export bool mi_heap_contains(const mi_heap_t *heap, const void *p);
/* mi_malloc in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_malloc(mi_heap_t *heap, size_t size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size(2);
/* mi_zalloc in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_zalloc(mi_heap_t *heap, size_t size) mi_attr_noexcept
    mi_attr_malloc mi_attr_alloc_size(2);
/* mi_calloc in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t size)
    mi_attr_noexcept mi_attr_malloc;
/* mi_mallocn in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t size)
    mi_attr_noexcept mi_attr_malloc;
/* mi_malloc_small in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_malloc_small(mi_heap_t *heap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_zalloc_small in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_zalloc_small(mi_heap_t *heap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_realloc; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t newsize)
    mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_reallocn; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count,
    size_t size) mi_attr_noexcept;
/* mi_reallocf; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t newsize)
    mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_strdup in a heap. */
mi_decl_nodiscard mi_decl_export char *mi_heap_strdup(mi_heap_t *heap, const char *s)
    mi_attr_noexcept mi_attr_malloc;
/* mi_strndup in a heap. */
mi_decl_nodiscard mi_decl_export char *mi_heap_strndup(mi_heap_t *heap, const char *s, size_t n)
    mi_attr_noexcept mi_attr_malloc;
/* mi_realpath in a heap. */
mi_decl_nodiscard mi_decl_export char *mi_heap_realpath(mi_heap_t *heap, const char *fname,
    char *resolved_name) mi_attr_noexcept;
/* mi_malloc_aligned in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t size,
    size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);
/* mi_malloc_aligned_at in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_malloc_aligned_at(mi_heap_t *heap, size_t size,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_zalloc_aligned in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t size,
    size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);
/* mi_zalloc_aligned_at in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_zalloc_aligned_at(mi_heap_t *heap, size_t size,
    size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_calloc_aligned in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count,
    size_t size, size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_align(4);
/* mi_calloc_aligned_at in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_calloc_aligned_at(mi_heap_t *heap, size_t count,
    size_t size, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_malloc;
/* mi_realloc_aligned; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p,
    size_t newsize, size_t alignment) mi_attr_noexcept mi_attr_alloc_size(3) mi_attr_alloc_align(4);
/* mi_realloc_aligned_at; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_realloc_aligned_at(mi_heap_t *heap, void *p,
    size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_rezalloc; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t newsize)
    mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_recalloc; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t newcount,
    size_t size) mi_attr_noexcept;
/* mi_rezalloc_aligned; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_rezalloc_aligned(mi_heap_t *heap, void *p,
    size_t newsize, size_t alignment) mi_attr_noexcept mi_attr_alloc_size(3) mi_attr_alloc_align(4);
/* mi_rezalloc_aligned_at; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_rezalloc_aligned_at(mi_heap_t *heap, void *p,
    size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_recalloc_aligned; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_recalloc_aligned(mi_heap_t *heap, void *p,
    size_t newcount, size_t size, size_t alignment) mi_attr_noexcept mi_attr_alloc_align(5);
/* mi_recalloc_aligned_at; a block that moves goes to this heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_recalloc_aligned_at(mi_heap_t *heap, void *p,
    size_t newcount, size_t size, size_t alignment, size_t offset) mi_attr_noexcept;
/* mi_new in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_alloc_new(mi_heap_t *heap, size_t size)
    mi_attr_malloc mi_attr_alloc_size(2);
/* mi_new_n in a heap. */
mi_decl_nodiscard mi_decl_export void *mi_heap_alloc_new_n(mi_heap_t *heap, size_t count,
    size_t size) mi_attr_malloc;
/* Visit the areas of a heap and, where visit_blocks, their live blocks. True when the visitor
 * saw all. Exact while no thread allocates from the heap. The visitor must not allocate from the
 * heap. */
mi_decl_export bool mi_heap_visit_blocks(mi_heap_t *heap, bool visit_blocks,
    mi_block_visit_fun *visitor, void *arg);
/* Likewise, for pages whose thread ended only. */
mi_decl_export bool mi_heap_visit_abandoned_blocks(mi_heap_t *heap, bool visit_blocks,
    mi_block_visit_fun *visitor, void *arg);
/* Is the page of block p, of this heap and this thread, filled to less than perc_threshold
 * percent, so that moving p could free it? */
mi_decl_export bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t *heap, void *p,
    size_t perc_threshold) mi_attr_noexcept;

/* ---- Theaps ---- */
/* A theap belongs to one thread; other threads must not pass it. */

/* The calling thread's theap of a heap; made on first use. NULL when there is no memory. */
mi_decl_export mi_theap_t *mi_heap_theap(mi_heap_t *heap);
/* Let the calling thread's mi_malloc use this theap; NULL: the main heap's. Returns the one
 * before. */
mi_decl_export mi_theap_t *mi_theap_set_default(mi_theap_t *theap);
/* The theap that the calling thread's mi_malloc uses. */
mi_decl_export mi_theap_t *mi_theap_get_default(void);
/* mi_collect for one theap. */
mi_decl_export void mi_theap_collect(mi_theap_t *theap, bool force) mi_attr_noexcept;
/* mi_malloc in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_malloc(mi_theap_t *theap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_zalloc in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_zalloc(mi_theap_t *theap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_calloc in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_calloc(mi_theap_t *theap, size_t count, size_t size)
    mi_attr_noexcept mi_attr_malloc;
/* mi_malloc_small in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_malloc_small(mi_theap_t *theap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_zalloc_small in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_zalloc_small(mi_theap_t *theap, size_t size)
    mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2);
/* mi_malloc_aligned in a theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_malloc_aligned(mi_theap_t *theap, size_t size,
    size_t alignment) mi_attr_noexcept mi_attr_malloc mi_attr_alloc_size(2) mi_attr_alloc_align(3);
/* mi_realloc; a block that moves goes to this theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_realloc(mi_theap_t *theap, void *p, size_t newsize)
    mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_rezalloc; a block that moves goes to this theap. */
mi_decl_nodiscard mi_decl_export void *mi_theap_rezalloc(mi_theap_t *theap, void *p, size_t newsize)
    mi_attr_noexcept mi_attr_alloc_size(3);
/* mi_heap_visit_blocks for one theap. */
mi_decl_export bool mi_theap_visit_blocks(const mi_theap_t *theap, bool visit_blocks,
    mi_block_visit_fun *visitor, void *arg);
/* Give one in sample_rate allocations of this theap a guard page; 0: none. seed 0: random. */
mi_decl_export void mi_theap_guarded_set_sample_rate(mi_theap_t *theap, size_t sample_rate,
    size_t seed);
/* Only objects of min to max bytes are given one. */
mi_decl_export void mi_theap_guarded_set_size_bound(mi_theap_t *theap, size_t min, size_t max);

/* ---- Arenas ---- */
/* Functions that return int give 0, or an errno value. *arena_id (may be NULL) is the new arena.
 * exclusive: only heaps made for this arena take memory from it. */

/* Reserve `pages` huge OS pages of 1 GiB, spread over numa_nodes nodes (0: all), in at most
 * timeout_msecs (0: no limit). */
mi_decl_export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes,
    size_t timeout_msecs) mi_attr_noexcept;
/* Reserve `pages` huge OS pages of 1 GiB on a NUMA node (-1: any). */
mi_decl_export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_msecs)
    mi_attr_noexcept;
/* Likewise, with the arena. */
mi_decl_export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs,
    bool exclusive, mi_arena_id_t *arena_id) mi_attr_noexcept;
/* Likewise, spread over all nodes, with a limit in seconds; *pages_reserved (may be NULL): how
 * many there are. */
mi_decl_export int mi_reserve_huge_os_pages(size_t pages, double max_secs, size_t *pages_reserved)
    mi_attr_noexcept;
/* Reserve `size` bytes of OS memory as an arena. commit: usable at once; allow_large: may be 2
 * MiB OS pages. */
mi_decl_export int mi_reserve_os_memory(size_t size, bool commit, bool allow_large)
    mi_attr_noexcept;
/* Likewise, with the arena. */
mi_decl_export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large,
    bool exclusive, mi_arena_id_t *arena_id) mi_attr_noexcept;
/* Let the library use the memory at start; it must stay valid. is_committed: usable at once;
 * is_pinned: never given back; is_zero: reads as zeros; numa_node: -1 any. False: refused. */
mi_decl_export bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_pinned,
    bool is_zero, int numa_node) mi_attr_noexcept;
/* Likewise, with the arena. */
mi_decl_export bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed,
    bool is_pinned, bool is_zero, int numa_node, bool exclusive, mi_arena_id_t *arena_id)
    mi_attr_noexcept;
/* Likewise, with a function that commits and takes away the memory. */
mi_decl_export bool mi_manage_memory(void *start, size_t size, bool is_committed, bool is_pinned,
    bool is_zero, int numa_node, bool exclusive, mi_commit_fun_t *commit_fun, void *commit_fun_arg,
    mi_arena_id_t *arena_id) mi_attr_noexcept;
/* Print all arenas to the registered output function. */
mi_decl_export void mi_arenas_print(void) mi_attr_noexcept;
mi_decl_export void mi_debug_show_arenas(void) mi_attr_noexcept;
/* The least alignment of memory to be managed, in bytes. */
mi_decl_export size_t mi_arena_min_alignment(void);
/* The least size of memory to be managed, in bytes. */
mi_decl_export size_t mi_arena_min_size(void);
/* The largest object that an arena may hold, in bytes. */
mi_decl_export size_t mi_arena_max_object_size(void);
/* Where an arena lies; *size (may be NULL): its bytes. NULL for no arena. */
mi_decl_export void *mi_arena_area(mi_arena_id_t arena_id, size_t *size);
/* Is p inside this arena? */
mi_decl_export bool mi_arena_contains(mi_arena_id_t arena_id, const void *p);

/* ---- Sub-processes ---- */

/* The sub-process in which every thread starts. */
mi_decl_export mi_subproc_id_t mi_subproc_main(void);
/* That of the calling thread. */
mi_decl_export mi_subproc_id_t mi_subproc_current(void);
/* A new one; with a NULL pointer inside when there is no memory. */
mi_decl_export mi_subproc_id_t mi_subproc_new(void);
/* End it. Its threads have ended; blocks of its heaps are gone. Not for the main one. */
mi_decl_export void mi_subproc_destroy(mi_subproc_id_t subproc);
/* Move the calling thread to it, before its first allocation. */
mi_decl_export void mi_subproc_add_current_thread(mi_subproc_id_t subproc);
/* Visit all its heaps. True when the visitor saw all. */
mi_decl_export bool mi_subproc_visit_heaps(mi_subproc_id_t subproc, mi_heap_visit_fun *visitor,
    void *arg);

/* ---- Idle points and purging ---- */

/* The calling thread has nothing to do: take in what others freed, give back empty pages and the
 * free memory inside the others (holes). Cheap when called often: holes are made once in
 * purge_holes_min_interval. */
mi_decl_export void mi_on_thread_idle(void) mi_attr_noexcept;
/* Did the calling thread's last sweep, by itself or in a park, leave something: free blocks of large
 * pages that were just in use, or all holes, for it came too early? A thread that is about to block
 * for long calls mi_on_thread_idle again then, an interval later, three times at most. Not to be
 * called in a park. */
mi_decl_export bool mi_on_thread_idle_pending(void) mi_attr_noexcept;
/* Begin of a park: until its end the thread does not allocate, and the background thread may do
 * its sweeps. False: there is no such thread, and nothing has happened. An allocation ends the
 * park. */
mi_decl_export bool mi_on_thread_idle_start(void) mi_attr_noexcept;
/* End of the park; without one, nothing. */
mi_decl_export void mi_on_thread_idle_end(void) mi_attr_noexcept;
/* End the background thread, for good. */
mi_decl_export void mi_scavenger_stop(void) mi_attr_noexcept;
/* The counts of holes of the process; stats NULL: nothing. */
mi_decl_export void mi_purge_holes_stats_get(mi_purge_holes_stats_t *stats) mi_attr_noexcept;
/* Print what holes there are and could be, for each size class, to the registered output
 * function. */
mi_decl_export void mi_purge_holes_report(void) mi_attr_noexcept;
/* Give back all memory that is free, of all threads. Returns MI_PURGE_OK, _PARTIAL or _BUSY. */
mi_decl_export int mi_purge_all(bool force) mi_attr_noexcept;
/* Likewise; flags: 0 or MI_PURGE_FORCE (do not heed delays and floors); wait at most wait_msecs
 * for running threads; report may be NULL. */
mi_decl_export int mi_purge_all_ex(unsigned flags, size_t wait_msecs, mi_purge_all_report_t *report)
    mi_attr_noexcept;
/* Write a snapshot of all heaps to a file descriptor; flags: 0 or MI_SNAPSHOT_BLOCKS. Returns 0,
 * or -1 and errno. */
mi_decl_export int mi_heap_snapshot(int fd, unsigned flags) mi_attr_noexcept;
/* Likewise to a new file, or over one that is there. */
mi_decl_export int mi_heap_snapshot_to_file(const char *path, unsigned flags) mi_attr_noexcept;

/* ---- Forms for a size that the compiler knows ---- */

/* Bytes to machine words, rounded up. */
static inline size_t mi_wsize_from_size(size_t size) {
  return size / sizeof(void *) + (size % sizeof(void *) != 0 ? 1 : 0);
}

/* mi_malloc, without a test of the size where it is a constant. */
mi_decl_nodiscard mi_attr_malloc mi_attr_alloc_size(1)
static inline void *mi_malloc_csize(size_t size) mi_attr_noexcept {
  return size <= MI_SMALL_SIZE_MAX ? mi_wmalloc_small(mi_wsize_from_size(size)) : mi_malloc(size);
}

/* mi_zalloc, likewise. */
mi_decl_nodiscard mi_attr_malloc mi_attr_alloc_size(1)
static inline void *mi_zalloc_csize(size_t size) mi_attr_noexcept {
  return size <= MI_SMALL_SIZE_MAX ? mi_wzalloc_small(mi_wsize_from_size(size)) : mi_zalloc(size);
}

/* mi_theap_malloc, likewise. */
mi_decl_nodiscard mi_attr_malloc mi_attr_alloc_size(2)
static inline void *mi_theap_malloc_csize(mi_theap_t *theap, size_t size) mi_attr_noexcept {
  return size <= MI_SMALL_SIZE_MAX ? mi_theap_wmalloc_small(theap, mi_wsize_from_size(size))
                                   : mi_theap_malloc(theap, size);
}

/* mi_theap_zalloc, likewise. */
mi_decl_nodiscard mi_attr_malloc mi_attr_alloc_size(2)
static inline void *mi_theap_zalloc_csize(mi_theap_t *theap, size_t size) mi_attr_noexcept {
  return size <= MI_SMALL_SIZE_MAX ? mi_theap_wzalloc_small(theap, mi_wsize_from_size(size))
                                   : mi_theap_zalloc(theap, size);
}

/* mi_free for a block that was asked for with `size`. */
static inline void mi_free_csize(void *p, size_t size) mi_attr_noexcept {
  if (size <= MI_SMALL_SIZE_MAX) mi_free_small(p);
  else mi_free(p);
}

/* Likewise; p is not NULL. */
static inline void mi_free_csize_nonnull(void *p, size_t size) mi_attr_noexcept {
  if (size <= MI_SMALL_SIZE_MAX) mi_free_small_nonnull(p);
  else mi_free(p);
}

#ifdef __cplusplus
}
#endif

/* ---- Forms for a type ---- */

#define mi_malloc_tp(tp) ((tp *)mi_malloc_csize(sizeof(tp)))
#define mi_zalloc_tp(tp) ((tp *)mi_zalloc_csize(sizeof(tp)))
#define mi_calloc_tp(tp, n) ((tp *)mi_calloc(n, sizeof(tp)))
#define mi_mallocn_tp(tp, n) ((tp *)mi_mallocn(n, sizeof(tp)))
#define mi_reallocn_tp(p, tp, n) ((tp *)mi_reallocn(p, n, sizeof(tp)))
#define mi_recalloc_tp(p, tp, n) ((tp *)mi_recalloc(p, n, sizeof(tp)))
#define mi_free_tp(p, tp) mi_free_csize(p, sizeof(tp))

#define mi_heap_malloc_tp(tp, hp) ((tp *)mi_heap_malloc(hp, sizeof(tp)))
#define mi_heap_zalloc_tp(tp, hp) ((tp *)mi_heap_zalloc(hp, sizeof(tp)))
#define mi_heap_calloc_tp(tp, hp, n) ((tp *)mi_heap_calloc(hp, n, sizeof(tp)))
#define mi_heap_mallocn_tp(tp, hp, n) ((tp *)mi_heap_mallocn(hp, n, sizeof(tp)))
#define mi_heap_reallocn_tp(p, hp, tp, n) ((tp *)mi_heap_reallocn(hp, p, n, sizeof(tp)))
#define mi_heap_recalloc_tp(p, hp, tp, n) ((tp *)mi_heap_recalloc(hp, p, n, sizeof(tp)))

/* ---- Allocators for the C++ standard library ---- */
/* They give every type its alignment, and throw std::bad_alloc when there is no memory, after the
 * new-handler, and std::bad_array_new_length for more objects than fit into PTRDIFF_MAX bytes; with
 * exceptions switched off they abort. Copies, also those for another type, are equal, and a
 * container that is copied, moved or swapped takes its allocator along. */

#if defined(__cplusplus) && __cplusplus >= 201103L
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define mi_decl_throw(exception) throw exception
#else
#define mi_decl_throw(exception) std::abort()
#endif

/* The members that every allocator of this header has in the same form. T may be incomplete, or
 * void for an allocator that is only to be converted. */
template <class T> struct _mi_stl_allocator_common {
  typedef T value_type;
  typedef std::size_t size_type;
  typedef std::ptrdiff_t difference_type;
  typedef T *pointer;
  typedef const T *const_pointer;
  typedef typename std::add_lvalue_reference<T>::type reference;
  typedef typename std::add_lvalue_reference<const T>::type const_reference;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  template <class U, class... Args>
  void construct(U *p, Args &&...args) noexcept(std::is_nothrow_constructible<U, Args...>::value) {
    void *at = const_cast<void *>(static_cast<const volatile void *>(p));
    ::new (at) U(std::forward<Args>(args)...);
  }
  template <class U> void destroy(U *p) noexcept(std::is_nothrow_destructible<U>::value) {
    p->~U();
    (void)p; /* not used where the destructor does nothing */
  }
  size_type max_size() const noexcept { return static_cast<size_type>(PTRDIFF_MAX) / sizeof(T); }
  template <class U> U *address(U &x) const noexcept { return std::addressof(x); }

protected:
  static size_type bytes_of(size_type count) {
    if (count > static_cast<size_type>(PTRDIFF_MAX) / sizeof(T))
      mi_decl_throw(std::bad_array_new_length());
    return count * sizeof(T);
  }
  /* More than what any block is aligned to? */
  static constexpr bool over_aligned() noexcept { return alignof(T) > 16; }
};

/* Allocates as mi_new does. All instances are equal. */
template <class T> struct mi_stl_allocator : public _mi_stl_allocator_common<T> {
  using typename _mi_stl_allocator_common<T>::size_type;
  using is_always_equal = std::true_type;
  template <class U> struct rebind { typedef mi_stl_allocator<U> other; };

  mi_stl_allocator() noexcept = default;
  mi_stl_allocator(const mi_stl_allocator &) noexcept = default;
  template <class U> mi_stl_allocator(const mi_stl_allocator<U> &) noexcept {}
  mi_stl_allocator &operator=(const mi_stl_allocator &) noexcept = default;
  mi_stl_allocator select_on_container_copy_construction() const noexcept { return *this; }

  mi_decl_nodiscard T *allocate(size_type count, const void * = nullptr) {
    const size_type bytes = this->bytes_of(count);
    return static_cast<T *>(this->over_aligned() ? mi_new_aligned(bytes, alignof(T))
                                                 : mi_new(bytes));
  }
  void deallocate(T *p, size_type = 0) noexcept { mi_free(p); }
};
template <class A, class B>
bool operator==(const mi_stl_allocator<A> &, const mi_stl_allocator<B> &) noexcept { return true; }
template <class A, class B>
bool operator!=(const mi_stl_allocator<A> &, const mi_stl_allocator<B> &) noexcept { return false; }

#define MI_HAS_HEAP_STL_ALLOCATOR 1

/* Common part of the allocators over a heap, which all copies and rebound copies share. Equal are
 * those of the same heap. */
template <class T> struct _mi_heap_stl_allocator_common : public _mi_stl_allocator_common<T> {
  using typename _mi_stl_allocator_common<T>::size_type;
  using is_always_equal = std::false_type;

  mi_decl_nodiscard T *allocate(size_type count, const void * = nullptr) {
    const size_type bytes = this->bytes_of(count);
    return static_cast<T *>(this->over_aligned() ? allocate_aligned(bytes)
                                                 : mi_heap_alloc_new(heap.get(), bytes));
  }
  void collect(bool force) { mi_heap_collect(heap.get(), force); }
  template <class U>
  bool is_equal(const _mi_heap_stl_allocator_common<U> &other) const noexcept {
    return heap == other.heap;
  }

protected:
  std::shared_ptr<mi_heap_t> heap;
  template <class U> friend struct _mi_heap_stl_allocator_common;

  explicit _mi_heap_stl_allocator_common(std::shared_ptr<mi_heap_t> h) noexcept
      : heap(std::move(h)) {}
  template <class U>
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common<U> &other) noexcept
      : heap(other.heap) {}
  /* Declared, so that there is no move: what is moved from stays usable. */
  _mi_heap_stl_allocator_common(const _mi_heap_stl_allocator_common &) = default;
  _mi_heap_stl_allocator_common &operator=(const _mi_heap_stl_allocator_common &) = default;

  /* A heap that the program made stays the program's. */
  static std::shared_ptr<mi_heap_t> borrow(mi_heap_t *h) {
    return std::shared_ptr<mi_heap_t>(h, [](mi_heap_t *) {});
  }
  static std::shared_ptr<mi_heap_t> fresh(void (*end)(mi_heap_t *)) {
    mi_heap_t *h = mi_heap_new();
    if (h == nullptr) mi_decl_throw(std::bad_alloc());
    return std::shared_ptr<mi_heap_t>(h, end);
  }

private:
  void *allocate_aligned(size_type bytes) {
    for (;;) {
      void *p = mi_heap_malloc_aligned(heap.get(), bytes, alignof(T));
      if (p != nullptr) return p;
      const std::new_handler handler = std::get_new_handler();
      if (handler == nullptr) mi_decl_throw(std::bad_alloc());
      handler();
    }
  }
};

/* Allocates in a heap: that of the argument, which stays the program's to end; with no argument a
 * fresh one, deleted with the last copy of the allocator. */
template <class T> struct mi_heap_stl_allocator : public _mi_heap_stl_allocator_common<T> {
  typedef _mi_heap_stl_allocator_common<T> base;
  using typename base::size_type;
  template <class U> struct rebind { typedef mi_heap_stl_allocator<U> other; };

  mi_heap_stl_allocator() : base(base::fresh(&mi_heap_delete)) {}
  mi_heap_stl_allocator(mi_heap_t *heap) : base(base::borrow(heap)) {}
  mi_heap_stl_allocator(const mi_heap_stl_allocator &) = default;
  template <class U> mi_heap_stl_allocator(const mi_heap_stl_allocator<U> &x) noexcept : base(x) {}
  mi_heap_stl_allocator &operator=(const mi_heap_stl_allocator &) = default;
  mi_heap_stl_allocator select_on_container_copy_construction() const noexcept { return *this; }

  void deallocate(T *p, size_type = 0) noexcept { mi_free(p); }
};
template <class A, class B>
bool operator==(const mi_heap_stl_allocator<A> &x, const mi_heap_stl_allocator<B> &y) noexcept {
  return x.is_equal(y);
}
template <class A, class B>
bool operator!=(const mi_heap_stl_allocator<A> &x, const mi_heap_stl_allocator<B> &y) noexcept {
  return !x.is_equal(y);
}

/* Likewise, but frees nothing one by one: the blocks go when the heap is destroyed, a fresh one
 * with the last copy of the allocator. */
template <class T> struct mi_heap_destroy_stl_allocator : public _mi_heap_stl_allocator_common<T> {
  typedef _mi_heap_stl_allocator_common<T> base;
  using typename base::size_type;
  template <class U> struct rebind { typedef mi_heap_destroy_stl_allocator<U> other; };

  mi_heap_destroy_stl_allocator() : base(base::fresh(&mi_heap_destroy)) {}
  mi_heap_destroy_stl_allocator(mi_heap_t *heap) : base(base::borrow(heap)) {}
  mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator &) = default;
  template <class U>
  mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator<U> &x) noexcept : base(x) {}
  mi_heap_destroy_stl_allocator &operator=(const mi_heap_destroy_stl_allocator &) = default;
  mi_heap_destroy_stl_allocator select_on_container_copy_construction() const noexcept {
    return *this;
  }

  void deallocate(T *, size_type = 0) noexcept {}
};
template <class A, class B>
bool operator==(const mi_heap_destroy_stl_allocator<A> &x,
                const mi_heap_destroy_stl_allocator<B> &y) noexcept {
  return x.is_equal(y);
}
template <class A, class B>
bool operator!=(const mi_heap_destroy_stl_allocator<A> &x,
                const mi_heap_destroy_stl_allocator<B> &y) noexcept {
  return !x.is_equal(y);
}
#endif

#endif
