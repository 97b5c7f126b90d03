/* SPDX-License-Identifier: MIT */
/* src/os/linux.c: memory, against the kernel and against a scripted one. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os/os.h"
#include "base/bits.h"
#include "filter.h"
#include "../suite.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- a kernel that counts, and fails where it is told to ---- */

static long mapped_bytes;            /* mapped less unmapped */
static int n_maps, n_unmaps, n_advices, fail_map_from = INT32_MAX;
static bool misplace;                /* ignore hints, answer three OS pages beside any alignment */
static int advice[64];
static int refuse_advice, refuse_error; /* an advice that fails, and how; -1: all */
static const char *file_text;

static void *count_map(void *hint, size_t size, int prot, int flags) {
  if (++n_maps >= fail_map_from) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  if (!(flags & MAP_FIXED)) mapped_bytes += (long)size;
  if (!misplace) return mmap(hint, size, prot, flags, -1, 0);
  size_t page = mi__os_facts.page_size;
  char *p = mmap(NULL, size + 2 * MI_MIB, prot, flags, -1, 0);
  if (p == MAP_FAILED) return p;
  char *start = mi__ptr_align_up(p, MI_MIB) + 3 * page;
  munmap(p, (size_t)(start - p));
  munmap(start + size, (size_t)(p + size + 2 * MI_MIB - (start + size)));
  return start;
}

static int count_unmap(void *start, size_t size) {
  n_unmaps++;
  mapped_bytes -= (long)size;
  return munmap(start, size);
}

static int record_advice(void *start, size_t size, int what) {
  advice[n_advices++ % 64] = what;
  bool refuse = refuse_error != 0 && (refuse_advice < 0 || what == refuse_advice);
  if (!refuse) return madvise(start, size, what);
  errno = refuse_error;
  return -1;
}

static size_t scripted_file(const char *path, char *buf, size_t size) {
  (void)path;
  size_t n = file_text == NULL ? 0 : strlen(file_text);
  if (n > size) n = size;
  if (n > 0) memcpy(buf, file_text, n);
  return n;
}

static void count_calls(void) {
  mi__os_calls.map = count_map;
  mi__os_calls.unmap = count_unmap;
  mi__os_calls.advise = record_advice;
  mi__os_calls.read_file = scripted_file;
}

static bool is_zero(const char *p, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (p[i] != 0) return false;
  return true;
}

/* ---- map ---- */

START_TEST(maps_zero_memory_at_the_alignment) {
  static const size_t aligns[] = { 4096, 65536, MI_MIB, 64 * MI_MIB, 256 * MI_MIB };
  size_t size = 3 * (size_t)65536, align = aligns[_i];
  count_calls();
  for (int round = 0; round < 3; round++) {
    errno = 4711;
    char *p = mi__os_map(size, align, MI_OS_COMMIT);
    ck_assert_int_eq(errno, 4711);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % align, 0);
    ck_assert(is_zero(p, size));
    memset(p, 0xAB, size);
  }
  ck_assert_int_eq(mapped_bytes, 3 * (long)size);
}
END_TEST

/* One call where the place was guessed right: the start of each program pays for this. */
START_TEST(needs_one_call_when_the_place_is_free) {
  count_calls();
  ck_assert_ptr_nonnull(mi__os_map(64 * MI_MIB, 64 * MI_MIB, 0));
  ck_assert_ptr_nonnull(mi__os_map(64 * MI_MIB, 64 * MI_MIB, 0));
  ck_assert_int_eq(n_maps, 2);
  ck_assert_int_eq(n_unmaps, 0);
}
END_TEST

START_TEST(trims_when_the_kernel_takes_no_hints) {
  count_calls();
  misplace = true;
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  ck_assert_ptr_nonnull(p);
  ck_assert_uint_eq((uintptr_t)p % MI_MIB, 0);
  ck_assert_int_eq(mapped_bytes, (long)MI_MIB);
  memset(p, 1, MI_MIB);
}
END_TEST

START_TEST(fails_at_each_call_without_a_trace) {
  count_calls();
  misplace = true;
  fail_map_from = _i;
  errno = 4711;
  ck_assert_ptr_null(mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT));
  ck_assert_int_eq(errno, 4711);
  ck_assert_int_eq(mapped_bytes, 0);
}
END_TEST

