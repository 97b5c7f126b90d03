/* SPDX-License-Identifier: MIT */
/* Every allocation form of heaps and theaps: what holds for its mi_ twin holds for it, and the block
 * lies in the heap that was named. Some twin per form, so that contents, alignment, errno and
 * failures are compared, not just asserted. */
#include "family.h"

static mi_heap_t *heap; /* what the forms below allocate from */
static volatile const size_t half = SIZE_MAX / 2;

/* One signature for all forms. alignment 0: the form has none. */
struct form {
  const char *name;
  void *(*act)(mi_heap_t *h, void *p, size_t size, size_t alignment, size_t offset);
  bool zero, aligned, offset, resizes, counts;
};
#define FORM(n) static void *do_##n(mi_heap_t *h, void *p, size_t s, size_t a, size_t o)
#define UNUSED (void)p, (void)a, (void)o

FORM(malloc) { UNUSED; return mi_heap_malloc(h, s); }
FORM(zalloc) { UNUSED; return mi_heap_zalloc(h, s); }
FORM(calloc) { UNUSED; return mi_heap_calloc(h, s, 1); }
FORM(mallocn) { UNUSED; return mi_heap_mallocn(h, 1, s); }
FORM(realloc) { (void)a, (void)o; return mi_heap_realloc(h, p, s); }
FORM(reallocn) { (void)a, (void)o; return mi_heap_reallocn(h, p, s, 1); }
FORM(rezalloc) { (void)a, (void)o; return mi_heap_rezalloc(h, p, s); }
FORM(recalloc) { (void)a, (void)o; return mi_heap_recalloc(h, p, 1, s); }
FORM(malloc_aligned) { (void)p, (void)o; return mi_heap_malloc_aligned(h, s, a); }
FORM(malloc_aligned_at) { (void)p; return mi_heap_malloc_aligned_at(h, s, a, o); }
FORM(zalloc_aligned) { (void)p, (void)o; return mi_heap_zalloc_aligned(h, s, a); }
FORM(zalloc_aligned_at) { (void)p; return mi_heap_zalloc_aligned_at(h, s, a, o); }
FORM(calloc_aligned) { (void)p, (void)o; return mi_heap_calloc_aligned(h, s, 1, a); }
FORM(calloc_aligned_at) { (void)p; return mi_heap_calloc_aligned_at(h, 1, s, a, o); }
FORM(realloc_aligned) { (void)o; return mi_heap_realloc_aligned(h, p, s, a); }
FORM(realloc_aligned_at) { return mi_heap_realloc_aligned_at(h, p, s, a, o); }
FORM(rezalloc_aligned) { (void)o; return mi_heap_rezalloc_aligned(h, p, s, a); }
FORM(rezalloc_aligned_at) { return mi_heap_rezalloc_aligned_at(h, p, s, a, o); }
FORM(recalloc_aligned) { (void)o; return mi_heap_recalloc_aligned(h, p, s, 1, a); }
FORM(recalloc_aligned_at) { return mi_heap_recalloc_aligned_at(h, p, 1, s, a, o); }
FORM(t_malloc) { UNUSED; return mi_theap_malloc(h == NULL ? NULL : mi_heap_theap(h), s); }
FORM(t_zalloc) { UNUSED; return mi_theap_zalloc(h == NULL ? NULL : mi_heap_theap(h), s); }
FORM(t_calloc) { UNUSED; return mi_theap_calloc(h == NULL ? NULL : mi_heap_theap(h), s, 1); }
FORM(t_realloc) {
  (void)a, (void)o;
  return mi_theap_realloc(h == NULL ? NULL : mi_heap_theap(h), p, s);
}
FORM(t_rezalloc) {
  (void)a, (void)o;
  return mi_theap_rezalloc(h == NULL ? NULL : mi_heap_theap(h), p, s);
}
FORM(t_malloc_aligned) {
  (void)p, (void)o;
  return mi_theap_malloc_aligned(h == NULL ? NULL : mi_heap_theap(h), s, a);
}

