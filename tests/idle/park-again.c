/* SPDX-License-Identifier: MIT */
/* A long park is looked at again: blocks that another thread frees into the pages of a parked thread
 * go back soon, though their owner does nothing. Only whole pages are looked at here. */
#include "idle/idle.h"

enum { N = 131072, SIZE = 256 };
static struct herd h;
static atomic_bool parked, done;

static bool is_eighth(const struct herd *herd, size_t i) {
  (void)herd;
  return i % 8 == 0;
}

static void *own(void *arg) {
  (void)arg;
  herd_fill(&h);
  herd_free_if(&h, is_eighth); /* no page is full: their owner has them all */
  CHECK(mi_on_thread_idle_start());
  parked = true;
  while (!done) behave_sleep_ms(1);
  mi_on_thread_idle_end();
  return NULL;
}

int main(void) {
  behave_limit(120);
  idle_skip_without_parks();
  for (size_t round = 0; round < mi_test_scale(1, 5); round++) {
    h = herd_make(N, SIZE, 5);
    parked = done = false;
    pthread_t t = start(own, NULL);
    while (!parked) behave_sleep_ms(1);
    behave_sleep_ms(1000);
    size_t before = purged();
    herd_verify(&h);
    herd_free_if(&h, NULL);
    EXPECT_PURGED(before + 16 * BEHAVE_MiB, "what was freed in a long park did not go");
    done = true;
    join(t);
    herd_end(&h);
  }
  return 0;
}
