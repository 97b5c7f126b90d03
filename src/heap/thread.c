/* SPDX-License-Identifier: MIT */
#include "heap/thread.h"
#include "arena/meta.h"
#include "base/track.h"
#include "heap/account.h"
#include "heap/collect.h"
#include "heap/damage.h"
#include "heap/free.h"
#include "heap/park.h"
#include "heap/process.h"
#include "heap/registry.h"
#include "heap/slot.h"
#include "heap/teardown.h"
#include "os/os.h"
#include <pthread.h>

struct mi_thread mi__thread_new, mi__thread_ended, mi__thread_shared;
mi__thread_local struct mi__tls mi__tls = {&mi__thread_new.main, &mi__thread_new};

struct mi__lock mi__shared_lock = MI_LOCK_INIT(MI_LOCK_SHARED_THEAP);
struct mi__lock mi__threads_lock = MI_LOCK_INIT(MI_LOCK_THREADS);
static struct mi_thread *free_threads; /* under mi__threads_lock */
/* All data that there is, of threads and free; written under mi__threads_lock. */
static _Atomic(struct mi_thread *) first_thread;

_Atomic(bool) mi__process_has_threads;

static pthread_key_t end_key;
static _Atomic(bool) has_end_key;

static void end_of_thread(void *data) {
  (void)data;
  mi__thread_end(false);
  mi__offer(NULL, true); /* the C library holds nothing here; maybe nobody else comes by */
}

void mi__thread_init_key(void) {
  if (!mi__load(&has_end_key, relaxed) && pthread_key_create(&end_key, end_of_thread) == 0) {
    mi__store(&has_end_key, true, release); /* pairs with the load in begin_thread */
  }
}

static struct mi_thread *take_data(void) {
  mi__lock_acquire(&mi__threads_lock);
  struct mi_thread *data = free_threads;
  if (data != NULL) {
    free_threads = data->next_free;
  } else if ((data = mi__meta_alloc(sizeof *data, MI_CACHE_LINE)) != NULL) {
    data->next_all = mi__load(&first_thread, relaxed);
    mi__store(&first_thread, data, release); /* pairs with the acquire of mi__thread_each */
  }
  if (data != NULL) mi__store(&data->in_use, true, relaxed);
  mi__lock_release(&mi__threads_lock);
  return data;
}

struct mi_thread *mi__thread_each(const struct mi_thread *after) {
  return after == NULL ? mi__load(&first_thread, acquire) : after->next_all;
}

void mi__thread_note_number(struct mi_thread *self) {
  if (mi__load(&self->number, relaxed) == 0) {
    mi__store(&self->number, mi__os_thread_id(), relaxed);
  }
}

/* The first thread of all pays no system call at its start: most programs have no other, and never
 * ask. Relaxed: the flag says nothing about other memory. */
static void note_unless_first(struct mi_thread *self) {
  static _Atomic(bool) had_first;
  if (!mi__exchange(&had_first, true, relaxed)) return;
  mi__thread_note_number(self);
  if (mi__likely(mi__load(&mi__process_has_threads, relaxed))) return;
  mi__store(&mi__process_has_threads, true, relaxed);
  int64_t alone = MI_ASK_ALONE; /* where the background thread is to be made at all */
  (void)mi__cas(&mi__purge_ask_at, &alone, MI_ASK_THREADS, relaxed);
}

static void init_data(struct mi_thread *self, struct mi_subproc *subproc) {
  self->next_free = NULL;
  note_unless_first(self);
  self->in_callback = self->in_pool = self->is_crowded = self->has_theaps = false;
  if (self->table_at == 0) { /* else that of an earlier thread, which has emptied it */
    self->table_at = (char *)self->small_table - (char *)self;
    self->table_mask = MI_SMALL_TABLE - 1;
  }
  mi__store(&self->xsweep_due, 0, relaxed);
  mi__store(&self->xswept_ms, 0, relaxed);
  mi__store(&self->xmissed_ms, 0, relaxed);
  mi__store(&self->xfloor_ms, 0, relaxed);
  mi__store(&self->is_pending, false, relaxed);
  mi__theap_init(&self->main, subproc->main, self);
  mi__gauge_add(&subproc->threads, 1);
}

