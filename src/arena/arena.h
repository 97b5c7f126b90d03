/* SPDX-License-Identifier: MIT */
/* Arenas: ranges of address space, cut into slices of 64 KiB and handed out as spans (runs of
 * slices).
 *
 * Owns: arenas, their bitmaps, the purge schedule. A span belongs to its taker until it is freed.
 * Threads: any, without locks but for what makes, ends or lists arenas (MI_LOCK_ARENA_RESERVE).
 * Sub-processes: each has a set of arenas; memory of one set never serves another. */
#ifndef MI_ARENA_ARENA_H
#define MI_ARENA_ARENA_H

#include "arena/pagemap.h"
#include "base/compiler.h"
#include "mimalloc.h"
#include "rt/lock.h"

struct mi__arena;  /* arena/arena.c */
struct mi__arenas; /* a set of arenas */
struct mi__arenas *mi__arenas_main(void);
void mi__arenas_init(void); /* options; the arenas that they reserve */
/* A further set, empty. NULL: no memory. */
struct mi__arenas *mi__arenas_new(void);
/* The end of a set other than the main one, when no block of it and nobody's call of its functions
 * is left. Records of all slices that are still taken are cleared; arenas that this library mapped
 * are unmapped, those that the program handed over are forgotten. Spans straight from the OS
 * (arena == 0) belong to no set: the caller frees them before. */
void mi__arenas_delete(struct mi__arenas *arenas);

/* Small pages fill from below, all others from above. */
enum mi__side { MI_SIDE_LOW, MI_SIDE_HIGH };

struct mi__span_request {
  size_t n_slices; /* wanted; >= 1 */
  /* Taken where no full run exists (the longest such run); n_slices: no less. */
  size_t min_slices;
  /* The address is a multiple of this many slices; a power of two, 1: none. */
  size_t align_slices;
  enum mi__side side;
  bool cross_granules; /* huge pages only: may span a 256 MiB boundary */
  /* The taker calls mi__span_commit for what follows the first min_slices, where the span says so:
   * option page_commit_on_demand. */
  bool in_parts;
  /* Not NULL: from this arena and nowhere else (exclusive arenas serve nobody else). */
  struct mi__arena *only;
  /* Rather from arenas of this node; with arena_is_numa_local from those only. -1: no wish (the
   * node of the calling thread where arena_is_numa_local is set). */
  int numa_node;
};
struct mi__span {
  char *start;
  size_t n_slices;
  uint32_t arena;      /* number of the arena + 1; 0: a mapping of its own, straight from the OS */
  bool zero;           /* reads as zeros */
  bool pinned;         /* never purged (huge OS pages) */
  bool has_commit_fun; /* the program's commit function; holes are not made in it */
  bool in_parts;       /* committed are the first min_slices of the request only */
};
/* Take a committed span whose slices have records (zeroed). From an arena; a new arena is reserved
 * where none has room; straight from the OS when it is larger than arena_max_object_size, when
 * disallow_arena_alloc is set, or when no arena can be had. False: no memory (errno untouched; the
 * caller sets ENOMEM). */
bool mi__span_alloc(struct mi__arenas *arenas, const struct mi__span_request *request,
                    struct mi__span *out);
/* Commit slices of a span that was taken in parts: all that [from, to) touches. What is committed
 * is left alone. False: no memory; some of it may be committed now. */
bool mi__span_commit(uint32_t arena, char *from, char *to);
/* Give it back. The caller has zeroed all its records that were ever set. An arena span is marked
 * to be purged, marked free and armed (protocols.md, section 1); a mapping of its own is unmapped.
 */
void mi__span_free(struct mi__arenas *arenas, char *start, size_t n_slices, uint32_t arena);
/* Grow in place by claiming the slices that follow (or mremap without moving). *zero: the new
 * slices read as zeros. */
bool mi__span_grow(struct mi__arenas *arenas, char *start, size_t n_slices, size_t new_slices,
                   uint32_t arena, bool *zero);
/* Give back the tail. Always succeeds for arena spans; false where the OS refused (nothing
 * changed). */
bool mi__span_shrink(struct mi__arenas *arenas, char *start, size_t n_slices, size_t new_slices,
                     uint32_t arena);
/* A mapping of its own (arena == 0): resize, moving it by mremap where needed; records of the new
 * place exist. NULL: unchanged. */
char *mi__span_remap(char *start, size_t n_slices, size_t new_slices, size_t align_slices);

/* Is p inside any arena, or a mapping, of ours? (records tell more; this is for
 * mi_is_in_heap_region) */
bool mi__arenas_contain(const void *p);

/* ---- arenas that the program asks for (area.c); messages are printed ---- */
/* Reserve one. 0, EINVAL (size 0) or ENOMEM. large: by large OS pages where allow_large_os_pages
 * allows them, too, and there are some. */
int mi__area_reserve(struct mi__arenas *arenas, size_t size, bool commit, bool large,
                     bool exclusive, struct mi__arena **out);
