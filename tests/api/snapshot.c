/* SPDX-License-Identifier: MIT */
/* Snapshots (doc/snapshot.md), read back: totals are those of the statistics while threads are held; the maps tell of each
 * block whether it lives; pages of all heaps, arenas and mappings of their own are there once; the file is sound while others
 * allocate and free; errors are told, and nothing is lost by them; what the options ask for at exit. */
#include "idle/idle.h"
#include <mimalloc-stats.h>
#include <sys/stat.h>

/* ---- a reader ---- */

struct page {
  uint64_t start, block_size, committed, tid, heap;
  uint32_t reserved, capacity, used, n_slices, arena;
  bool direct, abandoned, has_map;
  const unsigned char *map;
};
static unsigned char *file;
static size_t length, at;
static struct page page[65536];
static size_t n_pages, n_maps, n_arenas, n_heaps, n_heap_pages;
static uint32_t flags;
static uint64_t tid;

static uint64_t get(size_t size) {
  uint64_t x = 0;
  if (length - at < size) FAIL("the file ends at byte %zu", length);
  memcpy(&x, file + at, size); /* low byte first */
  at += size;
  return x;
}
static uint32_t get32(void) { return (uint32_t)get(4); }

static void read_pages(uint32_t arena) {
  CHECK(get32() == 0x45474150);
  uint64_t start, last = 0;
  while ((start = get(8)) != 0) {
    CHECK(n_pages < sizeof page / sizeof *page);
    struct page *p = &page[n_pages++];
    p->start = start;
    CHECK(start > last); /* by address */
    last = start;
    CHECK((get(8) & 0xffff) == 0);
    p->block_size = get(8);
    p->reserved = get32();
    p->capacity = get32();
    p->used = get32();
    p->committed = get(8);
    p->tid = get(8);
    p->heap = get(8);
    p->arena = get32();
    CHECK(p->arena == arena);
    (void)get32();
    p->n_slices = get32();
    p->direct = get(1) != 0;
    unsigned kind = (unsigned)get(1);
    p->abandoned = get(1) != 0;
    bool full = get(1) != 0;
    p->has_map = get(1) != 0;
    CHECK(get(3) == 0 && kind <= 3 && p->direct == (arena == UINT32_MAX));
    if (p->used > p->capacity || p->capacity > p->reserved || p->committed > p->capacity * p->block_size)
      FAIL("a page of %llu: %u used, %u of %u, %llu bytes", (unsigned long long)p->block_size, p->used, p->capacity, p->reserved,
           (unsigned long long)p->committed);
    CHECK(full == (p->used == p->reserved) && p->n_slices * 65536ull >= p->committed);
    CHECK(p->has_map == ((flags & MI_SNAPSHOT_BLOCKS) != 0 && kind < 3));
    if (!p->has_map) continue;
    uint32_t bytes = get32(), n_free = 0;
    CHECK(bytes == (p->reserved + 7) / 8 && length - at >= bytes);
    p->map = file + at;
    for (uint32_t i = 0; i < bytes; i++) n_free += (uint32_t)__builtin_popcount((unsigned)get(1));
    CHECK(n_free == p->reserved - p->used);
    n_maps++;
  }
}

static void read_all(void) {
  at = n_pages = n_maps = n_heaps = n_heap_pages = 0;
  CHECK(get32() == 0x5348494D && get32() == 1 && get32() == sizeof(void *) && get32() == 65536);
  flags = get32();
  CHECK(get32() == 0);
  (void)get(8);
  tid = get(8);
  n_arenas = get32();
  for (size_t i = 0; i < n_arenas; i++) {
    CHECK(get32() == 0x414E5241);
    uint32_t index = get32();
    uint64_t start = get(8), size = get(8);
    uint32_t n = get32(), outside = get32();
    CHECK(start != 0 && size == n * 65536ull && outside <= n);
    (void)get(4 + 4); /* node, properties */
    size_t free = 0, marked = 0, bits = at;
    for (int k = 0; k < 3; k++) {
      uint32_t chunks = get32();
      CHECK(chunks == n / 64 && get32() == 8);
      for (uint32_t c = 0; c < chunks; c++) {
        uint64_t word = get(8);
        if (k == 1) free += (size_t)__builtin_popcountll(word);
        if (k == 2) marked += (size_t)__builtin_popcountll(word);
      }
    }
    CHECK(at - bits == 3 * (8 + n / 8) && free + outside <= n && marked <= n);
    size_t before = n_pages, used = 0;
    read_pages(index);
    for (size_t p = before; p < n_pages; p++) {
      CHECK(page[p].start >= start && page[p].start - start < size);
      used += page[p].n_slices;
    }
    if (used > n - outside) FAIL("arena %u: %zu slices of pages, %u in all", index, used, n - outside);
  }
  read_pages(UINT32_MAX);
  uint32_t tag;
  while ((tag = get32()) == 0x50414548) {
    CHECK(get(8) > 0 && (get32() == UINT32_MAX || n_arenas > 0) && get(8) != 0);
    size_t before = n_pages;
    read_pages(UINT32_MAX);
    n_heaps++;
    n_heap_pages += n_pages - before;
  }
  CHECK(tag == 0x444E4520 && get(8) == n_pages && at == length);
}

