/* SPDX-License-Identifier: MIT */
/* Statistics are exact once the threads have ended: each thread counts its own allocations and frees
 * by size class, and the sums are those of the library, to the block: numbers of blocks, now and in
 * all, bytes, and nothing left in the end. With blocks that other threads free, realloc in all its
 * ways, aligned and huge blocks; of the main heap, of a heap that is used by all threads, and of
 * one that is destroyed or deleted. */
#include "stats.h"

enum { THREADS = 4, SLOTS = 400, BINS = MI_BIN_HUGE + 1, MAILBOX = 64 };

/* What a thread did. */
struct tally {
  int64_t n[BINS], live[BINS]; /* blocks allocated, and less those freed */
  int64_t normal_bytes, normal_live, huge_bytes, huge_live, n_normal, n_huge;
};

static size_t steps;
static mi_heap_t *heap; /* NULL: the main heap, by mi_malloc */
static struct tally tallies[THREADS];
static pthread_barrier_t barrier;

/* Blocks that a thread leaves for the others to free. */
static struct {
  pthread_mutex_t lock;
  void *block[MAILBOX];
  size_t n;
} mailbox = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_huge(size_t usable) { return usable > 512 * 1024; }

static void tally_block(struct tally *t, size_t usable, int by) {
  size_t bin = bin_of(usable);
  t->live[bin] += by;
  if (by > 0) t->n[bin] += by;
  int64_t bytes = by * (int64_t)usable;
  if (is_huge(usable)) {
    t->huge_live += bytes;
    if (by > 0) t->huge_bytes += bytes, t->n_huge++;
  } else {
    t->normal_live += bytes;
    if (by > 0) t->normal_bytes += bytes, t->n_normal++;
  }
}

static void free_block(struct tally *t, void *p) {
  if (p == NULL) return;
  tally_block(t, mi_usable_size(p), -1);
  mi_free(p);
}

/* Small ones mostly, all kinds of pages, huge ones now and then. */
static size_t random_size(uint32_t *random) {
  uint32_t r = next_random(random), kind = r % 64;
  r >>= 8;
  if (kind == 0) return 512 * 1024 + 1 + r % (6 << 20);
  if (kind < 3) return 64 * 1024 + r % (448 * 1024);
  if (kind < 8) return 8192 + r % (56 * 1024);
  if (kind < 20) return 1024 + r % 7168;
  return 1 + r % 1024;
}

/* Powers of two: a multiple of the alignment is a block of its class, with nothing before it. */
static void *new_aligned(uint32_t *random) {
  size_t align = (size_t)16 << next_random(random) % 9;
  size_t size = align << next_random(random) % 3;
  return heap != NULL ? mi_heap_malloc_aligned(heap, size, align) : mi_malloc_aligned(size, align);
}

static void *new_block(struct tally *t, uint32_t *random) {
  size_t size = random_size(random);
  void *p;
  switch (next_random(random) % 8) {
    case 0: p = new_aligned(random); break;
    case 1: p = heap != NULL ? mi_heap_zalloc(heap, size) : mi_zalloc(size); break;
    default: p = heap != NULL ? mi_heap_malloc(heap, size) : mi_malloc(size);
  }
  CHECK(p != NULL);
  tally_block(t, mi_usable_size(p), 1);
  return p;
}

/* A block that moves is one more and one less; so is a huge one that changes its size in its
 * place. */
static void *resize(struct tally *t, void *p, uint32_t *random) {
  size_t before = mi_usable_size(p);
  size_t size = is_huge(before) ? 520 * 1024 + next_random(random) % (6 << 20)
                                : random_size(random);
  void *q = heap != NULL ? mi_heap_realloc(heap, p, size) : mi_realloc(p, size);
  CHECK(q != NULL);
  size_t after = mi_usable_size(q);
  if (q == p && before == after) return q;
  tally_block(t, before, -1);
  tally_block(t, after, 1);
  return q;
}

static void give(struct tally *t, void *p) {
  pthread_mutex_lock(&mailbox.lock);
  void *out = NULL;
  if (mailbox.n == MAILBOX) {
    out = mailbox.block[0];
    mailbox.block[0] = p;
  } else {
    mailbox.block[mailbox.n++] = p;
  }
  pthread_mutex_unlock(&mailbox.lock);
  free_block(t, out);
}

static void take(struct tally *t) {
  pthread_mutex_lock(&mailbox.lock);
  void *p = mailbox.n > 0 ? mailbox.block[--mailbox.n] : NULL;
  pthread_mutex_unlock(&mailbox.lock);
  free_block(t, p);
}

