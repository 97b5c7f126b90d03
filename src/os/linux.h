/* SPDX-License-Identifier: MIT */
/* What the files of the Linux implementation share. Included by src/os/linux*.c only. */
#ifndef MI_OS_LINUX_H
#define MI_OS_LINUX_H

#include <sys/syscall.h>

/* The futex call that takes the kernel's `long` time; newer 32-bit machines have only the one with
 * 64-bit time. */
#ifdef SYS_futex
#define MI__SYS_FUTEX SYS_futex
typedef long mi__futex_time;
#else
#define MI__SYS_FUTEX SYS_futex_time64
typedef long long mi__futex_time;
#endif
struct mi__futex_timeout { mi__futex_time seconds, nanoseconds; };

#endif
