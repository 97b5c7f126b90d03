/* SPDX-License-Identifier: MIT */
#include "heap/pool.h"
#include "heap/account.h"
#include "heap/heap.h"
#include "page/remote.h"

/* How many pages without room a refill passes before it gives up: those that it has passed go to
 * the end. */
#define LOOK_AT 8

struct mi__lock mi__heap_locks[MI_HEAP_LOCKS];

struct mi__lock *mi__pool_lock(struct mi_heap_s *heap, struct mi__pool *pool) {
  return mi__heap_is_main(heap) ? &pool->lock : &mi__heap_locks[heap->key % MI_HEAP_LOCKS];
}

static struct mi__pool *pool_of(struct mi_heap_s *heap, const struct mi_page *page) {
  return page->kind == MI_PAGE_HUGE ? &heap->huge : &heap->pools[page->bin];
}

static void link_locked(struct mi__pool *pool, struct mi_page *page) {
  page->list = MI_LIST_POOL;
  page->next = NULL;
  page->prev = pool->tail;
  if (pool->tail != NULL) pool->tail->next = page;
  else pool->head = page;
  pool->tail = page;
  mi__store(&pool->n, mi__load(&pool->n, relaxed) + 1, relaxed);
}

static void unlink_locked(struct mi__pool *pool, struct mi_page *page) {
  if (page->prev != NULL) page->prev->next = page->next;
  else pool->head = page->next;
  if (page->next != NULL) page->next->prev = page->prev;
  else pool->tail = page->prev;
  page->next = page->prev = NULL;
  page->list = MI_LIST_NONE;
  /* Release: pairs with the acquire of end_pool: what was counted before is counted. */
  mi__store(&pool->n, mi__load(&pool->n, relaxed) - 1, release);
}

/* The first of several goes to the end. `list` stays as it is: who owns a page of the main heap,
 * and knows nothing of this, reads it without the lock (mi__page_claimed). */
static void rotate_locked(struct mi__pool *pool) {
  struct mi_page *page = pool->head;
  pool->head = page->next;
  pool->head->prev = NULL;
  page->next = NULL;
  page->prev = pool->tail;
  pool->tail->next = page;
  pool->tail = page;
}

/* The lock of the page's heap, with the page's heap as it is while the lock is held. Acquire: pairs
 * with the release of mi__pool_evict; what that wrote to the page under the other lock is seen. The
 * lock of a heap that has ended is a lock of others. */
static struct mi_heap_s *lock_heap_of(struct mi_page *page) {
  for (;;) {
    struct mi_heap_s *heap = mi__load(&page->heap, acquire);
    struct mi__lock *lock = mi__pool_lock(heap, pool_of(heap, page));
    mi__lock_acquire(lock);
    if (mi__likely(mi__load(&page->heap, relaxed) == heap)) return heap;
    mi__lock_release(lock);
  }
}

void mi__pool_put(struct mi_page *page) {
  struct mi_heap_s *heap = lock_heap_of(page);
  struct mi__pool *pool = pool_of(heap, page);
  link_locked(pool, page);
  mi__lock_release(mi__pool_lock(heap, pool));
}

bool mi__pool_put_moved(struct mi_page *page) {
  struct mi_heap_s *heap = lock_heap_of(page);
  struct mi__pool *pool = pool_of(heap, page);
  bool there = page->list == MI_LIST_MOVING;
  if (there) link_locked(pool, page);
  mi__lock_release(mi__pool_lock(heap, pool));
  return there;
}

struct mi_heap_s *mi__pool_hold(struct mi_page *page) {
  /* Acquire: pairs with the release of mi__pool_evict. */
  struct mi_heap_s *heap = mi__load(&page->heap, acquire);
  if (mi__heap_is_main(heap)) return heap;
  heap = lock_heap_of(page);
  if (mi__heap_is_main(heap)) mi__lock_release(mi__pool_lock(heap, pool_of(heap, page)));
  return heap;
}

bool mi__pool_leave(struct mi_heap_s *heap, struct mi_page *page) {
  if (mi__heap_is_main(heap)) {
    if (page->list == MI_LIST_POOL) mi__pool_remove(page);
    return true;
  }
  struct mi__pool *pool = pool_of(heap, page);
  bool moving = page->list == MI_LIST_MOVING;
  if (page->list == MI_LIST_POOL) unlink_locked(pool, page);
  page->list = MI_LIST_NONE;
  mi__lock_release(mi__pool_lock(heap, pool));
  return !moving;
}

void mi__pool_keep(struct mi_heap_s *heap, struct mi_page *page) {
  struct mi__pool *pool = pool_of(heap, page);
  if (page->list != MI_LIST_POOL) link_locked(pool, page);
  page->list = MI_LIST_BROKEN;
  mi__lock_release(mi__pool_lock(heap, pool));
}

