/* SPDX-License-Identifier: MIT */
/* Pages whose free lists the program has damaged: found, noted, reported once.
 * Threads: the owner of the theap; the reports, any, without a lock. */
#ifndef MI_HEAP_DAMAGE_H
#define MI_HEAP_DAMAGE_H

#include "heap/heap.h"

/* Walk the free lists of all pages that are not current, the longest of all checks: after a forced
 * collection, on demand. */
void mi__theap_verify(struct mi_theap_s *theap);
/* Note that a page was found broken. */
void mi__faults_note(union mi__faults *faults, const struct mi_page *page);
/* Leaves *from empty. */
void mi__faults_move(union mi__faults *to, union mi__faults *from);
/* Report what was noted, with no lock held. */
void mi__report_faults(union mi__faults faults);
void mi__report_broken(const struct mi_page *page);
void mi__theap_report(struct mi_theap_s *theap);

#endif
