/* SPDX-License-Identifier: MIT */
#include "heap/thread_sweep.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/epoch.h"
#include "heap/park.h"
#include "heap/queue.h"
#include "heap/registry.h"
#include "heap/subproc.h"
#include "heap/theap.h"
#include "heap/thread.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/option.h"

/* A large page keeps its memory while its age is below. */
#define HOLD_EPOCHS 2
/* A park in which large pages were held is swept again so often at the most. */
#define PARK_SWEEPS 6u
/* Ages that the floor tells apart: what was used last comes first. */
#define AGES 64u

struct sweep {
  const struct mi_thread *parked; /* who may want its theaps back; NULL: the owner sweeps */
  uint64_t interval;
  uint32_t epoch;
  bool holes; /* they are made */
  bool all;   /* also in pages that have not changed */
  bool force;
  bool holds; /* large pages of a young epoch are left alone */
  bool pending;
  size_t floor; /* bytes; 0: none */
  uint32_t floor_epochs;
  int64_t n_skipped, n_ineligible, ineligible_bytes, ineligible_free;
  bool keeps; /* something under the floor */
  struct mi__discards discards;
};

static bool must_leave(const struct sweep *s) {
  return s->parked != NULL && mi__park_must_leave(s->parked);
}

static size_t free_bytes(const struct mi_page *page) {
  return (size_t)(page->n_formed - mi__page_used(page)) * page->block_size;
}

/* ---- one page ---- */

static void count_ineligible(struct sweep *s, const struct mi_page *page) {
  s->n_ineligible++;
  s->ineligible_bytes += (int64_t)((size_t)page->n_slices * MI_SLICE_SIZE);
  s->ineligible_free += (int64_t)free_bytes(page);
}

static bool is_held(struct sweep *s, const struct mi_page *page) {
  if (page->kind != MI_PAGE_LARGE || !s->holds) return false;
  if (mi__epoch_age(page, s->epoch) >= HOLD_EPOCHS) return false;
  if (page->free != NULL || mi__holes_has_tail(page)) s->pending = true;
  return true;
}

/* False: it is broken, which was not known before. */
static bool make_holes(struct mi_page *page, struct mi__discards *discards) {
  enum mi__fault fault = mi__holes_make(page, discards);
  if (mi__likely(fault == MI_FAULT_NONE)) return true;
  mi__page_mark_broken(page, fault);
  return false;
}

/* Owned, and in no state of change. False: it is broken. */
static bool sweep_page(struct sweep *s, struct mi_page *page) {
  if (!mi__holes_may(page)) {
    if (!mi__page_flag(page, MI_PAGE_BROKEN)) count_ineligible(s, page);
    return true;
  }
  if (is_held(s, page)) return true;
  if (!s->all && mi__holes_is_swept(page)) {
    s->n_skipped++;
    return true;
  }
  return make_holes(page, &s->discards);
}

/* What was taken for a hole is free memory: of a page of a theap, or of one that was taken from a
 * pool, which is on no list. */
static void relink(struct mi_page *page, void *arg) {
  (void)arg;
  if (page->list != MI_LIST_HOLLOW || mi__page_is_hollow(page)) return;
  struct mi__theap_bin *b = mi__theap_bin_of(mi__theap_of(page), page);
  mi__list_remove(b, page);
  mi__put_by_room(b, page);
}

/* ---- pages of a theap ---- */

static void sweep_linked(struct sweep *s, struct mi_theap_s *theap, struct mi__theap_bin *b,
                         struct mi_page *page) {
  bool whole = sweep_page(s, page);
  if (mi__likely(whole) && (page->list == MI_LIST_HOLLOW || !mi__page_is_hollow(page))) return;
  mi__list_remove(b, page);
  if (!whole) mi__faults_note(&theap->faults, page);
  mi__put_by_room(b, page);
}

static bool sweep_queue(struct sweep *s, struct mi_theap_s *theap, struct mi__theap_bin *b,
                        const struct mi__page_queue *q) {
  /* What is refused by the OS comes back to the end of the list, and is not for this walk. */
  const struct mi_page *last = q->tail;
  for (struct mi_page *page = q->head, *next; page != NULL; page = next) {
    next = page == last ? NULL : page->next;
    if (must_leave(s)) return false;
    if (page->kind == MI_PAGE_LARGE && mi__page_more(page)->kept > 0) continue;
    sweep_linked(s, theap, b, page);
  }
  return true;
}

/* ---- the floor ---- */

struct ages { size_t bytes[AGES]; };

static uint32_t age_class(const struct sweep *s, const struct mi_page *page) {
  uint32_t width = (s->floor_epochs + AGES - 1) / AGES;
  uint32_t class = (uint32_t)mi__epoch_age(page, s->epoch) / (width > 0 ? width : 1);
  return mi__min(class, AGES - 1);
}

