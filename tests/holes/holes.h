/* SPDX-License-Identifier: MIT */
/* What the tests of holes have in common: the counters, what is resident, blocks of one size of which some are freed, and a
 * frame that runs each scenario in a process of its own: as it is, once more with purge_holes off, where every check of data
 * holds and no counter of a discard may move, and once with huge pages asked for. A scenario with an interval mostly waits: the
 * first two then run at once.
 * Nothing here allocates but what says so. Threads: any. */
#ifndef MI_TESTS_HOLES_HOLES_H
#define MI_TESTS_HOLES_HOLES_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "idle/idle.h"

enum { LARGE_UNIT = 16384 }; /* of a page of 4 MiB where OS pages have 4 KiB */

/* ---- counters ---- */

typedef mi_purge_holes_stats_t counts;
static inline counts look(void) {
  counts now;
  mi_purge_holes_stats_get(&now);
  return now;
}
/* A short run takes fewer sizes where holes are off or huge pages are asked for. */
static inline bool few_sizes(void) {
  return mi_test_size() == MI_TEST_SHORT &&
         (mi_option_get(mi_option_purge_holes) == 0 || mi_option_get(mi_option_allow_thp) == 2);
}
static inline bool holes_on(void) { return mi_option_get(mi_option_purge_holes) != 0; }

