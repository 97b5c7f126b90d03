/* SPDX-License-Identifier: MIT */
/* A04 foreign-free: blocks from (a) the program's own mmap region, (b) a static array, (c) the C library's own malloc where
 * that is to be had; also from the stack. free() ignores them, with a message where error messages are on; no memory of the
 * library is corrupted: a following loop of 100000 malloc and free passes. */
#include "death/death.h"
#include <dlfcn.h>
#include <sys/mman.h>

static _Alignas(64) char array[8192];

static void misuse(void) {
  _Alignas(64) char local[256];
  char *region = mmap(NULL, 256 * BEHAVE_KiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(region != MAP_FAILED);
  behave_fill(region, 256 * BEHAVE_KiB, 1);
  behave_fill(array, sizeof(array), 2);
  behave_fill(local, sizeof(local), 3);
  char *volatile foreign[] = {region, region + 16, region + 65536, region + 100001, array, array + 64, local,
                              (char *)(uintptr_t)16, (char *)(uintptr_t)4096};
  for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) free(foreign[i]);
  void *(*libc_malloc)(size_t) = NULL;
  *(void **)&libc_malloc = dlsym(RTLD_DEFAULT, "__libc_malloc");
  if (libc_malloc != NULL && !BEHAVE_SANITIZED) {
    void *volatile p = libc_malloc(1000), *volatile same = p;
    behave_fill(p, 1000, 4);
    free(p);
    CHECK(behave_verify(same, 1000, 4) == 1000);
  }
  death_work_on();
  CHECK(behave_verify(region, 256 * BEHAVE_KiB, 1) == 256 * BEHAVE_KiB);
  CHECK(behave_verify(array, sizeof(array), 2) == sizeof(array));
  CHECK(behave_verify(local, sizeof(local), 3) == sizeof(local));
}

int main(void) { return death_test("invalid pointer"); }