/* Of the theap's large pages, when all of them have given up their shares: the floor takes those
 * of the youngest classes, as many as there is room for in what nobody else has. */
static bool may_keep(const struct sweep *s, const struct mi_page *page) {
  if (!mi__holes_may(page) || page->free == NULL) return false;
  int32_t age = mi__epoch_age(page, s->epoch);
  return age >= HOLD_EPOCHS && (uint32_t)age < s->floor_epochs;
}

static void drop_shares(struct sweep *s, const struct mi__page_queue *q, struct ages *ages) {
  for (struct mi_page *page = q->head; page != NULL; page = page->next) {
    mi__holes_unkeep(page);
    if (s->floor > 0 && may_keep(s, page)) ages->bytes[age_class(s, page)] += free_bytes(page);
  }
}

/* Pages of the last class that has a share at all get what the younger ones leave. */
static void take_shares(struct sweep *s, const struct mi__page_queue *q, uint32_t last,
                        size_t *left) {
  for (struct mi_page *page = q->head; page != NULL; page = page->next) {
    if (!may_keep(s, page)) continue;
    uint32_t class = age_class(s, page);
    size_t bytes = free_bytes(page);
    if (class > last || (class == last && bytes > *left)) continue;
    if (!mi__holes_keep(page, bytes, s->floor)) continue;
    if (class == last) *left -= bytes;
    s->keeps = true;
  }
}

static uint64_t large_bins(const struct mi_theap_s *theap) {
  uint64_t large = UINT64_MAX << mi__bin_of(MI_MEDIUM_PAGE_BLOCK_MAX + 1);
  return mi__load(&theap->used_bins, relaxed) & large;
}

static void share_floor(struct sweep *s, struct mi_theap_s *theap) {
  struct ages ages = {{0}};
  uint64_t large = large_bins(theap);
  for (uint64_t bins = large; bins != 0; bins &= bins - 1) {
    drop_shares(s, &theap->bins[mi__ctz64(bins)].avail, &ages);
  }
  if (s->floor == 0) return;
  int64_t others = mi__load(&mi__holes_kept, relaxed);
  size_t left = others < (int64_t)s->floor ? s->floor - (size_t)mi__max(others, 0) : 0;
  uint32_t last = 0;
  while (last < AGES - 1 && ages.bytes[last] <= left) left -= ages.bytes[last++];
  for (uint64_t bins = large; bins != 0; bins &= bins - 1) {
    take_shares(s, &theap->bins[mi__ctz64(bins)].avail, last, &left);
  }
}

void mi__page_drop_floor(struct mi_theap_s *theap, struct mi_page *page) {
  if (mi__likely(mi__page_more(page)->kept == 0)) return;
  mi__holes_unkeep(page);
  if (!mi__holes_may(page) || mi__option_get(mi_option_purge_holes) == 0) return;
  struct mi__discards discards;
  mi__discards_begin(&discards, NULL, NULL);
  bool whole = make_holes(page, &discards);
  mi__discards_flush(&discards);
  if (mi__unlikely(!whole)) mi__faults_note(&theap->faults, page);
}

void mi__theap_drop_floor(struct mi_theap_s *theap) {
  for (uint64_t bins = large_bins(theap); bins != 0; bins &= bins - 1) {
    struct mi__theap_bin *b = &theap->bins[mi__ctz64(bins)];
    for (struct mi_page *page = b->avail.head, *next; page != NULL; page = next) {
      next = page->next;
      if (mi__page_more(page)->kept == 0) continue;
      mi__list_remove(b, page);
      mi__page_drop_floor(theap, page);
      mi__put_by_room(b, page);
    }
  }
}

/* ---- abandoned pages ---- */

static bool claim_pools(struct mi_heap_s *heap) {
  uint32_t nobody = MI_POOLS_FREE;
  /* Acquire: pairs with the release of release_pools. */
  return mi__cas(&heap->xpools, &nobody, MI_POOLS_SWEPT, acquire);
}

static void release_pools(struct mi_heap_s *heap) {
  if (mi__exchange(&heap->xpools, MI_POOLS_FREE, release) & MI_POOLS_SLEEPERS)
    mi__os_wake(&heap->xpools, INT32_MAX);
}

void mi__pools_close_slow(struct mi_heap_s *heap) {
  for (;;) {
    uint32_t word = MI_POOLS_FREE;
    /* Acquire: pairs with the release of release_pools. */
    if (mi__cas(&heap->xpools, &word, MI_POOLS_CLOSED, acquire) || word == MI_POOLS_CLOSED) return;
    uint32_t marked = word | MI_POOLS_SLEEPERS;
    if (word == marked || mi__cas(&heap->xpools, &word, marked, relaxed))
      mi__os_wait(&heap->xpools, marked, -1);
  }
}

