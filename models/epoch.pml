/* SPDX-License-Identifier: MIT */
/* The epochs by which large pages in use keep their memory: the number, when it began, who moves it, what a page keeps of it.
 *
 * A sweeper looks at the clock at the beginning of a sweep. If the epoch is as old as the interval, it claims the move by CAS,
 * looks again with a fresh time, adds one, reads the clock once more, records that time as the beginning, and lets go. Then
 * its sweep claims the page, reads the epoch, and takes the page's free blocks if their stamp is two epochs old. The owner of
 * the page allocates from it when it has it, and leaves the epoch that it has read as the stamp. One of: an owner and two
 * sweepers; three sweepers; two sweepers and a fork at any step, whose child clears the claim, begins the epoch anew, and has
 * two sweepers of its own. The clock may go on between any two steps, and everybody may rest at any step.
 *
 * The step of the epoch and the claims are read-modify-writes, which act on the latest value. The beginning is a plain store,
 * which others may see late: a load sees the value before until the writer's next read-modify-write, or until another gets
 * the claim, which the writer has released after it. Times are unsigned: one that was read before the beginning lies far
 * behind it. The epoch counts modulo EPOCHS, which stands for 2^32; the real steps are counted beside it.
 *
 * Safety: between two steps of the epoch lies an interval by the clock; a sweep takes no page from which a block was allocated
 * within the interval before; a page of the last two epochs stays, an older one goes.
 * Progress: a claim fails only while a living thread holds it.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_EARLY      the beginning is recorded before the epoch is moved
 *   BAD_CLOCK      the beginning is the time of the look under the claim
 *   BAD_READING    the beginning is the time of the look before the claim
 *   BAD_ALONE      no exclusion: nothing is claimed
 *   BAD_STORE      the claim is a load and a store
 *   BAD_AGAIN      nobody looks again under the claim
 *   BAD_CHILD      the fork child goes on with the beginning that it finds
 *   BAD_FLAG       the fork child does not clear the claim
 *   BAD_LATE       the epoch is moved by a plain store, which others may see late
 *   BAD_BEFORE     the sweep reads the epoch before it claims the page, whose stamp may then be the newer one
 *   BAD_ONE        a page that is one epoch old is taken
 *   BAD_WRAP       stamps are compared as numbers, not modulo
 */

#define INTERVAL 2
#define FIRST 2  /* time and epoch at the start; the epoch wraps in the first steps */
#define LAST 7   /* the clock ends here */
#define EPOCHS 4 /* modulus of the number */
#define NOBODY 255

byte clock = FIRST; /* true time */

/* what the threads share */
byte epoch = FIRST;
byte began = FIRST;
bool moving;        /* the claim of the move */
byte page = NOBODY; /* who has it */
byte stamp = FIRST; /* belongs to who has the page */

/* store buffer: what others may still see */
bool late;
byte writer, began_old, epoch_old;

/* ghosts */
byte n_holders;                /* living threads with the claim */
byte since_move = INTERVAL;    /* ticks, at most INTERVAL */
byte since_use = INTERVAL;     /* since the page's owner read the epoch for its stamp */
byte steps_since_use;          /* at most EPOCHS */
bool forked;

/* Others may see it late, from here on. */
inline buffer() { began_old = began; epoch_old = epoch; late = true; writer = _pid }
/* Read-modify-writes. */
inline drain() { if :: late && writer == _pid -> late = false :: else fi }

inline load_epoch(x) {
  atomic {
    if
    :: x = epoch
#ifdef BAD_LATE
    :: late && writer != _pid -> x = epoch_old
#endif
    fi
  }
}

/* Unsigned: a time before the beginning is far behind it. */
#define IS_OVER(time, since) ((time) < (since) || (time) - (since) >= INTERVAL)
#define AGE(seen) (((seen) + EPOCHS - stamp) % EPOCHS)
#ifdef BAD_ONE
#define IS_OLD(seen) (AGE(seen) >= 1)
#elif defined(BAD_WRAP)
#define IS_OLD(seen) ((seen) >= stamp + 2)
#else
#define IS_OLD(seen) (AGE(seen) >= 2)
#endif

