/* SPDX-License-Identifier: MIT */
/* Memory from Linux: mapping, commit, discard, huge-page advice, names of mappings.
 *
 * All system calls are raw: another preloaded library may hook mmap, and the C library's wrappers
 * are cancellation points in places. Under the thread sanitizer mmap goes through the C library, so
 * that its shadow memory follows.
 *
 * Threads: any. What is written after mi__os_init is atomic: the address hint and the switches that
 * turn a service off for good once the kernel refused it (a seccomp filter may refuse it with any
 * error, and would see each further call). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap */
#endif
#include "os/os.h"
#include "base/bits.h"
#include "base/check.h"
#include "os/linux.h"
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#define SET_VMA 0x53564d41 /* PR_SET_VMA and PR_SET_VMA_ANON_NAME: newer than some <sys/prctl.h> */
#define SET_VMA_ANON_NAME 0

/* What the page table of arena/pagemap.h covers, a higher layer: 47 bits on x86-64, 48 on other
 * 64-bit machines. */
#if UINTPTR_MAX <= UINT32_MAX
#define ADDRESS_LIMIT UINTPTR_MAX
#elif defined(__x86_64__)
#define ADDRESS_LIMIT ((uintptr_t)1 << 47)
#else
#define ADDRESS_LIMIT ((uintptr_t)1 << 48)
#endif
/* Room left for the shared libraries that the loader still maps below this one. */
#define LIBRARIES_ROOM (sizeof(void *) > 4 ? MI_GIB : 64 * MI_MIB)
/* No hints below this: programs at fixed addresses, the heap of brk, and vm.mmap_min_addr live
 * there. */
#define HINT_MIN (sizeof(void *) > 4 ? 8 * MI_GIB : 256 * MI_MIB)

struct mi__os_calls mi__os_calls;
struct mi__os_facts mi__os_facts = {
  .page_size = 4096, .large_page_size = 2 * MI_MIB, .overcommits = true
};

static _Atomic(uintptr_t) address_limit = ADDRESS_LIMIT;
static _Atomic(uintptr_t) lowest_mapping; /* last aligned one: the place below is likely free */
static _Atomic(int) thp_advice;           /* 0, MADV_NOHUGEPAGE or MADV_HUGEPAGE */
static _Atomic(bool) no_names, no_lazy_discard;

/* ---- the calls, each behind the seam ---- */

static void *call_map(void *hint, size_t size, int prot, int flags) {
  if (mi__os_calls.map != NULL) return mi__os_calls.map(hint, size, prot, flags);
  if (MI_TSAN) return mmap(hint, size, prot, flags, -1, 0);
#ifdef SYS_mmap2
  return (void *)syscall(SYS_mmap2, hint, size, prot, flags, -1, 0L);
#else
  return (void *)syscall(SYS_mmap, hint, size, prot, flags, -1, 0L);
#endif
}

static int call_unmap(void *start, size_t size) {
  if (mi__os_calls.unmap != NULL) return mi__os_calls.unmap(start, size);
  if (MI_TSAN) return munmap(start, size);
  return (int)syscall(SYS_munmap, start, size);
}

static int call_advise(void *start, size_t size, int advice) {
  if (mi__os_calls.advise != NULL) return mi__os_calls.advise(start, size, advice);
  return (int)syscall(SYS_madvise, start, size, advice);
}

static int call_protect(void *start, size_t size, int prot) {
  if (mi__os_calls.protect != NULL) return mi__os_calls.protect(start, size, prot);
  return (int)syscall(SYS_mprotect, start, size, prot);
}

static void *call_remap(void *start, size_t size, size_t new_size, int flags, void *target) {
  if (mi__os_calls.remap != NULL) return mi__os_calls.remap(start, size, new_size, flags, target);
  if (MI_TSAN) return mremap(start, size, new_size, flags, target);
  return (void *)syscall(SYS_mremap, start, size, new_size, flags, target);
}

/* The kernel answers EAGAIN when it is short of something for a moment: worth two more tries, not
 * more. */
static bool advise(void *start, size_t size, int advice) {
  for (int tries = 0; tries < 3; tries++) {
    if (call_advise(start, size, advice) == 0) return true;
    if (errno != EAGAIN) return false;
  }
  return false;
}

/* ---- what is said about each mapping: name and huge pages. Best effort. ---- */

