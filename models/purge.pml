/* SPDX-License-Identifier: MIT */
/* The way of free slices back to the OS: the marks and the schedule of arena/purge.c, its passes, and fork.
 *
 * One set with one arena of two slices, which are a unit of minimal_purge_size, or two. One of these runs:
 *   background  a thread frees a slice, takes one again or gives that claim back, and frees it; an idle point brings the purge
 *               forward. Or two threads free a slice each. The scavenger sleeps while the set's expire is 0 and runs passes
 *   forced      a thread frees a slice, another one its own and collects by force; the scavenger
 *   fork        a thread that frees and the scavenger vanish, at any step; the forking thread has taken the guard before, or
 *               it has not (the fork went past the handlers)
 *   delay 0     two threads free a slice each and purge it themselves; then one takes a slice again, the other collects by force
 *
 * Times are one value, so that a time that is set anew is always the same (ABA); a pass finds an armed arena due or not yet, a
 * mark old enough or not, by chance; one that is not forced may leave early (mi__purge_hurry). A discard does not fail. That
 * the scavenger wakes when a time is set is alarm.pml. Two arenas are not needed: an idle point sets the set's expire where no
 * arena is armed. Units of several chunks, and arenas with a commit function, go by the same steps.
 *
 * Every word is changed by atomic read-modify-writes, which act on its latest value; a plain load of another thread may still
 * see the value before, until the writer's next successful read-modify-write or fence (a store buffer of one entry for each
 * process), or another read-modify-write of that word. So a compare-and-swap from 0 to 0 that succeeds proves 0, a load does
 * not; one that fails is only a load.
 *
 * Safety: only who has claimed a slice purges it and changes its marks. Progress: when all threads are done and nothing is
 * armed, no free slice (of a unit that is wholly free) has its memory. A forced collect leaves none of what the caller freed.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_LOAD       a plain load at the end of a pass, instead of the CAS 0 -> 0
 *   BAD_FENCE      no fence between the marks of a free and its look at the arena's expire
 *   BAD_PASS_FENCE no fence between the reset of the arena's expire and the look at the marks
 *   BAD_RESET      the pass resets the set's expire at its end, not first
 *   BAD_CLEAR_SET  the scavenger clears the set's expire itself when its pass is done
 *   BAD_UNCLAIMED  a pass clears the marks of all slices, claimed or not
 *   BAD_AGAIN      a pass that leaves marks behind does not arm the arena again
 *   BAD_FORK_ARM   the fork child arms nothing
 *   BAD_HELD       the fork child does not give back what a pass had claimed that was cut off
 *   BAD_ZERO       with delay 0 nobody looks again where he has purged
 *   BAD_STALE      with delay 0 nobody looks again where the marks were gone when the claim was there
 */

#define ALL 3 /* both slices */
#define TIME 2
#define FORWARD 1

mtype = { BACKGROUND, FORCED, FORK, ZERO };
mtype scenario;
byte unit_size = 1; /* slices */
bool by_chance;     /* whether a pass leaves early, and which marks are old */

#define WHOLE(bits, unit) (((unit) == 1 || (bits) == ALL) -> (bits) : 0)
#define TOUCHED(bits, unit) (((unit) == 1 || (bits) == 0) -> (bits) : ALL)

/* ---- words ---- */
#define SET 1   /* set.xexpire */
#define ARENA 2 /* arena.xexpire */
#define USED 3
#define YOUNG 4
byte now[5];    /* the latest value */
byte seen[5];   /* what plain loads of others may still see, while */
byte writer[5]; /* somebody (pid + 1) has the latest in his store buffer */
byte old_marks; /* only passes set them, which have the guard; so no load of them is late */
#define ME (_pid + 1)
#define OTHERS(w) (writer[w] != 0 && writer[w] != ME)

inline settle(w) { seen[w] = now[w]; writer[w] = 0 }
inline drain() {
  if :: writer[SET] == ME -> settle(SET) :: else fi;
  if :: writer[ARENA] == ME -> settle(ARENA) :: else fi;
  if :: writer[USED] == ME -> settle(USED) :: else fi;
  if :: writer[YOUNG] == ME -> settle(YOUNG) :: else fi
}
inline fence() { d_step { drain() } }

