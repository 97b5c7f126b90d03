/* SPDX-License-Identifier: MIT */
/* The move of a page when its heap is deleted (heap/pool.c: mi__pool_evict, mi__pool_hold, mi__pool_leave), and what is
 * counted meanwhile (heap/account.c, the bit COUNTED of page/remote.h).
 *
 * One page of heap H, which nobody owns, with two live blocks, or one huge block. It is linked in a pool of H. H is deleted:
 * whoever does so moves the page to the heap TO. That is the main heap of the process, which never ends: of it only pages
 * with room are linked, their links are guarded by another lock, and frees into them are counted as they come; or that of
 * a sub-process, which is a heap like H. Two threads free a block each (or the one), and a taker takes the page from the
 * pool of TO and gives it up again.
 *
 * A loop of compare-and-swaps that decides by the word alone is one atomic step here. The store of page->heap is buffered,
 * and drained by the atomic read-modify-write that releases the lock, or at any time before; it is a release, so it is not
 * seen before what was stored earlier.
 *
 * Safety: nobody looks at a page that was given back; links are changed under the lock of the heap whose pool has the page;
 * nothing is done to H once it has ended, whose counts are then 0. Progress: when all threads are done the page was given
 * back once, and all counts are 0.
 *
 * Known-bad variants, each of which must be rejected:
 *   BAD_RECHECK   who waited for the lock of the page's heap does not look whether it still is the page's heap
 *   BAD_LATE      page->heap is stored after the lock of H is released
 *   BAD_ORDER     page->heap is stored before the page is unlinked: who sees it finds the old list
 *   BAD_HOLD      who gives the page back takes it off the counts without the lock of its heap
 *   BAD_OTHERS    a page that is just being freed is counted in TO with all blocks that it had when it was abandoned
 *   BAD_TOUCH     a page that somebody else has claimed is abandoned by who moves it
 *   BAD_COUNTED   a page of the main heap is abandoned without the bit COUNTED
 *   BAD_ALWAYS    a page of another heap is abandoned with the bit COUNTED
 *   BAD_LAST      the free that claims a page of the main heap does not count its own block
 *   BAD_TAKE      who takes a page of the main heap counts the frees that came before once more
 *   BAD_MOVING    who frees a huge page that is being moved gives it back itself
 */

#define H 0
#define TO 1
#define NONE 0
#define POOL 1
#define MOVING 2
#define IS_MAIN(h) ((h) == TO && to_main)
#define IS_HUGE (kind == 1)

/* chosen at the start */
bool started, to_main, room;
byte kind;

/* the word */
bool x_owned, x_pooled, x_counted;
byte x_number, x_list;

/* the record */
byte heap = H, list = POOL;
bool heap_pending;
byte used, n_counted;

/* the heaps */
bool lock[2], linked[2];
short blocks[2], pages[2], abandoned[2];

/* ghosts */
bool alive = true, ended;
byte n_done;

inline acquire(h) { atomic { !lock[h] -> lock[h] = true } }
inline drain() {
  if
  :: heap_pending -> heap_pending = false; heap = TO
  :: else
  fi
}
inline release(h) { lock[h] = false }

/* lock_heap_of */
inline lock_heap(h) {
  do
  :: d_step { assert(alive); h = heap };
     acquire(h);
#ifdef BAD_RECHECK
     break
#else
     if
     :: heap == h -> break
     :: else -> release(h)
     fi
#endif
  od
}

inline link(h) { d_step { assert(alive && lock[h] && !linked[H] && !linked[TO]); linked[h] = true; list = POOL } }
inline unlink(h) { d_step { assert(alive && lock[h] && linked[h]); linked[h] = false; list = NONE } }

inline pool_put(h) { lock_heap(h); link(h); release(h) }
inline pool_remove(h) {
  lock_heap(h);
  if :: list == POOL -> unlink(h) :: else fi;
  release(h)
}

inline delete() { d_step { assert(alive && !linked[H] && !linked[TO]); alive = false } }

/* give_back of heap/theap.c */
inline give_back() {
  /* mi__pool_hold */
  d_step { assert(alive); h = heap };
  if
  :: IS_MAIN(h)
  :: else ->
     lock_heap(h);
     if :: IS_MAIN(h) -> release(h) :: else fi
  fi;
#ifdef BAD_HOLD
  if :: !IS_MAIN(h) -> release(h) :: else fi;
#endif
  d_step {
    assert(h == TO || !ended);
    if
    :: IS_HUGE -> blocks[h]--
    :: else -> abandoned[h]--; blocks[h] = blocks[h] - n_counted; n_counted = 0
    fi;
    pages[h]--
  };
#ifdef BAD_HOLD
  if :: !IS_MAIN(h) -> acquire(h) :: else fi;
#endif
  /* mi__pool_leave */
  gone = true;
  if
  :: IS_MAIN(h) ->
     if :: list == POOL -> pool_remove(h) :: else fi
  :: else ->
#ifndef BAD_MOVING
     gone = list != MOVING;
#endif
     if :: list == POOL -> unlink(h) :: else fi;
     list = NONE;
     release(h)
  fi;
  if :: gone -> delete() :: else fi
}