#define Z true
#define ROW(n, ...) {#n, do_##n, __VA_ARGS__}
static const struct form forms[] = {
    /*                  zero, aligned, offset, resizes, counts */
    ROW(malloc, 0, 0, 0, 0, 0), ROW(zalloc, Z, 0, 0, 0, 0), ROW(calloc, Z, 0, 0, 0, 1),
    ROW(mallocn, 0, 0, 0, 0, 1), ROW(realloc, 0, 0, 0, 1, 0), ROW(reallocn, 0, 0, 0, 1, 1),
    ROW(rezalloc, Z, 0, 0, 1, 0), ROW(recalloc, Z, 0, 0, 1, 1), ROW(malloc_aligned, 0, 1, 0, 0, 0),
    ROW(malloc_aligned_at, 0, 1, 1, 0, 0), ROW(zalloc_aligned, Z, 1, 0, 0, 0),
    ROW(zalloc_aligned_at, Z, 1, 1, 0, 0), ROW(calloc_aligned, Z, 1, 0, 0, 1),
    ROW(calloc_aligned_at, Z, 1, 1, 0, 1), ROW(realloc_aligned, 0, 1, 0, 1, 0),
    ROW(realloc_aligned_at, 0, 1, 1, 1, 0), ROW(rezalloc_aligned, Z, 1, 0, 1, 0),
    ROW(rezalloc_aligned_at, Z, 1, 1, 1, 0), ROW(recalloc_aligned, Z, 1, 0, 1, 1),
    ROW(recalloc_aligned_at, Z, 1, 1, 1, 1), ROW(t_malloc, 0, 0, 0, 0, 0),
    ROW(t_zalloc, Z, 0, 0, 0, 0), ROW(t_calloc, Z, 0, 0, 0, 1), ROW(t_realloc, 0, 0, 0, 1, 0),
    ROW(t_rezalloc, Z, 0, 0, 1, 0), ROW(t_malloc_aligned, 0, 1, 0, 0, 0),
};
#define N_FORMS (sizeof forms / sizeof forms[0])
static const size_t sizes[] = {0, 1, 8, 24, 100, 1024, 1025, 5000, 20000, 70000, 600000};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

#define CHECK_FORM(f, cond) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "mi_heap_%s, line %d: not true: %s (errno %d)\n", (f)->name, __LINE__, #cond, \
              errno); \
      _exit(1); \
    } \
  } while (0)

static bool is_filled(const unsigned char *p, unsigned char v, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i] != v) return false;
  }
  return true;
}

/* Free memory of the heap is full of junk from now on. */
static void leave_junk(void) {
  enum { N = 6 };
  for (size_t i = 0; i < N_SIZES; i++) {
    void *p[N];
    for (int k = 0; k < N; k++) {
      p[k] = mi_heap_malloc_aligned(heap, sizes[i], k % 2 == 0 ? 8 : 256);
      CHECK(p[k] != NULL);
      memset(p[k], 0xee, mi_usable_size(p[k]));
    }
    for (int k = 0; k < N; k++) mi_free(p[k]);
  }
}

static void check_block(const struct form *f, unsigned char *p, size_t size, size_t a, size_t o) {
  CHECK_FORM(f, p != NULL && mi_usable_size(p) >= size && errno == 99);
  CHECK_FORM(f, mi_heap_of(p) == heap && mi_heap_contains(heap, p));
  CHECK_FORM(f, !mi_heap_contains(mi_heap_main(), p) && mi_any_heap_contains(p));
  if (f->aligned) CHECK_FORM(f, is_aligned(p + (f->offset ? o : 0), a));
  if (f->zero) CHECK_FORM(f, is_filled(p, 0, size));
  memset(p, 0x42, size);
}

static void check_fresh(const struct form *f) {
  static const size_t alignments[] = {1, 8, 64, 4096, 65536, 1 << 20};
  for (size_t i = 0; i < N_SIZES; i++) {
    for (size_t k = 0; k < (f->aligned ? sizeof alignments / sizeof alignments[0] : 1); k++) {
      size_t o = f->offset ? sizes[i] / 3 : 0;
      errno = 99;
      unsigned char *p = f->act(heap, NULL, sizes[i], alignments[k], o);
      check_block(f, p, sizes[i], alignments[k], o);
      mi_free(p);
    }
  }
}