/* What the program hands over. */
struct mi__area {
  void *start;
  size_t size;
  bool is_committed, is_pinned, is_zero, exclusive;
  int numa_node;
  mi_commit_fun_t *commit_fun; /* NULL: none */
  void *commit_arg;
};
bool mi__area_manage(struct mi__arenas *arenas, const struct mi__area *area,
                     struct mi__arena **out);
/* Reserve huge OS pages of 1 GiB on a node (-1: any) within timeout_ms (0: no limit); as many as
 * there are, in several arenas where one cannot be had (never where it is exclusive). How many;
 * *out: the first arena, or NULL. */
size_t mi__area_reserve_huge(struct mi__arenas *arenas, size_t n_pages, int numa_node,
                             uint64_t timeout_ms, bool exclusive, struct mi__arena **out);
/* The same, spread evenly over n_nodes nodes (0: all). */
size_t mi__area_interleave_huge(struct mi__arenas *arenas, size_t n_pages, size_t n_nodes,
                                uint64_t timeout_ms);
/* The arena of which the program has the address; NULL where it is none. */
struct mi__arena *mi__arena_of_id(const void *id);
/* Its slices. */
char *mi__arena_range(const struct mi__arena *arena, size_t *size);

/* ---- purge schedule (purge.c) ---- */
enum mi__purge {
  MI_PURGE_DUE,         /* what is due */
  MI_PURGE_DUE_SURELY,  /* the same, after waiting for a pass in progress */
  /* but for arenas with a commit function: the background thread calls none */
  MI_PURGE_DUE_QUIETLY,
  MI_PURGE_EVERYTHING   /* all that is free, after waiting for a pass in progress */
};
/* False: another pass was running. */
bool mi__arenas_purge(struct mi__arenas *arenas, enum mi__purge how);
/* When MI_PURGE_DUE_QUIETLY will have something to do, in mi__os_clock_ms; 0: never. */
uint64_t mi__arenas_due(struct mi__arenas *arenas);
/* Called at slow paths: one relaxed load when nothing is armed; else looks at the clock and purges
 * what has been due for grace_ms, the time that the background thread has for it. */
void mi__arenas_tick(struct mi__arenas *arenas, uint64_t grace_ms);
/* While it is not 0, passes that are not forced end soon and leave the rest for later. */
extern _Atomic(uint32_t) mi__purge_hurry;
/* At an idle point: what is armed is due at once, whatever its age; the next tick, purge or
 * look of the background thread takes it. */
void mi__arenas_bring_forward(struct mi__arenas *arenas);
/* The set after this one, of all that ever were (the deleted ones are empty); NULL: the first;
 * NULL at the end. Threads: any. */
struct mi__arenas *mi__arenas_each(const struct mi__arenas *after);
/* Bytes marked to be purged now (approximate). */
size_t mi__arenas_waiting(struct mi__arenas *arenas);
/* While so many bytes wait in a set, each free asks for the background thread. */
void mi__purge_ask(void);
/* Ask where so much waits. */
void mi__arenas_ask(struct mi__arenas *arenas);
extern _Atomic(int64_t) mi__purge_ask_at;
/* What makes the background thread worth while, in a process with one thread and with more:
 * small programs stay as they are. INT64_MAX: it runs, or will not be made. */
#define MI_ASK_ALONE ((int64_t)(16 * MI_MIB))
#define MI_ASK_THREADS ((int64_t)MI_MIB)
/* Bytes of the arenas of the set, and how many of them are committed; without spans straight from
 * the OS. Takes no lock. */
void mi__arenas_sizes(const struct mi__arenas *arenas, size_t *reserved, size_t *committed);

/* ---- pictures of arenas (sets.c); no lock, any thread, for as long as the set is there ---- */
struct mi__arena_facts {
  uint32_t number;   /* spans in it have this + 1 */
  char *start;       /* address of the slice of bit 0 */
  size_t n_slices;   /* a multiple of 64 */
  size_t n_outside;  /* of these: not the arena's */
  int numa_node;     /* -1: none */
  bool pinned, exclusive, mapped, has_commit_fun;
};
/* The arena after this one (NULL: the first) that has memory, and what it is; NULL at the end. */
struct mi__arena *mi__arenas_picture(const struct mi__arenas *arenas, struct mi__arena *after,
                                     struct mi__arena_facts *facts);
enum mi__slice_bit { MI_SLICE_COMMITTED, MI_SLICE_FREE, MI_SLICE_MARKED };
/* Of the slices from 64 * chunk on: committed; free; free and marked to be purged. Of a moment. */
uint64_t mi__arena_bits(const struct mi__arena *arena, size_t chunk, enum mi__slice_bit bit);

/* ---- fork, exit, printing ---- */
void mi__arenas_fork_prepare(
    void); /* wait for a pass in progress and keep others out; last of all prepare steps */
void mi__arenas_fork_parent(void);
void mi__arenas_fork_child(void); /* give back what a cut-off pass had claimed; arm every arena */
void mi__arenas_print(void (*print)(void *arg, const char *line), void *arg);
/* destroy_on_exit: unmap arenas that are wholly free. */
void mi__arenas_destroy_free(struct mi__arenas *arenas);
extern struct mi__lock mi__arena_reserve_lock;

#endif