static char path[256];
static void load(const char *name) {
  static unsigned char buf[16 * BEHAVE_MiB];
  int fd = open(name, O_RDONLY);
  if (fd < 0) FAIL("%s: errno %d", name, errno);
  length = 0;
  ssize_t n;
  while (length < sizeof buf && (n = read(fd, buf + length, sizeof buf - length)) > 0) length += (size_t)n;
  close(fd);
  file = buf;
  read_all();
}
static void take(unsigned with) {
  errno = 42;
  if (mi_heap_snapshot_to_file(path, with) != 0) FAIL("snapshot: errno %d", errno);
  if (!BEHAVE_SANITIZED) CHECK(errno == 42);
  load(path);
  CHECK(flags == with);
}

static const struct page *page_of(const void *block) {
  for (size_t i = 0; i < n_pages; i++) {
    uint64_t a = (uintptr_t)block;
    if (a >= page[i].start && a - page[i].start < page[i].reserved * page[i].block_size) return &page[i];
  }
  FAIL("no page has the block %p", block);
}
static bool is_live(const void *block) {
  const struct page *p = page_of(block);
  uint64_t i = ((uintptr_t)block - p->start) / p->block_size;
  CHECK(p->has_map);
  return (p->map[i / 8] >> i % 8 & 1) == 0;
}
static uint64_t live_bytes(void) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n_pages; i++) sum += page[i].used * page[i].block_size;
  return sum;
}

/* ---- threads that are held ---- */

enum { N_THREADS = 3, N_SIZES = 12, N_EACH = 200 };
static void *blocks[N_THREADS + 1][N_SIZES][N_EACH];
static pthread_barrier_t barrier;
static mi_heap_t *heap; /* of the last of them */
static void *huge[N_THREADS + 1];

static size_t size_of(int k) { return (size_t)16 << k; } /* to 32 KiB */
static void *allocate(void *arg) {
  size_t me = (uintptr_t)arg;
  mi_heap_t *mine = me == N_THREADS - 1 ? heap : mi_heap_main();
  for (int k = 0; k < N_SIZES; k++)
    for (int i = 0; i < N_EACH; i++) CHECK((blocks[me][k][i] = mi_heap_malloc(mine, size_of(k))) != NULL);
  CHECK((huge[me] = mi_heap_malloc(mine, 8 * BEHAVE_MiB)) != NULL);
  for (int k = 0; k < N_SIZES; k++)
    for (int i = 0; i < N_EACH; i++)
      if (i % 3 != 0) mi_free(blocks[me][k][i]);
  if (me == N_THREADS) return NULL;
  mi_stats_merge(); /* what this thread has counted */
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

/* What the main thread frees of others' blocks goes in runs, which count as live until they are pushed. */
static void check_held(void) {
  heap = mi_heap_new();
  CHECK(heap != NULL);
  pthread_t t[N_THREADS];
  pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
  for (uintptr_t i = 0; i < N_THREADS; i++) t[i] = start(allocate, (void *)i);
  (void)allocate((void *)N_THREADS);
  pthread_barrier_wait(&barrier);
  for (int with = 0; with < 2; with++) {
    if (with) mi_on_thread_idle(); /* holes change nothing of what is live */
    mi_collect(false);
    mi_stats_t stats;
    mi_stats_init(&stats);
    take(with ? MI_SNAPSHOT_BLOCKS : 0);
    CHECK(mi_stats_get(&stats));
    uint64_t live = (uint64_t)(stats.malloc_normal.current + stats.malloc_huge.current);
    if (live_bytes() != live)
      FAIL("%llu live bytes, %llu by the statistics", (unsigned long long)live_bytes(), (unsigned long long)live);
    if (n_pages != (size_t)stats.pages.current) FAIL("%zu pages, not %lld", n_pages, (long long)stats.pages.current);
    CHECK(n_heaps == 1 && tid == (uint64_t)gettid() && n_arenas >= 1 && (with ? n_maps > 20 : n_maps == 0));
  }
  for (int k = 0; k < N_SIZES; k++)
    for (size_t me = 0; me <= N_THREADS; me++)
      for (int i = 0; i < N_EACH; i++) {
        const struct page *p = page_of(blocks[me][k][i]);
        CHECK(p->heap == mi_heap_get_seq(me == N_THREADS - 1 ? heap : mi_heap_main()));
        if (i % 3 == 0 && !is_live(blocks[me][k][i])) FAIL("a live block of %zu bytes is free", size_of(k));
        if (me == N_THREADS && i % 3 != 0 && is_live(blocks[me][k][i])) FAIL("a free block of %zu bytes lives", size_of(k));
        CHECK(p->abandoned ? p->tid == 0 : p->tid == 0 || (p->tid == tid) == (me == N_THREADS));
      }
  for (size_t me = 0; me <= N_THREADS; me++) CHECK(page_of(huge[me])->used == 1);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < N_THREADS; i++) join(t[i]);
  take(MI_SNAPSHOT_BLOCKS);
  size_t n_abandoned = 0;
  for (size_t i = 0; i < n_pages; i++) n_abandoned += page[i].abandoned;
  CHECK(n_abandoned > 0 && is_live(blocks[0][0][0]));
  mi_heap_destroy(heap);
}

