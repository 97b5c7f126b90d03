/* SPDX-License-Identifier: MIT */
/* The options about where memory comes from: arena_reserve, reserve_os_memory, arena_eager_commit,
 * arena_max_object_size, disallow_os_alloc, disallow_arena_alloc, allow_thp, allow_large_os_pages,
 * reserve_huge_os_pages, reserve_huge_os_pages_at, use_numa_nodes, arena_is_numa_local,
 * page_commit_on_demand. */
#include "env/maps.h"
#include <errno.h>

#define MIB ((size_t)1 << 20)

static struct env_run run;

/* ---- the second runs ---- */

/* "region RW-region" around a small block, in MiB. */
static int show_region(void) {
  char *p = mi_malloc(100);
  CHECK(p != NULL);
  struct env_region r = env_region_of(p);
  printf("%zu %zu\n", r.mib, r.rw_mib);
  return 0;
}

/* Does the place of a block of 8 MiB stay mapped when it is freed? That of an arena does. */
static int show_large(void) {
  char *large = mi_malloc(8 * MIB);
  CHECK(large != NULL);
  memset(large, 1, 8 * MIB);
  uintptr_t inside = (uintptr_t)large + 4 * MIB;
  mi_free(large);
  printf("mapped %d\n", env_is_mapped((void *)inside));
  return 0;
}

/* How many blocks of 1 MiB can be had, up to 100? */
static int show_count(void) {
  static char *block[100];
  int n = 0;
  errno = 0;
  while (n < 100 && (block[n] = mi_malloc(MIB)) != NULL) n++;
  CHECK(n == 100 || errno == ENOMEM);
  for (int i = 0; i < n; i++) mi_free(block[i]);
  printf("%d\n", n);
  return 0;
}

/* The arenas, after a block of 1 MiB that was had from one of them. */
static int show_arenas(void) {
  char *p = mi_malloc(MIB);
  CHECK(p != NULL);
  memset(p, 1, MIB);
  mi_arenas_print();
  return 0;
}

/* KiB that are committed for a block of 100 KiB, and for eight. */
static int show_committed(void) {
  size_t one, eight;
  char *p = mi_malloc(100 << 10);
  CHECK(p != NULL);
  memset(p, 1, 100 << 10);
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &one, NULL, NULL);
  for (int i = 1; i < 8; i++) {
    CHECK((p = mi_malloc(100 << 10)) != NULL);
    memset(p, 1, 100 << 10);
  }
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &eight, NULL, NULL);
  printf("%zu %zu\n", one >> 10, eight >> 10);
  return 0;
}

static int show_huge_advice(void) {
  char *p = mi_malloc(100);
  *p = 1;
  printf("hg %d nh %d\n", env_has_flag(p, " hg"), env_has_flag(p, " nh"));
  return 0;
}

/* ---- the first run ---- */

static void check_region(const char *entry, size_t mib) {
  env_run(&run, ENV(entry), "region", NULL);
  size_t got = strtoul(run.out, NULL, 10);
  ENV_CHECK(&run, run.status == 0 && got >= mib && got < mib + mib / 4 + 8, "%s", entry);
}

static void check_commit(const char *entry, size_t min, size_t max) {
  env_run(&run, ENV(entry, "MIMALLOC_ARENA_RESERVE=256M"), "region", NULL);
  char *end;
  size_t mib = strtoul(run.out, &end, 10), rw = strtoul(end, NULL, 10);
  ENV_CHECK(&run, run.status == 0 && mib >= 256 && rw >= min && rw <= max, "%s", entry);
}

static void check_large(const char *entry, const char *want) {
  env_run(&run, ENV(entry), "large", NULL);
  ENV_CHECK(&run, run.status == 0 && strcmp(run.out, want) == 0, "%s", entry);
}

static void check_count(const char *const *entries, int min, int max) {
  env_run(&run, entries, "count", NULL);
  int n = atoi(run.out);
  ENV_CHECK(&run, run.status == 0 && n >= min && n <= max, "%s", entries[0]);
  ENV_CHECK(&run, run.err[0] == 0, "%s", entries[0]);
}

static void check_thp(void) {
  const char *mode = env_read_maps("/sys/kernel/mm/transparent_hugepage/enabled");
  bool none = *mode == 0, always = strstr(mode, "[always]") != NULL;
  if (none) return; /* the kernel knows no such flags */
  const char *out = always ? "hg 0 nh 1\n" : "hg 0 nh 0\n";
  static const char *const entries[] = { "MIMALLOC_ALLOW_THP=0", "MIMALLOC_ALLOW_THP=1",
    "MIMALLOC_ALLOW_THP=2" };
  for (int i = 0; i < 3; i++) {
    env_run(&run, ENV(entries[i]), "thp", NULL);
    if (i == 2) out = "hg 1 nh 0\n";
    ENV_CHECK(&run, run.status == 0 && strcmp(run.out, out) == 0, "%s", entries[i]);
  }
}

static void check_committed(const char *const *entries, size_t one, size_t eight) {
  env_run(&run, entries, "committed", NULL);
  char *end;
  size_t first = strtoul(run.out, &end, 10), all = strtoul(end, NULL, 10);
  ENV_CHECK(&run, run.status == 0 && first >= one && all >= eight, "%s", entries[0]);
  ENV_CHECK(&run, first <= one + 200 && all <= eight + 200, "%s", entries[0]);
}

static size_t free_pages(const char *path) { return strtoul(env_read_maps(path), NULL, 10); }

/* Where the machine has none of the pages there is one warning, and ordinary memory; else the first
 * arena is pinned. */
