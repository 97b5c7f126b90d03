/* SPDX-License-Identifier: MIT */
/* For limit.sh (E01): under a limit of the address space, obtain half of it in mixed blocks, free them, then ask for more
 * than there is: NULL and ENOMEM, and smaller requests keep working. Only a part of it is touched. */
#include "thread/behave.h"
#include <sys/resource.h>

enum { MOST = 200000 };

static void *blocks[MOST];
static size_t sizes[MOST];

static size_t take_half(size_t wanted) {
  uint64_t rng = 3;
  size_t n = 0, total = 0, touched = 0;
  for (; total < wanted && n < MOST; n++) {
    unsigned dice = (unsigned)(behave_random(&rng) % 100);
    size_t size = touched > 32 * BEHAVE_MiB || dice > 95 ? behave_random_size(&rng, 64 * BEHAVE_KiB, 4 * BEHAVE_MiB)
                  : dice > 70                             ? behave_random_size(&rng, 1024, 64 * BEHAVE_KiB)
                                                          : behave_random_size(&rng, 16, 1024);
    if (size > wanted / 8) size = wanted / 8;
    blocks[n] = malloc(size);
    if (blocks[n] == NULL) FAIL("malloc(%zu) gave NULL after %zu of %zu MiB", size, total >> 20, wanted >> 20);
    sizes[n] = size;
    total += size;
    size_t touch = touched < 64 * BEHAVE_MiB ? size : 8;
    memset(blocks[n], (int)(n & 0x7F), touch < size ? touch : size);
    touched += touch;
  }
  return n;
}

static void ask_for_too_much(size_t limit) {
  static const size_t parts[] = {1, 2, 4, 8, 64};
  for (size_t i = 0; i < 5; i++) {
    errno = 0;
    void *volatile p = malloc(limit + limit / parts[i]);
    CHECK(p == NULL && errno == ENOMEM);
    errno = 0;
    p = calloc(limit / 4, 16);
    CHECK(p == NULL && errno == ENOMEM);
    unsigned char *small = malloc(100), *medium = malloc(50000);
    CHECK(small != NULL && medium != NULL);
    memset(small, 1, 100);
    memset(medium, 1, 50000);
    void *bigger = realloc(small, limit * 2);
    CHECK(bigger == NULL && small[99] == 1);
    free(small);
    free(medium);
  }
}

/* Until nothing of the size is left, for smaller and smaller sizes: each failure is a plain NULL. */
static void fill_up(void) {
  size_t n = 0;
  for (size_t size = 16 * BEHAVE_MiB; size >= 64 * BEHAVE_KiB; size /= 4) {
    for (; n < MOST; n++) {
      errno = 0;
      blocks[n] = malloc(size);
      if (blocks[n] != NULL) continue;
      CHECK(errno == ENOMEM);
      break;
    }
  }
  for (size_t i = 0; i < n; i++) free(blocks[i]);
}

int main(void) {
  struct rlimit limit;
  behave_limit(30);
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return MI_TEST_ERROR;
  for (int round = 0; round < 2; round++) {
    size_t n = take_half(limit.rlim_cur / 2);
    for (size_t i = 0; i < n; i++) CHECK(*(unsigned char *)blocks[i] == (i & 0x7F));
    for (size_t i = 0; i < n; i++) free(blocks[i]);
    ask_for_too_much(limit.rlim_cur);
    fill_up();
  }
  return 0;
}