/* Mappings of their own: of the main heap, and of another. */
static void check_direct(void) {
  void *p = malloc(3 * BEHAVE_MiB), *q;
  heap = mi_heap_new();
  mi_option_set(mi_option_disallow_arena_alloc, 1);
  CHECK((q = malloc(5 * BEHAVE_MiB)) != NULL);
  void *r = mi_heap_malloc(heap, 6 * BEHAVE_MiB);
  CHECK(p != NULL && r != NULL);
  mi_option_set(mi_option_disallow_arena_alloc, 0);
  take(0);
  CHECK(!page_of(p)->direct && page_of(q)->direct && page_of(r)->direct);
  CHECK(page_of(r)->heap == mi_heap_get_seq(heap) && n_heap_pages == 1);
  mi_heap_destroy(heap);
  free(p);
  free(q);
}

/* ---- under load ---- */

static _Atomic(bool) stop;
static void *churn(void *arg) {
  uint64_t rng = behave_seed() ^ (uintptr_t)arg;
  void *held[256] = {0};
  while (!stop) {
    size_t i = behave_random(&rng) % 256;
    free(held[i]);
    held[i] = malloc(behave_random_size(&rng, 8, i == 0 ? 4 * BEHAVE_MiB : 100 * BEHAVE_KiB));
    if (behave_random(&rng) % 512 == 0) {
      mi_heap_t *h = mi_heap_new();
      CHECK(mi_heap_malloc(h, 100) != NULL);
      mi_heap_destroy(h);
      mi_on_thread_idle();
    }
  }
  for (int i = 0; i < 256; i++) free(held[i]);
  return NULL;
}
/* Counts of a page that others work on need not agree with its map: the parts of the file do. */
static void check_load(void) {
  pthread_t t[3];
  for (uintptr_t i = 0; i < 3; i++) t[i] = start(churn, (void *)(i + 1));
  for (size_t i = 0; i < mi_test_scale(20, 200); i++) take(i % 2);
  stop = true;
  for (int i = 0; i < 3; i++) join(t[i]);
}

/* ---- errors ---- */