START_TEST(fails_at_the_limit_of_the_process) {
  if (mi_test_under_shadow()) return;
  struct rlimit limit = { 256 * MI_MIB, 256 * MI_MIB };
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
  errno = 4711;
  ck_assert_ptr_null(mi__os_map(MI_GIB, MI_MIB, 0));
  ck_assert_int_eq(errno, 4711);
  ck_assert_ptr_nonnull(mi__os_map(16 * MI_MIB, MI_MIB, 0));
}
END_TEST

START_TEST(fails_for_sizes_that_wrap) {
  ck_assert_ptr_null(mi__os_map(SIZE_MAX - MI_MIB + 1, 2 * MI_MIB, 0));
}
END_TEST

START_TEST(reserved_memory_cannot_be_read) {
  volatile char *p = mi__os_map(MI_MIB, MI_MIB, 0);
  ck_assert_ptr_nonnull((void *)p);
  char c = *p;
  (void)c;
}
END_TEST

START_TEST(committed_memory_can_be_written) {
  char *p = mi__os_map(MI_MIB, MI_MIB, 0);
  ck_assert(mi__os_commit(p + 65536, 65536, NULL));
  memset(p + 65536, 1, 65536);
  ck_assert(mi__os_protect(p + 65536, 4096, true));
  ck_assert(mi__os_protect(p + 65536, 4096, false));
  ck_assert_int_eq(p[65536], 1);
}
END_TEST

START_TEST(protected_memory_cannot_be_read) {
  volatile char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  *p = 1;
  ck_assert(mi__os_protect((void *)p, 4096, true));
  char c = *p;
  (void)c;
}
END_TEST

START_TEST(stays_below_the_address_limit) {
  if (mi_test_under_shadow()) return;
  mi__os_set_address_bits(46);
  for (int i = 0; i < 16; i++) {
    uintptr_t p = (uintptr_t)mi__os_map(MI_MIB, (size_t)4096 << (4 * (i % 4)), 0);
    ck_assert_uint_ne(p, 0);
    ck_assert_uint_le(p + MI_MIB, (uintptr_t)1 << 46);
  }
}
END_TEST

START_TEST(takes_an_unmapped_place_again) {
  void *first = mi__os_map(8 * MI_MIB, MI_MIB, 0);
  for (int i = 0; i < 100; i++) {
    void *p = mi__os_map(32 * MI_MIB, MI_MIB, 0);
    ck_assert(mi__os_unmap(p, 32 * MI_MIB));
    ck_assert_uint_lt((uintptr_t)first - (uintptr_t)p, 256 * MI_MIB);
  }
}
END_TEST

/* ---- discard and decommit ---- */

START_TEST(discarded_memory_reads_as_zero) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  ck_assert(mi__os_discard(p + 4096, 8192, false));
  ck_assert(is_zero(p + 4096, 8192));
  ck_assert_int_eq((unsigned char)p[4095], 0xAB);
  ck_assert_int_eq((unsigned char)p[4096 + 8192], 0xAB);
}
END_TEST

START_TEST(lazy_discard_is_lazy) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  count_calls();
  ck_assert(mi__os_discard(p, MI_MIB, true));
  ck_assert_int_eq(n_advices, 1);
  ck_assert_int_eq(advice[0], MADV_FREE);
}
END_TEST

START_TEST(lazy_discard_has_a_second_way) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  count_calls();
  refuse_advice = MADV_FREE;
  refuse_error = EINVAL;
  ck_assert(mi__os_discard(p, MI_MIB, true));
  ck_assert(is_zero(p, MI_MIB));
  ck_assert(mi__os_discard(p, MI_MIB, true));
  ck_assert_int_eq(n_advices, 3); /* refused, then done; then done at once */
  ck_assert_int_eq(advice[1], MADV_DONTNEED);
  ck_assert_int_eq(advice[2], MADV_DONTNEED);
}
END_TEST

START_TEST(refused_discard_changes_nothing) {
  static const int errors[] = { EPERM, EINVAL, EAGAIN, ENOMEM };
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  count_calls();
  refuse_advice = -1;
  refuse_error = errors[_i];
  bool needs_commit = true;
  errno = 4711;
  ck_assert(!mi__os_discard(p, MI_MIB, false));
  ck_assert(!mi__os_discard(p, MI_MIB, true));
  ck_assert(!mi__os_decommit(p, MI_MIB, &needs_commit));
  ck_assert(needs_commit);
  ck_assert_int_eq(errno, 4711);
  ck_assert_int_lt(n_advices, 20);
  ck_assert_int_eq((unsigned char)p[MI_MIB - 1], 0xAB);
}
END_TEST

