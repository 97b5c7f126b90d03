/* SPDX-License-Identifier: MIT */
#include "arena/stable.h"
#include "arena/meta.h"
#include "base/bits.h"
#include "base/check.h"
#include "os/os.h"
#include <string.h>

#define ALIGN ((size_t)4096)
/* Free records that keep their memory: a program that makes and destroys heaps all the time, by
 * some threads at once, uses the same few again. */
#define N_KEEP 64u

/* Room for one more entry is made when a record is, so that freeing never fails. */
static bool make_room(struct mi__stable *kind) {
  if (kind->n_all < kind->n_room) return true;
  uint32_t n = kind->n_room == 0 ? 64 : 2 * kind->n_room;
  struct mi__stable_entry *stack = mi__meta_alloc(n * sizeof *stack, MI_CACHE_LINE);
  if (stack == NULL) return false;
  if (kind->n_free > 0) memcpy(stack, kind->free, kind->n_free * sizeof *stack);
  kind->free = stack;
  kind->n_room = n;
  return true;
}

void *mi__stable_alloc(struct mi__stable *kind, size_t *tag) {
  if (kind->n_free > 0) {
    struct mi__stable_entry last = kind->free[--kind->n_free];
    if (kind->n_discarded > kind->n_free) kind->n_discarded = kind->n_free;
    *tag = last.tag;
    return last.record;
  }
  *tag = 0;
  if (!make_room(kind)) return NULL;
  void *record = mi__meta_alloc(mi__align_up(kind->size, ALIGN), ALIGN);
  if (record != NULL) kind->n_all++;
  return record;
}

void mi__stable_free(struct mi__stable *kind, void *record, size_t tag) {
  mi__assert(kind->n_free < kind->n_all);
  kind->free[kind->n_free++] = (struct mi__stable_entry){record, tag};
  if (kind->n_free - kind->n_discarded <= N_KEEP) return;
  /* Where the memory is not given back the record stays as it was freed, which is as good. */
  void *lowest = kind->free[kind->n_discarded++].record;
  size_t size = mi__align_up(kind->size, ALIGN);
  if (size % mi__os_facts.page_size == 0 && (uintptr_t)lowest % mi__os_facts.page_size == 0) {
    (void)mi__os_discard(lowest, size, false);
  }
}
