/* SPDX-License-Identifier: MIT */
/* The pools of a heap: its abandoned pages, one list per bin. A page is linked from just before it
 * is abandoned until somebody takes it out; who does must own it (page/remote.h).
 *
 * Of the main heap only pages with room are in the pool. A heap that may end must find all its
 * pages, so those without room are in the pool too (nobody takes them), and huge pages have a list.
 *
 * A lock and a list per bin, not a lock-free bitmap: a page passes through the pool about once for
 * each 64 KiB that other threads free, the lock is held for some ten instructions, and removal from
 * the middle (a page that became empty goes back to its arena at once) needs no tags and no second
 * check. Heaps other than the main heap have one lock for all their lists, which they share with
 * some others. It is not in the heap's record: somebody may still wait for it, or hold it, when the
 * heap has ended and the memory of its record goes; and a fork need not look for it.
 *
 * A page may change its heap while somebody else owns it: when its heap is deleted. So links and
 * heap of a page are guarded by the lock of the heap that it has, and who has waited for that lock
 * looks again.
 *
 * Threads: any. Locks: MI_LOCK_POOL; nothing is called with it held. */
#ifndef MI_HEAP_POOL_H
#define MI_HEAP_POOL_H

#include "base/atomic.h"
#include "page/page.h"
#include "rt/lock.h"

/* By the keys of heaps; for the fork handlers. */
#define MI_HEAP_LOCKS 32
extern struct mi__lock mi__heap_locks[MI_HEAP_LOCKS];

struct mi__pool {
  struct mi__lock lock; /* of the main heap's */
  _Atomic(uint32_t) n; /* pages linked; written under the lock, read without */
  struct mi_page *head, *tail;
};

/* Link a page that the caller owns, at the end. */
void mi__pool_put(struct mi_page *page);
/* Unlink a page that the caller owns, if it is linked. Its heap may be another one afterwards. */
void mi__pool_remove(struct mi_page *page);
/* Take and own the first page with room that nobody owns just now; its remote frees are on `free`.
 * NULL: none. */
struct mi_page *mi__pool_take(struct mi_heap_s *heap, unsigned bin);
/* The same among the first *n pages, from which those that were looked at are taken. */
struct mi_page *mi__pool_take_among(struct mi_heap_s *heap, unsigned bin, uint32_t *n);
/* A page leaves its heap for good, by the hand of who owns it. A heap other than the main heap may
 * end meanwhile; its lock is held (that of the main heap is not) from _hold, which tells the page's
 * heap, to _leave, and in between the page is taken off the heap's counts. _leave unlinks it where
 * it is linked. False: it is just being moved, and who does so gives it back. */
struct mi_heap_s *mi__pool_hold(struct mi_page *page);
bool mi__pool_leave(struct mi_heap_s *heap, struct mi_page *page);
/* The other end of _hold, where that told a heap other than the main heap: a broken page stays in
 * the pool for good, OWNED, so that nobody takes it and the end of the heap finds it. */
void mi__pool_keep(struct mi_heap_s *heap, struct mi_page *page);

enum mi__evicted {
  MI_EVICTED_MINE,   /* the caller owns it now; its remote frees are on `free` */
  MI_EVICTED_BROKEN, /* likewise; it was found broken before, and reported */
  MI_EVICTED_OTHERS, /* who owned it goes on with it: not to be touched */
  /* anybody may free it: to be put into the pool of its new heap, or left alone */
  MI_EVICTED_HUGE
};
/* The heap ends: unlink the first page of the pool, whoever owns it, and give it to heap `to`, to
 * which it counts then. NULL: the pool is empty. */
struct mi_page *mi__pool_evict(struct mi_heap_s *heap, struct mi__pool *pool,
                               struct mi_heap_s *to, enum mi__evicted *how);
/* Link a huge page that was evicted to a heap other than the main heap. False: it was freed
 * meanwhile, and the caller gives it back. */
bool mi__pool_put_moved(struct mi_page *page);
/* Live blocks that the statistics count and that others have freed since: of all pages of the
 * pool. */
uint32_t mi__pool_count_freed(struct mi_heap_s *heap, unsigned bin);
/* In a fork child: unlink the pages that a vanished thread owned just then. They are lost. */
void mi__pool_fork_child(struct mi__pool *pool);
/* The lock of the pool. One that is held is released by what this told then. */
struct mi__lock *mi__pool_lock(struct mi_heap_s *heap, struct mi__pool *pool);

#endif
