/* SPDX-License-Identifier: MIT */
/* Type-stable records: memory that stays a record of its kind for ever, so that who has a pointer
 * to one may look at it after it was freed, and finds either what it was, or zeros, or another
 * record of the kind.
 *
 * A record is handed out as it was freed (the user leaves it as new) or filled with zeros. Of those
 * that are free a few stay as they are; the memory of the others goes back to the system.
 * Threads: whoever holds the lock that the kind is used under. */
#ifndef MI_ARENA_STABLE_H
#define MI_ARENA_STABLE_H

#include "base/compiler.h"

struct mi__stable_entry {
  void *record;
  size_t tag;
};
struct mi__stable {
  size_t size;       /* of a record, bytes; set by the user */
  struct mi__stable_entry *free; /* a stack; the lowest n_discarded read as zeros */
  uint32_t n_free, n_discarded;
  uint32_t n_all, n_room; /* records there are; entries that the stack can hold: no less */
};

/* A record at a multiple of 4096, zero or as it was freed. *tag: what it was freed with, also where
 * nothing else is left of it; 0: it is a fresh one. NULL: no memory. */
void *mi__stable_alloc(struct mi__stable *kind, size_t *tag);
void mi__stable_free(struct mi__stable *kind, void *record, size_t tag);

#endif