static void name_now(void *start, size_t size) {
  if (mi__load(&no_names, relaxed)) return;
  if (syscall(SYS_prctl, SET_VMA, SET_VMA_ANON_NAME, start, size, "mimalloc") == 0) return;
  /* ENOMEM: this range cannot be split once more; any other error comes again at each call. */
  if (errno != ENOMEM) mi__store(&no_names, true, relaxed);
}

/* The first mappings get their name when the process is seen to live on (a discard, a further
 * mapping): a small program's start need not pay a system call for each. A range may be gone by the
 * time; its next owner's memory has the name then, which harms nobody. */
#define N_UNNAMED 4
static struct { _Atomic(uintptr_t) start; _Atomic(size_t) size; } unnamed[N_UNNAMED];
static _Atomic(uint32_t) n_unnamed; /* grows to N_UNNAMED + 1: then all is named at once */

static void name_first_mappings(void) {
  if (mi__load(&n_unnamed, relaxed) > N_UNNAMED) return;
  mi__store(&n_unnamed, N_UNNAMED + 1, relaxed);
  for (int i = 0; i < N_UNNAMED; i++) {
    /* The acquire goes with the release of name_mapping. */
    uintptr_t start = mi__exchange(&unnamed[i].start, 0, acquire);
    if (start != 0) name_now((void *)start, mi__load(&unnamed[i].size, relaxed));
  }
}

static void name_mapping(void *start, size_t size) {
  uint32_t n = MI_VALGRIND ? N_UNNAMED : mi__load(&n_unnamed, relaxed); /* TRACK-3 */
  while (n < N_UNNAMED && !mi__cas_weak(&n_unnamed, &n, n + 1, relaxed)) {}
  if (n < N_UNNAMED) {
    mi__store(&unnamed[n].size, size, relaxed);
    mi__store(&unnamed[n].start, (uintptr_t)start, release);
    return;
  }
  name_first_mappings();
  name_now(start, size);
}

static void forget_unnamed(const void *start) {
  for (int i = 0; i < N_UNNAMED; i++) {
    uintptr_t expected = (uintptr_t)start;
    if (mi__cas(&unnamed[i].start, &expected, 0, relaxed)) return;
  }
}

static void advise_thp(void *start, size_t size) {
  int advice = mi__load(&thp_advice, relaxed);
  if (advice == MADV_NOHUGEPAGE && mi__os_thp() != MI_THP_ALWAYS) {
    mi__store(&thp_advice, 0, relaxed); /* the kernel gives none by itself */
    return;
  }
  if (advice == 0) return;
  /* A kernel without huge pages has no such advice. Errors of one range (ENOMEM) say nothing about
   * the next. */
  if (!advise(start, size, advice) && errno != ENOMEM && errno != EAGAIN)
    mi__store(&thp_advice, 0, relaxed);
}

static void dress(void *start, size_t size) {
  advise_thp(start, size);
  name_mapping(start, size);
}

void mi__os_set_thp_advice(int advice) {
  int value = advice == 1 ? MADV_NOHUGEPAGE : advice == 2 ? MADV_HUGEPAGE : 0;
  mi__store(&thp_advice, value, relaxed);
}

void mi__os_advise_thp(void *start, size_t size) {
  int saved = errno;
  advise_thp(start, size);
  errno = saved;
}

void mi__os_set_address_bits(unsigned bits) {
  uintptr_t limit = ADDRESS_LIMIT;
  unsigned least = sizeof(void *) > 4 ? 36 : 31; /* fewer would leave no room for anything */
  if (bits > 0 && bits < least) bits = least;
  uintptr_t wanted = bits > 0 && bits < 8 * sizeof(void *) ? (uintptr_t)1 << bits : limit;
  if (wanted < limit) limit = wanted;
  mi__store(&address_limit, limit, relaxed);
}

/* ---- map and unmap ---- */

static void *try_map(uintptr_t hint, size_t size, int prot, int flags) {
  void *p = call_map((void *)hint, size, prot, flags);
  return p == MAP_FAILED ? NULL : p;
}

/* An early mapping that cannot be unmapped any more is only address space that nobody uses. */
static void drop(void *start, size_t size) {
  if (size > 0) (void)call_unmap(start, size);
}

static bool fits(const void *p, size_t size, size_t align) {
  uintptr_t start = (uintptr_t)p, limit = mi__load(&address_limit, relaxed);
  return (start & (align - 1)) == 0 && start <= limit && size <= limit - start;
}

