/* SPDX-License-Identifier: MIT */
/* Parks: the state word of heap/park.c, the sweeps of idle/sweep.c, and who else is about: heap/teardown.c, fork.
 *
 * One thread with two theaps: `main`, and one of another heap. It parks, comes back, works, and parks for good, or ends. The
 * scavenger sweeps its park when that is due. And one of these: a thread that frees a block into a page of `main`, and
 * mi_purge_all by another, which sweeps the park too; a thread that deletes the other heap; a fork. A sweep looks at three
 * pages, two of `main` and one of the other theap, and takes what others freed into the second; it may leave before each.
 *
 * The word is changed by atomic read-modify-writes, which act on its latest value, and once by a plain store of its thread
 * (RUNNING), when no other change can succeed. A plain load of another process may see the value before until the writer's
 * next successful read-modify-write or fence (a store buffer of one entry), and so with the list of freed blocks and the time.
 * There are no intervals: what is due is due at once. That the scavenger wakes is alarm.pml.
 *
 * Safety: a theap has one holder at a time; no sweep runs while a fork holds the lock; the thread that ends leaves nothing.
 * Progress: nobody sleeps for ever; when all are done, a thread that parked for good has been swept since, and what others
 * freed is taken in.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_CLAIM      a sweep that holds no claim: it only looks whether the thread is parked
 *   BAD_BACK       the request to come back is read before the claim only, which then succeeds whatever the word is
 *   BAD_LEAVE      the sweep is left by a load and a store
 *   BAD_SECOND     the sweep takes the request to come back away when it leaves
 *   BAD_DROP       a park that was due and is left early is not made due again
 *   BAD_ORDER      the park is made due before its state is PARKED
 *   BAD_TAKE       what is due is taken after the sweep
 *   BAD_FREE       a free looks at the state before it pushes
 *   BAD_FENCE      a free has no fence between its push and its look at the state
 *   BAD_WORK       a sweep does not claim the theap that another thread may tear down
 *   BAD_LOCK       a sweep does not hold the lock that a fork takes
 *   BAD_END        the thread ends without coming back first
 */

#define NOBODY 255
#define RUNNING 0
#define PARKED 1
#define SWEEPING 2
#define BACK 4

/* the state word, and the other words that are loaded without a lock */
byte park, park_old;
bool park_late; /* in the store buffer of the thread: others may still see park_old */
bool due, due_late; /* late: that the scavenger has set it to 0 */
bool list, list_late; /* a block of another thread; late: the push */
bool asleep;    /* the thread, on the word */

/* the claim word of the other theap: see teardown.pml */
mtype = { FREE, WORK, DYING, GONE };
mtype claim = FREE;

bool sweep_lock;
byte hurry;

/* ghosts */
byte main_holder = NOBODY, other_holder = NOBODY;
bool swept = true; /* since the last park began */
bool ended;
byte n_done, n_all = 3;

inline hold(what) { d_step { assert(what == NOBODY); what = _pid } }
inline unhold(what) { d_step { assert(what == _pid); what = NOBODY } }

inline load_park(x) {
  atomic {
    if
    :: x = park; park_late = false
    :: park_late -> x = park_old
    fi
  }
}

/* mi__park_make_due */
inline make_due() {
  atomic {
    if
    :: due_late /* sees that it is due */
    :: due_late = false; due = true
    fi
  }
}

/* ---- the thread ---- */

inline begin() {
  d_step { assert(park == RUNNING); swept = false };
#ifdef BAD_ORDER
  make_due();
#endif
  d_step { park_old = park; park = PARKED; park_late = true };
#ifndef BAD_ORDER
  d_step { park_late = false }; /* seq_cst, and so is the load of what is due */
  make_due()
#endif
}

inline end() {
  d_step { seen = park; park = park | BACK; park_late = false };
  do
  :: (seen & SWEEPING) ->
    load_park(seen);
    if
    :: (seen & SWEEPING) ->
      atomic { if :: park == seen -> asleep = true :: else fi };
      !asleep
    :: else
    fi
  :: else -> break
  od;
  atomic { park_old = park; park = RUNNING; park_late = true } /* a plain store */
}

/* Mallocs, frees, and a collection. */
inline work() {
  hold(main_holder);
  atomic { if :: claim == FREE -> claim = WORK; mine = true :: else fi };
  if
  :: mine -> hold(other_holder); unhold(other_holder); mine = false; claim = FREE
  :: else
  fi;
  if :: list && !list_late -> list = false :: else fi;
  unhold(main_holder)
}

active proctype thread() {
  byte seen; bool mine;
  begin();
  end();
  work();
  begin();
  if
  :: true /* it stays so */
  :: true ->
#ifndef BAD_END
    end();
#endif
    hold(main_holder);
    /* mi__teardown_thread */
    atomic { (claim == FREE || claim == GONE) -> mine = (claim == FREE); if :: mine -> claim = DYING :: else fi };
    if
    :: mine -> hold(other_holder); unhold(other_holder); claim = GONE
    :: else
    fi;
    unhold(main_holder);
    ended = true
  fi;
  d_step { park_late = false; n_done++ }
}