static void check_pages(const char *const *entries, size_t n_free, const char *warning) {
  env_run(&run, entries, "arenas", NULL);
  ENV_CHECK(&run, run.status == 0, "%s", entries[0]);
  ENV_CHECK(&run, env_count(run.err, warning) == (n_free == 0), "%s", entries[0]);
  ENV_CHECK(&run, env_count(run.err, "warning: ") == (n_free == 0), "%s", entries[0]);
  ENV_CHECK(&run, (strstr(run.err, "pinned") != NULL) == (n_free > 0), "%s", entries[0]);
}

static void check_large_and_huge(void) {
  size_t large = free_pages("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  size_t huge = free_pages("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages");
  check_pages(ENV("MIMALLOC_ALLOW_LARGE_OS_PAGES=2", "MIMALLOC_ARENA_RESERVE=4M",
                  "MIMALLOC_SHOW_ERRORS=1"), large / 2, "no large OS pages for an arena");
  const char *warning = "only 0 of 1 huge OS pages could be reserved";
  check_pages(ENV("MIMALLOC_RESERVE_HUGE_OS_PAGES=1", "MIMALLOC_SHOW_ERRORS=1"), huge, warning);
  check_pages(ENV("MIMALLOC_RESERVE_HUGE_OS_PAGES=1", "MIMALLOC_SHOW_ERRORS=1",
                  "MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=0"), huge, warning);
  check_pages(ENV("MIMALLOC_RESERVE_HUGE_OS_PAGES=1", "MIMALLOC_SHOW_ERRORS=1",
                  "MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=7", "MIMALLOC_USE_NUMA_NODES=1"),
              huge, warning);
}

/* What can be seen of nodes on a machine with one: that all goes on as without the options, and
 * that there is one arena. */
static void check_nodes(void) {
  static const char *const nodes[] = { "MIMALLOC_USE_NUMA_NODES=0", "MIMALLOC_USE_NUMA_NODES=1",
    "MIMALLOC_USE_NUMA_NODES=2" };
  for (int i = 0; i < 3; i++) {
    check_count(ENV(nodes[i], "MIMALLOC_ARENA_IS_NUMA_LOCAL=1"), 100, 100);
    env_run(&run, ENV(nodes[i], "MIMALLOC_ARENA_IS_NUMA_LOCAL=1"), "arenas", NULL);
    ENV_CHECK(&run, run.status == 0, "%s", nodes[i]);
    if (i == 1) ENV_CHECK(&run, env_count(run.err, "arena ") == 1, "%s", nodes[i]);
  }
}

int main(int argc, char **argv) {
  (void)argc;
  const char *mode = argv[1] != NULL ? argv[1] : "";
  if (strcmp(mode, "region") == 0) return show_region();
  if (strcmp(mode, "large") == 0) return show_large();
  if (strcmp(mode, "count") == 0) return show_count();
  if (strcmp(mode, "thp") == 0) return show_huge_advice();
  if (strcmp(mode, "arenas") == 0) return show_arenas();
  if (strcmp(mode, "committed") == 0) return show_committed();
  if (sizeof(void *) < 8) return MI_TEST_SKIP; /* the figures are those of 64 bits */
  bool overcommits = env_read_maps("/proc/sys/vm/overcommit_memory")[0] != '2';

  check_region("MIMALLOC_VERBOSE=0", 1024);
  check_region("MIMALLOC_ARENA_RESERVE=64M", 64);
  check_region("MIMALLOC_ARENA_RESERVE=300MiB", 300);
  check_region("MIMALLOC_RESERVE_OS_MEMORY=128M", 128);
  check_commit("MIMALLOC_ARENA_EAGER_COMMIT=0", 0, 8);
  if (overcommits) {
    check_commit("MIMALLOC_ARENA_EAGER_COMMIT=1", 256, 300);
    check_large("MIMALLOC_VERBOSE=0", "mapped 1\n");
  }
  check_large("MIMALLOC_ARENA_MAX_OBJECT_SIZE=1M", "mapped 0\n");
  check_large("MIMALLOC_DISALLOW_ARENA_ALLOC=1", "mapped 0\n");
  check_count(ENV("MIMALLOC_VERBOSE=0"), 100, 100);
  check_count(ENV("MIMALLOC_DISALLOW_OS_ALLOC=1", "MIMALLOC_SHOW_ERRORS=0"), 0, 0);
  check_count(ENV("MIMALLOC_DISALLOW_OS_ALLOC=1", "MIMALLOC_SHOW_ERRORS=0", "MIMALLOC_RESERVE_OS_MEMORY=64M"), 20, 64);
  check_count(ENV("MIMALLOC_DISALLOW_ARENA_ALLOC=1"), 100, 100);
  check_count(ENV("MIMALLOC_ALLOW_LARGE_OS_PAGES=1"), 100, 100);
  check_thp();
  check_large_and_huge();
  check_nodes();
  check_committed(ENV("MIMALLOC_PAGE_COMMIT_ON_DEMAND=0"), 4096, 4096);
  const char *by_span = "MIMALLOC_ARENA_EAGER_COMMIT=0";
  check_committed(ENV("MIMALLOC_PAGE_COMMIT_ON_DEMAND=0", by_span), 4096, 4096);
  check_committed(ENV("MIMALLOC_PAGE_COMMIT_ON_DEMAND=1", by_span), 128, 896);
  if (overcommits) check_committed(ENV("MIMALLOC_PAGE_COMMIT_ON_DEMAND=2", by_span), 4096, 4096);
  return 0;
}
