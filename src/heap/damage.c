/* SPDX-License-Identifier: MIT */
#include "heap/damage.h"
#include "heap/queue.h"
#include "rt/message.h"
#include <errno.h>

static void verify_bin(struct mi_theap_s *theap, struct mi__theap_bin *b) {
  for (struct mi_page *page = b->avail.head, *next; page != NULL; page = next) {
    next = page->next;
    enum mi__fault fault = mi__page_free_fault(page);
    if (mi__likely(fault == MI_FAULT_NONE)) continue;
    mi__list_remove(b, page);
    mi__page_mark_broken(page, fault);
    mi__faults_note(&theap->faults, page);
    mi__put_full(b, page);
  }
}

/* Full pages have no list, and empty ones were looked at when they were given back. */
void mi__theap_verify(struct mi_theap_s *theap) {
  for (uint64_t bins = mi__load(&theap->used_bins, relaxed); bins != 0; bins &= bins - 1) {
    verify_bin(theap, &theap->bins[mi__ctz64(bins)]);
  }
}

mi__cold void mi__faults_note(union mi__faults *faults, const struct mi_page *page) {
  unsigned i = (page->fault == MI_FAULT_NONE ? MI_FAULT_TWICE : page->fault) - 1u;
  if (faults->n[i] < UINT8_MAX) faults->n[i]++;
}

void mi__faults_move(union mi__faults *to, union mi__faults *from) {
  if (mi__likely(from->any == 0)) return;
  for (int i = 0; i < MI_FAULT_TWICE; i++) {
    unsigned n = (unsigned)to->n[i] + from->n[i];
    to->n[i] = (uint8_t)(n < UINT8_MAX ? n : UINT8_MAX);
  }
  from->any = 0;
}

mi__cold void mi__report_faults(union mi__faults faults) {
  static const char lists[][8] = {"ready", "free", "remote"};
  for (unsigned i = 0; i < MI_FAULT_TWICE - 1; i++) {
    if (faults.n[i] == 0) continue;
    mi__error(EFAULT,
              "overwritten free block (or double free) in the %s list: %u page(s) are kept and not "
              "used again\n",
              lists[i], (unsigned)faults.n[i]);
  }
  unsigned n = faults.n[MI_FAULT_TWICE - 1];
  if (n == 0) return;
  mi__error(EAGAIN,
            "double free or overwritten free block: %u page(s) are kept and not used again\n", n);
}

mi__cold void mi__report_broken(const struct mi_page *page) {
  union mi__faults faults = {.any = 0};
  mi__faults_note(&faults, page);
  mi__report_faults(faults);
}

void mi__theap_report(struct mi_theap_s *theap) {
  union mi__faults faults = theap->faults;
  if (mi__likely(faults.any == 0)) return;
  theap->faults.any = 0;
  mi__report_faults(faults);
}
