/* SPDX-License-Identifier: MIT */
/* The public functions for options, and the version. */
#include "mimalloc.h"
#include "rt/message.h"
#include "rt/option.h"

int mi_version(void) { return MI_MALLOC_VERSION; }

long mi_option_get(mi_option_t option) {
  mi__option_init();
  return mi__option_get(option);
}

long mi_option_get_clamp(mi_option_t option, long min, long max) {
  long value = mi_option_get(option);
  if (value < min) return min;
  return value > max ? max : value;
}

size_t mi_option_get_size(mi_option_t option) {
  mi__option_init();
  return mi__option_get_size(option);
}

/* The environment is read first, since what the program sets comes after it. */
void mi_option_set(mi_option_t option, long value) {
  mi__option_init();
  (void)mi__option_set(option, value);
}

void mi_option_set_default(mi_option_t option, long value) {
  mi__option_init();
  (void)mi__option_set_default(option, value);
}

bool mi_option_is_enabled(mi_option_t option) { return mi_option_get(option) != 0; }

void mi_option_set_enabled(mi_option_t option, bool enable) {
  mi_option_set(option, enable ? 1 : 0);
}

void mi_option_set_enabled_default(mi_option_t option, bool enable) {
  mi_option_set_default(option, enable ? 1 : 0);
}

void mi_option_enable(mi_option_t option) { mi_option_set_enabled(option, true); }

void mi_option_disable(mi_option_t option) { mi_option_set_enabled(option, false); }

void mi_options_print_out(mi_output_fun *out, void *arg) {
  mi__option_init();
  int version = mi_version();
  mi__print(out, arg, "version %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  mi__option_print(out, arg);
}

void mi_options_print(void) { mi_options_print_out(NULL, NULL); }
