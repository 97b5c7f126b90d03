/* SPDX-License-Identifier: MIT */
/* An alignment that is no power of two: NULL and EINVAL in every form, posix_memalign returns it and leaves its out pointer
 * alone. An absurd one: NULL and ENOMEM. The block given to an aligned realloc stays as it is. */
#include "death/death.h"

static void want_null(void *p, int want, const char *form, size_t alignment) {
  if (p != NULL) FAIL("%s with alignment %zu gave %p", form, alignment, p);
  if (errno != want) FAIL("%s with alignment %zu set errno to %d", form, alignment, errno);
  errno = 0;
}

static void try_all(size_t alignment, int want) {
  void *const untouched = &errno;
  void *out = untouched;
  char *volatile p = malloc(100);
  CHECK(p != NULL);
  behave_fill(p, 100, 1);
  errno = 0;
  want_null(aligned_alloc(alignment, 96), want, "aligned_alloc", alignment);
  want_null(memalign(alignment, 100), want, "memalign", alignment);
#ifndef MI_TEST_PLAIN
  want_null(mi_malloc_aligned(100, alignment), want, "mi_malloc_aligned", alignment);
  want_null(mi_malloc_aligned_at(100, alignment, 8), want, "mi_malloc_aligned_at", alignment);
  want_null(mi_zalloc_aligned(100, alignment), want, "mi_zalloc_aligned", alignment);
  want_null(mi_calloc_aligned(10, 10, alignment), want, "mi_calloc_aligned", alignment);
  want_null(mi_new_aligned_nothrow(100, alignment), want, "mi_new_aligned_nothrow", alignment);
  want_null(mi_realloc_aligned(p, 5000, alignment), want, "mi_realloc_aligned", alignment);
  want_null(mi_rezalloc_aligned(p, 5000, alignment), want, "mi_rezalloc_aligned", alignment);
#endif
  int err = posix_memalign(&out, alignment, 100);
  if (err != want) FAIL("posix_memalign with alignment %zu gave %d", alignment, err);
  CHECK(out == untouched);
  CHECK(behave_verify(p, 100, 1) == 100);
  free(p);
}

static void misuse(void) {
  static const size_t none[] = {3, 24, 100, 4095, SIZE_MAX};
  for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) try_all(none[i], EINVAL);
  try_all((size_t)1 << (sizeof(size_t) * 8 - 1), ENOMEM);
  void *out = NULL;
  CHECK(posix_memalign(&out, 0, 100) == EINVAL && out == NULL);
  CHECK(posix_memalign(&out, 2, 100) == EINVAL && out == NULL);
  death_work_on();
}

int main(void) { return death_test(NULL); }
