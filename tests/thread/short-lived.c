/* SPDX-License-Identifier: MIT */
/* C08 short-lived-threads-leak: 20000 threads one after the other, each allocates 1 KiB and 64 KiB and frees them; another
 * run where the blocks are freed by main after the thread ended. Resident after thread 20000 minus resident after thread
 * 2000 is at most 2 MiB; the address space grows by at most 64 MiB. */
#include "thread/behave.h"
#include <pthread.h>

struct left {
  bool leave;
  void *small, *large;
};

static void *live(void *arg) {
  struct left *left = arg;
  left->small = malloc(1024);
  left->large = malloc(65536);
  if (left->small == NULL || left->large == NULL) FAIL("malloc gave NULL");
  behave_fill(left->small, 1024, 3);
  behave_fill(left->large, 65536, 4);
  if (left->leave) return NULL;
  free(left->small);
  free(left->large);
  return NULL;
}

static void run(bool leave, int n_threads) {
  size_t resident = 0, space = 0;
  for (int i = 0; i < n_threads; i++) {
    if (i == n_threads / 10) {
      resident = behave_resident();
      space = behave_virtual();
    }
    struct left left = {.leave = leave};
    pthread_t t;
    int err = pthread_create(&t, NULL, live, &left);
    if (err != 0) FAIL("pthread_create gave %d", err);
    pthread_join(t, NULL);
    if (!leave) continue;
    if (behave_verify(left.small, 1024, 3) != 1024) FAIL("a small block changed when its thread ended");
    if (behave_verify(left.large, 65536, 4) != 65536) FAIL("a large block changed when its thread ended");
    free(left.small);
    free(left.large);
  }
  if (BEHAVE_SANITIZED) return;
  long grown = (long)behave_resident() - (long)resident, space_grown = (long)behave_virtual() - (long)space;
  const char *how = leave ? "blocks freed by main" : "blocks freed by the thread";
  if (grown > (long)(2 * BEHAVE_MiB)) FAIL("%s: %ld KiB more are resident", how, grown / 1024);
  if (space_grown > (long)(64 * BEHAVE_MiB)) FAIL("%s: %ld KiB more address space", how, space_grown / 1024);
}

int main(void) {
  int n_threads = (int)mi_test_scale(8000, 20000);
  behave_limit(120);
  run(false, n_threads);
  run(true, n_threads);
  return 0;
}
