/* SPDX-License-Identifier: MIT */
/* Visits: the bit PINNED of page/remote.c, the numbers of pins of heap/visit.c.
 *
 * One record. Its owner makes a page of it with two blocks, and gives it back when both are free; or frees one, abandons the
 * page, and another thread frees the other, claims the page by that and gives it back. As soon as the slice is free a
 * later owner makes a page with the same record and gives that back too. Two visitors pin whatever page they find, look at
 * it, and unpin it; who finds it dead then deletes it.
 *
 * A loop of compare-and-swaps that decides by the word alone is one atomic step here. The plain stores that clear the record
 * are buffered, and drained by the atomic read-modify-write that marks the slice free, or at any time before.
 *
 * Safety: a page that is looked at is there, all the time, and was not dead when it was pinned; each page is deleted once,
 * and none that is pinned; a free slice has a clean record. Progress: in the end both pages are given back, and no pin is
 * left.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_STORE     the pin is taken off by a load and a store
 *   BAD_LOOK      who gives the page back looks for a pin, and clears the word in a second step
 *   BAD_OWNED     the visitor of a dead page leaves the word OWNED: it can be pinned again while it is deleted
 *   BAD_DEAD      a dead page is pinned once more, because it is pinned
 *   BAD_ONE       pins are not counted: the first visitor that is done takes the bit off
 *   BAD_CLAIM     the claim drops the bit
 *   BAD_DISOWN    the page is abandoned with the word as it was expected to be without a pin
 *   BAD_CLEAR     the slice is marked free before its record is cleared
 */

/* xremote; all of it 0: no page */
bool x_owned, x_pooled, x_pinned;
byte x_number;
#define DEAD (x_owned && x_pooled && x_pinned)
#define NO_PAGE (!x_owned && !x_pooled && !x_pinned && x_number == 0)

/* the lock of visits guards n_pins */
bool lock;
byte n_pins;

/* ghosts */
bool there;      /* the memory of the page is in use for it */
bool ended;      /* its last block is back: marked dead, or about to be deleted */
bool deleting;
bool slice_free, clear_pending;
byte n_looking, n_pages, n_done;

inline acquire() { atomic { !lock -> lock = true } }
inline release() { lock = false }

inline drain() {
  if
  :: clear_pending -> clear_pending = false; x_owned = false; x_pooled = false; x_pinned = false; x_number = 0
  :: else
  fi
}

/* mi__page_new: the store of the word is the last one. */
inline make_page() {
  d_step {
    assert(NO_PAGE && !there && n_looking == 0);
    there = true; ended = false; deleting = false; x_owned = true; n_pages++
  }
}

/* mi__page_delete */
inline delete() {
  d_step { assert(there && ended && !deleting && n_looking == 0); deleting = true };
#ifdef BAD_CLEAR
  d_step { there = false; slice_free = n_pages == 1 };
  clear_pending = true
#else
  clear_pending = true;
  atomic { drain(); assert(n_looking == 0); there = false; slice_free = n_pages == 1 }
#endif
}

/* mi__remote_end of an empty page, and what follows */
inline give_back() {
#ifdef BAD_LOOK
  pinned = x_pinned;
  d_step {
    ended = true;
    if
    :: pinned -> x_owned = true; x_pooled = true; x_pinned = true; x_number = 0
    :: else -> x_owned = false; x_pooled = false; x_pinned = false; x_number = 0
    fi
  };
#else
  d_step {
    ended = true;
    pinned = x_pinned;
    x_owned = x_pinned; x_pooled = x_pinned; x_number = 0
  };
#endif
  if :: !pinned -> delete() :: else fi
}

active proctype owner() {
  bool pinned, was;
  make_page();
  if
  :: give_back() /* both blocks were its own */
  :: /* mi__remote_disown, with one live block */
#ifdef BAD_DISOWN
     was = x_pinned;
     d_step { x_owned = false; x_number = 1; x_pinned = was }
#else
     d_step { x_owned = false; x_number = 1 }
#endif
  fi;
  n_done++
}

/* mi__remote_push of the last block, which claims the page */
active proctype freer() {
  bool pinned;
  if
  :: d_step { n_pages == 1 && !ended && !x_owned && x_number == 1 ->
       assert(there);
       x_owned = true; x_number = 0
#ifdef BAD_CLAIM
       ; x_pinned = false
#endif
     };
     give_back()
  :: n_pages == 1 && ended
  :: n_pages == 2
  fi;
  n_done++
}

active proctype later_owner() {
  bool pinned;
  atomic { slice_free -> slice_free = false };
  make_page();
  give_back();
  n_done++
}

active [2] proctype visitor() {
  bool got, dead, was_owned, was_pooled;
  byte was_number, n;
  do
  :: n < 2 ->
     n++;
     acquire();
     d_step { /* mi__remote_pin */
       got = false;
       if
       :: NO_PAGE
#ifdef BAD_DEAD
       :: DEAD && n_pins == 0
#else
       :: DEAD
#endif
       :: else -> x_pinned = true; got = true; assert(!ended); n_looking++
       fi
     };
     if :: got -> n_pins++ :: else fi;
     release();
     if
     :: got ->
        assert(there && !deleting && !clear_pending);
        assert(there && !deleting && !clear_pending);
        acquire();
        d_step { n_looking--; n_pins-- };
        dead = false;
        if
#ifdef BAD_ONE
        :: true ->
#else
        :: n_pins == 0 ->
#endif
           /* mi__remote_unpin */
#ifdef BAD_STORE
           d_step { dead = DEAD; was_owned = x_owned; was_pooled = x_pooled; was_number = x_number };
           d_step {
             x_pinned = false;
             if
             :: dead -> x_owned = false; x_pooled = false; x_number = 0
             :: else -> x_owned = was_owned; x_pooled = was_pooled; x_number = was_number
             fi
           }
#else
           d_step {
             dead = DEAD;
             x_pinned = false;
             if :: dead -> x_owned = false; x_pooled = false :: else fi
#ifdef BAD_OWNED
             ; x_owned = x_owned || dead
#endif
           }
#endif
        :: else
        fi;
        release();
        if :: dead -> delete() :: else fi
     :: else
     fi
  :: n == 2 -> break
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
  assert(n_pages == 2 && ended && !there && n_pins == 0 && NO_PAGE)
}
