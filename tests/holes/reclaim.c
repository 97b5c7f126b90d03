/* SPDX-License-Identifier: MIT */
/* A large page that was full when its thread ended, and into which blocks were freed since, is used before the caller's own
 * page is extended: all blocks of the next burst come from it. */
#include "holes/holes.h"

static struct batch f;

static void *fill(void *arg) {
  (void)arg;
  batch_fill(&f);
  return NULL;
}
static void check_reclaim(void) {
  f = batch_make(12, 300 * 1024, 34); /* a page of 12, full */
  void *mine = malloc(f.size);
  CHECK(mine != NULL);
  in_thread(fill, NULL);
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (size_t i = 0; i < f.n; i++) {
    if ((uintptr_t)f.at[i] < low) low = (uintptr_t)f.at[i];
    if ((uintptr_t)f.at[i] > high) high = (uintptr_t)f.at[i];
  }
  CHECK(high - low < 4 * BEHAVE_MiB);
  for (size_t i = 1; i < f.n; i++) batch_free(&f, i);
  batch_fill(&f);
  for (size_t i = 1; i < f.n; i++) {
    if ((uintptr_t)f.at[i] < low || (uintptr_t)f.at[i] > high)
      FAIL("block %zu at %p is not from the page that was left", i, f.at[i]);
  }
  batch_end(&f);
  free(mine);
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {{"reclaim", check_reclaim, {0}, false}};
  mi_test_not_tracked();
  return run_scenarios(argc, argv, all, N_OF(all),
                       WITH("MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", "MIMALLOC_SCAVENGER=0"));
}
