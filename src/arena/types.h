/* SPDX-License-Identifier: MIT */
/* What an arena is made of; for the files of this layer only.
 *
 * arena.c spans; commit.c their memory; reserve.c new arenas; area.c those that the program asks
 * for; sets.c what concerns all arenas, of a set or of the process; direct.c spans straight from
 * the OS; purge.c the way back to the OS. Fields that start with x are written by any thread. All
 * others are constant while the arena is in a set. */
#ifndef MI_ARENA_TYPES_H
#define MI_ARENA_TYPES_H

#include "arena/arena.h"
#include "arena/bitmap.h"
#include "mimalloc.h"
#include "os/os.h"
#include "rt/alarm.h"

#define MI_CHUNK_SIZE (MI_CHUNK_SLICES * MI_SLICE_SIZE)
#define MI_MAX_ARENAS 1024
/* Above this an aligned mapping would take a good part of all address space while it is made:
 * refused. */
#define MI_MAX_ALIGN_SLICES ((size_t)1 << (MI_ADDRESS_BITS - MI_SLICE_SHIFT - 8))

/* Times of the purge schedule: milliseconds * 2; bit 0: brought forward, earlier than any time; 0:
 * not armed. */
typedef uint64_t mi__expire_t;

struct mi__arena {
  struct mi__bitmap slices;
  char *base; /* address of slice 0, a multiple of 4 MiB; may lie before the arena */
  _Atomic(mi__expire_t) xexpire;
  _Atomic(struct mi__arena *) xnext; /* of its set */
  struct mi__arenas *set;      /* serves this set only; NULL: its number is free */
  uint32_t number;             /* index in mi__arena_table */
  uint32_t capacity;           /* chunks that there is room for in front of this struct */
  uint32_t page_share;         /* a page that may be shorter takes this many slices at most */
  bool needs_commit;           /* memory is committed span by span, and decommitted by a purge */
  bool mapped;                 /* by this library; else handed over by the program */
  uint8_t step_shift;          /* log2 of the chunks in a step; an arena has at most 64 steps */
  _Atomic(uint64_t) xopen;     /* steps that are readable and writable; once open, for good */
  bool pinned;                 /* huge OS pages: never purged */
  bool exclusive;              /* serves only requests that name it */
  _Atomic(bool) xgone;         /* unmapped by destroy_on_exit; all its slices stay claimed */
  int numa_node;               /* -1: none */
  mi_commit_fun_t *commit_fun; /* not NULL: a program's own memory; commits and decommits it */
  void *commit_arg;
  char *map_start; /* the slices of the arena; where it was mapped here, the whole mapping */
  size_t map_size;
};

/* Never unmapped: a set that was deleted is used again by a later one. */
struct mi__arenas {
  _Atomic(mi__expire_t) xexpire; /* the earliest time at which one of its arenas is due */
  _Atomic(mi__expire_t) xexpire_calls; /* the same, of arenas with a commit function */
  _Atomic(int64_t) xwaiting_bytes; /* marked to be purged */
  /* Oldest first. Appended to with release under the reserve lock; readers follow it with acquire
   * and take no lock. Emptied only by mi__arenas_delete. */
  _Atomic(struct mi__arena *) xfirst;
  _Atomic(uint32_t) xn_arenas;
  _Atomic(uint32_t) xcalling; /* purges that are calling commit functions (a futex word) */
  struct mi__arena *last;     /* these two under the reserve lock */
  uint32_t n_reserved;        /* arenas that were reserved for lack of room */
  struct mi__arenas *next_free;
  _Atomic(struct mi__arenas *) xnext; /* all sets; constant once it is there */
};
mi__inline struct mi__arena *mi__arenas_first(const struct mi__arenas *set) {
  return mi__load(&set->xfirst, acquire);
}
mi__inline struct mi__arena *mi__arenas_next(const struct mi__arena *arena) {
  return mi__load(&arena->xnext, acquire);
}

/* Arenas by their number, which a span and a page remember. Entries below the count stay for good;
 * an arena that was deleted keeps its entry, with no set, until a new one takes its number. Whoever
 * holds a span may read its entry; all else is for holders of the reserve lock. */
extern struct mi__arena *mi__arena_table[MI_MAX_ARENAS];
extern _Atomic(uint32_t) mi__arena_count;

mi__inline char *mi__arena_address(const struct mi__arena *arena, size_t slice) {
  return arena->base + slice * MI_SLICE_SIZE;
}
mi__inline size_t mi__arena_slice(const struct mi__arena *arena, const char *p) {
  return (size_t)(p - arena->base) / MI_SLICE_SIZE;
}
mi__inline size_t mi__arena_end_slice(const struct mi__arena *arena) {
  return arena->slices.n_chunks * MI_CHUNK_SLICES;
}

/* ---- reserve.c ---- */

enum mi__commit {
  MI_COMMIT_WHOLE, /* readable and writable from the start */
  MI_COMMIT_STEPS, /* opened in steps as it is used, and then for good */
  MI_COMMIT_SPANS  /* each span when it is taken; a purge takes the charge back */
};
/* Memory that is to become an arena. */
struct mi__memory {
  char *start;
  size_t size;
  enum mi__commit commit;
  bool mapped, pinned, exclusive;
  bool zero;  /* reads as zeros, at the latest when it is committed */
  bool ready; /* MI_COMMIT_SPANS: usable all the same until it is purged */
  int numa_node;
  mi_commit_fun_t *commit_fun;
  void *commit_arg;
};
/* Map it; `commit`: readable and writable from the start; `large`: by large OS pages, which are
 * pinned then. */
