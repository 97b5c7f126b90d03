/* SPDX-License-Identifier: MIT */
#include "base/check.h"

static mi__check_fun *hook;

void mi__check_set_hook(mi__check_fun *fun) { hook = fun; }

_Noreturn void mi__check_failed(const char *condition, const char *file, unsigned line) {
  if (hook != NULL) hook(condition, file, line);
  __builtin_trap();
}
