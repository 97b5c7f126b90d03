/* SPDX-License-Identifier: MIT */
/* Filters of system calls for the tests of an OS that refuses. Linux only, on processors whose name the kernel's audit has.
 * Threads: a filter holds for the calling thread and for those that it makes afterwards. */
#ifndef MI_TESTS_STRESS_FILTER_H
#define MI_TESTS_STRESS_FILTER_H

#include "thread/behave.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { FILTER_MOST = 64 };

/* The system calls of the list get `listed`, all others `others`. */
static inline void filter_install(const int *calls, size_t n, unsigned listed, unsigned others) {
  struct sock_filter code[FILTER_MOST + 3];
  size_t k = 0;
  if (n > FILTER_MOST) exit(MI_TEST_ERROR);
  code[k++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < n; i++) {
    code[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], (unsigned char)(n - i), 0);
  }
  code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
  code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
  struct sock_fprog program = {(unsigned short)k, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    SKIP("filters of system calls are not to be had here, errno %d", errno);
  }
}

#endif
