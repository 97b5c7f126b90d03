/* SPDX-License-Identifier: MIT */
#include "page/remote.h"

static uint64_t word(uint32_t number, const struct mi_block *list, uint64_t bits) {
  return ((uint64_t)number << MI_REMOTE_SHIFT) | (uint64_t)(uintptr_t)list | bits;
}

static uint64_t owned(uint64_t old) { return MI_REMOTE_OWNED | (old & MI_REMOTE_PINNED); }

/* Debug build: is one of the first n of the list free already? */
static bool has_double(const struct mi_page *page, const struct mi_block *list, uint32_t n) {
  for (uint32_t i = 0; i < n && list != NULL && mi__page_is_block(page, list); i++) {
    if (mi__page_list_has(page, page->free, list, UINT32_MAX)) return true;
    list = list->next;
  }
  return false;
}

void mi__remote_settle(struct mi_page *page, struct mi_block *list, uint32_t n) {
  uint32_t put;
  if (MI_DEBUG && has_double(page, list, n)) {
    mi__page_set_fault(page, MI_FAULT_TWICE);
    return;
  }
  /* Pushed twice in a row, the one way to this that needs no write to a free block. */
  bool twice = n > 1 && list->next == list;
  enum mi__fault fault = mi__page_put_back(page, list, n, MI_FAULT_REMOTE, &put);
  if (mi__likely(fault == MI_FAULT_NONE)) return;
  mi__page_set_fault(page, twice ? MI_FAULT_TWICE : fault);
}

enum mi__push_result mi__remote_push(const struct mi__run *run, bool want) {
  struct mi_page *page = run->page;
  uint64_t old = mi__load(&page->xremote, relaxed);
  for (;;) {
    uint32_t number = mi__remote_number(old);
    run->tail->next = (struct mi_block *)(uintptr_t)(old & MI_REMOTE_LIST);
    if (old & MI_REMOTE_OWNED) {
      if (number + run->n > page->n_blocks) return MI_REFUSED;
      uint64_t new = word(number + run->n, run->head, old & MI_REMOTE_DEAD);
      /* Release: pairs with the acquire of mi__remote_take. */
      if (mi__cas_weak(&page->xremote, &old, new, release)) return MI_PUSHED;
    } else {
      if (number < run->n) return MI_REFUSED;
      uint32_t live = number - run->n;
      bool wait = (old & MI_REMOTE_POOLED) || live > page->n_blocks - mi__remote_batch(page);
      if (live > 0 && wait && !want) {
        uint64_t new = word(live, run->head, old & (MI_REMOTE_DEAD | MI_REMOTE_COUNTED));
        if (mi__cas_weak(&page->xremote, &old, new, release))
          return old & MI_REMOTE_COUNTED ? MI_LEFT_COUNTED : MI_LEFT;
        /* Acquire: pairs with the release of mi__remote_disown and of the pushes since. */
      } else if (mi__cas_weak(&page->xremote, &old, owned(old), acq_rel)) {
        mi__remote_settle(page, run->head, mi__page_used(page) - live);
        return MI_CLAIMED;
      }
    }
  }
}

void mi__remote_collect(struct mi_page *page) {
  uint32_t n;
  struct mi_block *list = mi__remote_take(page, &n);
  if (list != NULL) mi__remote_settle(page, list, n);
}

bool mi__remote_claim(struct mi_page *page, struct mi_block **list, uint32_t *n) {
  uint64_t old = mi__load(&page->xremote, relaxed);
  do {
    if ((old & (MI_REMOTE_OWNED | MI_REMOTE_POOLED)) != MI_REMOTE_POOLED) return false;
    /* Acquire: pairs with the release of mi__remote_disown and of the pushes since. */
  } while (!mi__cas_weak(&page->xremote, &old, owned(old), acq_rel));
  *list = (struct mi_block *)(uintptr_t)(old & MI_REMOTE_LIST);
  *n = mi__page_used(page) - mi__remote_number(old);
  return true;
}

bool mi__remote_disown(struct mi_page *page, bool pooled, bool counted) {
  uint64_t old = owned(mi__load(&page->xremote, relaxed)); /* no list */
  uint64_t new = word(mi__page_used(page), NULL,
                      (pooled ? MI_REMOTE_POOLED : 0) | (counted ? MI_REMOTE_COUNTED : 0) |
                          (old & MI_REMOTE_PINNED));
  /* Release: pairs with the acquire of whoever claims next. */
  return mi__cas(&page->xremote, &old, new, release);
}

uint32_t mi__remote_count_freed(const struct mi_page *page) {
  /* Acquire: pairs with the release of mi__remote_disown, which came behind the count. */
  uint64_t w = mi__load(&page->xremote, acquire);
  uint32_t live = mi__remote_number(w), counted = mi__load(&page->n_counted, relaxed);
  return (w & MI_REMOTE_OWNED) == 0 && counted > live ? counted - live : 0;
}

/* ---- pins ---- */

bool mi__remote_end(struct mi_page *page) {
  uint64_t old = mi__load(&page->xremote, relaxed);
  for (;;) {
    /* Release: pairs with the acquire of mi__remote_unpin. */
    if (old & MI_REMOTE_PINNED) {
      if (mi__cas_weak(&page->xremote, &old, MI_REMOTE_DEAD, release)) return false;
      /* Acquire: pairs with the release of mi__remote_unpin: a visit that has left the page does
       * not read what the caller is about to clear. */
    } else if (mi__cas_weak(&page->xremote, &old, 0, acq_rel)) {
      return true;
    }
  }
}

bool mi__remote_pin(struct mi_page *page) {
  uint64_t old = mi__load(&page->xremote, relaxed);
  do {
    if (old == 0 || (old & MI_REMOTE_DEAD) == MI_REMOTE_DEAD) return false;
    /* Acquire: pairs with the release of mi__page_new: the record is that of a page. */
  } while (!mi__cas_weak(&page->xremote, &old, old | MI_REMOTE_PINNED, acquire));
  return true;
}

bool mi__remote_unpin(struct mi_page *page) {
  uint64_t old = mi__load(&page->xremote, relaxed);
  uint64_t new;
  do {
    /* Of a dead page nothing is left: as long as there is, it could be pinned once more. */
    new = (old & MI_REMOTE_DEAD) == MI_REMOTE_DEAD ? 0 : old & ~MI_REMOTE_PINNED;
    /* Release: for mi__remote_end. Acquire: pairs with it where it found the pin. */
  } while (!mi__cas_weak(&page->xremote, &old, new, acq_rel));
  return (old & MI_REMOTE_DEAD) == MI_REMOTE_DEAD;
}