static struct mi_thread *begin_thread(void) {
  mi__process_init();
  struct mi_thread *self = take_data();
  if (self == NULL) return NULL;
  init_data(self, &mi__subproc_main);
  mi__tls.self = self;
  mi__tls.theap = &self->main;
  /* May allocate: the thread is live by now. */
  if (mi__load(&has_end_key, acquire) && pthread_setspecific(end_key, self) != 0) {
    mi__thread_end(false); /* nobody would end it: the shared theap serves it */
    return NULL;
  }
  return self;
}

struct mi_thread *mi__thread_self(bool begin) {
  struct mi_thread *self = mi__tls.self;
  if (mi__likely(mi__theap_thread(&self->main) != NULL)) return self;
  /* A dummy. */
  if (self == &mi__thread_ended || !begin) return NULL;
  if (self == &mi__thread_new) return begin_thread();
  mi__park_end();
  return mi__tls.self;
}

struct mi_thread *mi__thread_data(void) {
  return mi__is_parked() ? mi__park_self() : mi__thread_self(false);
}

struct mi_theap_s *mi__thread_theap(void) {
  struct mi_thread *self = mi__thread_self(true);
  if (self == NULL) return NULL;
  struct mi_theap_s *before = mi__tls.theap;
  if (mi__likely(mi__theap_thread(before) != NULL)) return before;
  mi__tls.theap = &self->main; /* its heap has ended */
  mi__theap_not_default(before);
  return &self->main;
}

struct mi_heap_s *mi__thread_heap_of(const struct mi_theap_s *theap) {
  struct mi_heap_s *heap = mi__theap_heap(theap);
  if (mi__likely(heap != NULL)) return heap;
  mi__park_end();
  struct mi_thread *self = mi__thread_self(true);
  if (self == NULL) return &mi__heap_main;
  heap = mi__theap_heap(mi__tls.theap);
  return heap != NULL ? heap : mi__theap_heap(&self->main);
}

static void empty_main(struct mi_thread *self) {
  uint32_t n_looks = mi__slots_looks();
  mi__theap_empty(&self->main, MI_FATE_ABANDON);
  mi__lock_acquire(&mi__heaps_lock);
  mi__slots_end(&self->main, n_looks);
  mi__lock_release(&mi__heaps_lock);
  mi__theap_merge_counters(&self->main);
  mi__theap_report(&self->main);
  struct mi_heap_s *heap = mi__theap_heap(&self->main);
  mi__gauge_add(&heap->counters.theaps, -1);
  mi__gauge_add(&heap->subproc->threads, -1);
}

uintptr_t mi__thread_number(uintptr_t owner) {
  owner &= ~MI_OWNER_SPECIAL;
  if (owner == MI_OWNER_NONE || owner == MI_OWNER_INNER) return 0;
  const struct mi_thread *thread = (const struct mi_thread *)owner; /* data of threads stay */
  return mi__load(&thread->number, relaxed);
}

static uint32_t n_vanished;
uint32_t mi__thread_vanished(void) { return n_vanished; }

/* The data of threads that are not here any more is never used again. */
static void drop_vanished(const struct mi_thread *self) {
  struct mi_thread *last = NULL, *next;
  for (struct mi_thread *thread = mi__thread_each(NULL); thread != NULL; thread = next) {
    next = thread->next_all;
    if (mi__load(&thread->in_use, relaxed) && thread != self) {
      n_vanished++;
      continue;
    }
    thread->next_all = last;
    last = thread;
  }
  mi__store(&first_thread, last, relaxed);
}

