/* SPDX-License-Identifier: MIT */
/* The companions of malloc in the GNU C library. Programs call them to trim, tune or watch the heap
 * that malloc uses, which is this one: without these, they would reach the C library's unused heap.
 * Threads: any. */
#include "api/alloc.h"
#include "api/core.h"
#include "api/override.h"
#include "arena/arena.h"
#include "heap/subproc.h"
#include "idle/purge_all.h"
#include "mimalloc-stats.h"
#include "rt/counter.h"
#include "rt/message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

const char mi__override_companions = 1; /* for override.c */

#if MI_OVERRIDE

MI_OVERRIDE_ANCHORED;

struct memory {
  size_t committed; /* in use or kept for use */
  size_t peak;
  size_t free; /* waits to be given back */
  size_t huge;
};

static size_t read_positive(const _Atomic(int64_t) *counter) {
  int64_t n = mi__load(counter, relaxed);
  return n > 0 ? (size_t)n : 0;
}

/* The parts never exceed the whole, also while other threads change them. */
static struct memory read_memory(void) {
  struct memory m;
  m.committed = read_positive(&mi__counters.committed.current);
  m.peak = mi__max(read_positive(&mi__counters.committed.peak), m.committed);
  struct mi__heap_counters heaps = {0};
  mi__subproc_counters(&mi__subproc_main, &heaps);
  m.huge = mi__min(read_positive(&heaps.huge.current), m.committed);
  m.free = mi__min(mi__arenas_waiting(mi__arenas_main()), m.committed - m.huge);
  return m;
}

/* `pad` bytes are to be left at the top of a heap that has a top; this one has none.
 * 1: memory was given back. */
extern int malloc_trim(size_t pad);
mi__export int malloc_trim(size_t pad) {
  (void)pad;
  int64_t reserved = mi__load(&mi__counters.reserved.current, relaxed);
  int64_t reset = mi__load(&mi__counters.reset, relaxed);
  mi_purge_all_report_t report;
  (void)mi__purge_all(true, MI_PURGE_WAIT_MS, &report);
  return report.arena_bytes + report.hole_bytes > 0 ||
         mi__load(&mi__counters.reset, relaxed) > reset ||
         mi__load(&mi__counters.reserved.current, relaxed) < reserved;
}

/* The parameters of the C library's malloc have no meaning here; ours are mi_option_set's.
 * 1 is "accepted": programs take anything else for an error. */
extern int mallopt(int parameter, int value);
mi__export int mallopt(int parameter, int value) {
  (void)parameter;
  (void)value;
  return 1;
}

/* As struct mallinfo2 of <malloc.h>; with int members, as struct mallinfo. */
struct info2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct info {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

/* arena: committed memory but for huge blocks; hblkhd: huge blocks; uordblks: what is in use, by
 * whole pages; fordblks, keepcost: what malloc_trim would give back. Others are 0. */
extern struct info2 mallinfo2(void);
mi__export struct info2 mallinfo2(void) {
  struct memory m = read_memory();
  struct info2 info = {0};
  info.arena = m.committed - m.huge;
  info.hblkhd = m.huge;
  info.uordblks = m.committed - m.free;
  info.fordblks = m.free;
  info.keepcost = m.free;
  return info;
}

static int saturate(size_t n) { return n < INT_MAX ? (int)n : INT_MAX; }

extern struct info mallinfo(void);
mi__export struct info mallinfo(void) {
  struct info2 wide = mallinfo2();
  struct info info = {0};
  info.arena = saturate(wide.arena);
  info.hblkhd = saturate(wide.hblkhd);
  info.uordblks = saturate(wide.uordblks);
  info.fordblks = saturate(wide.fordblks);
  info.keepcost = saturate(wide.keepcost);
  return info;
}

extern void malloc_stats(void);
mi__export void malloc_stats(void) { mi_stats_print(NULL); }

/* The elements that readers of the C library's output look for, of one heap. */
extern int malloc_info(int options, FILE *stream);
mi__export int malloc_info(int options, FILE *stream) {
  if (options != 0) {
    errno = EINVAL;
    return -1;
  }
  struct memory m = read_memory();
  char text[1024];
  mi__format(text, sizeof text,
             "<malloc version=\"1\">\n"
             "<heap nr=\"0\">\n"
             "<sizes>\n</sizes>\n"
             "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
             "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
             "<system type=\"current\" size=\"%zu\"/>\n"
             "<system type=\"max\" size=\"%zu\"/>\n"
             "<aspace type=\"total\" size=\"%zu\"/>\n"
             "<aspace type=\"mprotect\" size=\"%zu\"/>\n"
             "</heap>\n"
             "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
             "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
             "<total type=\"mmap\" count=\"0\" size=\"%zu\"/>\n"
             "<system type=\"current\" size=\"%zu\"/>\n"
             "<system type=\"max\" size=\"%zu\"/>\n"
             "<aspace type=\"total\" size=\"%zu\"/>\n"
             "<aspace type=\"mprotect\" size=\"%zu\"/>\n"
             "</malloc>\n",
             m.free, m.committed, m.peak, m.committed, m.committed, m.free, m.huge, m.committed,
             m.peak, m.committed, m.committed);
  return fputs(text, stream) >= 0 ? 0 : -1;
}

#endif
