/* SPDX-License-Identifier: MIT */
/* A block is given back with a size or an alignment that is not its own. That is ignored; a debug build says so. */
#include "death/death.h"

static void misuse(void) {
#ifndef MI_TEST_PLAIN
  for (size_t size = 1; size < 100000; size = size * 3 + 1) {
    void *p = mi_malloc(size), *q = mi_malloc(size);
    CHECK(p != NULL && q != NULL);
    behave_fill(q, size, 1);
    mi_free_size(p, size + 200000);
    p = mi_malloc(size);
    mi_free_size_aligned(p, size, 4096);
    p = mi_malloc(size);
    mi_free_aligned(p, (size_t)1 << 20);
    CHECK(behave_verify(q, size, 1) == size);
    mi_free(q);
  }
#endif
  death_work_on();
}

int main(void) { return death_test(DEATH_DEBUG_BUILD ? "freed as one" : NULL); }