START_TEST(locked_memory_can_be_discarded) {
  char *p = mi__os_map(65536, 65536, MI_OS_COMMIT);
  memset(p, 0xAB, 65536);
  if (mlock(p, 65536) != 0) return; /* no right to lock */
  if (madvise(p, 4096, 24) != 0) return; /* MADV_DONTNEED_LOCKED: Linux 5.18 */
  ck_assert(mi__os_discard(p, 65536, false));
  ck_assert(is_zero(p, 65536));
}
END_TEST

START_TEST(decommit_where_the_kernel_overcommits) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  bool needs_commit = true;
  ck_assert(mi__os_decommit(p, MI_MIB, &needs_commit));
  ck_assert(!needs_commit);
  ck_assert(is_zero(p, MI_MIB));
}
END_TEST

START_TEST(decommit_where_the_kernel_charges) {
  mi__os_facts.overcommits = false;
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  count_calls();
  bool needs_commit = false;
  ck_assert(mi__os_decommit(p, 65536, &needs_commit));
  ck_assert(needs_commit);
  ck_assert_int_eq(n_maps, 1);
  ck_assert_int_eq((unsigned char)p[65536], 0xAB);
  ck_assert(mi__os_commit(p, 65536, NULL));
  ck_assert(is_zero(p, 65536));
}
END_TEST

START_TEST(refused_decommit_changes_nothing) {
  mi__os_facts.overcommits = false;
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  count_calls();
  fail_map_from = 1;
  bool needs_commit = false;
  ck_assert(!mi__os_decommit(p, 65536, &needs_commit));
  ck_assert(!needs_commit);
  ck_assert_int_eq((unsigned char)p[0], 0xAB);
}
END_TEST

/* ---- remap ---- */

START_TEST(remap_moves_to_the_alignment) {
  size_t size = MI_MIB, grown = 3 * MI_MIB;
  char *p = mi__os_map(size, MI_MIB, MI_OS_COMMIT);
  /* Something lies behind it, ours or another's: the mapping cannot grow in place. */
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  char *wall = mmap(p + size, 4096, PROT_NONE, flags, -1, 0);
  ck_assert(wall == p + size || wall == MAP_FAILED);
  memset(p, 0xAB, size);
  ck_assert_ptr_null(mi__os_remap(p, size, grown, MI_MIB, false));
  ck_assert_int_eq((unsigned char)p[size - 1], 0xAB);
  errno = 4711;
  char *q = mi__os_remap(p, size, grown, 4 * MI_MIB, true);
  ck_assert_int_eq(errno, 4711);
  ck_assert_ptr_nonnull(q);
  ck_assert_uint_eq((uintptr_t)q % (4 * MI_MIB), 0);
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)q[i] != 0xAB) ck_abort_msg("byte %zu is %d", i, q[i]);
  ck_assert(is_zero(q + size, grown - size));
  unsigned char resident;
  ck_assert_int_eq(mincore(p, 4096, &resident), -1); /* the old place is free */
}
END_TEST

START_TEST(remap_grows_and_shrinks_in_place) {
  char *p = mi__os_map(4 * MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, 4 * MI_MIB);
  ck_assert_ptr_eq(mi__os_remap(p, 4 * MI_MIB, MI_MIB, MI_MIB, false), p);
  ck_assert_ptr_eq(mi__os_remap(p, MI_MIB, 2 * MI_MIB, MI_MIB, false), p);
  ck_assert_int_eq((unsigned char)p[MI_MIB - 1], 0xAB);
  ck_assert(is_zero(p + MI_MIB, MI_MIB));
}
END_TEST

static bool unmap_target;