/* Where the kernel maps from the top down, the room below the last mapping is free, and so is what
 * lies some way below this library, or below the program that it was linked into. 0: no idea. */
static uintptr_t guess_address(size_t size, size_t align) {
  uintptr_t below = mi__load(&lowest_mapping, relaxed);
  if (below == 0) {
    below = (uintptr_t)&mi__os_facts;
    below = below > LIBRARIES_ROOM ? below - LIBRARIES_ROOM : 0;
  }
  uintptr_t limit = mi__load(&address_limit, relaxed);
  if (below > limit) below = limit;
  if (below < HINT_MIN || below - HINT_MIN < size) return 0;
  return mi__align_down(below - size, align);
}

/* Map more than wanted and give back what lies before and after the aligned part. */
static void *map_and_trim(size_t size, size_t align, int prot, int flags) {
  size_t whole = size + align - mi__os_facts.page_size;
  if (whole < size) return NULL;
  char *p = try_map(0, whole, prot, flags);
  if (p == NULL) return NULL;
  char *start = mi__ptr_align_up(p, align), *end = start + size;
  if (!fits(start, size, align)) {
    drop(p, whole);
    return NULL;
  }
  drop(p, (size_t)(start - p));
  drop(end, (size_t)(p + whole - end));
  return start;
}

/* The kernel's own choice lies above the limit (option max_vabits, machines with more address bits
 * than the page table covers): ask for places below, in growing steps. */
static void *map_below_limit(size_t size, size_t align, int prot, int flags) {
  uintptr_t top = mi__load(&address_limit, relaxed), step = mi__max(size, align);
  while (top > HINT_MIN && step < top - HINT_MIN) {
    top -= step;
    step *= 2;
    void *p = try_map(mi__align_down(top, align), size, prot, flags);
    if (p == NULL || fits(p, size, align)) return p;
    drop(p, size);
  }
  return NULL;
}

/* Cheapest first: one call where the guess is right, three where only the second is, else four. */
static void *map_aligned(size_t size, size_t align, int prot, int flags) {
  uintptr_t hint = align > mi__os_facts.page_size ? guess_address(size, align) : 0;
  void *p = try_map(hint, size, prot, flags);
  if (p == NULL || fits(p, size, align)) return p;
  drop(p, size);
  if (!fits(p, size, 1)) return map_below_limit(size, align, prot, flags);
  p = try_map(mi__align_down((uintptr_t)p, align), size, prot, flags);
  if (p == NULL || fits(p, size, align)) return p;
  drop(p, size);
  return map_and_trim(size, align, prot, flags);
}

static int huge_flags(unsigned flags) {
  size_t size = flags & MI_OS_HUGE ? MI_GIB : mi__os_facts.large_page_size;
  return MAP_HUGETLB | (int)(mi__log2(size) << MAP_HUGE_SHIFT);
}

void *mi__os_map(size_t size, size_t align, unsigned flags) {
  int saved = errno;
  mi__assert(size > 0 && size % mi__os_facts.page_size == 0 && mi__is_power_of_two(align));
  void *p = NULL;
  int prot = flags & MI_OS_COMMIT ? PROT_READ | PROT_WRITE : PROT_NONE;
  /* Without MAP_NORESERVE the kernel sets huge pages aside at once: it fails here, not by a signal
   * at the first touch. */
  int map_flags = MAP_PRIVATE | MAP_ANONYMOUS;
  bool huge = (flags & (MI_OS_LARGE | MI_OS_HUGE)) != 0;
  if (huge) {
    size_t unit = flags & MI_OS_HUGE ? MI_GIB : mi__os_facts.large_page_size;
    align = mi__max(align, unit);
    map_flags |= huge_flags(flags);
    if (unit != 0 && size % unit == 0) p = map_aligned(size, align, prot, map_flags);
  } else {
    p = map_aligned(size, align, prot, map_flags | MAP_NORESERVE);
  }
  if (p != NULL) {
    if (!MI_VALGRIND && align > mi__os_facts.page_size) /* TRACK-3 of base/track.h */
      mi__store(&lowest_mapping, (uintptr_t)p, relaxed);
    if (!huge) dress(p, size);
  }
  errno = saved;
  return p;
}

