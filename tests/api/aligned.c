/* SPDX-License-Identifier: MIT */
/* Alignment, from both families and the library's own forms.
 *
 * B01 posix-memalign-contract. Symptom: out pointer overwritten on failure; no EINVAL for a bad
 * alignment. Right: EINVAL (22) for alignments that are not a power of two times sizeof(void*),
 * ENOMEM (12) for huge, sentinel untouched in both.
 * B02 aligned-alloc-odd-size. Symptom: NULL because size is not a multiple of the alignment. Right:
 * non-NULL, aligned, block owned by the library.
 * B03 small-16-alignment. Symptom: aligned request of 8 bytes at 16 returned 8-aligned pointers.
 * Right: all aligned; malloc of >= 16 bytes must be 16-aligned.
 * B04 size-equals-alignment. Symptom: size == alignment in {256,512,1024} came back misaligned.
 * Right: all aligned; contents preserved by realloc.
 * B16 aligned-at-offset. Symptom: mi_malloc_aligned_at(50,32,4) then mi_free says "unaligned
 * pointer". Right: (p+offset) % alignment == 0 and mi_free silent; never a block that cannot be
 * freed. */
#include "family.h"

static int sentinel;
static int n_errors;
static void count_error(int err, void *arg) {
  (void)arg;
  fprintf(stderr, "error %d reported\n", err);
  n_errors++;
}

static void check_posix_memalign(const struct family *f) {
  static volatile const size_t bad[] = {0, 1, 2, 3, 4, 24};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (bad[i] == sizeof(void *)) continue;
    for (size_t size = 0; size <= 64; size += 64) {
      void *p = &sentinel;
      CHECK_IN(f, f->posix_memalign(&p, bad[i], size) == EINVAL && p == &sentinel);
    }
  }
  for (size_t i = 0; i < N_ABSURD_SIZES; i++) {
    void *p = &sentinel;
    CHECK_IN(f, f->posix_memalign(&p, 64, absurd_sizes[i]) == ENOMEM && p == &sentinel);
  }
  void *p = &sentinel;
  CHECK_IN(f, f->posix_memalign(&p, 64, 0) == 0 && p != &sentinel && p != NULL);
  CHECK_IN(f, is_aligned(p, 64) && mi_check_owned(p));
  f->free(p);
}

static void check_odd_sizes(const struct family *f) {
  static const size_t sizes[] = {0, 1, 44, 100, 4095, 65537};
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      char *p = f->aligned_alloc(alignment, sizes[i]);
      CHECK_IN(f, p != NULL && is_aligned(p, alignment) && mi_check_owned(p));
      CHECK_IN(f, f->usable(p) >= sizes[i]);
      memset(p, 1, sizes[i]);
      f->free(p);
    }
  }
}

static void check_small(const struct family *f) {
  static void *live[1000];
  size_t n = mi_test_scale(200, 1000);
  for (size_t size = 1; size <= 64; size++) {
    for (size_t alignment = 8; alignment <= 128; alignment *= 2) {
      for (size_t i = 0; i < n; i++) {
        live[i] = f->memalign(alignment, size);
        CHECK_IN(f, live[i] != NULL && is_aligned(live[i], alignment));
      }
      for (size_t i = 0; i < n; i++) f->free(live[i]);
    }
    for (size_t i = 0; i < n; i++) {
      live[i] = f->malloc(size);
      CHECK_IN(f, live[i] != NULL && is_aligned(live[i], size >= 16 ? 16 : 8));
    }
    for (size_t i = 0; i < n; i++) f->free(live[i]);
  }
}

/* One live block of `form`: aligned, zeroed if it should be; then grown by realloc_aligned. */
static void check_and_grow(unsigned char **block, size_t size, bool zeroed) {
  unsigned char *p = *block;
  CHECK(p != NULL && is_aligned(p, size) && mi_usable_size(p) >= size);
  for (size_t i = 0; zeroed && i < size; i++) CHECK(p[i] == 0);
  memset(p, 0xa5, size);
  p = mi_realloc_aligned(p, size + size / 2, size);
  CHECK(p != NULL && is_aligned(p, size));
  for (size_t i = 0; i < size; i++) CHECK(p[i] == 0xa5);
  *block = p;
}