/* Within a step: a successful read-modify-write. */
inline put(w, v) {
  drain();
  seen[w] = now[w];
  now[w] = v;
  writer[w] = (now[w] == seen[w] -> 0 : ME)
}

inline load(w, x) {
  atomic {
    if
    :: OTHERS(w) -> x = seen[w]
    :: OTHERS(w) -> settle(w); x = now[w]
    :: !OTHERS(w) -> x = now[w]
    fi
  }
}
/* CAS from 0; x: what was there. */
inline cas_from_0(w, v, x) {
  atomic {
    if
    :: OTHERS(w) && seen[w] != 0 -> x = seen[w]
    :: now[w] != 0 -> settle(w); x = now[w]
    :: now[w] == 0 -> x = 0; put(w, v)
    fi
  }
}
/* A loop of CAS: earliest wins. */
#define KEEPS(old, v) ((old) != 0 && ((old & FORWARD) || !(v & FORWARD)))
inline put_back(w, v) {
  atomic {
    if
    :: OTHERS(w) && KEEPS(seen[w], v)
    :: KEEPS(now[w], v) -> settle(w)
    :: !KEEPS(now[w], v) -> put(w, v)
    fi
  }
}
#define STAYS(old, from_none) ((old & FORWARD) || (old == 0 && !from_none))
inline bring_forward(w, from_none) {
  atomic {
    if
    :: OTHERS(w) && STAYS(seen[w], from_none)
    :: STAYS(now[w], from_none) -> settle(w)
    :: !STAYS(now[w], from_none) -> put(w, now[w] | FORWARD)
    fi
  }
}
inline exchange(w, v, x) { d_step { x = now[w]; put(w, v) } }
/* Hints: for who has not claimed the slices. */
inline load_marks() { atomic { load(YOUNG, marks); marks = marks | old_marks } }
/* Within a step, under a claim: the marks of claimed slices are the latest, see free_slices. Who sees them too long only
 * claims for nothing. */
inline unmark(bits) { settle(YOUNG); now[YOUNG] = now[YOUNG] & ~(bits); settle(YOUNG); old_marks = old_marks & ~(bits) }

/* ---- ghosts ---- */
byte holder[3];          /* of slice 1 and 2: pid + 1 */
byte resident = ALL;
byte n_done, n_threads;
bool forked;
byte retaken;            /* slices */

inline take_ghost(bits) {
  if :: (bits & 1) -> assert(holder[1] == 0); holder[1] = ME :: else fi;
  if :: (bits & 2) -> assert(holder[2] == 0); holder[2] = ME :: else fi
}
#define HOLDS(bits) ((!((bits) & 1) || holder[1] == ME) && (!((bits) & 2) || holder[2] == ME))

/* mi__chunk_free */
inline free_slices(bits) {
  d_step {
    assert(HOLDS(bits) && (now[USED] & (bits)) == (bits));
    if :: ((bits) & 1) -> holder[1] = 0 :: else fi;
    if :: ((bits) & 2) -> holder[2] = 0 :: else fi;
    put(USED, now[USED] & ~(bits))
  }
}

/* Nothing is armed, nobody is on the way: what is free is back. */
inline check_quiet() {
  d_step {
    used = now[USED];
    assert((resident & WHOLE(~used & ALL, unit_size)) == 0)
  }
}

/* ---- the pass ---- */

bool guard;
byte held;

