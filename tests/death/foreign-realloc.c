/* SPDX-License-Identifier: MIT */
/* A04 foreign-free, its other half: realloc of a foreign pointer gives NULL with errno EINVAL, the usable size is 0; the
 * foreign memory is left as it is, and the library works on. */
#include "death/death.h"
#include <sys/mman.h>

static _Alignas(64) char array[8192];

static void misuse(void) {
  char *region = mmap(NULL, 256 * BEHAVE_KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(region != MAP_FAILED);
  behave_fill(region, 256 * BEHAVE_KiB, 1);
  behave_fill(array, sizeof(array), 2);
  char *volatile foreign[] = {region, region + 16, region + 65536, region + 100001, array, array + 64};
  static const size_t sizes[] = {1, 100, 5000, 3 * 1024 * 1024};
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
    CHECK(malloc_usable_size(foreign[i]) == 0);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
      errno = 0;
      void *p = realloc(foreign[i], sizes[k]);
      if (p != NULL) FAIL("realloc of a foreign pointer to %zu gave %p", sizes[k], p);
      CHECK(errno == EINVAL);
    }
  }
  death_work_on();
  CHECK(behave_verify(region, 256 * BEHAVE_KiB, 1) == 256 * BEHAVE_KiB);
  CHECK(behave_verify(array, sizeof(array), 2) == sizeof(array));
}

int main(void) { return death_test("invalid pointer"); }
