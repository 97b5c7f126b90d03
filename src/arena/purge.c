/* SPDX-License-Identifier: MIT */
/* The way of free slices back to the OS: marks, the schedule, and the pass that purges what is due.
 *
 * Owns: the marks young and old, `xexpire` of arenas and sets. Threads: any.
 * Locks: the purge guard, one pass at a time. Its holder takes no lock, allocates nothing, waits
 * for nobody, and calls no function of the program's: arenas with a commit function have a schedule
 * of their own, and are looked at by threads of the program after the guard is released.
 *
 * Nothing is lost: a free marks, marks free, has a full fence, and then looks at arena.expire. A
 * pass takes arena.expire by exchange, has a full fence, and then reads the marks. So either the
 * pass sees the mark, or the free sees 0 and arms. Likewise one level up: a pass resets set.expire
 * by exchange before it looks at any arena, and at its end reads every arena.expire by an atomic
 * read-modify-write and puts the earliest back; a free that armed its arena behind the pass has
 * found set.expire 0 and set it, or is seen here.
 *
 * A pass claims what it purges as an allocation does, reads the marks again under the claim, and
 * changes only marks of what it has claimed (BITMAP-1). What it did not claim keeps its mark. */
#include "arena/policy.h"
#include "arena/types.h"
#include "base/check.h"
#include "os/os.h"
#include "rt/alarm.h"
#include "rt/counter.h"
#include "rt/option.h"

static struct mi__lock guard = MI_LOCK_INIT(MI_LOCK_PURGE);
_Atomic(uint32_t) mi__purge_hurry;

/* What the pass in progress holds, for a fork child that finds it cut off. The mask is set after
 * the claim and cleared before it is given back: cut off in between, slices leak; the other order
 * would give away what somebody else took. */
static struct {
  _Atomic(uint32_t) arena, chunk;
  _Atomic(uint64_t) mask;
} held;

/* ---- one chunk ---- */

enum ages { OLD_ONLY, ALL_AGES, AGE_ONLY };

struct visit {
  struct mi__arena *arena;
  enum ages ages;
  size_t unit;     /* slices: a power of two up to a chunk, else whole chunks */
  bool decommits;  /* option purge_decommits */
  bool in_pass;    /* the guard is held: note the claim in `held` */
  bool at_once;    /* several ranges may be discarded by one system call */
  bool may_leave;  /* leave the rest where somebody waits for the end of the pass */
  bool left_marks; /* out: something was made old, or kept; a later pass may purge it */
  bool look_again; /* out: something was purged, or it was gone when we had claimed it */
};

/* All slices of the units (within one chunk) that are wholly in `bits`. */
static uint64_t whole_units(uint64_t bits, size_t unit) {
  unit = mi__min(unit, MI_CHUNK_SLICES);
  for (size_t s = 1; s < unit; s *= 2) bits &= bits >> s;
  /* The first bit of each unit: 1, 3, 15, 255, ... divide a word of ones. */
  uint64_t firsts = MI_CHUNK_FULL / mi__chunk_mask(0, unit);
  bits &= firsts;
  for (size_t s = 1; s < unit; s *= 2) bits |= bits << s;
  return bits;
}

/* All slices of the units that have a bit set. */
static uint64_t touched_units(uint64_t bits, size_t unit) { return ~whole_units(~bits, unit); }

static size_t popcount(uint64_t bits) { return (size_t)__builtin_popcountll(bits); }

static void count_purged(struct visit *visit, uint64_t slices) {
  size_t n = popcount(slices);
  int64_t bytes = (int64_t)(n * MI_SLICE_SIZE);
  visit->look_again = true;
  mi__count(&mi__counters.purged, bytes);
  mi__gauge_add(&mi__counters.committed, -bytes);
  if (visit->decommits) return;
  mi__count(&mi__counters.reset, bytes);
  mi__count(&mi__counters.reset_calls, 1);
}

/* Purge the slices of `mask`, claimed, neighbours in one range. What cannot be purged keeps its
 * marks. */
