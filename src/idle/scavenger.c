/* SPDX-License-Identifier: MIT */
#include "idle/scavenger.h"
#include "arena/arena.h"
#include "base/track.h"
#include "heap/collect.h"
#include "heap/park.h"
#include "heap/process.h"
#include "heap/thread.h"
#include "idle/purge_all.h"
#include "idle/sweep.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/option.h"
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

/* It calls little, none of it with large variables. More than the least, for the C library takes
 * thread-local storage from it. */
#define STACK_SIZE ((size_t)(128 * MI_KIB))

enum state { NONE, MAKING, RUNS, STOPPED };
static _Atomic(uint32_t) state; /* a futex word */
static _Atomic(bool) stop;
static _Atomic(uint32_t) gone; /* a futex word: it takes no lock any more */
static pthread_t thread; /* written by the maker before RUNS, read by who stops it after that */

/* ---- where a call comes from ---- */

struct range { uintptr_t start, end; };
static struct {
  struct range here;     /* this library, or the program where it is linked statically */
  struct range libc[4];  /* the C library and the loader */
  unsigned n_libc;
  bool known;
} map;

static bool is_in(const struct range *range, const void *p) {
  return (uintptr_t)p - range->start < range->end - range->start;
}

static bool is_of_libc(const char *path) {
  static const char *const names[] = {"libc.so", "libc-",      "ld-",
                                      "ld.so",   "libpthread", "libc.musl"};
  const char *name = strrchr(path, '/');
  name = name == NULL ? path : name + 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
  }
  return false;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *arg) {
  (void)size;
  (void)arg;
  struct range range = {UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    range.start = mi__min(range.start, start);
    range.end = mi__max(range.end, start + info->dlpi_phdr[i].p_memsz);
  }
  if (range.start >= range.end) return 0;
  if (is_in(&range, &map)) map.here = range;
  else if (is_of_libc(info->dlpi_name) && map.n_libc < 4) map.libc[map.n_libc++] = range;
  return 0;
}

/* Malloc or free may be called by the C library under locks that pthread_create needs. */
static bool may_make_here(const void *caller, bool is_malloc) {
  if (!map.known) return false;
  /* A static program: all is one object. What the C library allocates it does without them. */
  if (map.n_libc == 0) return is_malloc && mi__load(&mi__process_has_threads, relaxed);
  for (unsigned i = 0; i < map.n_libc; i++) {
    if (is_in(&map.libc[i], caller)) return false;
  }
  return true;
}

/* ---- the thread ---- */

static void *run(void *arg) {
  (void)arg;
  mi__os_name_thread("mi-scavenger");
  mi__track_begin(); /* for good: all that it touches is the library's own */
  for (;;) {
    uint32_t seen = mi__alarm_read();
    /* Acquire: pairs with the release of mi__scavenger_stop. */
    if (mi__load(&stop, acquire)) break;
    uint64_t next = mi__idle_turn();
    mi__alarm_sleep(seen, mi__os_clock_ms(), next);
  }
  mi__store(&gone, 1, release); /* pairs with the acquire in wait_for_end */
  mi__os_wake(&gone, INT32_MAX);
  return NULL;
}

/* A fault is the process's end, or its handler's; all else is for the program's threads. By
 * pthread_sigmask, which leaves the C library's own signals alone: setuid() needs them.
 * They stay blocked in the maker as long as the state is MAKING: a handler that calls exit would
 * wait for that to end, and one that forks would leave a child that takes the thread for its
 * own. */
static void block_signals(sigset_t *before) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  (void)pthread_sigmask(SIG_SETMASK, &all, before);
}

static bool create_with(size_t stack_size) {
  pthread_attr_t attr;
  if (pthread_attr_init(&attr) != 0) return false;
  if (stack_size != 0) (void)pthread_attr_setstacksize(&attr, stack_size);
  int error = pthread_create(&thread, &attr, run, NULL);
  (void)pthread_attr_destroy(&attr);
  return error == 0;
}

static int64_t ask_at(void) {
  return mi__load(&mi__process_has_threads, relaxed) ? MI_ASK_THREADS : MI_ASK_ALONE;
}

static bool is_wished(void) {
  return mi__option_get(mi_option_scavenger) != 0 && mi__option_get(mi_option_purge_delay) > 0;
}

static void set_state(enum state to) {
  /* Release: pairs with the acquire of who stops it. */
  mi__store(&state, to, release);
  mi__os_wake(&state, INT32_MAX);
}