#define FAILS(call, error) \
  do { \
    errno = 0; \
    if ((call) != -1 || errno != (error)) FAIL(#call ": errno %d", errno); \
  } while (0)
static void check_errors(void) {
  FAILS(mi_heap_snapshot(-1, 0), EBADF);
  FAILS(mi_heap_snapshot(1, 2), EINVAL);
  FAILS(mi_heap_snapshot_to_file(NULL, 0), EINVAL);
  FAILS(mi_heap_snapshot_to_file(path, 8), EINVAL);
  FAILS(mi_heap_snapshot_to_file("/nowhere/at/all", 0), ENOENT);
  if (access("/dev/full", W_OK) == 0) FAILS(mi_heap_snapshot_to_file("/dev/full", 0), ENOSPC);
  int ends[2];
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  FAILS(mi_heap_snapshot(ends[1], 0), EPIPE);
  close(ends[1]);
  take(0);
  struct stat st;
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
}

/* ---- for misc/heapview_test.sh ---- */

/* Writes the file; prints what the statistics say of the pages and live bytes. */
static void write_held(void) {
  heap = mi_heap_new();
  pthread_t t[N_THREADS];
  pthread_barrier_init(&barrier, NULL, N_THREADS + 1);
  for (uintptr_t i = 0; i < N_THREADS; i++) t[i] = start(allocate, (void *)i);
  pthread_barrier_wait(&barrier);
  mi_stats_t stats;
  mi_stats_init(&stats);
  CHECK(mi_heap_snapshot_to_file(path, MI_SNAPSHOT_BLOCKS) == 0 && mi_stats_get(&stats));
  printf("%lld %lld\n", (long long)stats.pages.current,
         (long long)(stats.malloc_normal.current + stats.malloc_huge.current));
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < N_THREADS; i++) join(t[i]);
}
static void *resize(void *arg) {
  (void)arg;
  uint64_t rng = behave_seed();
  void *p = NULL;
  while (!stop) CHECK((p = realloc(p, behave_random_size(&rng, BEHAVE_MiB, 9 * BEHAVE_MiB))) != NULL);
  free(p);
  return NULL;
}
static void write_under_load(unsigned n) {
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) t[i] = start(i == 0 ? resize : churn, (void *)(i + 1));
  for (unsigned i = 0; i < n; i++) {
    char name[300];
    snprintf(name, sizeof name, "%s.%u", path, i);
    CHECK(mi_heap_snapshot_to_file(name, i % 2) == 0);
  }
  stop = true;
  for (int i = 0; i < 4; i++) join(t[i]);
}

/* ---- at exit ---- */

static void at_exit(void) {
  for (int k = 0; k < N_SIZES; k++)
    for (int i = 0; i < N_EACH; i++) {
      void *volatile p = malloc(size_of(k) * 2);
      if (i % 3 != 0) free(p);
    }
  CHECK(malloc(8 * BEHAVE_MiB) != NULL);
}
static void check_exit(const char *const *entries, const char *name, bool with) {
  unlink(name);
  run_with(entries, "exit");
  load(name);
  CHECK(n_pages >= 12 && flags == (with ? MI_SNAPSHOT_BLOCKS : 0) && (n_maps > 0) == with);
  CHECK(unlink(name) == 0);
}

int main(int argc, char **argv) {
  mi_test_not_tracked(); /* blocks have other sizes */
  if (argc == 3) {
    behave_limit(60);
    snprintf(path, sizeof path, "%s", argv[2]);
    if (strcmp(argv[1], "held") == 0) write_held();
    else write_under_load(10);
    return 0;
  }
  if (argc > 1) {
    at_exit();
    return 0;
  }
  behave_limit(60);
  char dir[] = "/tmp/mi-snapshot-XXXXXX";
  CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
  snprintf(path, sizeof path, "%s/snapshot", dir);
  check_held();
  check_direct();
  check_load();
  check_errors();
  char variable[512], long_one[2048] = "MIMALLOC_SNAPSHOT_PATH=/";
  snprintf(variable, sizeof variable, "MIMALLOC_SNAPSHOT_PATH=%s", path);
  memset(long_one + strlen(long_one), 'x', 1500);
  check_exit(WITH("MIMALLOC_SNAPSHOT_ON_EXIT=2", variable), path, true);
  check_exit(WITH("MIMALLOC_SNAPSHOT_ON_EXIT=1", variable, "MIMALLOC_DESTROY_ON_EXIT=1"), path, false);
  char name[64];
  run_with(WITH("MIMALLOC_SNAPSHOT_ON_EXIT=1", long_one), "exit");
  run_with(WITH("MIMALLOC_SNAPSHOT_ON_EXIT=1", "MIMALLOC_SNAPSHOT_PATH=a-%p-b%p"), "exit");
  FILE *list = popen("ls", "r");
  CHECK(list != NULL && fgets(name, sizeof name, list) != NULL);
  int first, second;
  CHECK(sscanf(name, "a-%d-b%d", &first, &second) == 2 && first == second && first > 0);
  name[strcspn(name, "\n")] = 0;
  CHECK(unlink(name) == 0 && fgets(name, sizeof name, list) != NULL);
  CHECK(sscanf(name, "mimalloc-snapshot.%d.bin", &first) == 1 && first > 0);
  name[strcspn(name, "\n")] = 0;
  CHECK(unlink(name) == 0 && fgets(name, sizeof name, list) == NULL);
  pclose(list);
  run_with(WITH("MIMALLOC_SNAPSHOT_ON_EXIT=0", variable), "exit");
  CHECK(access(path, F_OK) != 0 && rmdir(dir) == 0);
  return 0;
}