static void purge_claimed(struct visit *visit, size_t c, uint64_t mask) {
  struct mi__chunk *chunk = &visit->arena->slices.chunks[c];
  /* The function is told of what is committed, and of nothing twice. */
  if (visit->arena->commit_fun != NULL) mask &= mi__load(&chunk->xcommitted, relaxed);
  uint64_t runs[MI_CHUNK_SLICES / 2];
  struct mi__os_range ranges[MI_CHUNK_SLICES / 2];
  unsigned n_runs = 0;
  while (mask != 0) {
    unsigned first = mi__ctz64(mask);
    uint64_t rest = ~(mask >> first);
    unsigned n = rest == 0 ? MI_CHUNK_SLICES : mi__ctz64(rest);
    runs[n_runs] = mi__chunk_mask(first, n);
    mask &= ~runs[n_runs];
    char *start = mi__arena_address(visit->arena, c * MI_CHUNK_SLICES + first);
    ranges[n_runs++] = (struct mi__os_range){start, n * MI_SLICE_SIZE, false};
  }
  mi__count(&mi__counters.purge_calls, n_runs);
  bool zero = mi__arena_discard(visit->arena, ranges, n_runs, visit->decommits, visit->at_once);
  for (unsigned i = 0; i < n_runs; i++) {
    if (!ranges[i].done) continue;
    uint64_t run = runs[i];
    mi__purge_unmark(visit->arena, chunk, run, popcount(run));
    count_purged(visit, mi__load(&chunk->xcommitted, relaxed) & run);
    mi__fetch_and(&chunk->xcommitted, ~run, relaxed);
    if (visit->arena->commit_fun != NULL) mi__fetch_and(&chunk->xready, ~run, relaxed);
    if (zero) mi__fetch_and(&chunk->xdirty, ~run, relaxed);
  }
}

/* With `claim` held: purge what has the age, make the rest old. */
static void purge_by_age(struct visit *visit, size_t c, uint64_t claim) {
  struct mi__chunk *chunk = &visit->arena->slices.chunks[c];
  uint64_t young = mi__load(&chunk->xyoung, relaxed) & claim;
  uint64_t marked = young | (mi__load(&chunk->xold, relaxed) & claim);
  uint64_t keep = 0;
  if (marked == 0) visit->look_again = true;
  if (visit->ages == OLD_ONLY) keep = marked & touched_units(young, visit->unit);
  if (visit->ages == AGE_ONLY) keep = marked;
  uint64_t units = touched_units(marked & ~keep, visit->unit) & claim;
  if (units != 0) purge_claimed(visit, c, units);
  if (keep == 0) return;
  visit->left_marks = true;
  mi__fetch_or(&chunk->xold, keep, relaxed);
  mi__fetch_and(&chunk->xyoung, ~keep, relaxed);
}

/* Claim the marked free slices of the chunk, in units that are wholly free. 0: none. */
static uint64_t claim_marked(struct visit *visit, struct mi__chunk *chunk) {
  uint64_t used = mi__load(&chunk->xused, relaxed);
  for (;;) {
    uint64_t whole = whole_units(~used | chunk->outside, visit->unit) & ~chunk->outside;
    uint64_t marked = (mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed)) & whole;
    if (marked == 0) return 0;
    uint64_t claim = touched_units(marked, visit->unit) & whole;
    /* Acquire as in any claim: see bitmap.h. */
    if (mi__cas_weak(&chunk->xused, &used, used | claim, acquire)) return claim;
  }
}

static void hold(const struct visit *visit, size_t c, uint64_t claim) {
  if (!visit->in_pass) return;
  mi__store(&held.arena, visit->arena->number, relaxed);
  mi__store(&held.chunk, (uint32_t)c, relaxed);
  mi__store(&held.mask, claim, release); /* read by the same thread's copy in a fork child */
}

static void visit_chunk(struct visit *visit, size_t c) {
  struct mi__bitmap *map = &visit->arena->slices;
  struct mi__chunk *chunk = &map->chunks[c];
  if ((mi__load(&chunk->xyoung, relaxed) | mi__load(&chunk->xold, relaxed)) == 0) return;
  uint64_t claim = claim_marked(visit, chunk);
  if (claim == 0) return;
  hold(visit, c, claim);
  purge_by_age(visit, c, claim);
  if (MI_BAD_PURGE == 3) mi__purge_unmark(visit->arena, chunk, ~claim, popcount(~claim));
  hold(visit, c, 0);
  mi__chunk_free(chunk, claim);
  mi__fence(seq_cst);
  mi__bitmap_freed(map, c * MI_CHUNK_SLICES, (c + 1) * MI_CHUNK_SLICES);
}

/* ---- units of several chunks ---- */

