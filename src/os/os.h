/* SPDX-License-Identifier: MIT */
/* The operating system, as the library needs it: the only place with system calls and platform #if.
 * One implementation per platform; Linux: linux.c has the memory, linux_process.c all else.
 *
 * Rules for every function: never allocates from the heap, takes no lock, keeps errno, prints
 * nothing.
 * Failure is reported by the return value (NULL, false); the state is then the one before the call.
 * Threads: all may be called from any thread at any time, also before main and after exit, but for
 * mi__os_init, which the process start calls once (a second call does nothing). */
#ifndef MI_OS_OS_H
#define MI_OS_OS_H

#include "base/atomic.h"
#include "base/compiler.h"

/* The system's mode of transparent huge pages; what cannot be read counts as ALWAYS. */
enum mi__thp { MI_THP_NEVER, MI_THP_MADVISE, MI_THP_ALWAYS };

/* Facts about the machine, constant after mi__os_init. Before it, the values hold for the most
 * common machine. */
struct mi__os_facts {
  size_t page_size;       /* OS page, bytes; at least 4096 */
  size_t large_page_size; /* 2 MiB usually; 0: none */
  bool overcommits;       /* false where the kernel charges each mapping (overcommit_memory = 2) */
};
extern struct mi__os_facts mi__os_facts;
void mi__os_init(void);
/* Facts that are read at the first call, so that programs that do not ask pay no system calls. */
enum mi__thp mi__os_thp(void);
unsigned mi__os_numa_nodes(void); /* at least 1 */

/* ---- memory. Sizes and addresses are multiples of the OS page unless said otherwise. ---- */

enum mi__os_map_flags {
  MI_OS_COMMIT = 1,  /* readable and writable at once; else PROT_NONE until mi__os_commit */
  MI_OS_LARGE = 2,   /* try MAP_HUGETLB of large_page_size; fails rather than fall back */
  MI_OS_HUGE = 4,    /* the same with 1 GiB; size a multiple of it */
};
/* Map fresh zero memory of `size` bytes at an address that is a multiple of `align` (a power of two
 * >= page size), below the highest address the page table covers (or mi__os_set_address_bits). What
 * had to be mapped more for the alignment is unmapped again, so that the mapping is exactly
 * [result, result + size). MAP_NORESERVE where the OS overcommits. Applies the
 * transparent-huge-page advice (mi__os_set_thp_advice) and the name "mimalloc" (the first few
 * mappings get theirs later, see linux.c). NULL on failure. */
void *mi__os_map(size_t size, size_t align, unsigned flags);
/* Unmap. Any page-aligned part of a mapping. False if the OS refused (e.g. too many mappings). */
bool mi__os_unmap(void *start, size_t size);
/* Make reserved memory usable. *zero (may be NULL): the memory is known to read as zeros. May fail
 * for lack of memory. */
bool mi__os_commit(void *start, size_t size, bool *zero);
/* Give up contents and, where the OS does not overcommit, the commit charge (fresh PROT_NONE
 * mapping over the range; needs mi__os_commit before the next use, then *needs_commit is true).
 * Elsewhere MADV_DONTNEED. */
bool mi__os_decommit(void *start, size_t size, bool *needs_commit);
/* Give the contents back but keep the memory usable. lazy: MADV_FREE where there is one (contents
 * are then undefined), else MADV_DONTNEED (reads as zero afterwards). */
bool mi__os_discard(void *start, size_t size, bool lazy);
/* The same for several ranges at once, not lazily: where the system has a call for that, in one,
 * which saves all but one of the flushes of address translations. */
struct mi__os_range {
  char *start;
  size_t size;
  bool done; /* out: its contents are given up */
};
/* at_once: mi__os_discards_at_once() says so. */
void mi__os_discard_ranges(struct mi__os_range *ranges, unsigned n, bool at_once);
/* Is there such a call, and may this process make it? False until the program has declared an idle
 * point, mi__os_allow_asking: the answer takes a system call that programs do not expect of malloc,
 * and a filter may end them for it. */
bool mi__os_discards_at_once(void);
void mi__os_allow_asking(void);
/* Forbid or allow all access. */
bool mi__os_protect(void *start, size_t size, bool no_access);
/* Grow or shrink a whole mapping made by mi__os_map; may move it (by whole pages of the page
 * tables: no copy), to an address that is a multiple of `align`. New memory is zero. NULL: nothing
 * changed. Not every OS has it. */