/* visit_chunk; left is set, and purged: look again. */
inline visit(unit, only_old) {
  load_marks();
  claim = 0;
  if
  :: marks != 0 ->
    load(USED, used);
    do
    :: load_marks();
       claim = TOUCHED(marks & WHOLE(~used & ALL, unit), unit) & WHOLE(~used & ALL, unit);
       if
       :: claim == 0 -> break
       :: else ->
         d_step {
           settle(USED);
           if
           :: now[USED] == used -> drain(); now[USED] = used | claim; settle(USED); take_ghost(claim); marks = 0
           :: else -> used = now[USED]
           fi
         };
         if :: marks == 0 -> break :: else fi
       fi
    od
  :: else
  fi;
  if
  :: claim != 0 ->
    if :: scenario == FORK && guard -> held = claim :: else fi;
    d_step {
      marks = (now[YOUNG] | old_marks) & claim;
      keep = (only_old -> marks & TOUCHED(now[YOUNG] & claim, unit) : 0);
      used = TOUCHED(marks & ~keep, unit) & claim;
      assert(HOLDS(used | keep));
#ifdef BAD_STALE
      if :: used != 0 -> purged = true :: else fi;
#else
      if :: used != 0 || marks == 0 -> purged = true :: else fi;
#endif
      resident = resident & ~used;
#ifdef BAD_UNCLAIMED
      unmark((used != 0 -> ALL & ~keep : 0));
#else
      unmark(used);
#endif
      if :: keep != 0 -> left = true; unmark(keep); old_marks = old_marks | keep :: else fi;
      used = 0; marks = 0; keep = 0
    };
    if :: scenario == FORK && guard -> held = 0 :: else fi;
    free_slices(claim);
    fence()
  :: else
  fi;
  d_step { used = 0; marks = 0; claim = 0 }
}

inline run_pass(force) {
#ifdef BAD_RESET
  load(SET, x);
#else
  exchange(SET, 0, x);
#endif
  forward = x & FORWARD;
  load(ARENA, x);
  if
  :: force || (x != 0 && (forward || (x & FORWARD) || scenario != ZERO)) ->
    exchange(ARENA, 0, x);
#ifndef BAD_PASS_FENCE
    fence();
#endif
    left = false;
    if
    :: !force && by_chance -> left = true /* it leaves */
    :: true ->
      all_ages = force || forward || (x & FORWARD);
      if :: by_chance || !forked :: by_chance || forked -> all_ages = true /* late */ fi;
      do
      :: purged = false;
         visit((force -> 1 : unit_size), !all_ages);
#ifdef BAD_ZERO
         break
#else
         if :: scenario == ZERO && purged :: else -> break fi
#endif
      od;
      purged = false
    fi;
#ifndef BAD_AGAIN
    if
    :: left && scenario != ZERO -> cas_from_0(ARENA, TIME, x)
    :: else
    fi
#endif
  :: !force && !forked /* not due, or 0 */
  :: forked && x == 0
  fi;
  all_ages = false; left = false; forward = 0;
  /* earliest */
#ifdef BAD_LOAD
  load(ARENA, x);
#else
  cas_from_0(ARENA, 0, x);
#endif
#ifdef BAD_RESET
  d_step { put(SET, x) };
#else
  if :: x != 0 -> put_back(SET, x) :: else fi;
#endif
  d_step { drain(); guard = false; x = 0 }
}

#define PASS_LOCALS byte x, marks, used, claim, keep, forward; bool all_ages, left, purged

/* ---- threads ---- */

/* mi__purge_arm */
inline arm() {
  load(ARENA, x);
  if
  :: x == 0 && scenario != ZERO ->
    cas_from_0(ARENA, TIME, x);
    if :: x == 0 -> cas_from_0(SET, TIME, x) :: else fi
  :: x == 0 && scenario == ZERO ->
    do
    :: purged = false;
       visit(unit_size, false);
#ifdef BAD_ZERO
       break
#else
       if :: purged :: else -> break fi
#endif
    od;
    purged = false
  :: else
  fi;
  x = 0
}

/* Frees its slice; takes another one that is free, to use it or to give the claim back, and frees that; collects by force. */
proctype thread(byte slice; bool again, collects) {
  PASS_LOCALS;
  bool gives_back;
  byte mine = slice;
  {
  do
  :: slice != 0 ->
    if :: !gives_back -> d_step { put(YOUNG, now[YOUNG] | slice) } :: else fi;
    free_slices(slice);
#ifndef BAD_FENCE
    fence();
#endif
    arm();
    slice = 0;
    if
    :: again ->
      again = false;
      atomic {
        if
        :: (now[USED] & 1) == 0 -> slice = 1
        :: (now[USED] & 2) == 0 -> slice = 2
        :: true
        fi;
        if
        :: slice != 0 -> drain(); settle(USED); now[USED] = now[USED] | slice; settle(USED); take_ghost(slice);
           retaken = retaken | slice
        :: else
        fi
      };
      if
      :: slice != 0 -> d_step { assert(HOLDS(slice)); unmark(slice); resident = resident | slice }
      :: slice != 0 -> gives_back = true
      :: slice == 0
      fi
    :: else
    fi
  :: else -> break
  od;
  if
  :: collects ->
    atomic { !guard -> guard = true };
    run_pass(true);
    /* With delay 0 another thread may be just purging it: see check_quiet. */
    assert(scenario == ZERO || (retaken & mine) || !(resident & mine))
  :: else
  fi;
  d_step { drain(); n_done++ }
  } unless { forked }
}