/* From every size to every other, and from a block of another heap into this one. */
static void check_resize(const struct form *f) {
  mi_heap_t *other = mi_heap_new();
  CHECK(other != NULL);
  for (size_t i = 0; i < N_SIZES; i++) {
    for (size_t k = 0; k < N_SIZES; k++) {
      size_t o = f->offset ? 24 : 0, keep = sizes[i] < sizes[k] ? sizes[i] : sizes[k];
      errno = 99;
      unsigned char *p = f->act(heap, NULL, sizes[i], 64, o);
      check_block(f, p, sizes[i], 64, o);
      size_t usable = mi_usable_size(p);
      unsigned char *q = f->act(heap, p, sizes[k], 64, o);
      CHECK_FORM(f, q != NULL && errno == 99 && mi_usable_size(q) >= sizes[k]);
      CHECK_FORM(f, mi_heap_of(q) == heap && is_filled(q, 0x42, keep));
      if (f->aligned) CHECK_FORM(f, is_aligned(q + o, 64));
      if (f->zero && sizes[k] > usable) CHECK_FORM(f, is_filled(q + usable, 0, sizes[k] - usable));
      mi_free(q);
    }
    /* What must move does so into the heap that was named; what may stay stays. */
    unsigned char *p = mi_heap_malloc(other, sizes[i]), *was = p;
    CHECK(p != NULL);
    memset(p, 0x42, sizes[i]);
    p = f->act(heap, p, 4 * sizes[i] + 100, 64, 0);
    CHECK_FORM(f, p != NULL && is_filled(p, 0x42, sizes[i]));
    if (!is_same(p, was) && sizes[i] < 500000) CHECK_FORM(f, mi_heap_of(p) == heap);
    mi_free(p);
  }
  mi_heap_destroy(other);
}

static void check_failures(const struct form *f) {
  static char stranger[64];
  unsigned char *p = mi_heap_malloc(heap, 100);
  CHECK(p != NULL);
  memset(p, 0x42, 100);
  unsigned char *old = f->resizes ? p : NULL;
#define FAILS(error, call) \
  do { \
    errno = 0; \
    CHECK_FORM(f, (call) == NULL && errno == (error)); \
  } while (0)
  FAILS(EINVAL, f->act(NULL, old, 100, 64, 0));
  for (size_t i = 0; i < N_ABSURD_SIZES; i++) FAILS(ENOMEM, f->act(heap, old, absurd_sizes[i], 64, 0));
  if (f->aligned) {
    FAILS(EINVAL, f->act(heap, old, 100, 0, 0));
    FAILS(EINVAL, f->act(heap, old, 100, 3, 0));
    FAILS(EINVAL, f->act(heap, old, 100, 96, 8));
  }
  if (f->resizes) FAILS(EINVAL, f->act(heap, stranger + 16, 100, 8, 0));
  CHECK_FORM(f, is_filled(p, 0x42, 100));
  mi_free(p);
}

static void check_overflow(void) {
  static const struct form all = {.name = "counts"}, *f = &all;
  unsigned char *p = mi_heap_malloc(heap, 100);
  memset(p, 0x42, 100);
  FAILS(ENOMEM, mi_heap_calloc(heap, half, 4));
  FAILS(ENOMEM, mi_heap_mallocn(heap, half, 4));
  FAILS(ENOMEM, mi_heap_reallocn(heap, p, half, 4));
  FAILS(ENOMEM, mi_heap_recalloc(heap, p, half, 4));
  FAILS(ENOMEM, mi_heap_calloc_aligned(heap, half, 4, 64));
  FAILS(ENOMEM, mi_heap_calloc_aligned_at(heap, half, 4, 64, 8));
  FAILS(ENOMEM, mi_heap_recalloc_aligned(heap, p, half, 4, 64));
  FAILS(ENOMEM, mi_heap_recalloc_aligned_at(heap, p, half, 4, 64, 8));
  FAILS(ENOMEM, mi_theap_calloc(mi_heap_theap(heap), half, 4));
  CHECK(is_filled(p, 0x42, 100));
  mi_free(p);
}

