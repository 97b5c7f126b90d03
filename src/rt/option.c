/* SPDX-License-Identifier: MIT */
/* Options: values, ranges, and how each was set.
 *
 * Owns: the table. Threads: values are atomic; the program's settings may race with each other, the
 * last wins. */
#include "rt/option.h"
#include "base/atomic.h"
#include "os/os.h"
#include "rt/lock.h"
#include "rt/message.h"
#include "rt/option_parse.h"
#include <limits.h>
#include <string.h>

#define COUNT_MAX INT32_MAX
#define KIB_MAX ((long)(PTRDIFF_MAX / 1024))
#define ANY_MIN LONG_MIN
#define ANY_MAX LONG_MAX

enum unit {
  MI_UNIT_NONE, MI_UNIT_BOOL, MI_UNIT_LEVEL, MI_UNIT_COUNT, MI_UNIT_NUMBER, MI_UNIT_FACTOR,
  MI_UNIT_BITS, MI_UNIT_NODE, MI_UNIT_ONE_IN, MI_UNIT_KIB, MI_UNIT_BYTES, MI_UNIT_MS, MI_UNIT_EPOCHS
};

/* Who set the value; a later one overrules an earlier one of the list. */
enum source { BY_DEFAULT, BY_PROGRAM_DEFAULT, BY_ENVIRONMENT, BY_PROGRAM };

struct option {
  const char *name;
  long min, max;
  enum unit unit;
};