/* May the unit [c, end) be purged, and what of it? False: it is partly live. */
static bool judge_chunks(const struct visit *visit, size_t c, size_t end, enum ages *ages) {
  *ages = visit->ages;
  for (; c < end; c++) {
    struct mi__chunk *chunk = &visit->arena->slices.chunks[c];
    if (mi__load(&chunk->xused, relaxed) != chunk->outside) return false;
    if (*ages == OLD_ONLY && mi__load(&chunk->xyoung, relaxed) != 0) *ages = AGE_ONLY;
  }
  return true;
}

static void visit_chunks(struct visit *visit, size_t c, size_t end) {
  enum ages ages = visit->ages;
  if (visit->may_leave && mi__load(&mi__purge_hurry, relaxed) != 0) {
    visit->left_marks = true; /* maybe */
    return;
  }
  if (end - c > 1 && !judge_chunks(visit, c, end, &visit->ages)) return;
  for (; c < end; c++) visit_chunk(visit, c);
  visit->ages = ages;
}

/* All units that touch the slices [at, end). again: look again where something was claimed and not
 * just kept; with delay 0 a free that found a unit partly claimed by us does not come back to
 * it. */
static void visit_slices(struct visit *visit, size_t at, size_t end, bool again) {
  size_t step = mi__max(visit->unit / MI_CHUNK_SLICES, 1);
  size_t n_chunks = visit->arena->slices.n_chunks;
  size_t last = mi__min(mi__div_up(end, MI_CHUNK_SLICES), n_chunks);
  for (size_t c = at / MI_CHUNK_SLICES / step * step; c < last; c += step) {
    do {
      visit->look_again = false;
      visit_chunks(visit, c, mi__min(c + step, n_chunks));
    } while (again && visit->look_again);
  }
}

/* ---- the schedule ---- */

static int64_t delay_ms(void) {
  return mi__policy_delay_ms(mi__option_get(mi_option_purge_delay),
                             mi__option_get(mi_option_arena_purge_mult));
}

static struct visit new_visit(struct mi__arena *arena, enum ages ages, bool in_pass) {
  size_t least = mi__option_get_size(mi_option_minimal_purge_size);
  return (struct visit){
      .arena = arena,
      .ages = ages,
      .in_pass = in_pass,
      .unit = mi__policy_unit_slices(least, mi__option_get(mi_option_allow_thp) == 2),
      /* Not every kind of memory that a program may hand over can be discarded lazily. */
      .decommits = !arena->mapped || mi__option_get(mi_option_purge_decommits) != 0};
}

static mi__expire_t expire_after(int64_t delay) {
  return (mi__os_clock_ms() + (uint64_t)delay / 2) * 2;
}

/* True: this call armed it. */
static bool arm(_Atomic(mi__expire_t) *expire, mi__expire_t when) {
  mi__expire_t none = 0;
  return mi__cas(expire, &none, when, acq_rel);
}

/* The schedule of the set that the arena is in: that of the background thread, or the other one. */
static _Atomic(mi__expire_t) *schedule_of(const struct mi__arena *arena) {
  return mi__unlikely(arena->commit_fun != NULL) ? &arena->set->xexpire_calls
                                                 : &arena->set->xexpire;
}

/* Tell the background thread. */
static void tell(mi__expire_t when) { mi__alarm_set((when & 1) != 0 ? 0 : when / 2); }

void mi__purge_arm_slow(struct mi__arena *arena, size_t at, size_t end) {
  int64_t delay = delay_ms();
  if (delay < 0 || arena->pinned) return;
  if (delay == 0) {
    struct visit visit = new_visit(arena, ALL_AGES, false);
    visit_slices(&visit, at, end, true);
    return;
  }
  mi__expire_t when = expire_after(delay);
  if (arm(&arena->xexpire, when) && arm(schedule_of(arena), when)) tell(when);
}

/* ---- the pass ---- */

struct pass {
  struct mi__arenas *set;
  bool force;
  bool calls;   /* of the arenas with a commit function; then the guard is not held */
  bool forward; /* brought forward: whatever is armed is due, whatever its age */
  uint64_t now;
  int64_t delay;
};

static bool is_due(const struct pass *pass, mi__expire_t expire) {
  if (pass->force) return true;
  return expire != 0 && (pass->forward || (expire & 1) != 0 || expire / 2 <= pass->now);
}

