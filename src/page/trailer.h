/* SPDX-License-Identifier: MIT */
/* The tracking build (--enable-valgrind): the last bytes of each block say who holds it and how
 * much was asked for. In other builds blocks have no trailer, and everything here is empty.
 *
 *   | what was asked for | hidden, 16 bytes at least | holder | size |
 *
 * The hidden bytes keep neighbours apart, so that an overrun is seen, and keep a small one away
 * from the trailer. The usable size of a block is what was asked for.
 *
 * Threads: whoever may free the block. Call with reports off (base/track.h, TRACK-2). */
#ifndef MI_PAGE_TRAILER_H
#define MI_PAGE_TRAILER_H

#include "base/track.h"
#include "page/page.h"

struct mi__trailer {
  uintptr_t holder; /* the pointer that was handed out; its complement once it is freed */
  size_t size;
};
#define MI_TRAILER_ROOM (16 + sizeof(struct mi__trailer))

/* What to ask for in place of `size`. What is too large stays what it is, for the message. */
mi__inline size_t mi__trailer_room(size_t size) {
  return MI_VALGRIND && size <= PTRDIFF_MAX ? size + MI_TRAILER_ROOM : size;
}
void mi__trailer_write(void *p, size_t size, bool zero);
void mi__trailer_strike(const struct mi_page *page, void *p);
/* The program gets p, in a block of mi__trailer_room(size) bytes at least; NULL: nothing. */
mi__inline void mi__trailer_give(void *p, size_t size, bool zero) {
  if (MI_VALGRIND && p != NULL) mi__trailer_write(p, size, zero);
}
/* The program has freed p. */
mi__inline void mi__trailer_take(const struct mi_page *page, void *p) {
  if (MI_VALGRIND) mi__trailer_strike(page, p);
}

/* The page is about to go, and what lives in it with it. */
void mi__trailer_strike_all(const struct mi_page *page);
mi__inline void mi__trailer_take_all(const struct mi_page *page) {
  if (MI_VALGRIND) mi__trailer_strike_all(page);
}

struct mi__trailer mi__trailer_read(const struct mi_page *page, const void *p);
mi__inline bool mi__trailer_is_free(const struct mi_page *page, const void *p) {
  return MI_VALGRIND && mi__trailer_read(page, p).holder == ~(uintptr_t)p;
}
/* In a page with pointers inside of blocks: is p another than was handed out last? */
mi__inline bool mi__trailer_is_astray(const struct mi_page *page, const void *p) {
  return MI_VALGRIND && mi__page_flag(page, MI_PAGE_INTERIOR) &&
         mi__trailer_read(page, p).holder != (uintptr_t)p && !mi__trailer_is_free(page, p);
}
/* Bytes that were asked for; `usable` is what the block has from p on. A trailer that the program
 * wrote over is not believed. */
size_t mi__trailer_size(const struct mi_page *page, const void *p, size_t usable);

#endif
