/* SPDX-License-Identifier: MIT */
/* What the library prints: nothing by default. Formatting without stdio, locale or allocation;
 * whole lines, each by one call of the registered output function (default: standard error, raw
 * write). Every message is listed with its cause and remedy in doc/diagnostics.md.
 * Threads: any. Re-entrancy: a message made while this thread prints (by the program's own
 * callback) is dropped. */
#ifndef MI_RT_MESSAGE_H
#define MI_RT_MESSAGE_H

#include "base/compiler.h"
#include "mimalloc.h"
#include <stdarg.h>

/* %s %c %d %i %u %x %p %zu %zd %zx %lu %ld %lx %llu %lld %% with width, '-', '0' and precision for
 * %s. Returns the length that was needed; always ends buf (size > 0) with 0. */
size_t mi__vformat(char *buf, size_t size, const char *fmt, va_list args);
size_t mi__format(char *buf, size_t size, const char *fmt, ...) mi__printf_like(3, 4);

/* A formatted text to `out`; NULL is the registered output function. Texts up to 1000 bytes. */
void mi__print(mi_output_fun *out, void *arg, const char *fmt, ...) mi__printf_like(3, 4);
/* "mimalloc: warning: ..." where verbose >= 1 or show_errors; at most max_warnings of them. */
void mi__warning(const char *fmt, ...) mi__printf_like(1, 2);
/* Report a misuse or failure: the registered error function gets `err` (EAGAIN double free, EFAULT
 * corrupt list, EINVAL bad pointer or argument, ENOMEM, EOVERFLOW); prints "mimalloc: error: ..."
 * where show_errors, at most max_errors of them. errno is kept. Never called with a lock held. */
void mi__error(int err, const char *fmt, ...) mi__printf_like(2, 3);
/* "mimalloc: ..." where the verbose option is at least `level`. */
void mi__verbose(int level, const char *fmt, ...) mi__printf_like(2, 3);

void mi__message_register_output(mi_output_fun *out, void *arg); /* NULL: standard error */
void mi__message_register_error(mi_error_fun *fun, void *arg);   /* NULL: none */
void mi__message_init(void); /* registers the hook of base/check.h */
void mi__message_fork_child(void); /* forget what vanished threads were printing */

#endif
