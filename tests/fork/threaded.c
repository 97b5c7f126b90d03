/* SPDX-License-Identifier: MIT */
/* C01 fork-in-threaded-process: 4 threads allocate and free 8 B to 256 KiB without pause and hand blocks to each other; main
 * forks 500 times; each child allocates 1000 mixed blocks, frees them and 100 inherited ones, starts and joins one thread,
 * _exit(0). Every child exits 0 within 5 s; the parent keeps going; the whole test within 60 s. A busy machine gets longer (behave_limit). */
#include "fork/workload.h"

static struct churn churn;

int main(void) {
  mi_test_not_under("address"); /* its own malloc may stay locked for ever in the child of a process with threads */
  mi_test_not_under("thread"); /* it does not support threads in a fork child */
  size_t n_forks = mi_test_scale(14, 500);
  behave_limit(60 + (unsigned)n_forks / 8);
  struct set inherited = set_make(400, 8, 8 * BEHAVE_KiB, 5);
  churn_start(&churn);
  for (size_t i = 0; i < n_forks; i++) {
    pid_t pid = fork_limited(5);
    if (pid == 0) {
      work();
      set_verify(&inherited);
      set_free_some(&inherited, 4);
      _exit(0);
    }
    wait_for(pid, "fork while other threads allocate");
    if (i % 8 == 0) set_verify(&inherited);
  }
  churn_stop(&churn);
  set_free(&inherited);
  return 0;
}