bool mi__memory_map(struct mi__memory *memory, size_t size, size_t align, bool commit, bool large);
/* Make an arena of it, whole slices. Under the reserve lock. NULL: no memory for its records, or
 * above the range of the page table, or too many arenas; the memory stays the caller's. */
struct mi__arena *mi__arena_add(struct mi__arenas *set, const struct mi__memory *memory);
/* A new arena in which `needed` slices in a row fit, unless the set has more arenas than `seen` by
 * now. False: none. */
bool mi__arena_reserve(struct mi__arenas *set, size_t needed, uint32_t seen, int numa_node);
/* The number of the arena is free again. Under the reserve lock. */
void mi__arena_forget(struct mi__arena *arena);

/* The node that memory wanted for `node` (-1: for the calling thread) lies on; -1 where there is
 * but one. */
int mi__numa_node(int node);
unsigned mi__numa_nodes(void); /* option use_numa_nodes */

/* ---- commit.c; the caller owns the slices ---- */
/* Commit what is not, run by run; bits of what was committed are set, also on failure. */
bool mi__arena_commit(struct mi__arena *arena, size_t at, size_t end);
/* Make steps (a mask) usable. */
bool mi__arena_open(struct mi__arena *arena, uint64_t missing);
/* Give up the contents of ranges of the arena, and the commit charge where it needs commit; not
 * surely: when the OS has need of the memory. at_once: in one system call where that can be. True:
 * what is done reads as zeros from now on. */
bool mi__arena_discard(struct mi__arena *arena, struct mi__os_range *ranges, unsigned n,
                       bool surely, bool at_once);

/* ---- area.c ---- */
void mi__area_init(struct mi__arenas *set); /* huge and large OS pages that options ask for */
/* A large OS page could not be had: noted, and told when no lock is held. */
void mi__area_note_no_large(void);
void mi__area_tell(void);

/* direct.c: arena == 0 */
bool mi__direct_alloc(const struct mi__span_request *request, int numa_node, struct mi__span *out);
void mi__direct_free(char *start, size_t n_slices);
bool mi__direct_grow(char *start, size_t n_slices, size_t new_slices);
bool mi__direct_shrink(char *start, size_t n_slices, size_t new_slices);

/* ---- marks: purge.c has their meaning ---- */

/* By level and not by edge: whoever frees while so much waits, asks for the background thread. */
mi__inline void mi__purge_count_waiting(struct mi__arena *arena, int64_t slices) {
  int64_t bytes = slices * (int64_t)MI_SLICE_SIZE;
  int64_t now = mi__fetch_add(&arena->set->xwaiting_bytes, bytes, relaxed) + bytes;
  if (mi__unlikely(now >= mi__load(&mi__purge_ask_at, relaxed))) mi__purge_ask();
}
/* Number of bits; n is that of `full`, which is the common case. */
mi__inline int64_t mi__count_bits(uint64_t bits, uint64_t full, size_t n) {
  return bits == full ? (int64_t)n : (int64_t)__builtin_popcountll(bits);
}
/* Call with the slices still owned, before they are marked free. n: how many the mask has. */
mi__inline void mi__purge_mark(struct mi__arena *arena, struct mi__chunk *chunk, uint64_t mask,
                               size_t n) {
  if (mi__unlikely(arena->pinned)) return;
  uint64_t mark = mi__load(&chunk->xcommitted, relaxed) & mask; /* BITMAP-2 */
  uint64_t marked = mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed);
  mi__fetch_or(&chunk->xyoung, mark, relaxed);
  mi__purge_count_waiting(arena, mi__count_bits(mark & ~marked, mask, n));
}
/* Call with the slices just claimed: forget both marks. */
mi__inline void mi__purge_unmark(struct mi__arena *arena, struct mi__chunk *chunk, uint64_t mask,
                                 size_t n) {
  uint64_t young = mi__load(&chunk->xyoung, relaxed) & mask;
  uint64_t old = mi__load(&chunk->xold, relaxed) & mask;
  if ((young | old) == 0) return;
  if (young != 0) mi__fetch_and(&chunk->xyoung, ~mask, relaxed);
  if (old != 0) mi__fetch_and(&chunk->xold, ~mask, relaxed);
  mi__purge_count_waiting(arena, -mi__count_bits(young | old, mask, n));
}
/* Call after they were marked free and after a full fence: arms the arena, or purges at once where
 * the delay is 0. */
void mi__purge_arm_slow(struct mi__arena *arena, size_t at, size_t end);
mi__inline void mi__purge_arm(struct mi__arena *arena, size_t at, size_t end) {
  /* After a full fence this load is as good as a CAS that fails. */
  if (mi__load(&arena->xexpire, relaxed) == 0) mi__purge_arm_slow(arena, at, end);
}
/* Wait for the pass in progress, if there is one. */
void mi__purge_wait(void);
/* The same, and let no other one begin until mi__purge_let_in. */
void mi__purge_keep_out(void);
void mi__purge_let_in(void);

#endif