#define MORE(before, now, field)                                                              \
  do {                                                                                        \
    if (holes_on() ? (now).field <= (before).field : (now).field != (before).field)           \
      FAIL("%s: %zu, before %zu", #field, (size_t)(now).field, (size_t)(before).field);       \
  } while (0)
#define SAME(before, now, field)                                                              \
  do {                                                                                        \
    if ((now).field != (before).field)                                                        \
      FAIL("%s: %zu, not %zu", #field, (size_t)(now).field, (size_t)(before).field);          \
  } while (0)
/* More by this at least; nothing with holes off. */
#define MORE_BY(before, now, field, least)                                                    \
  do {                                                                                        \
    MORE(before, now, field);                                                                 \
    if (holes_on() && (now).field - (before).field < (size_t)(least))                         \
      FAIL("%s: %zu more, not %zu", #field, (size_t)((now).field - (before).field), (size_t)(least)); \
  } while (0)
/* Nothing was given back, and nothing brought back. */
#define QUIET(before, now)                                                                    \
  do {                                                                                        \
    SAME(before, now, purged_bytes);                                                          \
    SAME(before, now, purged_blocks);                                                         \
    SAME(before, now, purged_bytes_total);                                                    \
    SAME(before, now, discard_calls);                                                         \
    SAME(before, now, reuse_calls);                                                           \
    SAME(before, now, pages_freed);                                                           \
    SAME(before, now, unformed_bytes_total);                                                  \
    SAME(before, now, unformed_discard_calls);                                                \
  } while (0)

static inline void check_nothing_moved(void) {
  counts now = look();
  CHECK(now.purged_bytes == 0 && now.purged_blocks == 0 && now.purged_bytes_total == 0);
  CHECK(now.discard_calls == 0 && now.reuse_calls == 0);
  CHECK(now.unformed_bytes == 0 && now.unformed_bytes_total == 0 && now.unformed_discard_calls == 0);
}

/* ---- what is resident ---- */

static inline size_t os_page(void) {
  static _Atomic size_t size;
  if (size == 0) size = (size_t)sysconf(_SC_PAGESIZE);
  return size;
}
/* Of the OS pages that lie wholly in the range, whose bounds are rounded inwards to `unit`. */
static inline size_t resident_in(const void *p, size_t size, size_t unit) {
  static _Thread_local unsigned char vec[4096];
  uintptr_t from = ((uintptr_t)p + unit - 1) & ~(uintptr_t)(unit - 1), to = ((uintptr_t)p + size) & ~(uintptr_t)(unit - 1);
  size_t n = 0;
  while (from < to) {
    size_t step = to - from < sizeof vec * os_page() ? to - from : sizeof vec * os_page();
    if (mincore((void *)from, step, vec) != 0) FAIL("mincore of %p gave errno %d", (void *)from, errno);
    for (size_t i = 0; i < step / os_page(); i++) n += vec[i] & 1;
    from += step;
  }
  return n * os_page();
}
static inline size_t units_in(const void *p, size_t size, size_t unit) {
  uintptr_t from = ((uintptr_t)p + unit - 1) & ~(uintptr_t)(unit - 1), to = ((uintptr_t)p + size) & ~(uintptr_t)(unit - 1);
  return from < to ? (to - from) / unit : 0;
}
/* "Rss" of smaps over the mappings that have a part in the range, the OS's own count. Slow. */
static inline size_t smaps_rss(const void *p, size_t size) {
  static char text[1 << 20];
  size_t length = 0, rss = 0;
  ssize_t n;
  int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) SKIP("/proc/self/smaps cannot be read");
  while (length < sizeof text - 1 && (n = read(fd, text + length, sizeof text - 1 - length)) > 0) length += (size_t)n;
  close(fd);
  text[length] = 0;
  bool within = false;
  for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    unsigned long long from, to;
    if (sscanf(line, "%llx-%llx ", &from, &to) == 2) within = from < (uintptr_t)p + size && to > (uintptr_t)p;
    else if (within && strncmp(line, "Rss:", 4) == 0) rss += strtoul(line + 4, NULL, 10) * 1024;
  }
  return rss;
}

/* Where huge pages are asked for, the kernel may make one again of memory with holes: then all 2 MiB are resident. */
static inline bool is_collapsed(uintptr_t at) {
  size_t huge = 2 * BEHAVE_MiB;
  if (mi_option_get(mi_option_allow_thp) != 2) return false;
  return resident_in((void *)(at & ~(uintptr_t)(huge - 1)), huge, huge) == huge;
}

/* ---- blocks of one size ---- */

/* Keeping one block in so many leaves at least one OS page free between those that are kept. */
static inline size_t keep_every(size_t size) { return (2 * os_page() + size - 1) / size + 2; }

/* `at` keeps the address of a block that was freed. */
struct batch {
  size_t n, size;
  uint64_t tag;
  void **block, **at;
  mi_heap_t *heap; /* NULL: malloc */
};
static inline struct batch batch_make(size_t n, size_t size, uint64_t tag) {
  struct batch f = {.n = n, .size = size, .tag = tag << 32};
  void *p = mmap(NULL, 2 * n * sizeof(void *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) FAIL("no memory for %zu pointers", n);
  f.block = p;
  f.at = f.block + n;
  return f;
}
/* Allocates. */
static inline void batch_fill_one(struct batch *f, size_t i) {
  f->block[i] = f->heap != NULL ? mi_heap_malloc(f->heap, f->size) : malloc(f->size);
  if (f->block[i] == NULL) FAIL("malloc(%zu) gave NULL", f->size);
  f->at[i] = f->block[i];
  behave_fill(f->block[i], f->size, f->tag + i);
}
static inline void batch_fill(struct batch *f) {
  for (size_t i = 0; i < f->n; i++)
    if (f->block[i] == NULL) batch_fill_one(f, i);
}
static inline struct batch batch_new(size_t n, size_t size, uint64_t tag) {
  struct batch f = batch_make(n, size, tag);
  batch_fill(&f);
  return f;
}
static inline void batch_free(struct batch *f, size_t i) {
  if (f->block[i] != NULL) free(f->block[i]);
  f->block[i] = NULL;
}
/* Frees all but every so manieth; returns how many. */
static inline size_t batch_keep_each(struct batch *f, size_t every) {
  size_t n = 0;
  for (size_t i = 0; i < f->n; i++) {
    if (i % every == 0 || f->block[i] == NULL) continue;
    batch_free(f, i);
    n++;
  }
  return n;
}
static inline void batch_verify(const struct batch *f) {
  for (size_t i = 0; i < f->n; i++) {
    if (f->block[i] == NULL) continue;
    size_t at = behave_verify(f->block[i], f->size, f->tag + i);
    if (at != f->size) FAIL("block %zu at %p is changed at byte %zu", i, f->block[i], at);
  }
}
/* The survivors have their bytes, and take new ones. */
static inline void batch_rewrite(struct batch *f) {
  batch_verify(f);
  f->tag ^= 0x5555;
  for (size_t i = 0; i < f->n; i++)
    if (f->block[i] != NULL) behave_fill(f->block[i], f->size, f->tag + i);
  batch_verify(f);
}
static inline void batch_forget(struct batch *f) { munmap(f->block, 2 * f->n * sizeof(void *)); }
/* Nothing is left of it for the next one, such as holes in a page that its thread keeps. */
static inline void batch_end(struct batch *f) {
  batch_verify(f);
  for (size_t i = 0; i < f->n; i++) batch_free(f, i);
  batch_forget(f);
  mi_collect(true);
}
/* Resident bytes in those that were freed, and how many bytes of whole units they have. */
static inline size_t batch_resident(const struct batch *f, size_t unit) {
  size_t n = 0;
  for (size_t i = 0; i < f->n; i++)
    if (f->block[i] == NULL && f->at[i] != NULL) n += resident_in(f->at[i], f->size, unit);
  return n;
}
static inline size_t batch_in_units(const struct batch *f, size_t unit) {
  size_t n = 0;
  for (size_t i = 0; i < f->n; i++)
    if (f->block[i] == NULL && f->at[i] != NULL) n += units_in(f->at[i], f->size, unit) * unit;
  return n;
}

static inline int by_address(const void *a, const void *b) {
  uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
  return x < y ? -1 : x > y;
}
/* The exact check of what a sweep gives back. OS pages of a block that lives are resident (it was written); a unit that freed
 * blocks of the batch fill without a gap is not, unless holes are off. Returns how many of these units there are. */
static inline size_t batch_check_units(const struct batch *f, size_t unit) {
  size_t n = 0, n_holes = 0, n_left = 0, size = mi_good_size(f->size);
  uintptr_t *sorted = mmap(NULL, 2 * f->n * sizeof *sorted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sorted != MAP_FAILED);
  for (size_t i = 0; i < f->n; i++)
    if (f->at[i] != NULL) sorted[n++] = (uintptr_t)f->at[i] | (f->block[i] != NULL ? 1 : 0);
  /* Insertion is quick on what is nearly sorted; qsort may allocate. */
  for (size_t i = 1; i < n; i++) {
    uintptr_t x = sorted[i];
    size_t k = i;
    for (; k > 0 && sorted[k - 1] > x; k--) sorted[k] = sorted[k - 1];
    sorted[k] = x;
  }
  for (size_t i = 0; i < n; i++) {
    uintptr_t start = sorted[i] & ~(uintptr_t)1, unit_at = start & ~(uintptr_t)(unit - 1);
    if (sorted[i] & 1) { /* it lives */
      uintptr_t first = start & ~(uintptr_t)(os_page() - 1), last = (start + f->size - 1) & ~(uintptr_t)(os_page() - 1);
      if (resident_in((void *)first, last + os_page() - first, os_page()) != last + os_page() - first)
        FAIL("a block that lives, at %p, is not resident", (void *)start);
      continue;
    }
    /* Units that begin in this block. */
    for (unit_at = (start + unit - 1) & ~(uintptr_t)(unit - 1); unit_at < start + size; unit_at += unit) {
      size_t k = i;
      while (k < n && (sorted[k] & 1) == 0 && sorted[k] + size < unit_at + unit && k + 1 < n &&
             (sorted[k + 1] & ~(uintptr_t)1) == sorted[k] + size)
        k++;
      if ((sorted[k] & 1) != 0 || sorted[k] + size < unit_at + unit) continue;
      n_holes++;
      if (resident_in((void *)unit_at, unit, unit) != 0 && !is_collapsed(unit_at)) n_left++;
    }
  }
  munmap(sorted, 2 * f->n * sizeof *sorted);
  if (holes_on() && n_left > 0) FAIL("of %zu free units %zu are resident (blocks of %zu)", n_holes, n_left, f->size);
  return n_holes;
}

/* ---- the frame ---- */

struct scenario {
  const char *name;
  void (*run)(void);
  const char *options[6];
  bool needs_parks;
};

/* With an interval it takes so long that the kernel's huge pages come back in between. */
static inline bool has_interval(const struct scenario *s) {
  static const char name[] = "MIMALLOC_PURGE_HOLES_MIN_INTERVAL=";
  for (const char *const *o = s->options; *o != NULL; o++)
    if (strncmp(*o, name, sizeof name - 1) == 0) return strcmp(*o + sizeof name - 1, "0") != 0;
  return false;
}

static inline int run_scenarios(int argc, char **argv, const struct scenario *all, size_t n, const char *const *base) {
  behave_limit(mi_test_size() == MI_TEST_SHORT ? 250 : 1500);
  if (argc > 1) {
    for (size_t i = 0; i < n; i++) {
      if (strcmp(argv[1], all[i].name) != 0) continue;
      if (all[i].needs_parks) idle_skip_without_parks();
      all[i].run();
      const char *holes = getenv("MIMALLOC_PURGE_HOLES");
      if (holes != NULL && strcmp(holes, "0") == 0) check_nothing_moved();
      return 0;
    }
    return MI_TEST_ERROR;
  }
  if (os_page() != 4096) SKIP("OS pages have %zu bytes here", os_page());
  for (size_t i = 0; i < n; i++) {
    static const char *const how[] = {"MIMALLOC_PURGE_HOLES=1", "MIMALLOC_PURGE_HOLES=0", "MIMALLOC_ALLOW_THP=2"};
    pid_t both[2];
    const char *options[3][32];
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
      if (k == 2 && has_interval(&all[i])) continue;
      size_t m = 0;
      options[k][m++] = how[k];
      options[k][m++] = "MIMALLOC_MINIMAL_PURGE_SIZE=64KiB"; /* pages that are wholly free go as ever */
      /* Of two values of one variable the first counts. */
      for (const char *const *o = all[i].options; *o != NULL; o++) options[k][m++] = *o;
      for (const char *const *o = base; *o != NULL; o++) options[k][m++] = *o;
      options[k][m] = NULL;
      if (has_interval(&all[i])) both[k] = run_begin(options[k], all[i].name);
      else run_with(options[k], all[i].name);
    }
    for (size_t k = 0; k < 2 && has_interval(&all[i]); k++) run_end(both[k], options[k], all[i].name);
  }
  return 0;
}
#define N_OF(array) (sizeof(array) / sizeof *(array))

#endif