static void check_size_is_alignment(void) {
  for (size_t size = 8; size <= (size_t)4 << 20; size *= 2) {
    enum { MOST = 64 };
    unsigned char *live[MOST][3];
    void *odd[MOST];
    size_t n = size <= 65536 ? MOST : 3; /* 64 of each would not fit a small machine */
    for (size_t i = 0; i < n; i++) {
      live[i][0] = mi_malloc_aligned(size, size);
      live[i][1] = mi_zalloc_aligned(size, size);
      live[i][2] = mi_calloc_aligned(1, size, size);
      odd[i] = mi_malloc(size + 1 + i * 3 % 61);
      for (int form = 0; form < 3; form++) check_and_grow(&live[i][form], size, form > 0);
      mi_free(odd[i / 2]); /* mixed with odd-size traffic */
      odd[i / 2] = NULL;
    }
    for (size_t i = 0; i < n; i++) {
      for (int form = 0; form < 3; form++) mi_free(live[i][form]);
      mi_free(odd[i]);
    }
  }
}

static void check_at_offset(void) {
  size_t step = mi_test_scale(7, 1);
  for (size_t offset = 0; offset <= 64; offset += 4) {
    for (size_t alignment = 16; alignment <= 256; alignment *= 2) {
      for (size_t size = 1; size <= 300; size += step) {
        unsigned char *p = mi_malloc_aligned_at(size, alignment, offset);
        CHECK(p != NULL && is_aligned(p + offset, alignment) && mi_usable_size(p) >= size);
        memset(p, 0xee, mi_usable_size(p));
        unsigned char *z = mi_zalloc_aligned_at(size, alignment, offset);
        CHECK(z != NULL && is_aligned(z + offset, alignment));
        for (size_t i = 0; i < size; i++) CHECK(z[i] == 0);
        z = mi_recalloc_aligned_at(z, 2, size, alignment, offset);
        CHECK(z != NULL && is_aligned(z + offset, alignment));
        for (size_t i = 0; i < 2 * size; i++) CHECK(z[i] == 0);
        mi_free(p);
        mi_free(z);
      }
    }
  }
  void *p = mi_malloc_aligned_at(50, 32, 4);
  CHECK(p != NULL && is_aligned((char *)p + 4, 32));
  mi_free(p);
}

static void check_bad_alignment(void) {
  static volatile const size_t bad[] = {0, 3, 24, SIZE_MAX};
  unsigned char *p = mi_malloc(40);
  memset(p, 3, 40);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    size_t a = bad[i];
#define CHECK_EINVAL(call) \
  do { \
    errno = 0; \
    CHECK((call) == NULL && errno == EINVAL); \
  } while (0)
    CHECK_EINVAL(mi_malloc_aligned(8, a));
    CHECK_EINVAL(mi_malloc_aligned_at(8, a, 8));
    CHECK_EINVAL(mi_zalloc_aligned(8, a));
    CHECK_EINVAL(mi_zalloc_aligned_at(8, a, 8));
    CHECK_EINVAL(mi_calloc_aligned(1, 8, a));
    CHECK_EINVAL(mi_calloc_aligned_at(1, 8, a, 8));
    CHECK_EINVAL(mi_realloc_aligned(p, 8, a));
    CHECK_EINVAL(mi_realloc_aligned_at(p, 8, a, 8));
    CHECK_EINVAL(mi_rezalloc_aligned(p, 8, a));
    CHECK_EINVAL(mi_rezalloc_aligned_at(p, 8, a, 8));
    CHECK_EINVAL(mi_recalloc_aligned(p, 1, 8, a));
    CHECK_EINVAL(mi_recalloc_aligned_at(p, 1, 8, a, 8));
    CHECK_EINVAL(mi_aligned_recalloc(p, 1, 8, a));
    CHECK_EINVAL(mi_aligned_offset_recalloc(p, 1, 8, a, 8));
    CHECK_EINVAL(mi_umalloc_aligned(8, a, NULL));
    CHECK_EINVAL(mi_uzalloc_aligned(8, a, NULL));
    CHECK_EINVAL(mi_new_aligned(8, a));
    CHECK_EINVAL(mi_new_aligned_nothrow(8, a));
    CHECK_EINVAL(mi_memalign(a, 8));
    CHECK_EINVAL(mi_aligned_alloc(a, 8));
  }
  for (int i = 0; i < 40; i++) CHECK(p[i] == 3);
  mi_free(p);
}

int main(void) {
  FOR_FAMILIES(f) {
    check_posix_memalign(f);
    check_odd_sizes(f);
    check_small(f);
  }
  mi_register_error(count_error, NULL);
  check_size_is_alignment();
  check_at_offset();
  CHECK(n_errors == 0); /* every free of an aligned block is silent */
  mi_register_error(NULL, NULL);
  check_bad_alignment();
  return 0;
}
