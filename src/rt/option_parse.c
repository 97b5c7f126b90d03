/* SPDX-License-Identifier: MIT */
#include "rt/option_parse.h"
#include "rt/option.h"
#include <limits.h>
#include <string.h>

#define PREFIX "MIMALLOC_"

/* Not the C library's functions: those follow the locale. */
static char to_upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- names ---- */

/* Names that programs and scripts for older releases use. */
static const struct { const char *name; mi_option_t option; } old_names[] = {
  { "LARGE_OS_PAGES", mi_option_allow_large_os_pages },
  { "EAGER_REGION_COMMIT", mi_option_arena_eager_commit },
  { "RESET_DECOMMITS", mi_option_purge_decommits },
  { "RESET_DELAY", mi_option_purge_delay },
  { "LIMIT_OS_ALLOC", mi_option_disallow_os_alloc },
  { "ABANDONED_RECLAIM_ON_FREE", mi_option_page_reclaim_on_free },
  { "DECOMMIT_EXTEND_DELAY", mi_option_deprecated_purge_extend_delay },
};

/* Is name[0..length) the capitals of `option`? */
static bool is_capitals_of(const char *option, const char *name, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (option[i] == 0 || to_upper(option[i]) != name[i]) return false;
  return option[length] == 0;
}

static bool find_name(const char *name, size_t length, struct mi__option_variable *variable) {
  variable->is_old = false;
  for (int i = 0; i < _mi_option_last; i++) {
    variable->option = (mi_option_t)i;
    if (is_capitals_of(mi__option_name(variable->option), name, length)) return true;
  }
  variable->is_old = true;
  for (size_t i = 0; i < sizeof(old_names) / sizeof(old_names[0]); i++) {
    variable->option = old_names[i].option;
    if (is_capitals_of(old_names[i].name, name, length)) return true;
  }
  return false;
}

bool mi__option_parse_name(const char *entry, struct mi__option_variable *variable) {
  size_t prefix = sizeof(PREFIX) - 1;
  if (strncmp(entry, PREFIX, prefix) != 0) return false;
  const char *name = entry + prefix, *end = strchr(name, '=');
  if (end == NULL || end - name >= MI__OPTION_NAME_MAX) return false;
  if (!find_name(name, (size_t)(end - name), variable)) return false;
  variable->name = name;
  variable->name_length = (int)(end - name);
  variable->text = end + 1;
  return true;
}

void mi__option_environment_name(const char *name, char *buf) {
  size_t n = sizeof(PREFIX) - 1;
  memcpy(buf, PREFIX, n);
  for (; *name != 0 && n < MI__OPTION_NAME_MAX - 1; name++) buf[n++] = to_upper(*name);
  buf[n] = 0;
}

/* ---- values ---- */

static bool is_word(const char *text, const char *word) {
  for (; *word != 0; text++, word++)
    if (to_upper(*text) != *word) return false;
  return *text == 0;
}

static bool parse_truth(const char *text, long *value) {
  *value = 1;
  if (*text == 0 || is_word(text, "TRUE") || is_word(text, "YES") || is_word(text, "ON"))
    return true;
  *value = 0;
  return is_word(text, "FALSE") || is_word(text, "NO") || is_word(text, "OFF");
}

/* The power of 1024 that a suffix stands for, counted in KiB; 0: no such suffix. */
static unsigned long long suffix_kib(const char *text) {
  const char *units = "KMGT", *unit = strchr(units, to_upper(*text));
  if (*text == 0 || unit == NULL) return 0;
  text++;
  if (*text != 0 && !is_word(text, "IB") && !is_word(text, "B")) return 0;
  return 1ull << (10 * (unit - units));
}

static bool parse_kib(const char *suffix, unsigned long long number, bool negative, long *value) {
  unsigned long long kib = number / 1024 + (number % 1024 != 0);
  if (*suffix != 0) {
    unsigned long long factor = suffix_kib(suffix);
    if (factor == 0) return false;
    if (__builtin_mul_overflow(number, factor, &kib)) kib = ULLONG_MAX;
  }
  if (negative) kib = 0;
  *value = kib > LONG_MAX ? LONG_MAX : (long)kib;
  return true;
}

const char *mi__option_parse_value(const char *text, bool is_kib, long *value) {
  static const char no_value[] = "no value for it", too_large[] = "out of range";
  if (strnlen(text, MI__OPTION_VALUE_MAX + 1) > MI__OPTION_VALUE_MAX) return "too long";
  if (parse_truth(text, value)) return NULL;
  bool negative = *text == '-';
  if (*text == '-' || *text == '+') text++;
  if (!is_digit(*text)) return no_value;
  unsigned long long number = 0;
  bool overflow = false;
  for (; is_digit(*text); text++) {
    overflow |= __builtin_mul_overflow(number, 10ull, &number);
    overflow |= __builtin_add_overflow(number, (unsigned long long)(*text - '0'), &number);
  }
  if (overflow) number = ULLONG_MAX;
  if (is_kib) return parse_kib(text, number, negative, value) ? NULL : no_value;
  if (*text != 0) return no_value;
  if (number > (unsigned long long)LONG_MAX) return too_large;
  *value = negative ? -(long)number : (long)number;
  return NULL;
}
