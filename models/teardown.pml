/* SPDX-License-Identifier: MIT */
/* The ends of threads and heaps: the claim word of heap/teardown.c, the lists of heap/registry.c.
 *
 * One record of a theap. It belongs to thread A and heap H, and is linked in the lists of both. A works on its theaps (a
 * collection), and ends; meanwhile H is deleted. One of the two ends tears the theap down, the other waits for it, and
 * looks again. The record is then used for another theap, of a thread and a heap that nobody ends: its owner uses it without
 * a claim, as owners do. At last the records of thread A and heap H are free.
 *
 * The claim word is changed by atomic read-modify-writes only, and all plain accesses are under a lock or under the claim,
 * so store buffers change nothing here, but for the sleepers' bit: a store of the word and a load of the bit are two steps
 * in the variant BAD_STORE.
 *
 * Safety: one holder of the theap at a time; nobody claims what it has not found on a list; a theap that is linked has a
 * thread and a heap. Progress: nobody sleeps for ever, both ends come to theirs (no invalid end state).
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_NO_CLAIM  a theap is torn down by whoever finds it on a list
 *   BAD_NO_SEQ    a claim compares the state only, not the sequence number
 *   BAD_LOCKED    a claim is waited for with the lock of the lists held
 *   BAD_STORE     the claim is left by a load of the sleepers' bit and then a store
 *   BAD_UNLINK    the claim is left before the theap is unlinked
 */

#define NOBODY 255
mtype = { FREE, WORK, DYING };

/* the claim word */
mtype state = FREE;
byte seq = 1;
bool sleepers;

/* who sleeps on it */
bool asleep[3];

/* the lists, under the lock: is the record linked for A and H, or for the later owner? */
bool lock;
bool linked = true, linked_later;
bool record_free;

/* ghosts */
byte holder = NOBODY;
bool thread_ended, heap_ended, later_done;

inline acquire() { atomic { !lock -> lock = true } }
inline release() { lock = false }

inline hold() { d_step { assert(holder == NOBODY); holder = _pid } }
inline unhold() { d_step { assert(holder == _pid); holder = NOBODY } }

/* leave: exchange the word, and wake whoever was marked in what it was before */
inline leave(new_seq) {
#ifdef BAD_STORE
  had = sleepers;
  d_step { state = FREE; seq = new_seq; sleepers = false };
#else
  d_step { had = sleepers; state = FREE; seq = new_seq; sleepers = false };
#endif
  if
  :: had -> d_step { asleep[0] = false; asleep[1] = false; asleep[2] = false }
  :: else
  fi
}

/* claim_dying: won, or it is another theap by now */
inline claim_dying(s) {
  won = false;
  do
  :: atomic {
       (seq != s) ->
#ifdef BAD_NO_SEQ
       skip
#else
       break
#endif
     }
  :: atomic { (state == FREE && seq == s) -> state = DYING; won = true; break }
#ifdef BAD_NO_SEQ
  :: atomic { (state == FREE && seq != s) -> state = DYING; won = true; break }
#endif
  :: atomic { (state != FREE && seq == s) -> seen = state; sleepers = true };
     /* futex wait: sleeps only while the word is what it was */
     atomic {
       if
       :: (state == seen && seq == s && sleepers) -> asleep[_pid] = true
       :: else
       fi
     };
     !asleep[_pid]
  od
}

inline tear_down() {
  hold(); /* the pages leave the theap */
  assert(!thread_ended || !heap_ended);
  unhold();
#ifdef BAD_UNLINK
  leave(0);
  acquire();
  d_step { linked = false; record_free = true };
  release()
#else
  acquire();
  linked = false;
  leave(0);
  record_free = true;
  release()
#endif
}

/* tear_down_list, for the list of thread A or of heap H */
inline tear_down_list() {
  do
  :: acquire();
     if
     :: !linked -> release(); break
     :: else -> s = seq
     fi;
#ifdef BAD_NO_CLAIM
     release();
     won = true;
#else
#ifdef BAD_LOCKED
     claim_dying(s);
     release();
#else
     release();
     claim_dying(s);
#endif
#endif
     if :: won -> tear_down() :: else fi
  od
}

/* pid 0: thread A, which works on its theaps once, and ends. */
active proctype thread_a() {
  byte s; mtype seen; bool won, had, mine;
  acquire();
  mine = false;
  if
  :: linked -> atomic { if :: (state == FREE) -> state = WORK; mine = true :: else fi }
  :: else
  fi;
  release();
  if
  :: mine ->
     hold();
     unhold();
     acquire();
     assert(linked && !heap_ended);
     leave(seq);
     release()
  :: else
  fi;
  tear_down_list();
  assert(!linked);
  thread_ended = true
}

/* pid 1: whoever deletes heap H. */
active proctype deleter() {
  byte s; mtype seen; bool won, had;
  tear_down_list();
  assert(!linked);
  heap_ended = true
}

/* pid 2: a thread that makes a theap of another heap, from the free record, and uses it. */
active proctype later() {
  acquire();
  do
  :: record_free -> break
  :: else -> release(); acquire()
  od;
  record_free = false;
  linked_later = true;
  d_step { assert(state == FREE); seq = 2 };
  release();
  hold();
  assert(state == FREE); /* nobody may claim it: both its ends are far away */
  unhold();
  later_done = true
}