void mi__pools_fork_child(struct mi_heap_s *heap) {
  if (mi__load(&heap->xpools, relaxed) != MI_POOLS_CLOSED) mi__pools_open(heap);
}

static void sweep_taken(struct sweep *s, struct mi_heap_s *heap, struct mi_page *page,
                        union mi__faults *faults) {
  bool broken = mi__page_flag(page, MI_PAGE_BROKEN); /* by the frees that were just taken in */
  if (broken) mi__faults_note(faults, page);
  /* Frees into an abandoned page of the main heap were counted when they came. */
  if (mi__heap_is_main(heap)) mi__store(&page->n_counted, mi__page_used(page), relaxed);
  if (!broken && mi__page_used(page) > 0 && !sweep_page(s, page)) {
    broken = true;
    mi__faults_note(faults, page);
  }
  mi__discards_flush(&s->discards); /* as long as the page is ours */
  if (!mi__page_abandon(page) && !broken) mi__faults_note(faults, page);
}

/* With the claim. False: left early. */
static bool sweep_claimed(struct sweep *s, struct mi_heap_s *heap, union mi__faults *faults) {
  for (uint64_t bins = mi__heap_bins_with_pools(heap); bins != 0; bins &= bins - 1) {
    unsigned bin = mi__ctz64(bins);
    uint32_t n = mi__load(&heap->pools[bin].n, relaxed);
    struct mi_page *page;
    while (!must_leave(s) && (page = mi__pool_take_among(heap, bin, &n)) != NULL)
      sweep_taken(s, heap, page, faults);
    if (must_leave(s)) return false;
  }
  mi__store(&heap->xpools_swept_ms, mi__os_clock_ms(), relaxed);
  return true;
}

static bool has_pools(const struct mi_heap_s *heap) {
  for (uint64_t bins = mi__heap_bins_with_pools(heap); bins != 0; bins &= bins - 1) {
    if (mi__load(&heap->pools[mi__ctz64(bins)].n, relaxed) > 0) return true;
  }
  return false;
}

/* The caller has a theap of the heap, or its claim would not do: the heap may end. */
static bool sweep_pools(struct sweep *s, struct mi_heap_s *heap, union mi__faults *faults) {
  if (!has_pools(heap)) return true;
  if (s->parked != NULL && !s->force) {
    uint64_t swept = mi__load(&heap->xpools_swept_ms, relaxed);
    if (swept != 0 && mi__os_clock_ms() - swept < s->interval) {
      s->pending = true;
      return true;
    }
  }
  if (!claim_pools(heap)) return true;
  bool whole = sweep_claimed(s, heap, faults);
  release_pools(heap);
  return whole;
}

/* ---- a thread ---- */

static bool sweep_theap(struct sweep *s, struct mi_theap_s *theap) {
  if (!mi__theap_collect_slots(theap, s->parked)) return false;
  bool whole = true;
  if (s->holes) {
    share_floor(s, theap);
    for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
      unsigned bin = mi__ctz64(bins);
      struct mi__theap_bin *b = &theap->bins[bin];
      if (b->n_pages == 0) continue;
      /* In this order: the other one has pages go from the first list to the second. */
      whole = sweep_queue(s, theap, b, &theap->hollow[bin]) &&
              sweep_queue(s, theap, b, &b->avail);
      if (!whole) break;
    }
    mi__discards_flush(&s->discards);
    whole = whole && sweep_pools(s, mi__theap_heap(theap), &theap->faults);
  }
  mi__theap_hand_on(theap);
  mi__theap_check(theap);
  return whole;
}

static void begin(struct sweep *s, unsigned how) {
  *s = (struct sweep){
      .holes = mi__option_get(mi_option_purge_holes) != 0,
      .interval = (uint64_t)mi__sweep_interval(),
      .force = (how & MI_SWEEP_FORCE) != 0,
      .floor_epochs = (uint32_t)mi__option_get(mi_option_purge_holes_large_floor_epochs),
  };
  s->all = s->force;
  s->holds = !s->force && s->interval > 0;
  if (s->holds) s->floor = mi__option_get_size(mi_option_purge_holes_large_floor);
  mi__discards_begin(&s->discards, relink, NULL);
}

static void tell(const struct sweep *s) {
  struct mi__hole_counters *c = &mi__hole_counters;
  if (s->n_skipped > 0) mi__count(&c->pages_skipped, s->n_skipped);
  mi__store(&c->ineligible_pages, s->n_ineligible, relaxed);
  mi__store(&c->ineligible_bytes, s->ineligible_bytes, relaxed);
  mi__store(&c->ineligible_free_bytes, s->ineligible_free, relaxed);
}

