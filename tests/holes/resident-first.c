/* SPDX-License-Identifier: MIT */
/* Free blocks that are resident are used before holes: a steady load beside holes brings next to none of them back. */
#include "holes/holes.h"

enum { N = 32768, SIZE = 1024, KEEP = 8, REQUESTS = 20, BLOCKS = 500 };

static void check_steady(void) {
  struct batch f = batch_new(N, SIZE, 1);
  batch_keep_each(&f, KEEP);
  mi_on_thread_idle();
  counts before = look();
  CHECK(!holes_on() || before.discard_calls > 0);
  CHECK(batch_check_units(&f, os_page()) > 0);
  static void *p[BLOCKS];
  for (size_t request = 0; request < REQUESTS; request++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      CHECK((p[i] = malloc(SIZE)) != NULL);
      behave_fill(p[i], SIZE, i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      CHECK(behave_verify(p[i], SIZE, i) == SIZE);
      free(p[i]);
    }
  }
  size_t n = look().reuse_calls - before.reuse_calls;
  if (n > 5) FAIL("%zu holes were brought back by a steady load", n);
  batch_end(&f);
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {{"steady", check_steady, {0}, false}};
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all),
                       WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", "MIMALLOC_SCAVENGER=0"));
}