bool mi__os_unmap(void *start, size_t size) {
  int saved = errno;
  forget_unnamed(start);
  bool ok = call_unmap(start, size) == 0;
  errno = saved;
  /* Take the place again next time, else mappings that come and go wander down through the address
   * space. */
  uintptr_t lowest = (uintptr_t)start;
  if (ok) mi__cas(&lowest_mapping, &lowest, (uintptr_t)start + size, relaxed);
  return ok;
}

/* ---- commit and discard ---- */

bool mi__os_commit(void *start, size_t size, bool *zero) {
  int saved = errno;
  bool ok = call_protect(start, size, PROT_READ | PROT_WRITE) == 0;
  /* The contents are those of before: the caller knows better than Linux tells whether they are
   * zeros. */
  if (ok && zero != NULL) *zero = false;
  errno = saved;
  return ok;
}

/* Locked memory (mlockall) refuses the plain discard; newer kernels have one for it. */
static bool discard_now(void *start, size_t size) {
  if (advise(start, size, MADV_DONTNEED)) return true;
  return errno == EINVAL && advise(start, size, MADV_DONTNEED_LOCKED);
}

bool mi__os_discard(void *start, size_t size, bool lazy) {
  int saved = errno;
  bool ok = false;
  name_first_mappings();
  if (lazy && !mi__load(&no_lazy_discard, relaxed)) {
    ok = advise(start, size, MADV_FREE);
    if (!ok && errno != EAGAIN) mi__store(&no_lazy_discard, true, relaxed);
  }
  if (!ok) ok = discard_now(start, size);
  errno = saved;
  return ok;
}

/* mprotect keeps the commit charge of what it takes away, and so does MADV_DONTNEED; a fresh
 * mapping gives it back. */
bool mi__os_decommit(void *start, size_t size, bool *needs_commit) {
  int saved = errno;
  bool ok;
  name_first_mappings();
  if (mi__os_facts.overcommits) {
    ok = discard_now(start, size);
    if (ok) *needs_commit = false;
  } else {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    ok = call_map(start, size, PROT_NONE, flags) != MAP_FAILED;
    /* Dressed like its neighbours, the range joins them again when it is committed, and the count
     * of mappings stays low. */
    if (ok) dress(start, size);
    if (ok) *needs_commit = true;
  }
  errno = saved;
  return ok;
}

bool mi__os_protect(void *start, size_t size, bool no_access) {
  int saved = errno;
  bool ok = call_protect(start, size, no_access ? PROT_NONE : PROT_READ | PROT_WRITE) == 0;
  errno = saved;
  return ok;
}

/* Do both words at p still read so? Asked of the kernel, since p may be unmapped or somebody else's
 * by now. */
static bool still_reads(const uint32_t *p, const uint32_t *value) {
  struct mi__futex_timeout at_once = { 0, 0 };
  for (int i = 0; i < 2; i++) {
    int wait = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
    long r = syscall(MI__SYS_FUTEX, p + i, wait, value[i], &at_once, NULL, 0);
    if (r != -1 || errno != ETIMEDOUT) return false;
  }
  return true;
}

/* Move to a place of the wanted alignment. A refused mremap may or may not have unmapped its target
 * before, by kernel version and reason; another thread's mapping may lie there then. So the target
 * carries a mark while it is ours. */
static void *remap_to(void *start, size_t size, size_t new_size, size_t align) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  uint32_t *target = map_aligned(new_size, align, PROT_READ | PROT_WRITE, flags);
  if (target == NULL) return NULL;
  uint64_t mark = mi__os_random();
  uint32_t words[2] = { (uint32_t)mark, (uint32_t)(mark >> 32) };
  target[0] = words[0];
  target[1] = words[1];
  void *moved = call_remap(start, size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, target);
  if (moved == target) return target;
  if (still_reads(target, words)) drop(target, new_size);
  return NULL;
}

void *mi__os_remap(void *start, size_t old_size, size_t new_size, size_t align, bool may_move) {
  int saved = errno;
  void *p = call_remap(start, old_size, new_size, 0, NULL);
  if (p == MAP_FAILED) p = may_move ? remap_to(start, old_size, new_size, align) : NULL;
  else if (!fits(p, new_size, align)) { /* grown over the limit of the page table */
    drop((char *)start + old_size, new_size - old_size);
    p = NULL;
  }
  errno = saved;
  return p;
}