/* mi__page_abandon of a page that no thread had */
inline abandon() {
  pooled = false;
  gone = false;
  do
  :: gone -> break
  :: else ->
     d_step { assert(alive && x_owned); used = used - x_list; x_list = 0; x_number = 0 };
     if
     :: used == 0 -> give_back(); gone = true
     :: else ->
        h = heap;
        d_step {
          assert(h == TO || !ended);
          blocks[h] = blocks[h] + used - n_counted;
          n_counted = used;
          main_heap = IS_MAIN(h)
        };
        if
        :: !pooled && (!main_heap || room) -> pool_put(h); pooled = true
        :: else
        fi;
        d_step { /* mi__remote_disown */
          if
          :: x_list == 0 ->
             x_owned = false; x_pooled = pooled; x_number = used; gone = true;
#ifdef BAD_COUNTED
             x_counted = false
#else
#ifdef BAD_ALWAYS
             x_counted = true
#else
             x_counted = main_heap
#endif
#endif
          :: else
          fi
        }
     fi
  od
}

/* A page of blocks: the claim of who moves or takes it. */
inline claim() {
  d_step {
    got = !x_owned && x_pooled;
    if
    :: got -> n = used - x_number; x_owned = true; x_pooled = false; x_counted = false; x_number = 0; x_list = 0
    :: else
    fi
  }
}

/* mi__remote_push of one block, and mi__page_claimed. A page of TO may be claimed to be kept, and one that is not pooled
 * because enough of it is free. */
inline free_block() {
  atomic {
    assert(alive);
    if
    :: x_owned -> x_list++; x_number++
    :: !x_owned && x_number > 1 -> x_number--; x_list++; was_counted = x_counted
    :: !x_owned && (x_number == 1 || !x_pooled || heap == TO) ->
       got = true; n = used - (x_number - 1);
       x_owned = true; x_pooled = false; x_counted = false; x_number = 0; x_list = 0
    fi
  };
  if :: was_counted -> blocks[TO]--; was_counted = false :: else fi;
  if
  :: got ->
     used = used - n;
     h = heap;
     main_heap = IS_MAIN(h);
     if
     :: main_heap ->
#ifdef BAD_LAST
        n_counted = used
#else
        n_counted = used + 1
#endif
     :: else
     fi;
     if
     :: (main_heap && list == POOL) || (!main_heap && used > 0) -> pool_remove(h)
     :: else
     fi;
     abandon()
  :: else
  fi
}

/* What is in the variables of a thread that is done makes no states of its own. */
inline forget() { d_step { h = 0; n = 0; pooled = false; gone = false; got = false; main_heap = false } }

active [2] proctype freer() {
  byte h; short n; bool pooled, gone, got, main_heap, was_counted;
  started;
  if
  :: !IS_HUGE -> free_block()
  :: IS_HUGE && _pid == 0 -> give_back()
  :: IS_HUGE && _pid == 1
  fi;
  forget();
  n_done++
}

active proctype deleter() {
  byte h; short n, m; bool pooled, gone, got, main_heap;
  atomic {
    if :: to_main = true :: to_main = false fi;
    if :: room = true :: room = false fi;
    if :: kind = 0 :: kind = 1 fi;
    linked[H] = true; pages[H] = 1;
    if
    :: IS_HUGE -> used = 1; blocks[H] = 1; x_owned = true
    :: else -> used = 2; n_counted = 2; x_number = 2; x_pooled = true; blocks[H] = 2; abandoned[H] = 1
    fi;
    started = true
  };
  do
  :: acquire(H);
     if
     :: !linked[H] -> release(H); break
     :: else
     fi;
     if
     :: IS_HUGE -> got = true
     :: else -> claim()
     fi;
#ifdef BAD_ORDER
     heap = TO;
#endif
     unlink(H);
     /* move_locked */
     d_step {
       assert(!ended && !heap_pending);
       if
       :: IS_HUGE -> m = 1
       :: else ->
#ifndef BAD_OTHERS
          if :: !got -> blocks[H] = blocks[H] + 1 - n_counted; n_counted = 1 :: else fi;
#endif
          m = n_counted;
          abandoned[H]--; abandoned[TO]++
       fi;
       pages[H]--; pages[TO]++;
       blocks[H] = blocks[H] - m; blocks[TO] = blocks[TO] + m
     };
     if :: IS_HUGE && !to_main -> list = MOVING :: else fi;
#ifdef BAD_LATE
     release(H);
     heap_pending = true;
#else
#ifndef BAD_ORDER
     heap_pending = true;
#endif
     atomic { drain(); release(H) };
#endif
     if
     :: IS_HUGE && !to_main ->
        /* mi__pool_put_moved */
        lock_heap(h);
        got = list == MOVING;
        if :: got -> link(h) :: else fi;
        release(h);
        if :: !got -> delete() :: else fi
     :: !IS_HUGE && got -> used = used - n; abandon()
#ifdef BAD_TOUCH
     :: !IS_HUGE && !got -> abandon()
#endif
     :: else
     fi
  od;
  atomic { assert(blocks[H] == 0 && pages[H] == 0 && abandoned[H] == 0); ended = true };
  forget();
  n_done++
}

/* mi__pool_take: a refill of TO; its thread ends then. */
active proctype taker() {
  byte h; short n; bool pooled, gone, got, main_heap;
  started;
  acquire(TO);
  got = false;
  if
  :: linked[TO] && !IS_HUGE -> claim()
  :: else
  fi;
  if :: got -> unlink(TO) :: else fi;
  release(TO);
  if
  :: got ->
     used = used - n;
#ifndef BAD_TAKE
     if :: to_main -> n_counted = used :: else fi;
#endif
     abandon()
  :: else
  fi;
  forget();
  n_done++
}

active proctype store_buffer() {
  do
  :: atomic { heap_pending -> drain() }
  :: n_done == 4 && !heap_pending -> break
  od
}

active proctype at_the_end() {
  n_done == 4;
  assert(!alive && ended);
  assert(blocks[TO] == 0 && pages[TO] == 0 && abandoned[TO] == 0);
  assert(!linked[H] && !linked[TO] && !lock[H] && !lock[TO])
}