#define OPTION(number, name, value, unit, min, max, meaning) \
  _Static_assert((number) == (int)mi_option_##name, "an option's number is ABI");
#include "rt/option.def"

#define OPTION(number, name, value, unit, min, max, meaning) \
  [number] = { #name, min, max, MI_UNIT_##unit },
static const struct option table[_mi_option_last] = {
#include "rt/option.def"
};

#define OPTION(number, name, default, unit, min, max, meaning) [number] = default,
_Atomic(long) mi__option_values[_mi_option_last] = {
#include "rt/option.def"
};
static _Atomic(uint32_t) sources[_mi_option_last]; /* enum source */

static struct mi__once environment_read;

const char *mi__option_name(mi_option_t option) {
  return mi__option_is_known(option) ? table[option].name : NULL;
}

bool mi__option_is_kib(mi_option_t option) {
  return mi__option_is_known(option) && table[option].unit == MI_UNIT_KIB;
}

size_t mi__option_get_size(mi_option_t option) {
  long value = mi__option_get(option);
  if (value <= 0) return 0;
  if (!mi__option_is_kib(option)) return (size_t)value;
  return value >= KIB_MAX ? (size_t)PTRDIFF_MAX : (size_t)value * 1024;
}

/* ---- setting ---- */

/* False: out of range. Sizes have no wrong values: below 0 is 0, and above the largest allocation
 * is that. */
static bool fit_range(mi_option_t option, long *value) {
  const struct option *o = &table[option];
  if (o->unit == MI_UNIT_KIB) {
    if (*value < 0) *value = 0;
    if (*value > KIB_MAX) *value = KIB_MAX;
    return true;
  }
  return *value >= o->min && *value <= o->max;
}

static void store(mi_option_t option, long value, enum source source) {
  mi__store(&mi__option_values[option], value, relaxed);
  mi__store(&sources[option], (uint32_t)source, relaxed);
  /* Least and greatest size of guarded objects push each other, so that the range is never
   * empty. */
  if (option == mi_option_guarded_min && mi__option_get(mi_option_guarded_max) < value)
    mi__store(&mi__option_values[mi_option_guarded_max], value, relaxed);
  if (option == mi_option_guarded_max && mi__option_get(mi_option_guarded_min) > value)
    mi__store(&mi__option_values[mi_option_guarded_min], value, relaxed);
}

static bool set(mi_option_t option, long value, enum source source) {
  if (!mi__option_is_known(option) || !fit_range(option, &value)) return false;
  if (mi__load(&sources[option], relaxed) <= (uint32_t)source) store(option, value, source);
  return true;
}

bool mi__option_set(mi_option_t option, long value) { return set(option, value, BY_PROGRAM); }

bool mi__option_set_default(mi_option_t option, long value) {
  return set(option, value, BY_PROGRAM_DEFAULT);
}

/* ---- the environment ---- */

/* What is wrong with it is told afterwards: whether warnings are shown stands in the same
 * environment. */
static const char *read_variable(const struct mi__option_variable *variable) {
  long value;
  bool is_kib = mi__option_is_kib(variable->option);
  const char *problem = mi__option_parse_value(variable->text, is_kib, &value);
  if (problem != NULL) return problem;
  return set(variable->option, value, BY_ENVIRONMENT) ? NULL : "out of range";
}

static void warn_old_name(const struct mi__option_variable *variable) {
  char name[MI__OPTION_NAME_MAX];
  mi__option_environment_name(mi__option_name(variable->option), name);
  mi__warning("the variable MIMALLOC_%.*s is an old name of %s\n", variable->name_length,
              variable->name, name);
}

static void warn_value(const struct mi__option_variable *variable, const char *problem) {
  char name[MI__OPTION_NAME_MAX];
  mi__option_environment_name(mi__option_name(variable->option), name);
  /* Who set `verbose` wants to be told, but a bad value leaves it off. */
  _Atomic(long) *verbose = &mi__option_values[mi_option_verbose];
  bool speak_up = variable->option == mi_option_verbose && mi__load(verbose, relaxed) == 0;
  if (speak_up) mi__store(verbose, 1, relaxed);
  mi__warning("%s: \"%.*s\" is %s; the value stays %ld\n", name, MI__OPTION_VALUE_MAX,
              variable->text, problem, speak_up ? 0 : mi__option_get(variable->option));
  if (speak_up) mi__store(verbose, 0, relaxed);
}

/* One variable for each option: the first with its present name, else the first with an old one. */
static void choose_variables(char **environment, struct mi__option_variable *chosen) {
  for (; *environment != NULL; environment++) {
    struct mi__option_variable variable;
    if (!mi__option_parse_name(*environment, &variable)) continue;
    struct mi__option_variable *known = &chosen[variable.option];
    if (known->name == NULL || (known->is_old && !variable.is_old)) *known = variable;
  }
}

char mi__option_snapshot_path[MI__OPTION_TEXT_MAX];

static const struct text {
  const char *name;
  char *value;
} texts[] = {{"MIMALLOC_SNAPSHOT_PATH", mi__option_snapshot_path}};

/* The first of each name counts, as with getenv. A copy: programs write over their environment. */
static void read_text(char **environment, const struct text *text) {
  size_t n = strlen(text->name);
  while (*environment != NULL && (strncmp(*environment, text->name, n) != 0 ||
                                  (*environment)[n] != '=')) environment++;
  if (*environment == NULL) return;
  const char *value = *environment + n + 1;
  size_t length = strlen(value);
  if (length < MI__OPTION_TEXT_MAX) memcpy(text->value, value, length + 1);
  else mi__warning("%s is too long: ignored\n", text->name);
}

void mi__option_path(const char *text, const char *otherwise, char *buf, size_t size) {
  const char *from = text[0] != 0 ? text : otherwise;
  size_t n = 0;
  for (; *from != 0 && n + 1 < size; from++) {
    if (from[0] != '%' || from[1] != 'p') {
      buf[n++] = *from;
      continue;
    }
    n += mi__format(buf + n, size - n, "%zu", (size_t)mi__os_process_id());
    if (n >= size) n = size - 1;
    from++;
  }
  buf[n] = 0;
}

static void read_environment(char **environment) {
  struct mi__option_variable chosen[_mi_option_last] = { { .name = NULL } };
  const char *problem[_mi_option_last] = { NULL };
  unsigned n = 0;
  choose_variables(environment, chosen);
  for (int i = 0; i < _mi_option_last; i++) {
    if (chosen[i].name == NULL) continue;
    problem[i] = read_variable(&chosen[i]);
    n++;
  }
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) read_text(environment, &texts[i]);
  mi__verbose(1, "options set in the environment: %u\n", n);
  for (int i = 0; i < _mi_option_last; i++) {
    if (chosen[i].name == NULL) continue;
    if (chosen[i].is_old) warn_old_name(&chosen[i]);
    if (problem[i] != NULL) warn_value(&chosen[i], problem[i]);
    else mi__verbose(2, "option %s is %ld\n", table[i].name, mi__option_get((mi_option_t)i));
  }
}

void mi__option_init(void) {
  if (mi__likely(mi__once_is_done(&environment_read))) return;
  char **environment = mi__os_environ();
  if (environment == NULL || !mi__once_begin(&environment_read)) return;
  read_environment(environment);
  mi__once_end(&environment_read);
}

void mi__option_fork_child(void) { mi__once_fork_child(&environment_read); }

/* ---- print ---- */

static const char *unit_text(enum unit unit) {
  switch (unit) {
  case MI_UNIT_KIB: return " KiB";
  case MI_UNIT_BYTES: return " bytes";
  case MI_UNIT_MS: return " ms";
  case MI_UNIT_EPOCHS: return " epochs";
  default: return "";
  }
}

static const char *source_text(uint32_t source) {
  switch (source) {
  case BY_ENVIRONMENT: return " (environment)";
  case BY_PROGRAM_DEFAULT:
  case BY_PROGRAM: return " (program)";
  default: return "";
  }
}

void mi__option_print(mi_output_fun *out, void *arg) {
  for (int i = 0; i < _mi_option_last; i++) {
    const struct option *o = &table[i];
    mi__print(out, arg, "option %s: %ld%s%s\n", o->name, mi__option_get((mi_option_t)i),
              unit_text(o->unit), source_text(mi__load(&sources[i], relaxed)));
  }
}