static void pass_arena(const struct pass *pass, struct mi__arena *arena) {
  if (arena->pinned || !is_due(pass, mi__load(&arena->xexpire, relaxed))) return;
  mi__expire_t expire = mi__exchange(&arena->xexpire, 0, acq_rel);
  /* Pairs with the fence of a free: we see the marks, or the free sees 0. */
  mi__fence(seq_cst);
  mi__count(&mi__counters.arena_purges, 1);
  bool all = pass->force || pass->forward || (expire & 1) != 0 ||
             mi__policy_is_late(expire / 2, pass->now, pass->delay);
  struct visit visit = new_visit(arena, all ? ALL_AGES : OLD_ONLY, !pass->calls);
  visit.at_once = pass->force || pass->forward;
  visit.may_leave = !pass->force;
  if (pass->force) visit.unit = 1;
  visit_slices(&visit, 0, mi__arena_end_slice(arena), pass->delay == 0);
  if (visit.left_marks && pass->delay > 0) (void)arm(&arena->xexpire, expire_after(pass->delay));
}

/* The earliest time that is pending in the arenas with (calls) or without commit function; 0: none.
 * Bit 0 is earlier than any time. */
static mi__expire_t earliest(const struct mi__arenas *set, bool calls) {
  mi__expire_t first = 0;
  struct mi__arena *arena = mi__arenas_first(set);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    if (mi__unlikely((arena->commit_fun != NULL) != calls)) continue;
    mi__expire_t seen = 0;
    /* An atomic read-modify-write reads the latest value. */
    (void)mi__cas(&arena->xexpire, &seen, 0, acq_rel);
    if (seen != 0 && (first == 0 || (seen & 1) != 0 || ((first & 1) == 0 && seen < first)))
      first = seen;
  }
  return first;
}

/* Earliest wins. True: it was set. */
static bool put_back(_Atomic(mi__expire_t) *schedule, mi__expire_t when) {
  if (when == 0) return false;
  mi__expire_t seen = mi__load(schedule, relaxed);
  do {
    if (seen != 0 && ((seen & 1) != 0 || ((when & 1) == 0 && seen <= when))) return false;
  } while (!mi__cas_weak(schedule, &seen, when, acq_rel));
  return true;
}

static struct pass begin_pass(struct mi__arenas *set, bool force, bool calls) {
  /* Before any arena is looked at. */
  _Atomic(mi__expire_t) *schedule = calls ? &set->xexpire_calls : &set->xexpire;
  mi__expire_t expire =
      MI_BAD_PURGE == 1 ? mi__load(schedule, relaxed) : mi__exchange(schedule, 0, acq_rel);
  return (struct pass){.set = set,
                       .force = force,
                       .calls = calls,
                       .forward = (expire & 1) != 0,
                       .delay = delay_ms(),
                       .now = mi__os_clock_ms()};
}

static void run_pass(const struct pass *pass) {
  struct mi__arena *arena = mi__arenas_first(pass->set);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    if (mi__likely((arena->commit_fun != NULL) == pass->calls)) pass_arena(pass, arena);
  }
}

/* The arenas of which the program has a function to call: without the guard, for the function may
 * take locks of the program's own, and other threads that hold these may be waiting for the guard.
 * What is claimed is safe as in any claim; a child that is forked meanwhile has lost it. */
static mi__noinline void call_programs(struct mi__arenas *set, bool force) {
  struct pass pass = begin_pass(set, force, true);
  run_pass(&pass);
  (void)put_back(&set->xexpire_calls, earliest(set, true));
  /* Release: mi__arenas_delete (acquire) begins after this. */
  if (mi__fetch_sub(&set->xcalling, 1, release) == 1) mi__os_wake(&set->xcalling, INT32_MAX);
}

static bool has_programs(const struct mi__arenas *set) {
  struct mi__arena *arena = mi__arenas_first(set);
  while (arena != NULL && arena->commit_fun == NULL) arena = mi__arenas_next(arena);
  return arena != NULL;
}