void *mi__os_remap(void *start, size_t old_size, size_t new_size, size_t align, bool may_move);
/* 0: none; 1: MADV_NOHUGEPAGE where the system's mode is always; 2: MADV_HUGEPAGE, for each later
 * mi__os_map. Set by process start from the options. */
void mi__os_set_thp_advice(int advice);
/* The same advice for memory that was not mapped here (the static page table). */
void mi__os_advise_thp(void *start, size_t size);
/* Map below 2^bits only (option max_vabits), at least 2^36 where pointers have 64 bits; 0: all that
 * the page table covers. */
void mi__os_set_address_bits(unsigned bits);
/* Is the OS page of `start` resident? (that of a fresh arena is under mlockall; 1 yes, 0 no, -1
 * unknown) */
int mi__os_is_resident(const void *start);
/* Bytes of address space that the process may still map (RLIMIT_AS less what it has); SIZE_MAX: no
 * limit. limit.c */
size_t mi__os_address_space_left(void);
/* Ask for a NUMA node for a range; best effort. */
void mi__os_bind_numa(void *start, size_t size, int node);

/* ---- time, identity, waiting ---- */
uint64_t mi__os_clock_ms(void);    /* monotonic, milliseconds, never 0 */
unsigned mi__os_cpu_numa_node(void);
uint64_t mi__os_random(void);      /* getrandom, else clock and addresses mixed */
/* Sleep while *word == expected, at most timeout_ms (-1: no limit). May return early. */
void mi__os_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t timeout_ms);
/* Wake up to n sleepers (INT32_MAX: all). */
void mi__os_wake(_Atomic(uint32_t) *word, int n);

/* ---- the process ---- */
/* NULL while the C library has not set it up; also NULL in a set-uid or set-gid process. */
char **mi__os_environ(void);
/* System calls are filtered (seccomp), and no privileges can be gained: what a program sets for
 * itself. A container's filter alone is none. */
bool mi__os_is_sandboxed(void);
bool mi__os_is_secure(void);  /* set-uid, set-gid or capabilities gained by exec */
/* Write to standard error by the raw system call; short writes are continued, errors ignored. */
void mi__os_write_stderr(const char *text, size_t length);
/* The same to any file. 0, or an errno value; then some of it may be written. */
int mi__os_write(int fd, const void *data, size_t size);
/* Make a file, or empty the one that is there; for its owner only, closed on exec. *fd: open for
 * writing. 0, or an errno value. */
int mi__os_create(const char *path, int *fd);
int mi__os_close(int fd); /* 0, or an errno value: what was written may be lost */
uintptr_t mi__os_process_id(void);
/* Read a small file whole, by raw system calls: bytes read, 0 on any failure. Always ends buf with
 * 0; size >= 1. */
size_t mi__os_read_file(const char *path, char *buf, size_t size);
struct mi__os_process_info {
  size_t elapsed_ms, user_ms, system_ms; /* elapsed: since mi__os_init */
  size_t current_rss, peak_rss;          /* bytes; current 0 where /proc is not there */
  size_t page_faults, major_faults;      /* page_faults: the minor ones */
};
void mi__os_process_info(struct mi__os_process_info *out);
uintptr_t mi__os_thread_id(void); /* for messages only: the kernel's number */
/* The calling thread's name in /proc and debuggers, up to 15 bytes. */
void mi__os_name_thread(const char *name);

/* ---- seam for tests: what the functions above call. NULL members call the OS. ---- */
struct mi__os_calls {
  void *(*map)(void *hint, size_t size, int prot, int flags); /* MAP_FAILED and errno as mmap */
  int (*unmap)(void *start, size_t size);
  int (*advise)(void *start, size_t size, int advice);
  int (*protect)(void *start, size_t size, int prot);
  uint64_t (*clock_ms)(void);
  /* as mremap */
  void *(*remap)(void *start, size_t size, size_t new_size, int flags, void *target);
  /* as mi__os_read_file, but need not end buf with 0 */
  size_t (*read_file)(const char *path, char *buf, size_t size);
};
extern struct mi__os_calls mi__os_calls;

#endif