/* With MAKING set; a call from pthread_create back into the allocator finds that. */
static bool make(void) {
  int saved = errno;
  mi__store(&mi__purge_ask_at, INT64_MAX, relaxed);
  mi__store(&mi__alarm_has_sleeper, true, relaxed);
  /* A sandbox may end the process for making its first thread. */
  bool may = mi__load(&mi__process_has_threads, relaxed) || !mi__os_is_sandboxed();
  bool made = may && (create_with(STACK_SIZE) || create_with(0));
  if (made) {
    set_state(RUNS);
  } else {
    static _Atomic(int64_t) refused; /* it is asked for again when twice as much waits */
    int64_t twice = 2 * mi__max(mi__load(&refused, relaxed), ask_at());
    mi__store(&refused, mi__min(twice, INT64_MAX / 4), relaxed);
    mi__store(&mi__alarm_has_sleeper, false, relaxed);
    mi__store(&mi__purge_ask_at, mi__load(&refused, relaxed), relaxed);
    set_state(NONE);
  }
  errno = saved;
  return made;
}

/* False: not made, or somebody else does. */
static bool try_make(void) {
  sigset_t before;
  block_signals(&before);
  uint32_t none = NONE;
  bool made = mi__cas(&state, &none, MAKING, relaxed) && make();
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return made;
}

bool mi__scavenger_ensure(void) {
  uint32_t seen = mi__load(&state, relaxed);
  if (mi__likely(seen == RUNS)) return is_wished();
  if (!map.known || !is_wished()) return false;
  while (seen == MAKING) { /* another thread does */
    mi__os_wait(&state, MAKING, -1);
    seen = mi__load(&state, relaxed);
  }
  if (seen == NONE && try_make()) return true;
  return mi__load(&state, relaxed) == RUNS;
}

void mi__scavenger_offer(const void *caller, bool is_malloc) {
  /* The function of this library that the program has called offers by itself. */
  if (MI_OVERRIDE && map.n_libc > 0 && is_in(&map.here, caller)) return;
  /* It is asked for again by the next free, and the next tick of a refill, while so much waits. */
  mi__fetch_and(&mi__wants, ~MI_WANTS_BACKGROUND, relaxed);
  if (!may_make_here(caller, is_malloc)) return;
  if (mi__load(&mi__purge_ask_at, relaxed) == INT64_MAX || !is_wished()) return;
  if (mi__load(&state, relaxed) == NONE) (void)try_make();
}

#define EXIT_WAITS 10
#define EXIT_WAIT_MS 100

/* False: it still runs. */
static bool wait_for_end(bool at_exit) {
  for (int i = 0; at_exit && mi__load(&gone, acquire) == 0; i++) {
    if (i == EXIT_WAITS) return false;
    mi__os_wait(&gone, 0, EXIT_WAIT_MS);
  }
  return pthread_join(thread, NULL) == 0;
}

void mi__scavenger_stop(bool at_exit) {
  mi__store(&mi__purge_ask_at, INT64_MAX, relaxed);
  uint32_t seen = mi__load(&state, acquire);
  for (;;) {
    if (seen == STOPPED) return;
    if (seen == MAKING) {
      mi__os_wait(&state, MAKING, -1);
      seen = mi__load(&state, acquire);
    } else if (mi__cas(&state, &seen, STOPPED, acq_rel)) {
      break;
    }
  }
  if (seen != RUNS) return;
  mi__store(&stop, true, release);
  mi__fetch_add(&mi__purge_hurry, 1, relaxed);
  mi__fetch_add(&mi__sweep_hurry, 1, relaxed);
  mi__alarm_set(0);
  if (!wait_for_end(at_exit)) return;
  mi__fetch_sub(&mi__purge_hurry, 1, relaxed);
  mi__fetch_sub(&mi__sweep_hurry, 1, relaxed);
  mi__store(&mi__alarm_has_sleeper, false, relaxed);
}

/* ---- start and fork ---- */

static void on_fork_child(void) {
  mi__purge_all_fork_child();
  uint32_t seen = mi__load(&state, relaxed);
  if (seen != STOPPED) mi__store(&state, NONE, relaxed);
  mi__store(&stop, false, relaxed);
  mi__store(&gone, 0, relaxed);
  if (seen != STOPPED && is_wished()) mi__store(&mi__purge_ask_at, ask_at(), relaxed);
}

__attribute__((constructor)) static void scavenger_constructor(void) {
  mi__process_init();
  mi__option_init();
  (void)dl_iterate_phdr(note_object, NULL);
  map.known = true;
  mi__on_offer = mi__scavenger_offer;
  mi__process_on_fork_child = on_fork_child;
  if (is_wished()) mi__store(&mi__purge_ask_at, ask_at(), relaxed);
}
