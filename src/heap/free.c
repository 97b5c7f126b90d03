/* SPDX-License-Identifier: MIT */
#include "heap/free.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/huge.h"
#include "heap/park.h"
#include "heap/thread.h"
#include "page/holes.h"
#include "page/trailer.h"
#include "rt/counter.h"
#include "rt/message.h"
#include "rt/option.h"
#include <errno.h>

/* Runs are as long as a cache line pays for: one CAS for 16 frees of a producer-consumer pair. */
#define RUN_MAX 16u

/* How far a free looks that left the fast path: a whole list would make each free of such a page as
 * slow as the page is full. */
#define LOOK_FOR_DOUBLE (MI_DEBUG ? UINT32_MAX : 8u)

bool mi__free_is_double(struct mi_page *page, const void *block) {
  return mi__page_list_has(page, *page->push, block, LOOK_FOR_DOUBLE) ||
         (MI_DEBUG && mi__page_list_has(page, page->free, block, LOOK_FOR_DOUBLE));
}

static mi__cold void report_double(const void *p) {
  mi__error(EAGAIN, "double free of %p: ignored\n", p);
}

/* May this thread keep a page that it claims by a free? */
static bool may_keep(struct mi_thread *self, const struct mi_page *page) {
  long option = mi__option_get(mi_option_page_reclaim_on_free);
  if (self == NULL || option < 0) return false;
  if (mi__page_heap(page) != mi__theap_heap(&self->main)) return false;
  if (mi__page_flag(page, MI_PAGE_DRAINS)) return false;
  if (mi__load(&page->theap, relaxed) != &self->main && (option < 1 || self->in_pool)) return false;
  return mi__theap_may_take(&self->main, page);
}

void mi__page_claimed(struct mi_thread *self, struct mi_page *page, uint32_t n_run) {
  /* Acquire: pairs with the release of mi__pool_evict, which may have moved it just now. */
  bool main_heap = mi__heap_is_main(mi__load(&page->heap, acquire));
  /* Frees into an abandoned page of the main heap were counted when they came, but for this. */
  if (main_heap) mi__store(&page->n_counted, mi__page_used(page) + n_run, relaxed);
  /* A page of a heap that may end is in a pool, and only its lock tells; one that is empty stays
   * there until it has left the heap's counts. Only a heap that is not deleted has others. */
  if (main_heap ? page->list == MI_LIST_POOL : mi__page_used(page) > 0) mi__pool_remove(page);
  bool keep = mi__page_used(page) > 0 && !mi__page_flag(page, MI_PAGE_BROKEN) &&
              may_keep(self, page);
  if (keep) {
    self->main.n_taken_back++;
    if (mi__load(&page->theap, relaxed) == &self->main) mi__theap_took_back(&self->main, page);
    mi__theap_attach(&self->main, page);
  } else if (!mi__page_abandon(page)) {
    mi__report_broken(page);
  }
}

static void push_run(struct mi_thread *self, const struct mi__run *run, bool want) {
  struct mi_page *page = run->page;
  /* The page may be gone once the blocks are pushed. */
  size_t size = page->block_size;
  unsigned bin = page->bin;
  switch (mi__remote_push(run, want)) {
    case MI_PUSHED: mi__park_freed(page); break;
    case MI_LEFT: break;
    case MI_LEFT_COUNTED: mi__account_left(&mi__heap_main, bin, size, run->n); break;
    case MI_CLAIMED: mi__page_claimed(self, page, run->n); break;
    case MI_REFUSED: report_double(run->head); break;
  }
}

void mi__run_flush(struct mi_thread *self) {
  struct mi__run run = self->run;
  if (run.page == NULL) return;
  self->run.page = NULL;
  self->run.n = 0;
  push_run(self, &run, false);
}

static void add_to_run(struct mi_thread *self, struct mi_page *page, struct mi_block *block) {
  struct mi__run *run = &self->run;
  if (mi__likely(run->page == page)) {
    if (mi__unlikely(run->head == block)) {
      report_double(block);
      return;
    }
    block->next = run->head;
    run->head = block;
    if (++run->n >= RUN_MAX) mi__run_flush(self);
    return;
  }
  /* A flush may report, and the program's error function may free another block of another thread:
   * then that run goes first. */
  while (run->page != NULL) mi__run_flush(self);
  *run = (struct mi__run){page, block, block, 1};
}

/* A block of a page that this thread does not own. */
static mi__noinline void free_remote(struct mi_page *page, struct mi_block *block,
                                     uintptr_t owner) {
  struct mi_thread *self = mi__thread_self(true);
  bool wanted = owner == MI_OWNER_NONE && may_keep(self, page);
  bool may_wait = page->kind == MI_PAGE_SMALL && mi__heap_is_main(mi__page_heap(page));
  if (self != NULL && !wanted && may_wait) {
    add_to_run(self, page, block);
    return;
  }
  struct mi__run run = {page, block, block, 1};
  push_run(self, &run, wanted);
}

static mi__noinline void free_other(struct mi_page *page, void *p) {
  if (p == NULL) return;
  if (mi__unlikely(page->kind == MI_PAGE_NONE)) {
    mi__error(EINVAL, "free: invalid pointer %p (not a block of this allocator): ignored\n", p);
    return;
  }
  if (page->kind == MI_PAGE_HUGE) {
    mi__huge_free(page, p);
    return;
  }
  struct mi_block *block = p;
  if (mi__page_flag(page, MI_PAGE_INTERIOR)) block = mi__page_block_of(page, p);
  if (mi__unlikely(block == NULL || !mi__page_is_block(page, block) ||
                   mi__trailer_is_astray(page, p))) {
    mi__error(EINVAL, "free: invalid pointer %p (inside a block, not its start): ignored\n", p);
    return;
  }
  /* In a hole first: what is there is not to be looked at, which would bring its memory back. */
  if (mi__unlikely(mi__holes_has(page, block) || mi__free_is_marked(block, page->block_size) ||
                   mi__trailer_is_free(page, p))) {
    report_double(p);
    return;
  }
  mi__trailer_take(page, p);
  mi__free_mark(block, page->block_size, true);
  uintptr_t owner = mi__load(&page->owner, relaxed);
  if ((owner & ~MI_OWNER_SPECIAL) == (uintptr_t)mi__tls.self) {
    if (mi__unlikely(mi__free_is_double(page, block))) report_double(p);
    else mi__free_local(page, block);
  } else {
    free_remote(page, block, owner);
  }
}

static mi__noinline void free_rest(struct mi_page *page, void *p, const void *caller) {
  mi__track_begin();
  if (mi__unlikely(mi__is_parked()) && p != NULL) mi__park_end();
  free_other(page, p);
  mi__offer(caller, false);
  mi__track_end();
}

void mi__free_slow(struct mi_page *page, void *p) {
  if (mi__load(&page->owner, relaxed) == MI_OWNER_INNER) {
    page = (struct mi_page *)(void *)((char *)page - page->block_size);
    if (!MI_FREE_CHECKED && mi__load(&page->owner, relaxed) == (uintptr_t)mi__tls.self) {
      mi__free_local(page, p);
      return;
    }
  }
  free_rest(page, p, __builtin_return_address(0));
}
