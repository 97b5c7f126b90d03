/* SPDX-License-Identifier: MIT */
#include "rt/lock.h"
#include "base/check.h"
#include "os/os.h"

/* A critical section is some hundred instructions: longer waits are for a holder that does not
 * run. */
#define SPINS 100

enum { FREE, TAKEN, TAKEN_WITH_SLEEPERS };
enum { NEW, RUNNING, RUNNING_WITH_SLEEPERS, DONE };

/* Its address tells threads apart. In the debug build it has a bit for each rank of which this
 * thread holds a lock. */
static mi__thread_local uint32_t held;

/* Debug build: how many locks of each rank this thread holds; the fork handlers hold the most,
 * those of all pools. */
static mi__thread_local uint8_t n_held[MI_LOCK_RANKS];

/* All held ranks come before this one; the fork handlers hold several of a rank. Looked at before
 * the wait, which else might be for ever. */
static void check_order(const struct mi__lock *lock) {
  if (!MI_DEBUG) return;
  mi__assert(lock->rank < MI_LOCK_RANKS);
  uint32_t same_and_later = held >> lock->rank;
  /* Nobody else holds two of a rank, so the forking thread may take them in any order. */
  bool forks = (held >> MI_LOCK_FORK & 1) != 0;
  mi__assert(same_and_later == 0 || (same_and_later == 1 && forks));
}

static void note_acquired(const struct mi__lock *lock) {
  if (!MI_DEBUG) return;
  held |= (uint32_t)1 << lock->rank;
  mi__assert(n_held[lock->rank] < UINT8_MAX);
  n_held[lock->rank]++;
}

static void note_released(const struct mi__lock *lock) {
  if (!MI_DEBUG || n_held[lock->rank] == 0) return;
  if (--n_held[lock->rank] == 0) held &= ~((uint32_t)1 << lock->rank);
}

/* The thread between the prepare step of a fork and its end. It holds all locks; fork handlers of
 * others that run in between may allocate, and find everything whole. */
static _Atomic(uintptr_t) forker;
mi__inline bool is_forker(void) {
  uintptr_t it = mi__load(&forker, relaxed);
  return mi__unlikely(it != 0) && it == (uintptr_t)&held;
}
void mi__lock_fork_begin(void) { mi__store(&forker, (uintptr_t)&held, relaxed); }
void mi__lock_fork_end(void) { mi__store(&forker, 0, relaxed); }

bool mi__lock_try_acquire(struct mi__lock *lock) {
  uint32_t expected = FREE;
  if (mi__unlikely(is_forker())) return true;
  check_order(lock);
  if (!mi__cas(&lock->state, &expected, TAKEN, acquire)) return false;
  note_acquired(lock);
  return true;
}

static mi__cold void acquire_slow(struct mi__lock *lock) {
  for (int i = 0; i < SPINS; i++) {
    uint32_t expected = FREE;
    if (mi__load(&lock->state, relaxed) == FREE &&
        mi__cas_weak(&lock->state, &expected, TAKEN, acquire)) {
      return;
    }
    mi__relax();
  }
  /* Who slept once cannot know whether others still sleep, so it takes the lock in the state that
   * wakes one. */
  while (mi__exchange(&lock->state, TAKEN_WITH_SLEEPERS, acquire) != FREE)
    mi__os_wait(&lock->state, TAKEN_WITH_SLEEPERS, -1);
}

void mi__lock_acquire(struct mi__lock *lock) {
  if (mi__unlikely(is_forker())) return;
  check_order(lock);
  uint32_t expected = FREE;
  if (mi__unlikely(!mi__cas(&lock->state, &expected, TAKEN, acquire))) acquire_slow(lock);
  note_acquired(lock);
}

/* The exchange is a release for the acquire of the next holder, and at the same time the look for
 * sleepers: a store followed by a load could pass a sleeper that marks itself between the two. */
void mi__lock_release(struct mi__lock *lock) {
  if (mi__unlikely(is_forker())) return;
  if (MI_DEBUG) mi__assert(n_held[lock->rank] > 0);
  note_released(lock);
  uint32_t before = mi__exchange(&lock->state, FREE, release);
  mi__assert(before != FREE);
  if (mi__unlikely(before == TAKEN_WITH_SLEEPERS)) mi__os_wake(&lock->state, 1);
}

void mi__lock_reset(struct mi__lock *lock) {
  note_released(lock);
  mi__store(&lock->state, FREE, relaxed);
}

/* ---- once ---- */

static mi__cold void once_wait(struct mi__once *once) {
  for (int i = 0; i < SPINS; i++) {
    if (mi__once_is_done(once)) return;
    mi__relax();
  }
  uint32_t seen;
  while ((seen = mi__load(&once->state, acquire)) == RUNNING || seen == RUNNING_WITH_SLEEPERS) {
    if (seen == RUNNING && !mi__cas(&once->state, &seen, RUNNING_WITH_SLEEPERS, relaxed)) continue;
    mi__os_wait(&once->state, RUNNING_WITH_SLEEPERS, -1);
  }
}

bool mi__once_begin(struct mi__once *once) {
  if (mi__likely(mi__once_is_done(once))) return false;
  uint32_t expected = NEW;
  if (mi__cas(&once->state, &expected, RUNNING, acquire)) {
    mi__store(&once->runner, (uintptr_t)&held, relaxed);
    return true;
  }
  /* Only this thread can have stored its own address, so a relaxed load tells. */
  if (mi__load(&once->runner, relaxed) != (uintptr_t)&held) once_wait(once);
  return false;
}

void mi__once_end(struct mi__once *once) {
  /* A thread that is made later may get this thread's word; by then the state must say that nobody
   * runs. */
  mi__store(&once->runner, 0, relaxed);
  /* The release goes with the acquire of mi__once_is_done. */
  uint32_t before = mi__exchange(&once->state, DONE, release);
  mi__assert(before == RUNNING || before == RUNNING_WITH_SLEEPERS);
  if (before == RUNNING_WITH_SLEEPERS) mi__os_wake(&once->state, INT32_MAX);
}

void mi__once_fork_child(struct mi__once *once) {
  uint32_t state = mi__load(&once->state, relaxed);
  bool running = state == RUNNING || state == RUNNING_WITH_SLEEPERS;
  bool mine = mi__load(&once->runner, relaxed) == (uintptr_t)&held;
  if (running && !mine) mi__store(&once->state, NEW, relaxed);
}
