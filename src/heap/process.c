/* SPDX-License-Identifier: MIT */
/* Fork. The prepare handler takes all locks in the order of their ranks and then keeps purge passes
 * out, so that the child finds every shared structure whole. Handlers of libraries that registered
 * before us run between our prepare and our parent or child step; they may allocate, and make and
 * end heaps (but none that other threads use: they may be at work on it and wait for our locks), so
 * the locks let the forking thread pass. Threads that vanish leave their pages owned for ever:
 * their lists are not trusted, frees into them are lost, and their thread data is never used again
 * (it is on no list). The forking thread goes on as before.
 *
 * Exit. The destructor gives nothing back that the program may still use: destructors of other
 * libraries run later, and free. */
#include "heap/process.h"
#include "arena/meta.h"
#include "base/track.h"
#include "heap/collect.h"
#include "heap/epoch.h"
#include "heap/park.h"
#include "heap/registry.h"
#include "heap/subproc.h"
#include "heap/teardown.h"
#include "heap/thread.h"
#include "heap/thread_sweep.h"
#include "heap/visit.h"
#include "os/os.h"
#include "page/holes.h"
#include "rt/alarm.h"
#include "rt/counter.h"
#include "rt/message.h"
#include "rt/option.h"
#include <pthread.h>

void (*mi__process_on_exit)(void);
void (*mi__process_on_fork_child)(void);

static struct mi__once start_once, handlers_once;
static struct mi__lock fork_lock = MI_LOCK_INIT(MI_LOCK_FORK);

void mi__process_init(void) {
  if (mi__likely(mi__once_is_done(&start_once)) || !mi__once_begin(&start_once)) return;
  mi__track_begin();
  mi__message_init();
  mi__os_init();
  mi__option_init();
  mi__os_set_address_bits((unsigned)mi__option_get(mi_option_max_vabits));
  mi__os_set_thp_advice((int)mi__option_get(mi_option_allow_thp) == 2 ? 2 : 1);
  mi__pagemap_init(mi__option_get(mi_option_pagemap_commit) != 0);
  mi__arenas_init();
  mi__registry_init();
  mi__thread_init_key();
  mi__once_end(&start_once);
  mi__track_end();
}

/* ---- fork ---- */

static void each_lock(void (*act)(struct mi__lock *)) {
  act(&fork_lock);
  act(&mi__sweep_lock);
  act(&mi__shared_lock);
  act(&mi__heaps_lock);
  act(&mi__threads_lock);
  act(&mi__visit_lock);
  for (unsigned i = 0; i < MI_HEAP_LOCKS; i++) act(&mi__heap_locks[i]);
  for (unsigned bin = 1; bin < MI_BINS; bin++) act(&mi__heap_main.pools[bin].lock);
  for (unsigned i = 0; i < MI_HOLES_LOCKS; i++) act(&mi__holes_locks[i]);
  act(&mi__arena_reserve_lock);
  act(&mi__meta_lock);
}

static void fork_prepare(void) {
  struct mi_thread *self = mi__thread_self(false);
  mi__track_begin();
  if (self != NULL) mi__run_flush(self);
  mi__track_end();
  mi__fetch_add(&mi__sweep_hurry, 1, relaxed);
  mi__fetch_add(&mi__purge_hurry, 1, relaxed);
  each_lock(mi__lock_acquire);
  mi__arenas_fork_prepare();
  mi__lock_fork_begin();
}

static void fork_parent(void) {
  mi__lock_fork_end();
  mi__fetch_sub(&mi__purge_hurry, 1, relaxed);
  mi__fetch_sub(&mi__sweep_hurry, 1, relaxed);
  mi__arenas_fork_parent();
  each_lock(mi__lock_release);
}

static void fork_child_of_heap(struct mi_heap_s *heap, void *arg) {
  (void)arg;
  for (unsigned bin = 1; bin < MI_BINS; bin++) mi__pool_fork_child(&heap->pools[bin]);
  mi__pools_fork_child(heap);
}

static void fork_child(void) {
  mi__lock_fork_end();
  each_lock(mi__lock_reset);
  mi__store(&mi__purge_hurry, 0, relaxed);
  mi__store(&mi__sweep_hurry, 0, relaxed);
  mi__heap_each_locked(fork_child_of_heap, NULL);
  mi__epoch_fork_child();
  mi__teardown_fork_child(mi__thread_data());
  mi__sweep_fork_child(mi__thread_data());
  mi__request_fork_child();
  mi__thread_fork_child();
  mi__message_fork_child();
  mi__arenas_fork_child();
  /* Only this thread is left. */
  mi__subproc_fork_child(mi__thread_data());
  mi__alarm_fork_child();
  if (mi__process_on_fork_child != NULL) mi__process_on_fork_child();
}

/* ---- start and exit as the loader calls them ---- */

__attribute__((constructor)) static void process_constructor(void) {
  mi__process_init();
  mi__option_init(); /* again: the environment may not have been there at the first allocation */
  if (mi__once_begin(&handlers_once)) {
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    mi__once_end(&handlers_once);
  }
}

void mi__process_done(void) {
  static _Atomic(bool) done;
  if (mi__exchange(&done, true, relaxed)) return;
  if (mi__process_on_exit != NULL) mi__process_on_exit();
  if (mi__option_get(mi_option_destroy_on_exit) != 0) {
    mi__collect(true);
    mi__track_begin();
    mi__arenas_destroy_free(mi__arenas_main());
    mi__track_end();
  }
}

__attribute__((destructor)) static void process_destructor(void) { mi__process_done(); }
