/* SPDX-License-Identifier: MIT */
/* The forms by count and size, the realloc variants, those that report block sizes, and the free
 * functions with hints: results, errno, contents. */
#include "family.h"

static volatile const size_t half = SIZE_MAX / 2;
static char stranger[64]; /* not a block of the library's */

/* n bytes of value v. */
static bool is_filled(const unsigned char *p, unsigned char v, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (p[i] != v) return false;
  }
  return true;
}

static unsigned char *filled(size_t size) {
  unsigned char *p = mi_malloc(size);
  CHECK(p != NULL);
  return memset(p, 0x42, size);
}

/* Free memory of these sizes is full of junk from now on. */
static void leave_junk(void) {
  enum { N = 8 };
  for (size_t size = 64; size <= 100000; size += size / 8) {
    void *p[2 * N];
    for (int i = 0; i < N; i++) {
      p[i] = mi_malloc_aligned(size, 8);
      p[N + i] = mi_malloc_aligned(size, 1024);
      CHECK(p[i] != NULL && p[N + i] != NULL);
      memset(p[i], 0xee, mi_usable_size(p[i]));
      memset(p[N + i], 0xee, mi_usable_size(p[N + i]));
    }
    for (int i = 0; i < 2 * N; i++) mi_free(p[i]);
  }
}

#define CHECK_FAILS(error, call) \
  do { \
    errno = 0; \
    CHECK((call) == NULL && errno == (error)); \
  } while (0)

static void check_count_and_size(void) {
  errno = 99;
  unsigned char *p = mi_mallocn(10, 30);
  CHECK(p != NULL && mi_usable_size(p) >= 300);
  memset(p, 7, 300);
  p = mi_reallocn(p, 50, 30);
  CHECK(p != NULL && mi_usable_size(p) >= 1500 && is_filled(p, 7, 300));
  mi_free(p);
  p = mi_recalloc(NULL, 10, 30);
  CHECK(p != NULL && is_filled(p, 0, 300));
  memset(p, 7, 300);
  size_t usable = mi_usable_size(p);
  p = mi_recalloc(p, 1000, 30);
  CHECK(p != NULL && is_filled(p, 7, 300) && is_filled(p + usable, 0, 30000 - usable));
  mi_free(p);
  p = mi_calloc_aligned(10, 30, 512);
  CHECK(p != NULL && is_aligned(p, 512) && is_filled(p, 0, 300));
  memset(p, 7, 300);
  usable = mi_usable_size(p);
  p = mi_recalloc_aligned(p, 1000, 30, 512);
  CHECK(p != NULL && is_aligned(p, 512) && is_filled(p, 7, 300));
  CHECK(is_filled(p + usable, 0, 30000 - usable));
  p = mi_aligned_recalloc(p, 2000, 30, 1024);
  CHECK(p != NULL && is_aligned(p, 1024) && is_filled(p, 7, 300));
  CHECK(is_filled(p + 30000, 0, 30000));
  mi_free(p);
  p = mi_calloc_aligned_at(10, 30, 64, 8);
  CHECK(p != NULL && is_aligned(p + 8, 64) && is_filled(p, 0, 300));
  p = mi_aligned_offset_recalloc(p, 100, 30, 64, 8);
  CHECK(p != NULL && is_aligned(p + 8, 64) && is_filled(p, 0, 3000));
  mi_free(p);
  CHECK(errno == 99);

  p = filled(100);
  CHECK_FAILS(ENOMEM, mi_mallocn(half, 4));
  CHECK_FAILS(ENOMEM, mi_reallocn(p, half, 4));
  CHECK_FAILS(ENOMEM, mi_recalloc(p, half, 4));
  CHECK_FAILS(ENOMEM, mi_calloc_aligned(half, 4, 64));
  CHECK_FAILS(ENOMEM, mi_calloc_aligned_at(half, 4, 64, 8));
  CHECK_FAILS(ENOMEM, mi_recalloc_aligned(p, half, 4, 64));
  CHECK_FAILS(ENOMEM, mi_recalloc_aligned_at(p, half, 4, 64, 8));
  CHECK_FAILS(ENOMEM, mi_aligned_recalloc(p, half, 4, 64));
  CHECK_FAILS(ENOMEM, mi_aligned_offset_recalloc(p, half, 4, 64, 8));
  CHECK(is_filled(p, 0x42, 100));
  mi_free(p);
}

