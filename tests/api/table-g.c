/* SPDX-License-Identifier: MIT */
/* Table G: the answers of glibc 2.36, row by row, from both families.
 *
 * B08 reallocarray-zero. Symptom: reallocarray(0,0,16) gave NULL with ENOMEM. Right: (NULL,0,16)
 * and (NULL,16,0) non-NULL and errno unchanged; (p,0,16) either frees and returns NULL or returns
 * a new block, never ENOMEM; overflow: NULL, ENOMEM, p intact.
 * B11 calloc-overflow-errno. Symptom: NULL without ENOMEM. Right: NULL and errno == ENOMEM; p still
 * readable. Successful calls do not change errno. */
#include "family.h"

#define UNTOUCHED 7654321 /* an errno that nothing sets */

static volatile const size_t half = SIZE_MAX / 2, full = SIZE_MAX;

static void check_zero_sizes(const struct family *f) {
  errno = UNTOUCHED;
  void *a = f->malloc(0), *b = f->calloc(0, 8), *c = f->realloc(NULL, 0);
  void *d = f->reallocarray(NULL, 0, 16), *e = f->reallocarray(NULL, 16, 0);
  CHECK_IN(f, a != NULL && b != NULL && c != NULL && d != NULL && e != NULL);
  CHECK_IN(f, a != b && b != c && c != d && d != e);
  f->free(a);
  f->free(b);
  f->free(c);
  f->free(d);
  f->free(e);
  f->free(NULL);
  CHECK_IN(f, errno == UNTOUCHED);

  char *q = f->malloc(100);
  CHECK_IN(f, q != NULL);
  q = f->realloc(q, 0); /* a fresh minimal block */
  CHECK_IN(f, q != NULL && mi_check_owned(q) && errno == UNTOUCHED);
  q = f->reallocarray(q, 0, 16);
  CHECK_IN(f, q != NULL && errno == UNTOUCHED);
  f->free(q);
}

static void check_overflow(const struct family *f) {
  char *p = f->malloc(100);
  CHECK_IN(f, p != NULL);
  memset(p, 0x5a, 100);
  size_t shift = sizeof(size_t) * 4 + 1;
  const size_t pairs[][2] = {{half, 4}, {full, full}, {(size_t)1 << shift, (size_t)1 << shift}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    errno = 0;
    CHECK_IN(f, f->calloc(pairs[i][0], pairs[i][1]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->reallocarray(NULL, pairs[i][0], pairs[i][1]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->reallocarray(p, pairs[i][0], pairs[i][1]) == NULL && errno == ENOMEM);
  }
  for (size_t i = 0; i < N_ABSURD_SIZES; i++) {
    errno = 0;
    CHECK_IN(f, f->malloc(absurd_sizes[i]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->realloc(p, absurd_sizes[i]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->memalign(64, absurd_sizes[i]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->valloc(absurd_sizes[i]) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK_IN(f, f->pvalloc(absurd_sizes[i]) == NULL && errno == ENOMEM);
  }
  errno = 0;
  CHECK_IN(f, f->pvalloc(full - 100) == NULL && errno == ENOMEM);
  for (int i = 0; i < 100; i++) CHECK_IN(f, p[i] == 0x5a);
  f->free(p);
}

static void check_aligned(const struct family *f) {
  const size_t pairs[][2] = {{8, 44}, {64, 100}, {64, 0}, {1, 64}};
  errno = UNTOUCHED;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    void *p = f->aligned_alloc(pairs[i][0], pairs[i][1]);
    CHECK_IN(f, p != NULL && is_aligned(p, pairs[i][0]) && f->usable(p) >= pairs[i][1]);
    f->free(p);
  }
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *a = f->valloc(0), *b = f->pvalloc(0), *c = f->pvalloc(1), *d = f->valloc(page + 1);
  CHECK_IN(f, a != NULL && b != NULL && c != NULL && d != NULL && a != b);
  CHECK_IN(f, is_aligned(a, page) && is_aligned(b, page) && is_aligned(c, page));
  CHECK_IN(f, is_aligned(d, page) && f->usable(d) > page);
  CHECK_IN(f, f->usable(c) >= page);
  f->free(a);
  f->free(b);
  f->free(c);
  f->free(d);
  CHECK_IN(f, f->usable(NULL) == 0 && errno == UNTOUCHED);

  volatile size_t three = 3, none = 0; /* no powers of two */
  errno = 0;
  CHECK_IN(f, f->aligned_alloc(three, 64) == NULL && errno == EINVAL);
  errno = 0;
  CHECK_IN(f, f->memalign(three, 64) == NULL && errno == EINVAL);
  errno = 0;
  CHECK_IN(f, f->memalign(none, 64) == NULL && errno == EINVAL);
}

int main(void) {
  FOR_FAMILIES(f) {
    check_zero_sizes(f);
    check_overflow(f);
    check_aligned(f);
  }
  return 0;
}