/* Small and word forms, and those that are not in the table. */
static void check_small_and_others(void) {
  static const struct form all = {.name = "small and others", .zero = false}, *f = &all;
  static const struct form zero = {.name = "small and others, zeroed", .zero = true};
  mi_theap_t *theap = mi_heap_theap(heap);
  CHECK(theap != NULL && mi_heap_theap(heap) == theap);
  leave_junk();
  for (size_t size = 0; size <= MI_SMALL_SIZE_MAX; size += 8) {
    errno = 99;
    void *p[8] = {mi_heap_malloc_small(heap, size),  mi_theap_malloc_small(theap, size),
                  mi_theap_wmalloc_small(theap, size / sizeof(void *)),
                  mi_theap_malloc_csize(theap, size), mi_heap_zalloc_small(heap, size),
                  mi_theap_zalloc_small(theap, size), mi_theap_wzalloc_small(theap, size / sizeof(void *)),
                  mi_theap_zalloc_csize(theap, size)};
    for (int i = 0; i < 8; i++) check_block(i < 4 ? f : &zero, p[i], size, 0, 0);
    for (int i = 0; i < 8; i++) mi_free(p[i]);
  }
  FAILS(EINVAL, mi_heap_malloc_small(NULL, 8));
  FAILS(EINVAL, mi_heap_zalloc_small(NULL, 8));
  FAILS(EINVAL, mi_theap_malloc_small(NULL, 8));
  FAILS(EINVAL, mi_theap_zalloc_small(NULL, 8));
  FAILS(EINVAL, mi_theap_wmalloc_small(NULL, 1));
  FAILS(EINVAL, mi_theap_wzalloc_small(NULL, 1));

  /* reallocf frees what it cannot resize */
  unsigned char *p = mi_heap_malloc(heap, 100);
  memset(p, 0x42, 100);
  p = mi_heap_reallocf(heap, p, 5000);
  CHECK(p != NULL && mi_heap_of(p) == heap && is_filled(p, 0x42, 100));
  FAILS(ENOMEM, mi_heap_reallocf(heap, p, absurd_sizes[0]));
  unsigned char *again = mi_heap_malloc(heap, 5000);
  CHECK(mi_test_tracked() || is_same(again, p));
  mi_free(again);

  errno = 99;
  char *s = mi_heap_strdup(heap, "heaps"), *t = mi_heap_strndup(heap, "heaps", 4);
  CHECK(strcmp(s, "heaps") == 0 && strcmp(t, "heap") == 0);
  CHECK(mi_heap_of(s) == heap && mi_heap_of(t) == heap);
  char *u = mi_heap_realpath(heap, "/usr/../", NULL);
  CHECK(u != NULL && strcmp(u, "/") == 0 && mi_heap_of(u) == heap);
  mi_free(s);
  mi_free(t);
  mi_free(u);
  CHECK(mi_heap_strdup(heap, NULL) == NULL && mi_heap_strndup(heap, NULL, 3) == NULL);
  FAILS(EINVAL, mi_heap_strdup(NULL, "x"));
  FAILS(EINVAL, mi_heap_strndup(NULL, "x", 1));
  FAILS(EINVAL, mi_heap_realpath(NULL, "/", NULL));
  FAILS(ENOENT, mi_heap_realpath(heap, "/no such file", NULL));

  struct pair { long a, b; } *pair = mi_heap_malloc_tp(struct pair, heap);
  struct pair *zeros = mi_heap_calloc_tp(struct pair, heap, 10);
  CHECK(mi_heap_of(pair) == heap && mi_heap_of(zeros) == heap && zeros[9].b == 0);
  zeros = mi_heap_recalloc_tp(zeros, heap, struct pair, 1000);
  CHECK(zeros != NULL && mi_heap_of(zeros) == heap && zeros[999].b == 0);
  mi_free(pair);
  mi_free(zeros);
}

int main(void) {
  heap = mi_heap_new();
  CHECK(heap != NULL);
  for (size_t i = 0; i < N_FORMS; i++) {
    leave_junk();
    check_fresh(&forms[i]);
    if (forms[i].resizes) check_resize(&forms[i]);
    check_failures(&forms[i]);
  }
  check_overflow();
  check_small_and_others();
  mi_heap_destroy(heap);
  return 0;
}