proctype idle_point() {
  bring_forward(ARENA, false);
  bring_forward(SET, true);
  d_step { drain(); n_done++ }
}

/* The scavenger, or the thread that forks; what goes on of that is the child. */
proctype background(bool forks) {
  PASS_LOCALS;
  {
  if
  :: forks ->
    if
    :: atomic { !guard -> guard = true }
    :: true
    fi;
    d_step {
      forked = true;
      settle(SET); settle(ARENA); settle(USED); settle(YOUNG);
      guard = false
    };
#ifndef BAD_HELD
    if
    :: held != 0 ->
      d_step {
        if :: (held & 1) -> assert(holder[1] != 0); holder[1] = ME :: else fi;
        if :: (held & 2) -> assert(holder[2] != 0); holder[2] = ME :: else fi
      };
      free_slices(held);
      fence();
      held = 0
    :: else
    fi;
#endif
#ifndef BAD_FORK_ARM
    cas_from_0(ARENA, TIME, x);
    put_back(SET, TIME);
    x = 0
#endif
  :: else
  fi;
  do
  :: now[SET] != 0 ->
    atomic { if :: !guard -> guard = true; x = 1 :: else fi };
    if
    :: x == 1 ->
      x = 0;
      run_pass(false);
#ifdef BAD_CLEAR_SET
      /* it had remembered the time for which it woke, which is the same as any */
      d_step { if :: now[SET] == TIME -> put(SET, 0) :: else fi }
#endif
    :: else
    fi
  :: (forks || n_done == n_threads) && now[SET] == 0 && !guard -> break
  od;
  assert(held == 0);
  check_quiet()
  } unless { forked && !forks }
}

proctype at_the_end_of_zero() {
  byte used;
  n_done == n_threads -> check_quiet()
}

#ifndef SCEN
#define SCEN 0
#endif
#define RUN(which) (SCEN == 0 || SCEN == which)
inline start(used_slices, marked) {
  now[USED] = used_slices; seen[USED] = used_slices;
  now[YOUNG] = marked; seen[YOUNG] = marked;
  resident = used_slices | marked;
  now[ARENA] = (marked != 0 -> TIME : 0); seen[ARENA] = now[ARENA];
  now[SET] = now[ARENA]; seen[SET] = now[SET]
}

/* Who ends first is started last: its variables are gone then. Holders: process 2 and 3. */
init {
  atomic {
    if
    :: RUN(1) -> scenario = BACKGROUND; n_threads = 2; start(1, 0); holder[1] = 3;
       run background(false); run thread(1, true, false); run idle_point()
    :: RUN(2) -> scenario = BACKGROUND; n_threads = 2; start(ALL, 0); holder[1] = 3; holder[2] = 4;
       unit_size = 2; by_chance = true; run background(false); run thread(1, false, false); run thread(2, false, false)
    :: RUN(3) -> scenario = FORCED; n_threads = 2; start(ALL, 0); holder[1] = 3; holder[2] = 4;
       unit_size = 2; by_chance = true; run background(false); run thread(1, false, true); run thread(2, false, false)
    :: RUN(4) -> scenario = FORK; n_threads = 1; start(1, 2); holder[1] = 3;
       run background(true); run thread(1, false, false); run background(false)
    :: RUN(5) -> scenario = ZERO; n_threads = 2; start(ALL, 0); holder[1] = 3; holder[2] = 4; unit_size = 2;
       run at_the_end_of_zero(); run thread(1, false, true); run thread(2, true, false)
    fi
  }
}