bool mi__arenas_purge(struct mi__arenas *arenas, enum mi__purge how) {
  bool force = how == MI_PURGE_EVERYTHING;
  if (force || how == MI_PURGE_DUE_SURELY) {
    mi__lock_acquire(&guard);
  } else if (!mi__lock_try_acquire(&guard)) {
    return false;
  }
  struct pass pass = begin_pass(arenas, force, false);
  run_pass(&pass);
  bool calls = how != MI_PURGE_DUE_QUIETLY && has_programs(arenas);
  if (calls) mi__fetch_add(&arenas->xcalling, 1, relaxed);
  mi__expire_t next = MI_BAD_PURGE == 5 ? 0 : earliest(arenas, false);
  if (MI_BAD_PURGE == 1) mi__store(&arenas->xexpire, 0, release);
  bool set = put_back(&arenas->xexpire, next);
  mi__lock_release(&guard);
  if (set) tell(next);
  if (MI_BAD_PURGE == 2 && how == MI_PURGE_DUE_QUIETLY && pass.forward) {
    mi__expire_t seen = 1;
    (void)mi__cas(&arenas->xexpire, &seen, 0, acq_rel);
  }
  if (calls) call_programs(arenas, force);
  if (how != MI_PURGE_DUE_QUIETLY) mi__area_tell();
  return true;
}

uint64_t mi__arenas_due(struct mi__arenas *arenas) {
  mi__expire_t expire = mi__load(&arenas->xexpire, relaxed);
  return (expire & 1) != 0 ? 1 : expire / 2;
}

static bool is_over(const _Atomic(mi__expire_t) *schedule, uint64_t grace_ms) {
  mi__expire_t expire = mi__load(schedule, relaxed);
  if (mi__likely(expire == 0)) return false;
  uint64_t due = (expire & 1) != 0 ? 0 : expire / 2;
  return due + grace_ms <= mi__os_clock_ms();
}

void mi__arenas_tick(struct mi__arenas *arenas, uint64_t grace_ms) {
  if (is_over(&arenas->xexpire, grace_ms) || is_over(&arenas->xexpire_calls, 0)) {
    (void)mi__arenas_purge(arenas, MI_PURGE_DUE);
  }
}

/* CAS only, so that the reset of a pass that is starting is not undone. True: it was set. */
static bool bring_forward(_Atomic(mi__expire_t) *expire, bool from_none) {
  mi__expire_t seen = mi__load(expire, relaxed);
  while ((seen & 1) == 0 && (seen != 0 || from_none)) {
    if (mi__cas_weak(expire, &seen, seen | 1, acq_rel)) return true;
  }
  return false;
}

void mi__arenas_bring_forward(struct mi__arenas *arenas) {
  struct mi__arena *arena = mi__arenas_first(arenas);
  for (; arena != NULL; arena = mi__arenas_next(arena)) {
    (void)bring_forward(&arena->xexpire, false);
  }
  (void)bring_forward(&arenas->xexpire_calls, false);
  if (bring_forward(&arenas->xexpire, true)) tell(1);
}

void mi__purge_wait(void) {
  mi__lock_acquire(&guard);
  mi__lock_release(&guard);
}

void mi__purge_keep_out(void) { mi__lock_acquire(&guard); }
void mi__purge_let_in(void) { mi__lock_release(&guard); }

/* ---- fork ---- */

void mi__arenas_fork_prepare(void) { mi__purge_keep_out(); }
void mi__arenas_fork_parent(void) { mi__purge_let_in(); }

static void give_back_held(void) {
  uint64_t mask = mi__exchange(&held.mask, 0, acquire);
  if (mask == 0) return;
  struct mi__arena *arena = mi__arena_table[mi__load(&held.arena, relaxed)];
  size_t c = mi__load(&held.chunk, relaxed);
  mi__chunk_free(&arena->slices.chunks[c], mask);
  mi__fence(seq_cst);
  mi__bitmap_freed(&arena->slices, c * MI_CHUNK_SLICES, (c + 1) * MI_CHUNK_SLICES);
}

/* A thread may have vanished between marking and arming, or between its two CAS: arm all. */
void mi__arenas_fork_child(void) {
  mi__lock_reset(&guard);
  give_back_held();
  int64_t delay = delay_ms();
  mi__expire_t when = delay > 0 ? expire_after(delay) : 0;
  uint32_t count = mi__load(&mi__arena_count, acquire);
  for (uint32_t i = 0; i < count; i++) {
    struct mi__arena *arena = mi__arena_table[i];
    if (arena->set == NULL) continue;
    mi__store(&arena->set->xcalling, 0, relaxed); /* who was calling is not here any more */
    if (arena->pinned || delay <= 0) continue;
    (void)arm(&arena->xexpire, when);
    (void)put_back(schedule_of(arena), when);
  }
}