static void check_realloc_variants(void) {
  unsigned char *p = filled(100);
  p = mi_reallocf(p, 5000);
  CHECK(p != NULL && is_filled(p, 0x42, 100));
  CHECK_FAILS(ENOMEM, mi_reallocf(p, absurd_sizes[0])); /* frees p: the next one gets its place */
  unsigned char *again = mi_malloc(5000);
  CHECK(is_same(again, p));
  mi_free(again);
  CHECK_FAILS(EINVAL, mi_reallocf(stranger + 16, 10));

  p = filled(100);
  unsigned char *q = p;
  errno = 99;
  CHECK(mi_reallocarr(&q, 100, 50) == 0 && q != NULL && is_filled(q, 0x42, 100));
  p = q;
  CHECK(mi_reallocarr(&q, half, 4) == ENOMEM && q == p);
  CHECK(mi_reallocarr(&q, 1, absurd_sizes[1]) == ENOMEM && q == p && is_filled(q, 0x42, 100));
  CHECK(mi_reallocarr(NULL, 1, 1) == EINVAL);
  mi_free(q);
  q = NULL;
  CHECK(mi_reallocarr(&q, 3, 5) == 0 && mi_usable_size(q) >= 15);
  mi_free(q);
  q = (unsigned char *)stranger + 16;
  CHECK(mi_reallocarr(&q, 3, 5) == EINVAL && q == (unsigned char *)stranger + 16);
  CHECK(errno == 99);

  p = filled(100);
  size_t usable = mi_usable_size(p);
  CHECK(mi_expand(p, usable) == p && mi__expand(p, 1) == p && errno == 99);
  CHECK(mi_expand(p, usable + 1) == NULL && errno == 99); /* a small block has neighbours */
  CHECK_FAILS(ENOMEM, mi__expand(p, usable + 1));
  CHECK_FAILS(ENOMEM, mi__expand(NULL, 1));
  CHECK(is_filled(p, 0x42, 100));
  mi_free(p);
}

static void check_block_sizes(void) {
  leave_junk();
  size_t size = 0, before = 0;
  unsigned char *p = mi_umalloc(100, &size);
  CHECK(p != NULL && size >= 100 && size == mi_usable_size(p) && size == mi_malloc_size(p));
  memset(p, 9, size);
  size_t first = size;
  p = mi_urealloc(p, 7000, &before, &size);
  CHECK(p != NULL && before == first && size == mi_usable_size(p) && is_filled(p, 9, first));
  first = size;
  CHECK_FAILS(ENOMEM, mi_urealloc(p, absurd_sizes[0], &before, &size));
  CHECK(before == first && size == 0);
  mi_ufree(p, &size);
  CHECK(size == first);
  mi_ufree(NULL, &size);
  CHECK(size == 0);
  p = mi_ucalloc(10, 30, &size);
  CHECK(p != NULL && size == mi_usable_size(p) && is_filled(p, 0, 300));
  mi_ufree(p, NULL);
  CHECK_FAILS(ENOMEM, mi_ucalloc(half, 4, &size));
  CHECK(size == 0);
  p = mi_umalloc_aligned(100, 256, &size);
  CHECK(p != NULL && is_aligned(p, 256) && size == mi_usable_size(p) && size >= 100);
  mi_free(p);
  p = mi_uzalloc_aligned(100, 256, &size);
  CHECK(p != NULL && is_aligned(p, 256) && size == mi_usable_size(p) && is_filled(p, 0, 100));
  mi_free(p);
  p = mi_umalloc_small(100, &size);
  CHECK(p != NULL && size == mi_usable_size(p) && size >= 100);
  mi_free(p);
  p = mi_uzalloc_small(100, &size);
  CHECK(p != NULL && size == mi_usable_size(p) && is_filled(p, 0, 100));
  mi_free(p);
  p = mi_umalloc(10, NULL);
  CHECK(p != NULL && mi_malloc_usable_size(p) == mi_good_size(10));
  mi_free(p);
}

static int last_error;
static void note_error(int err, void *arg) {
  (void)arg;
  last_error = err;
}

static void check_free_variants(void) {
  CHECK(mi_cfree(mi_malloc(10)));
  CHECK(!mi_cfree(NULL) && !mi_cfree(stranger + 16));
  mi_register_error(note_error, NULL);
  mi_free_size(mi_malloc(100), 100);
  mi_free_size_aligned(mi_malloc_aligned(100, 64), 100, 64);
  mi_free_aligned(mi_malloc_aligned(100, 64), 64);
  mi_free_size(NULL, 100);
  mi_free_size_aligned(NULL, 100, 64);
  mi_free_aligned(NULL, 64);
  mi_free_csize(mi_malloc_csize(100), 100);
  mi_free_csize_nonnull(mi_zalloc_csize(5000), 5000);
  CHECK(last_error == 0);
  /* They do free: the same block comes back. */
  void *p = mi_malloc(100);
  mi_free_size(p, 100);
  void *q = mi_malloc(100);
  CHECK(is_same(p, q));
  mi_free_size_aligned(q, 100, 8);
  p = mi_malloc(100);
  CHECK(is_same(p, q));
  mi_free_aligned(p, 8);
  q = mi_malloc(100);
  CHECK(is_same(p, q));
  CHECK(mi_cfree(q));
  p = mi_malloc(100);
  CHECK(is_same(p, q));
  mi_free_size(p, 100000); /* a wrong hint: reported in the debug build, freed in every build */
  CHECK(last_error == 0 || last_error == EINVAL);
  q = mi_malloc(100);
  CHECK(is_same(p, q));
  mi_free(q);
  mi_register_error(NULL, NULL);
}

int main(void) {
  leave_junk();
  check_count_and_size();
  check_realloc_variants();
  check_block_sizes();
  check_free_variants();
  return 0;
}