static void *refuse_remap(void *start, size_t size, size_t new_size, int flags, void *target) {
  (void)start, (void)size;
  if (unmap_target && (flags & MREMAP_FIXED)) {
    /* As some kernels do; and another thread maps there at once. */
    munmap(target, new_size);
    int map_flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    char *other = mmap(target, new_size, PROT_READ | PROT_WRITE, map_flags, -1, 0);
    *other = 42;
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

START_TEST(refused_remap_changes_nothing) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  memset(p, 0xAB, MI_MIB);
  count_calls();
  mi__os_calls.remap = refuse_remap;
  ck_assert_ptr_null(mi__os_remap(p, MI_MIB, 2 * MI_MIB, MI_MIB, true));
  ck_assert_int_eq(mapped_bytes, 0);
  ck_assert_int_eq((unsigned char)p[MI_MIB - 1], 0xAB);
}
END_TEST

START_TEST(refused_remap_leaves_the_memory_of_others_alone) {
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  count_calls();
  mi__os_calls.remap = refuse_remap;
  unmap_target = true;
  ck_assert_ptr_null(mi__os_remap(p, MI_MIB, 2 * MI_MIB, MI_MIB, true));
  ck_assert_int_eq(n_unmaps, 0);
}
END_TEST

/* ---- advice ---- */

struct mode { const char *text; int advice, expected; };
static const struct mode modes[] = {
  { "[always] madvise never\n", 1, MADV_NOHUGEPAGE },
  { "always [madvise] never\n", 1, -1 },
  { "always madvise [never]\n", 1, -1 },
  { NULL, 1, MADV_NOHUGEPAGE },
  { "[always] madvise never\n", 2, MADV_HUGEPAGE },
  { "always [madvise] never\n", 2, MADV_HUGEPAGE },
  { "[always] madvise never\n", 0, -1 },
};

START_TEST(advises_on_huge_pages_by_mode) {
  const struct mode *m = &modes[_i];
  count_calls();
  file_text = m->text;
  mi__os_set_thp_advice(m->advice);
  for (int i = 0; i < 3; i++)
    ck_assert_ptr_nonnull(mi__os_map(2 * MI_MIB, 2 * MI_MIB, MI_OS_COMMIT));
  ck_assert_int_eq(n_advices, m->expected < 0 ? 0 : 3);
  if (m->expected >= 0) ck_assert_int_eq(advice[2], m->expected);
}
END_TEST

START_TEST(gives_up_advice_that_is_refused) {
  count_calls();
  refuse_advice = -1;
  refuse_error = EPERM;
  mi__os_set_thp_advice(2);
  for (int i = 0; i < 3; i++)
    ck_assert_ptr_nonnull(mi__os_map(2 * MI_MIB, 2 * MI_MIB, MI_OS_COMMIT));
  ck_assert_int_eq(n_advices, 1);
}
END_TEST

/* ---- names ---- */

#if defined(__x86_64__)
static volatile int n_names;
static volatile size_t named_bytes;

static void answer_prctl(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *c = context;
  n_names++;
  named_bytes += (size_t)c->uc_mcontext.gregs[REG_R10];
  c->uc_mcontext.gregs[REG_RAX] = 0;
}

START_TEST(names_mappings_once_the_process_lives_on) {
  if (mi_test_under_shadow()) return;
  struct sigaction action = { .sa_sigaction = answer_prctl, .sa_flags = SA_SIGINFO };
  ck_assert_int_eq(sigaction(SIGSYS, &action, NULL), 0);
  int calls[] = { SYS_prctl };
  if (!filter_calls(calls, 1, SECCOMP_RET_TRAP)) return;
  char *p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  void *gone = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  ck_assert_int_eq(n_names, 0);
  ck_assert(mi__os_unmap(gone, MI_MIB));
  ck_assert(mi__os_discard(p, 4096, false));
  ck_assert_int_eq(n_names, 1);
  ck_assert_uint_eq(named_bytes, MI_MIB);
  (void)mi__os_map(2 * MI_MIB, MI_MIB, MI_OS_COMMIT);
  ck_assert_int_eq(n_names, 2);
  ck_assert_uint_eq(named_bytes, 3 * MI_MIB);
}
END_TEST

START_TEST(names_the_first_mappings_with_the_fifth) {
  if (mi_test_under_shadow()) return;
  struct sigaction action = { .sa_sigaction = answer_prctl, .sa_flags = SA_SIGINFO };
  ck_assert_int_eq(sigaction(SIGSYS, &action, NULL), 0);
  int calls[] = { SYS_prctl };
  if (!filter_calls(calls, 1, SECCOMP_RET_TRAP)) return;
  for (int i = 0; i < 4; i++) (void)mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  ck_assert_int_eq(n_names, 0);
  (void)mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
  ck_assert_int_eq(n_names, 5);
}
END_TEST
#endif

/* E07 madvise-refused: the filter of a sandbox refuses everything that is not needed. */
START_TEST(works_where_a_filter_refuses_all_advice) {
  int calls[] = { SYS_madvise, SYS_prctl, SYS_mincore, SYS_mbind, SYS_mremap };
  if (!filter_calls(calls, sizeof(calls) / sizeof(calls[0]), SECCOMP_RET_ERRNO | EPERM)) return;
  mi__os_set_thp_advice(2);
  char *p = NULL;
  for (int i = 0; i < 8; i++) {
    errno = 4711;
    p = mi__os_map(MI_MIB, MI_MIB, MI_OS_COMMIT);
    ck_assert_ptr_nonnull(p);
    memset(p, 0xAB, MI_MIB);
    ck_assert(!mi__os_discard(p, MI_MIB, false));
    ck_assert_ptr_null(mi__os_remap(p, MI_MIB, 2 * MI_MIB, MI_MIB, true));
    mi__os_bind_numa(p, MI_MIB, 0);
    ck_assert_int_eq(mi__os_is_resident(p), -1);
    ck_assert_int_eq(errno, 4711);
    ck_assert_int_eq((unsigned char)p[5], 0xAB);
  }
  ck_assert(mi__os_unmap(p, MI_MIB));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("os/linux");
  if (!mi_test_forks()) return 77;
  TCase *map = tcase_create("map");
  tcase_set_timeout(map, 60);
  tcase_add_loop_test(map, maps_zero_memory_at_the_alignment, 0, 5);
  tcase_add_test(map, needs_one_call_when_the_place_is_free);
  tcase_add_test(map, trims_when_the_kernel_takes_no_hints);
  tcase_add_loop_test(map, fails_at_each_call_without_a_trace, 1, 4);
  tcase_add_test(map, fails_at_the_limit_of_the_process);
  tcase_add_test(map, fails_for_sizes_that_wrap);
  if (!mi_test_under_shadow()) {
    tcase_add_test_raise_signal(map, reserved_memory_cannot_be_read, SIGSEGV);
    tcase_add_test_raise_signal(map, protected_memory_cannot_be_read, SIGSEGV);
  }
  tcase_add_test(map, committed_memory_can_be_written);
  if (sizeof(void *) > 4) tcase_add_test(map, stays_below_the_address_limit);
  tcase_add_test(map, takes_an_unmapped_place_again);
  suite_add_tcase(suite, map);

  TCase *discard = tcase_create("discard");
  tcase_set_timeout(discard, 60);
  tcase_add_test(discard, discarded_memory_reads_as_zero);
  tcase_add_test(discard, lazy_discard_is_lazy);
  tcase_add_test(discard, lazy_discard_has_a_second_way);
  tcase_add_loop_test(discard, refused_discard_changes_nothing, 0, 4);
  tcase_add_test(discard, locked_memory_can_be_discarded);
  tcase_add_test(discard, decommit_where_the_kernel_overcommits);
  tcase_add_test(discard, decommit_where_the_kernel_charges);
  tcase_add_test(discard, refused_decommit_changes_nothing);
  suite_add_tcase(suite, discard);

  TCase *remap = tcase_create("remap");
  tcase_set_timeout(remap, 60);
  tcase_add_test(remap, remap_moves_to_the_alignment);
  tcase_add_test(remap, remap_grows_and_shrinks_in_place);
  tcase_add_test(remap, refused_remap_changes_nothing);
  tcase_add_test(remap, refused_remap_leaves_the_memory_of_others_alone);
  suite_add_tcase(suite, remap);

  TCase *advise = tcase_create("advice");
  tcase_set_timeout(advise, 60);
  tcase_add_loop_test(advise, advises_on_huge_pages_by_mode, 0,
    (int)(sizeof(modes) / sizeof(modes[0])));
  tcase_add_test(advise, gives_up_advice_that_is_refused);
#if defined(__x86_64__)
  tcase_add_test(advise, names_mappings_once_the_process_lives_on);
  tcase_add_test(advise, names_the_first_mappings_with_the_fifth);
#endif
  tcase_add_test(advise, works_where_a_filter_refuses_all_advice);
  suite_add_tcase(suite, advise);
  return mi_test_run_suite(suite);
}
