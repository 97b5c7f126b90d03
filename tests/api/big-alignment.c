/* SPDX-License-Identifier: MIT */
/* B05 large-alignment-2MiB-and-up. Symptom: fails above an internal limit of 1 MiB. Right:
 * posix_memalign with alignment 2,4,16,64 MiB, size 1, size = alignment, size 3 MiB+1 returns 0,
 * aligned, free works, RSS after freeing all within 16 MiB of the start (2 s), by itself. 2^40 and 2^63: ENOMEM, no
 * crash. Table G: 4 GiB with a small size works as well. */
#include "family.h"

static void check_block(const struct family *f, size_t alignment, size_t size) {
  void *p = NULL;
  int error = f->posix_memalign(&p, alignment, size);
  if (error != 0) fprintf(stderr, "alignment %zu, size %zu: error %d\n", alignment, size, error);
  CHECK_IN(f, error == 0 && p != NULL && is_aligned(p, alignment) && mi_check_owned(p));
  CHECK_IN(f, f->usable(p) >= size);
  memset(p, 0x11, size);
  f->free(p);
}

int main(void) {
  mi_test_not_under("thread");
  static const size_t alignments[] = {2, 4, 16, 64}; /* MiB */
  size_t before = mi_test_rss_kib();
  FOR_FAMILIES(f) {
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
      size_t alignment = alignments[i] << 20;
      check_block(f, alignment, 1);
      check_block(f, alignment, alignment);
      check_block(f, alignment, ((size_t)3 << 20) + 1);
      void *live[8]; /* several at once */
      for (int k = 0; k < 8; k++) {
        CHECK_IN(f, f->posix_memalign(&live[k], alignment, 100) == 0);
        CHECK_IN(f, is_aligned(live[k], alignment));
        memset(live[k], k, 100);
      }
      for (int k = 0; k < 8; k++) {
        CHECK_IN(f, ((char *)live[k])[99] == k);
        f->free(live[k]);
      }
    }
#if SIZE_MAX > UINT32_MAX
    check_block(f, (size_t)4 << 30, 100);
    const size_t absurd[] = {(size_t)1 << 40, (size_t)1 << 63};
    for (int i = 0; i < 2; i++) {
      int sentinel;
      void *p = &sentinel;
      CHECK_IN(f, f->posix_memalign(&p, absurd[i], 8) == ENOMEM && p == &sentinel);
      errno = 0;
      CHECK_IN(f, f->memalign(absurd[i], 8) == NULL && errno == ENOMEM);
    }
#endif
  }
  size_t after = mi_test_rss_kib();
  for (int i = 0; i < MI_TEST_PATIENCE_MS / 10 && after > before + 16384; i++) {
    usleep(10000);
    after = mi_test_rss_kib();
  }
  if (after > before + 16384) fprintf(stderr, "resident %zu KiB, then %zu KiB\n", before, after);
  CHECK(after <= before + 16384);
  return 0;
}
