/* SPDX-License-Identifier: MIT */
/* Wake-ups of the scavenger: the word and `until` of rt/alarm.c, and the times that are published for it (mi__due_set).
 *
 * Two tellers publish a time each, in one word where the earliest wins, and tell. The sleeper looks at what is published, takes
 * what is due (by exchange), and sleeps until the next of it, at most until LAST. The clock stands still, so only time 1 is
 * due; a sleeper whose time comes looks again, which is why it may sleep until what it knows of.
 *
 * Read-modify-writes act on the latest value of a word, but a plain load of another process may see the value before until
 * the writer's next read-modify-write, fence, or seq_cst load of it (a store buffer of one entry, as in purge.pml). The kernel
 * reads the word under a lock of its own: the latest value, and what the sleeper wrote before may still be in its buffer.
 * That the sleeper sets `until` to 0 is a plain store, which may be seen late too.
 *
 * Progress: when all have told, and the sleeper sleeps for good, it sleeps no longer than until the earliest time that waits.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_TELLER     the teller reads `until` before it adds to the word
 *   BAD_PUBLISH    the teller tells before it has published
 *   BAD_SLEEPER    the sleeper writes `until` by a plain store
 *   BAD_LOOK       the sleeper reads the word after its look
 *   BAD_LATE       the teller wakes only who sleeps for longer than the time before, not than its own
 */

#define LAST 4 /* 30 s */
#define DUE 1  /* now */

byte word;      /* counts calls */
byte due;       /* published; 0: none */
byte until;     /* the latest value */
byte until_old; /* what others may still see */
bool until_late;
bool due_late;  /* the sleeper's exchange of `due` is in its buffer: a load of others sees */
byte due_old;
bool asleep;
byte n_done;

/* An acquire load of a teller. */
inline load_until(x) {
  atomic {
    if
    :: x = until; until_late = false
    :: until_late -> x = until_old
    fi
  }
}

/* mi__due_set: a loop of CAS, so the last value counts; a load that sees an older one that is earlier gives up. */
#define KEEPS(old, when) ((old) != 0 && (old) <= (when))
inline publish(when) {
  atomic {
    if
    :: due_late && KEEPS(due_old, when)
    :: KEEPS(due, when) -> due_late = false
    :: !KEEPS(due, when) -> due_late = false; due = when
    fi
  }
}

inline wake(when) {
#ifndef BAD_TELLER
  load_until(x);
#endif
  if
#ifdef BAD_LATE
  :: x > when + 1 -> asleep = false
#else
  :: x > when -> asleep = false
#endif
  :: else
  fi
}

active [2] proctype teller() {
  byte x, when;
  if :: when = 1 :: when = 2 :: when = 3 fi;
#ifdef BAD_PUBLISH
  word++;
  wake(when);
  publish(when);
#else
#ifdef BAD_TELLER
  load_until(x);
#endif
  publish(when);
  word++; /* seq_cst: and the load of `until` comes after it */
  wake(when);
#endif
  n_done++
}

active proctype sleeper() {
  byte seen, next;
end:
  do
  ::
#ifndef BAD_LOOK
    seen = word;
#endif
    /* mi__idle_turn: take what is due; the time of the next */
    if
    :: due == DUE -> d_step { due_old = due; due = 0; due_late = true } /* exchange */
    :: else
    fi;
    next = (due != 0 -> due : LAST);
#ifdef BAD_LOOK
    seen = word;
#endif
    if
    :: next <= DUE /* no sleep */
    :: else ->
#ifdef BAD_SLEEPER
      d_step { until_old = until; until = next; until_late = true; due_late = false };
#else
      d_step { until = next; until_late = false; due_late = false };
#endif
      /* the kernel */
      atomic { if :: word == seen -> asleep = true :: else fi };
end_asleep:
      if
      :: !asleep
      :: asleep && n_done == 2 -> /* for good, or until its time comes */
        assert(due == 0 || next <= due);
        break
      fi;
      d_step { until_old = until; until = 0; until_late = true }
    fi;
    seen = 0; next = 0
  od
}
