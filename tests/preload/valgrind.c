/* SPDX-License-Identifier: MIT */
/* For valgrind.sh (K01): 4 threads allocate for a second (0.4 s in a short run), verify,
 * and hand blocks to each other; exit code 7. */
#include "fork/workload.h"

static void *verify_sets(void *arg) {
  uint64_t end = behave_now_ns() + mi_test_scale(400, 1000) * 1000000u;
  for (uint64_t tag = (uintptr_t)arg; behave_now_ns() < end; tag += 10) {
    struct set s = set_make(200, 1, 20000, tag);
    set_free_some(&s, 3);
    set_free(&s);
  }
  return NULL;
}

int main(void) {
  static struct churn churn;
  pthread_t t;
  behave_limit(100);
  churn_start(&churn);
  CHECK(pthread_create(&t, NULL, verify_sets, (void *)5) == 0);
  pthread_join(t, NULL);
  churn_stop(&churn);
  void *big = calloc(1, 3000000);
  CHECK(big != NULL && behave_is_zero(big, 3000000));
  free(big);
  return 7;
}