inline claim_move() {
#ifdef BAD_ALONE
  d_step { mine = true; n_holders++ }
#elif defined(BAD_STORE)
  mine = !moving;
  d_step { if :: mine -> moving = true; n_holders++ :: else fi }
#else
  d_step {
    mine = !moving;
    assert(mine || n_holders > 0);
    if :: mine -> moving = true; n_holders++; late = false :: else fi
  }
#endif
}

inline step() {
  d_step {
    assert(since_move >= INTERVAL);
    since_move = 0;
    if :: steps_since_use < EPOCHS -> steps_since_use++ :: else fi;
#ifdef BAD_LATE
    buffer();
#else
    drain();
#endif
    epoch = (epoch + 1) % EPOCHS
  }
}

inline record() {
  d_step {
    if :: late && writer == _pid -> skip :: else -> buffer() fi;
    began = now
  }
}

#define DONE_WITH(x) /* fewer states */ x = 0

inline look(time) {
  atomic {
    if
    :: over = IS_OVER(time, began)
    :: late && writer != _pid -> over = IS_OVER(time, began_old)
    fi
  }
}

inline move_epoch() {
  now = clock;
  look(now);
#ifndef BAD_READING
  DONE_WITH(now);
#endif
  if
  :: !over
  :: else ->
    claim_move();
    if
    :: !mine /* somebody else moves it */
    :: else ->
#ifdef BAD_READING
      again = clock;
      look(again);
#elif !defined(BAD_AGAIN)
      now = clock;
      look(now);
#endif
      if
      :: over ->
#ifdef BAD_EARLY
        now = clock;
        record();
        step()
#elif defined(BAD_CLOCK) || defined(BAD_READING)
        step();
        record()
#else
        DONE_WITH(now);
        step();
        now = clock;
        record()
#endif
      :: else
      fi;
      d_step { moving = false; n_holders-- } /* release */
    fi
  fi;
  d_step { now = 0; over = false; mine = false; again = 0 }
}

inline take_old() {
#ifdef BAD_BEFORE
  load_epoch(seen);
#endif
  if
  :: d_step { page == NOBODY -> page = _pid; drain() };
#ifndef BAD_BEFORE
    load_epoch(seen);
#endif
    d_step {
      assert(!IS_OLD(seen) || since_use >= INTERVAL);
      /* The epoch may have moved since it was read. */
      assert(seen != epoch || steps_since_use >= EPOCHS || IS_OLD(seen) == (steps_since_use >= 2));
      page = NOBODY
    }
  :: page != NOBODY
  fi;
  DONE_WITH(seen)
}

proctype sweeper(bool takes) {
  byte now, again, seen;
  bool over, mine, in_child;
end:
  do
  :: { move_epoch(); if :: takes -> take_old() :: else fi }
     unless { forked && !in_child };
     if
     :: forked && !in_child -> /* it is gone; the child has a new one */
       d_step { now = 0; again = 0; seen = 0; over = false; mine = false; in_child = true }
     :: else
     fi
  od
}

proctype owner() {
  byte seen;
end:
  do
  :: d_step { page == NOBODY -> page = _pid };
    atomic { load_epoch(seen); since_use = 0; steps_since_use = 0 };
    stamp = seen;
    d_step { seen = 0; page = NOBODY }
  od
}

proctype forker() {
end:
  atomic {
    true ->
    forked = true;
    if
    :: late = false
    :: late -> late = false; began = began_old /* it was in the buffer of another processor */
    fi;
    n_holders = 0;
#ifndef BAD_FLAG
    moving = false;
#endif
#ifndef BAD_CHILD
    began = clock
#endif
  }
}

proctype time() {
end:
  do
  :: d_step {
      clock < LAST -> clock++;
      if :: since_move < INTERVAL -> since_move++ :: else fi;
      if :: since_use < INTERVAL -> since_use++ :: else fi
    }
  od
}

init {
  atomic {
    run time();
    if
    :: run owner(); run sweeper(true); run sweeper(true)
    :: run sweeper(false); run sweeper(false); run sweeper(false)
    :: run sweeper(false); run sweeper(false); run forker()
    fi
  }
}
