/* SPDX-License-Identifier: MIT */
/* Options: one table (option.def) gives number, name, default, unit, range and meaning; the public
 * enum, the parser, mi_options_print, the man pages and the tests are made from it.
 * Threads: values are atomic; reading never locks. Values are read from the environment once, by
 * mi__option_init. */
#ifndef MI_RT_OPTION_H
#define MI_RT_OPTION_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "mimalloc.h"

/* Read the environment, once: the first call that finds the C library's environment set up does it.
 * Cheap after that. */
void mi__option_init(void);
extern _Atomic(long) mi__option_values[_mi_option_last] __attribute__((visibility("hidden")));
mi__inline bool mi__option_is_known(mi_option_t option) {
  return (int)option >= 0 && (int)option < _mi_option_last;
}
/* The value; the default where the environment has not been read yet; 0 for an unknown number. */
mi__inline long mi__option_get(mi_option_t option) {
  return mi__option_is_known(option) ? mi__load(&mi__option_values[option], relaxed) : 0;
}
/* KiB options in bytes, negative as 0; others as they are. */
size_t mi__option_get_size(mi_option_t option);
/* False: unknown number or out of range; nothing is set. A size below 0 is 0. */
bool mi__option_set(mi_option_t option, long value);
/* The same, but only where neither environment nor program set it. */
bool mi__option_set_default(mi_option_t option, long value);
/* "purge_delay"; NULL for an unknown number. */
const char *mi__option_name(mi_option_t option);
bool mi__option_is_kib(mi_option_t option);
/* One line for each option, to `out`; NULL is the registered output function. */
void mi__option_print(mi_output_fun *out, void *arg);
/* Variables of the environment that are texts. "": not set, or too long, of which a warning tells.
 * Constant once the environment was read. */
#define MI__OPTION_TEXT_MAX 1024 /* bytes with the 0 */
extern char mi__option_snapshot_path[MI__OPTION_TEXT_MAX];
/* The path that `text` gives, or `otherwise` where it is ""; "%p" in it is the number of the
 * process. Cut off where buf is too short. */
void mi__option_path(const char *text, const char *otherwise, char *buf, size_t size);
/* In a fork child: read anew what a thread was reading that is not here any more. */
void mi__option_fork_child(void);

#endif