static void number_sweep(struct sweep *s, struct mi_thread *thread) {
  long every = mi__option_get(mi_option_purge_holes_full_every);
  s->epoch = mi__epoch_move(s->interval);
  thread->n_sweeps++;
  if (every > 0 && thread->n_sweeps % (uint64_t)every == 0) {
    s->all = true;
    mi__count(&mi__hole_counters.full_sweeps, 1);
  }
}

/* 0: at once. */
static uint64_t due_at(const struct sweep *s, const struct mi_thread *thread) {
  uint64_t swept = mi__load(&thread->xswept_ms, relaxed);
  return s->force || swept == 0 ? 0 : swept + s->interval;
}

/* When the park is swept again. */
static uint64_t plan_next(const struct sweep *s, struct mi_thread *thread, uint64_t now) {
  struct mi__park_plan *plan = &thread->plan;
  if (s->pending && !s->holes) return due_at(s, thread);
  /* Counted from the end of the first sweep: it stamped pages with epochs up to now. */
  if (plan->n == 0) plan->epoch = mi__load(&mi__epoch_now, relaxed);
  plan->n++;
  mi__store(&thread->xfloor_ms, 0, relaxed);
  if (s->pending && (int32_t)(s->epoch - plan->epoch) < HOLD_EPOCHS && plan->n < PARK_SWEEPS)
    return now + s->interval;
  plan->n = 0;
  if (!s->keeps) return 0;
  uint64_t floor_ms = now + s->floor_epochs * s->interval;
  mi__store(&thread->xfloor_ms, floor_ms, relaxed);
  return floor_ms;
}

bool mi__thread_sweep(struct mi_thread *thread, unsigned how, uint64_t *again_ms) {
  struct sweep s;
  begin(&s, how);
  uint64_t now = mi__os_clock_ms();
  if (how & MI_SWEEP_PARKED) s.parked = thread;
  else mi__run_flush(thread);
  if (s.holes && now >= due_at(&s, thread)) {
    number_sweep(&s, thread);
    /* Nobody has used what the floor keeps for so long: all who might are parked. */
    uint64_t floor_ms = mi__load(&thread->xfloor_ms, relaxed);
    if (s.parked != NULL && floor_ms != 0 && now >= floor_ms) s.floor = 0;
  } else {
    s.pending = s.holes;
    s.holes = false;
  }
  bool whole = sweep_theap(&s, &thread->main);
  struct mi_theap_s *theap = NULL;
  while (whole && thread->has_theaps && (theap = mi__thread_next_theap(thread, theap)) != NULL)
    whole = sweep_theap(&s, theap);
  if (theap != NULL) mi__claim_release(theap);
  if (s.holes) tell(&s);
  mi__store(&thread->is_pending, s.pending, relaxed);
  now = mi__os_clock_ms();
  if (s.holes || (s.parked != NULL && !s.pending)) mi__store(&thread->xswept_ms, now, relaxed);
  if (again_ms != NULL) *again_ms = whole ? plan_next(&s, thread, now) : 0;
  if (s.parked == NULL) mi__arenas_bring_forward(mi__heap_arenas(mi__theap_heap(&thread->main)));
  return whole;
}

/* In the child of a fork: shares of threads that are not here any more are nobody's. */
static int64_t shares_of(const struct mi_theap_s *theap) {
  int64_t sum = 0;
  for (uint64_t bins = large_bins(theap); bins != 0; bins &= bins - 1) {
    const struct mi_page *page = theap->bins[mi__ctz64(bins)].avail.head;
    for (; page != NULL; page = page->next) sum += mi__page_more(page)->kept;
  }
  return sum;
}

void mi__sweep_fork_child(struct mi_thread *self) {
  int64_t kept = self == NULL ? 0 : shares_of(&self->main);
  if (self != NULL) {
    for (struct mi_theap_s *theap = self->theaps; theap != NULL; theap = theap->tnext)
      kept += shares_of(theap);
  }
  mi__store(&mi__holes_kept, kept, relaxed);
}

static bool sweep_heap_now(struct mi_heap_s *heap, void *arg) {
  struct sweep *s = arg;
  union mi__faults faults = {.any = 0};
  mi__lock_acquire(&mi__heaps_lock);
  bool claimed = mi__heap_is_live(heap) && claim_pools(heap);
  mi__lock_release(&mi__heaps_lock);
  if (!claimed) return true;
  (void)sweep_claimed(s, heap, &faults);
  release_pools(heap);
  if (mi__unlikely(faults.any != 0)) mi__report_faults(faults);
  return true;
}

void mi__sweep_all_pools(void) {
  struct sweep s;
  begin(&s, MI_SWEEP_FORCE);
  if (!s.holes) return;
  for (struct mi_subproc *subproc = mi__subproc_each(NULL); subproc != NULL;
       subproc = mi__subproc_each(subproc)) {
    (void)mi__subproc_each_heap(subproc, sweep_heap_now, &s);
  }
}