void mi__pool_remove(struct mi_page *page) {
  struct mi_heap_s *heap = lock_heap_of(page);
  struct mi__pool *pool = pool_of(heap, page);
  if (page->list == MI_LIST_POOL) unlink_locked(pool, page);
  mi__lock_release(mi__pool_lock(heap, pool));
}

struct mi_page *mi__pool_take_among(struct mi_heap_s *heap, unsigned bin, uint32_t *n_pages) {
  struct mi__pool *pool = &heap->pools[bin];
  /* Relaxed: a page that is just being linked is found by the next refill. */
  if (mi__load(&pool->n, relaxed) == 0) return NULL;
  struct mi__lock *lock = mi__pool_lock(heap, pool);
  mi__lock_acquire(lock);
  /* A linked page stays alive: whoever gives it back unlinks it first, under this lock. */
  struct mi_page *taken = NULL;
  struct mi_block *list = NULL;
  uint32_t n = 0;
  for (; *n_pages > 0 && pool->head != NULL; --*n_pages) {
    struct mi_page *page = pool->head;
    if (mi__remote_may_have_room(page) && !mi__page_flag(page, MI_PAGE_DRAINS) &&
        mi__remote_claim(page, &list, &n)) {
      unlink_locked(pool, page);
      taken = page;
      --*n_pages;
      break;
    }
    if (page == pool->tail) { /* the only one */
      *n_pages = 0;
      break;
    }
    rotate_locked(pool);
  }
  mi__lock_release(lock);
  if (list != NULL) mi__remote_settle(taken, list, n);
  return taken;
}

struct mi_page *mi__pool_take(struct mi_heap_s *heap, unsigned bin) {
  uint32_t n = LOOK_AT;
  return mi__pool_take_among(heap, bin, &n);
}

/* All that is counted of the page is counted in its new heap, and the page looks as it should
 * there, before anybody can see that it is there. */
static void move_locked(struct mi_heap_s *heap, struct mi_page *page, struct mi_heap_s *to,
                        bool mine) {
  bool huge = page->kind == MI_PAGE_HUGE;
  /* Who claimed a page that is in no theap has freed its last block, and counts that one. */
  if (!mine) mi__account_unowned(heap, page, 1);
  if (mine && heap->only != NULL) mi__page_set_flag(page, MI_PAGE_DRAINS, true);
  mi__account_move(heap, to, page);
  if (!huge) {
    mi__gauge_merge(&heap->counters.pages_abandoned, -1, 0, 0);
    mi__gauge_merge(&to->counters.pages_abandoned, 1, 1, 0);
  }
  if (huge && !mi__heap_is_main(to)) page->list = MI_LIST_MOVING;
  /* Release: for who owns the page and looks for its lock (lock_heap_of, mi__pool_hold). */
  mi__store(&page->heap, to, release);
}

struct mi_page *mi__pool_evict(struct mi_heap_s *heap, struct mi__pool *pool, struct mi_heap_s *to,
                               enum mi__evicted *how) {
  struct mi__lock *lock = mi__pool_lock(heap, pool);
  struct mi_block *list = NULL;
  uint32_t n = 0;
  mi__lock_acquire(lock);
  struct mi_page *page = pool->head;
  if (page != NULL) {
    bool huge = page->kind == MI_PAGE_HUGE, broken = page->list == MI_LIST_BROKEN;
    bool mine = huge || broken || mi__remote_claim(page, &list, &n);
    /* A huge page has no owner: anybody may free it as soon as the lock is released. */
    *how = !mine    ? MI_EVICTED_OTHERS
           : huge   ? MI_EVICTED_HUGE
           : broken ? MI_EVICTED_BROKEN
                    : MI_EVICTED_MINE;
    unlink_locked(pool, page);
    move_locked(heap, page, to, mine);
  }
  mi__lock_release(lock);
  if (list != NULL) mi__remote_settle(page, list, n);
  return page;
}

uint32_t mi__pool_count_freed(struct mi_heap_s *heap, unsigned bin) {
  struct mi__pool *pool = &heap->pools[bin];
  uint32_t freed = 0;
  if (mi__load(&pool->n, relaxed) == 0) return 0;
  mi__lock_acquire(mi__pool_lock(heap, pool));
  for (struct mi_page *page = pool->head; page != NULL; page = page->next) {
    freed += mi__remote_count_freed(page);
  }
  mi__lock_release(mi__pool_lock(heap, pool));
  return freed;
}

void mi__pool_fork_child(struct mi__pool *pool) {
  for (struct mi_page *page = pool->head, *next; page != NULL; page = next) {
    next = page->next;
    bool owned = (mi__load(&page->xremote, relaxed) & MI_REMOTE_OWNED) != 0;
    if (owned && page->list != MI_LIST_BROKEN) unlink_locked(pool, page);
  }
}
