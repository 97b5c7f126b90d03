/* SPDX-License-Identifier: MIT */
/* A seccomp filter that answers some system calls in the kernel's place: with EPERM, or by a
 * signal. */
#ifndef MI_TESTS_UNIT_OS_FILTER_H
#define MI_TESTS_UNIT_OS_FILTER_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { FILTER_MAX = 16 };

/* For the rest of the process. answer: SECCOMP_RET_ERRNO | EPERM, or SECCOMP_RET_TRAP. False: this
 * kernel has no filters. */
static inline bool filter_calls(const int *calls, size_t n, unsigned answer) {
  struct sock_filter code[2 * FILTER_MAX + 2];
  unsigned short length = 0;
  const unsigned load = BPF_LD | BPF_W | BPF_ABS, jump_if = BPF_JMP | BPF_JEQ | BPF_K;
  code[length++] = (struct sock_filter)BPF_STMT(load, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < n && i < FILTER_MAX; i++) {
    code[length++] = (struct sock_filter)BPF_JUMP(jump_if, (unsigned)calls[i], 0, 1);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
  }
  code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = { length, code };
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

#endif
