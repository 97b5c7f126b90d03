/* SPDX-License-Identifier: MIT */
/* Who owns a page: the word `xremote` of page/remote.c, the pool of heap/pool.c, release and reuse of a record.
 *
 * One record. Its page has three blocks; two are in use when the owner gives it up, the third is free (the page has room: it
 * is pooled) or not formed (it has none: it is not). Two threads free a block each, a taker takes the page from the pool,
 * uses it and gives it up again. When the last block is back somebody gives the slice back, and the taker may make a new
 * page of it, with the same record, and hand its one block to a third freer.
 *
 * A loop of compare-and-swaps that decides by the word alone is one atomic step here. The only plain stores that a thread
 * which does not own the page could see too late are those that clear the record; they are buffered, and drained by the
 * atomic read-modify-write that marks the slice free, or at any time before.
 *
 * Safety: only its owner touches the record; a page that is given back has no block in use; a claimed slice has a clean
 * record; the pool's links are whole. Progress: when all threads are done the page is given back (nothing is lost).
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_DISOWN    a store instead of the CAS: blocks that came in meanwhile are lost
 *   BAD_LAST      the last live block is pushed onto a pooled page without a claim
 *   BAD_LINK      the page is disowned as pooled before it is linked
 *   BAD_CLEAR     the slice is marked free before its record is cleared
 *   BAD_NUMBER    disown leaves the number of a take (0) instead of the blocks that are live
 *   BAD_REMOVE    an empty page is given back while it is linked
 */

#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define NOBODY 255

/* xremote */
bool x_owned, x_pooled;
byte x_number, x_list;

/* the record's first line: the owner's */
byte used, free_list;
bool on_pool; /* page->list == MI_LIST_POOL */

/* the pool */
bool pool_lock, in_pool;

/* ghosts */
byte owner = NOBODY;
byte in_use;          /* blocks that the program, or a push under way, holds */
bool alive, slice_free;
bool clear_pending;
byte n_done, n_pages;

chan third = [1] of { byte }; /* the block of the second page */

inline drain() {
  if
  :: clear_pending -> clear_pending = false; x_owned = false; x_pooled = false; x_number = 0; x_list = 0
  :: else
  fi
}

inline lock_pool() { atomic { !pool_lock -> pool_lock = true } }
inline unlock_pool() { pool_lock = false }

inline pool_put() {
  lock_pool();
  d_step { assert(owner == _pid && !in_pool); in_pool = true; on_pool = true };
  unlock_pool()
}

inline pool_remove() {
  lock_pool();
  d_step { assert(owner == _pid && in_pool); in_pool = false; on_pool = false };
  unlock_pool()
}

/* mi__page_release: the lists are walked, the record cleared, the slice marked free. */
inline release() {
#ifndef BAD_REMOVE
  if :: on_pool -> pool_remove() :: else fi;
#endif
  d_step { assert(owner == _pid && in_use == 0 && used == 0); owner = NOBODY; alive = false; on_pool = false };
#ifdef BAD_CLEAR
  slice_free = true;
  clear_pending = true
#else
  clear_pending = true;
  atomic { drain(); slice_free = true }
#endif
}

inline settle(list) {
  d_step { assert(owner == _pid); used = used - COUNT(list); free_list = free_list | list; list = 0 }
}

/* mi__page_abandon */
inline abandon() {
  gone = false;
  do
  :: gone -> break
  :: else ->
    d_step { /* mi__remote_take: exchange */
      assert(owner == _pid && alive && x_owned && x_number == COUNT(x_list));
      taken = x_list; x_list = 0; x_number = 0
    };
    settle(taken);
    if
    :: used == 0 -> release(); gone = true
    :: else ->
#ifndef BAD_LINK
      if :: !on_pool && free_list != 0 -> pool_put() :: else fi;
#endif
      /* mi__remote_disown: CAS */
      d_step {
        if
#ifdef BAD_DISOWN
        :: true ->
#else
        :: x_list == 0 ->
#endif
          owner = NOBODY; x_owned = false; x_list = 0; gone = true;
          x_pooled = on_pool;
#ifdef BAD_LINK
          x_pooled = on_pool || free_list != 0;
#endif
          x_number = used
#ifdef BAD_NUMBER
          ; x_number = 0
#endif
        :: else
        fi
      }
#ifdef BAD_LINK
      if
      :: gone && !on_pool && free_list != 0 ->
        lock_pool(); in_pool = true; on_pool = true; unlock_pool()
      :: else
      fi
#endif
    fi
  od
}