static void *work(void *arg) {
  size_t me = (size_t)(uintptr_t)arg;
  struct tally *t = &tallies[me];
  static __thread void *slot[SLOTS];
  uint32_t random = (uint32_t)me * 7919 + 1;
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier); /* the statistics were read in between */
  for (size_t i = 0; i < steps; i++) {
    void **s = &slot[next_random(&random) % SLOTS];
    switch (next_random(&random) % 8) {
      case 0: take(t); break;
      case 1:
        if (*s != NULL) give(t, *s);
        *s = NULL;
        break;
      case 2:
        if (*s != NULL) *s = resize(t, *s, &random);
        break;
      case 3: case 4: case 5:
        if (*s == NULL) *s = new_block(t, &random);
        break;
      default:
        free_block(t, *s);
        *s = NULL;
    }
  }
  /* Every other one stays: abandoned. */
  for (size_t i = 0; i < SLOTS; i += 2) {
    free_block(t, slot[i]);
    slot[i] = NULL;
  }
  for (size_t i = 1; i < SLOTS; i += 2) {
    if (slot[i] != NULL && me % 2 == 0) give(t, slot[i]);
    else free_block(t, slot[i]);
    slot[i] = NULL;
  }
  return NULL;
}

static int64_t sum(size_t offset) {
  int64_t n = 0;
  for (size_t i = 0; i < THREADS; i++) {
    int64_t part;
    memcpy(&part, (const char *)&tallies[i] + offset, sizeof part);
    n += part;
  }
  return n;
}
#define SUM(field) sum(offsetof(struct tally, field))

static void same(const char *what, size_t bin, int64_t wanted, int64_t got) {
  if (wanted == got) return;
  fprintf(stderr, "%s %zu: counted %lld, the library says %lld\n", what, bin, (long long)wanted,
          (long long)got);
  _exit(1);
}

static void read_stats(mi_stats_t *stats, bool whole) {
  if (heap == NULL || whole) get_stats(stats);
  else get_heap_stats(heap, stats);
  check_sane(stats);
}

static void compare(const mi_stats_t *a, const mi_stats_t *b) {
  for (size_t bin = 1; bin < BINS; bin++) {
    same("blocks now, class", bin, SUM(live[bin]),
         b->malloc_bins[bin].current - a->malloc_bins[bin].current);
    same("blocks in all, class", bin, SUM(n[bin]),
         b->malloc_bins[bin].total - a->malloc_bins[bin].total);
  }
  same("bytes now", 0, SUM(normal_live), b->malloc_normal.current - a->malloc_normal.current);
  same("bytes in all", 0, SUM(normal_bytes), b->malloc_normal.total - a->malloc_normal.total);
  same("huge bytes now", 0, SUM(huge_live), b->malloc_huge.current - a->malloc_huge.current);
  same("huge bytes in all", 0, SUM(huge_bytes), b->malloc_huge.total - a->malloc_huge.total);
  same("blocks", 0, SUM(n_normal), b->malloc_normal_count.total - a->malloc_normal_count.total);
  same("huge blocks", 0, SUM(n_huge), b->malloc_huge_count.total - a->malloc_huge_count.total);
  same("requested", 0, SUM(normal_live) + SUM(huge_live),
       b->malloc_requested.current - a->malloc_requested.current);
}

static void run(const char *name, mi_heap_t *in) {
  static mi_stats_t before, after, whole, end;
  pthread_t thread[THREADS];
  fprintf(stderr, "%s\n", name);
  heap = in;
  memset(tallies, 0, sizeof tallies);
  CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
  for (size_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) == 0);
  pthread_barrier_wait(&barrier);
  read_stats(&before, false);
  get_stats(&whole);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  pthread_barrier_destroy(&barrier);
  read_stats(&after, false);
  compare(&before, &after);
  /* This thread empties abandoned pages. */
  struct tally *t = &tallies[0];
  for (size_t i = 0; i < mailbox.n / 2; i++) {
    free_block(t, mailbox.block[i]);
    mailbox.block[i] = NULL;
  }
  read_stats(&after, false);
  compare(&before, &after);
  if (heap == NULL || strstr(name, "deleted") != NULL) {
    if (heap != NULL) mi_heap_delete(heap);
    read_stats(&after, true);
    compare(heap == NULL ? &before : &whole, &after);
    for (size_t i = 0; i < mailbox.n; i++) free_block(t, mailbox.block[i]);
  } else {
    for (size_t i = 0; i < mailbox.n; i++)
      if (mailbox.block[i] != NULL) tally_block(t, mi_usable_size(mailbox.block[i]), -1);
    mi_heap_destroy(heap);
  }
  mailbox.n = 0;
  read_stats(&end, true);
  compare(heap == NULL ? &before : &whole, &end);
  CHECK(SUM(normal_live) == 0 && SUM(huge_live) == 0);
}

int main(void) {
  mi_test_not_tracked(); /* blocks are longer than what can be used of them */
  mi_option_set(mi_option_scavenger, 0); /* the C library allocates for each thread, and none may come unasked */
  steps = mi_test_scale(4000, 40000);
  run("the main heap", NULL);
  run("again", NULL);
  run("a heap that is destroyed", mi_heap_new());
  run("a heap that is deleted", mi_heap_new());
  run("again destroyed", mi_heap_new());
  return 0;
}
