/* SPDX-License-Identifier: MIT */
/* For grep.sh (A01): realloc(NULL, 0) gives a block, and leaves errno alone. */
#include "thread/behave.h"

int main(void) {
  void *blocks[1000];
  errno = 0;
  for (int i = 0; i < 1000; i++) {
    void *volatile none = NULL;
    blocks[i] = realloc(none, 0);
    CHECK(blocks[i] != NULL && errno == 0);
    if (i > 0) CHECK(blocks[i] != blocks[i - 1]);
  }
  for (int i = 0; i < 1000; i++) {
    blocks[i] = realloc(blocks[i], 100);
    CHECK(blocks[i] != NULL);
    memset(blocks[i], i, 100);
    free(blocks[i]);
  }
  return 0;
}