/* mi__remote_push of one block; `want`: claim in any case; `wait`: too few frees for a claim of a page that is not pooled. */
inline push(block) {
  d_step {
    assert(alive && (in_use & block) != 0);
    in_use = in_use & ~block;
    claimed = false;
    if
    :: x_owned -> x_list = x_list | block; x_number++
    :: else ->
      assert(x_number > 0);
      x_number--;
      if
#ifdef BAD_LAST
      :: (x_pooled || wait) && !want -> x_list = x_list | block
#else
      :: x_number > 0 && (x_pooled || wait) && !want -> x_list = x_list | block
#endif
      :: else ->
        assert(owner == NOBODY);
        owner = _pid; claimed = true;
        taken = x_list | block;
        assert(used - x_number == COUNT(taken));
        x_owned = true; x_pooled = false; x_list = 0; x_number = 0
      fi
    fi
  };
  if
  :: claimed -> settle(taken); abandon()
  :: else
  fi
}

active proctype first_owner() {
  bool gone; byte taken;
  d_step { owner = _pid; alive = true; x_owned = true; used = 2; in_use = 3; n_pages = 1 };
  if
  :: free_list = 4 /* room */
  :: skip          /* full */
  fi;
  abandon();
  n_done++
}

active [2] proctype freer() {
  bool gone, claimed, want, wait; byte taken, block;
  n_pages > 0;
  block = _pid; /* 1 and 2, one bit each */
  if :: want = true :: want = false fi;
  if :: wait = true :: wait = false fi;
  push(block);
  n_done++
}

active proctype third_freer() {
  bool gone, claimed, want, wait; byte taken, block;
  if
  :: third ? block -> push(block)
  :: n_done >= 4 && empty(third)
  fi;
  n_done++
}

active proctype taker() {
  bool gone; byte taken, tries;
  n_pages > 0;
  do
  :: tries < 2 ->
    tries++;
    lock_pool();
    d_step { /* mi__remote_claim */
      taken = 0;
      gone = true;
      if
      :: in_pool && !x_owned && x_pooled ->
        assert(alive && owner == NOBODY);
        owner = _pid; gone = false;
        taken = x_list;
        assert(used - x_number == COUNT(taken));
        x_owned = true; x_pooled = false; x_list = 0; x_number = 0
      :: else
      fi
    };
    if
    :: !gone -> d_step { assert(in_pool && on_pool); in_pool = false; on_pool = false }
    :: else
    fi;
    unlock_pool();
    if
    :: !gone ->
      settle(taken);
      /* take the free blocks for a ready list, and give them back */
      d_step { taken = free_list; free_list = 0; used = used + COUNT(taken) };
      settle(taken);
      abandon()
    :: else
    fi
  :: atomic { slice_free && n_pages == 1 -> slice_free = false; n_pages = 2 } ->
    /* a new page in the same record */
    d_step {
      assert(!x_owned && x_list == 0 && x_number == 0 && !in_pool && !alive && owner == NOBODY);
      owner = _pid; alive = true; used = 1; free_list = 0; in_use = 1; x_owned = true; x_pooled = false
    };
    if :: free_list = 2 :: skip fi;
    third ! 1;
    abandon()
  :: tries == 2 -> break
  od;
  n_done++
}

active proctype store_buffer() {
  do
  :: atomic { clear_pending -> drain() }
  :: n_done == 5 -> break
  od
}

active proctype at_the_end() {
  n_done == 5;
  assert(!alive && owner == NOBODY && in_use == 0 && !in_pool && slice_free)
}
