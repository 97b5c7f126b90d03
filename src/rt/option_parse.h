/* SPDX-License-Identifier: MIT */
/* The grammar of the environment: names and values of options. Pure functions over text. */
#ifndef MI_RT_OPTION_PARSE_H
#define MI_RT_OPTION_PARSE_H

#include "base/compiler.h"
#include "mimalloc.h"

#define MI__OPTION_VALUE_MAX 64 /* characters of a value; a longer one is no value */
#define MI__OPTION_NAME_MAX 64  /* bytes that hold "MIMALLOC_", the longest name, and the 0 */

struct mi__option_variable {
  mi_option_t option;
  const char *name; /* behind "MIMALLOC_" */
  int name_length;
  bool is_old;      /* an older name of the option */
  const char *text; /* the value */
};

/* Is `entry` ("MIMALLOC_PURGE_DELAY=20") the variable of an option? Capitals only. */
bool mi__option_parse_name(const char *entry, struct mi__option_variable *variable);
/* NULL and *value; or what is wrong with the text, in words that follow "is". KiB: *value is in
 * KiB, what is too large is LONG_MAX. */
const char *mi__option_parse_value(const char *text, bool is_kib, long *value);
/* "purge_delay" to "MIMALLOC_PURGE_DELAY"; buf of MI__OPTION_NAME_MAX bytes. */
void mi__option_environment_name(const char *name, char *buf);

#endif