/* ---- sweeps ---- */

#define MUST_LEAVE ((park & BACK) || hurry > 0)

/* mi__sweep_parked */
inline sweep() {
#ifndef BAD_LOCK
  atomic { !sweep_lock -> sweep_lock = true };
#endif
  claimed = false;
  whole = false;
#ifdef BAD_BACK
  load_park(seen);
  if
  :: seen == PARKED -> d_step { claimed = true; park = (park & BACK) | SWEEPING; park_late = false }
  :: else
  fi;
#else
#ifdef BAD_CLAIM
  load_park(seen);
  claimed = (seen == PARKED);
#else
  d_step { if :: park == PARKED -> claimed = true; park = SWEEPING; park_late = false :: else fi };
#endif
#endif
  if
  :: claimed ->
    hold(main_holder);
    whole = !MUST_LEAVE;
    if
    :: whole ->
      atomic {
        if
        :: list -> list = false; list_late = false
        :: !list || list_late
        fi
      };
      whole = !MUST_LEAVE
    :: else
    fi;
    unhold(main_holder);
#ifdef BAD_WORK
    mine = (claim != GONE);
#else
    atomic { if :: claim == FREE -> claim = WORK; mine = true :: else fi };
#endif
    if
    :: mine ->
      hold(other_holder);
      if :: MUST_LEAVE -> whole = false :: else fi;
      unhold(other_holder);
      mine = false;
#ifndef BAD_WORK
      claim = FREE
#endif
    :: else
    fi;
    if :: whole && !MUST_LEAVE -> swept = true :: else -> whole = false fi;
    /* mi__park_leave */
#ifndef BAD_CLAIM
#ifdef BAD_LEAVE
    seen = park;
    d_step { park = PARKED | (seen & BACK); park_late = false };
#else
#ifdef BAD_SECOND
    d_step { seen = park; park = PARKED; park_late = false };
#else
    d_step { seen = park; park = park ^ (SWEEPING ^ PARKED); park_late = false };
#endif
    assert((seen & SWEEPING) && !(seen & PARKED));
#endif
    if :: (seen & BACK) -> asleep = false :: else fi;
#endif
  :: else
  fi;
#ifndef BAD_LOCK
  sweep_lock = false;
#endif
  seen = 0; claimed = false
}

active proctype scavenger() {
  byte seen; bool claimed, whole, mine;
  do
  :: due ->
    /* look_at_park */
#ifndef BAD_TAKE
    d_step { due = false; due_late = true };
    due_late = false; /* seq_cst, and so is the claim */
#endif
    sweep();
#ifdef BAD_TAKE
    due = false;
#endif
    if
    :: !whole ->
      load_park(seen);
#ifndef BAD_DROP
      if
      :: seen != RUNNING && !(seen & BACK) -> make_due()
      :: else
      fi
#endif
    :: else
    fi;
    seen = 0; whole = false
  :: atomic { !due && n_done == n_all -> break }
  od;
  assert(ended || (swept && !list));
  assert(main_holder == NOBODY && other_holder == NOBODY && !(park & SWEEPING));
  assert(!ended || (claim == GONE && park == RUNNING))
}

/* ---- others ---- */

/* A free of another thread: mi__remote_push, mi__park_freed. */
proctype freer() {
  byte seen;
#ifdef BAD_FREE
  load_park(seen);
#endif
  d_step { list = true; list_late = true };
#ifndef BAD_FENCE
  list_late = false;
#endif
#ifndef BAD_FREE
  load_park(seen);
#endif
  if
  :: seen != RUNNING && !due -> make_due()
  :: else
  fi;
  d_step { list_late = false; n_done++ }
}

/* mi_purge_all */
proctype purger() {
  byte seen; bool claimed, whole, mine;
  sweep();
  n_done++
}

/* mi_heap_delete: claim_dying, tear_down */
proctype deleter() {
  bool mine;
  atomic { (claim == FREE || claim == GONE) -> mine = (claim == FREE); if :: mine -> claim = DYING :: else fi };
  if
  :: mine -> hold(other_holder); unhold(other_holder); claim = GONE
  :: else
  fi;
  n_done++
}

proctype forker() {
  d_step { hurry++ };
  atomic { !sweep_lock -> sweep_lock = true };
  assert(!(park & SWEEPING)); /* what the child finds */
  d_step { hurry--; sweep_lock = false };
  n_done++
}

init {
  atomic {
    if
    :: n_all = 3; run freer(); run purger()
    :: n_all = 2; run deleter()
    :: n_all = 2; run forker()
    fi
  }
}
