/* SPDX-License-Identifier: MIT */
/* Sampling of allocations for heap profilers. */
#ifndef MIMALLOC_PROFILE_H
#define MIMALLOC_PROFILE_H

#include "mimalloc.h"
#include <stdint.h>

#define MI_PROFILE_SAMPLE_DATA_MAX_SIZE 1024 /* most bytes of sample_data_size */

/* What a profiler keeps for one sampled block; user_data has user_data_size bytes. */
typedef struct mi_profiler_sample_data_s {
  size_t user_data_size;
  void *user_data[1];
} mi_profiler_sample_data_t;

typedef struct mi_profiler_s mi_profiler_t;

/* A block of `requested` bytes at ptr was sampled, `since_last` bytes after the last sample at this
 * rate. Returns the next rate in bytes. Must not allocate with this library. */
typedef size_t(mi_cdecl mi_profiler_on_alloc_fun)(mi_profiler_t *profiler,
                                                  mi_profiler_sample_data_t *data, void *ptr,
                                                  size_t requested, size_t rate,
                                                  uint64_t since_last, const mi_heap_t *heap);
/* A sampled block is being freed. */
typedef void(mi_cdecl mi_profiler_on_free_fun)(mi_profiler_t *profiler,
                                               mi_profiler_sample_data_t *data, void *ptr,
                                               const mi_heap_t *heap);
/* Kept for compatibility; never called. */
typedef size_t(mi_cdecl mi_profiler_on_realloc_fun)(mi_profiler_t *profiler,
                                                    mi_profiler_sample_data_t *data, void *ptr,
                                                    size_t old_size, const mi_heap_t *heap);

/* A profiler; it must stay valid while it is attached. */
struct mi_profiler_s {
  void *reserved;             /* for the library; NULL at first */
  size_t sample_data_size;    /* bytes of user data for each sample */
  size_t initial_sample_rate; /* mean distance of samples in bytes */
  mi_profiler_on_alloc_fun *on_alloc;
  mi_profiler_on_free_fun *on_free;
  mi_profiler_on_realloc_fun *on_realloc_inplace;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Attach a profiler to a heap. False: there is one, or it asks for too much user data. */
mi_decl_export bool mi_heap_profile(mi_heap_t *heap, mi_profiler_t *profiler);
/* Take the heap's profiler away; blocks that were sampled still report their free. */
mi_decl_export void mi_heap_profile_disable(mi_heap_t *heap);
/* Attach a profiler to all heaps of a sub-process, also to later ones. */
mi_decl_export bool mi_subproc_profile(mi_subproc_id_t subproc_id, mi_profiler_t *profiler);
/* Likewise to the main sub-process. */
mi_decl_export bool mi_profile(mi_profiler_t *profiler);
/* Start sampling, or start it again, on every thread. */
mi_decl_export bool mi_profiler_start(mi_profiler_t *profiler);
/* Stop sampling. */
mi_decl_export bool mi_profiler_stop(mi_profiler_t *profiler);

#ifdef __cplusplus
}
#endif

#endif