void mi__thread_fork_child(void) {
  struct mi_thread *self = mi__thread_data();
  if (self != NULL) mi__store(&self->number, mi__os_thread_id(), relaxed);
  /* A sweeper that had taken what was due may have vanished before its claim. 1: long ago. */
  if (self != NULL && mi__is_parked()) mi__store(&self->xsweep_due, 1, relaxed);
  drop_vanished(self);
}

void mi__thread_join_subproc(struct mi_thread *self, struct mi_subproc *subproc) {
  mi__run_flush(self);
  mi__thread_forget_main(self);
  empty_main(self);
  mi__store(&self->main.used_bins, 0, relaxed);
  mi__theap_init(&self->main, subproc->main, self);
  mi__gauge_add(&subproc->threads, 1);
}

void mi__thread_end(bool again) {
  mi__park_end();
  struct mi_thread *self = mi__thread_self(false);
  struct mi_thread *next = again ? &mi__thread_new : &mi__thread_ended;
  struct mi_theap_s *theap = mi__tls.theap;
  mi__tls.self = next;
  mi__tls.theap = &next->main;
  if (self == NULL) return;
  if (theap != &self->main) mi__theap_not_default(theap);
  mi__track_begin();
  mi__run_flush(self);
  mi__thread_forget_theaps(self);
  mi__teardown_thread(self);
  empty_main(self);
  mi__store(&self->number, 0, relaxed);
  mi__lock_acquire(&mi__threads_lock);
  mi__store(&self->in_use, false, seq_cst);
  mi__request_drop(self);
  self->next_free = free_threads;
  free_threads = self;
  mi__lock_release(&mi__threads_lock);
  mi__track_end();
}

/* ---- the shared theap ---- */

/* With mi__shared_lock held. NULL: no memory. */
static struct mi_theap_s *shared_theap(struct mi_heap_s *heap) {
  struct mi_theap_s *theap = &mi__thread_shared.main;
  if (heap != NULL && !mi__heap_is_main(heap)) return mi__heap_shared_theap(heap);
  if (mi__theap_heap(theap) == NULL) mi__theap_init(theap, &mi__heap_main, &mi__thread_shared);
  return theap;
}

struct mi_block *mi__shared_alloc(struct mi_heap_s *heap, unsigned bin, bool *zero) {
  struct mi_block *block = NULL;
  union mi__faults faults = {.any = 0};
  *zero = false;
  mi__process_init();
  mi__lock_acquire(&mi__shared_lock);
  struct mi_theap_s *theap = shared_theap(heap);
  if (theap != NULL) {
    block = theap->ready[bin];
    if (block != NULL) theap->ready[bin] = block->next;
    else block = mi__theap_refill(theap, bin, zero);
    mi__faults_move(&faults, &theap->faults);
  }
  mi__lock_release(&mi__shared_lock);
  if (mi__unlikely(faults.any != 0)) mi__report_faults(faults);
  return block;
}

static void collect_shared(struct mi_theap_s *theap) {
  mi__theap_collect(theap, true);
  mi__theap_merge_counters(theap);
  if (theap != &mi__thread_shared.main)
    mi__faults_move(&mi__thread_shared.main.faults, &theap->faults);
}

void mi__shared_collect(void) {
  union mi__faults faults = {.any = 0};
  mi__lock_acquire(&mi__shared_lock);
  if (mi__theap_heap(&mi__thread_shared.main) != NULL) collect_shared(&mi__thread_shared.main);
  mi__thread_each_theap(&mi__thread_shared, collect_shared);
  mi__faults_move(&faults, &mi__thread_shared.main.faults);
  mi__lock_release(&mi__shared_lock);
  if (mi__unlikely(faults.any != 0)) mi__report_faults(faults);
}

void mi__shared_merge_counters(void) {
  if (!mi__lock_try_acquire(&mi__shared_lock)) return;
  if (mi__theap_heap(&mi__thread_shared.main) != NULL) mi__theap_recount(&mi__thread_shared.main);
  mi__thread_each_theap(&mi__thread_shared, mi__theap_recount);
  mi__lock_release(&mi__shared_lock);
}
