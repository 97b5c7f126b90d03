/* SPDX-License-Identifier: MIT */
/* What the variables of the environment may hold.
 * I01 size-units: all ways to write 1 GiB give the same value; a plain number is bytes, rounded up
 * to KiB. I02 bad-values: an unusable value keeps the default, with one warning only where warnings
 * are shown; no crash. */
#include "env/frame.h"
#include <ctype.h>
#include <limits.h>

struct option {
  mi_option_t number;
  const char *name, *unit;
  long standard, min, max;
};

#define COUNT_MAX INT32_MAX
#define KIB_MAX (PTRDIFF_MAX / 1024)
#define ANY_MIN LONG_MIN
#define ANY_MAX LONG_MAX
#ifndef MI_DEBUG
#define MI_DEBUG 0
#endif
enum { ENV_DEBUG_IS = MI_DEBUG };
#define OPTION(number, name, value, unit, min, max, meaning) \
  { (mi_option_t)(number), #name, #unit, value, min, max },
static const struct option options[] = {
#include "rt/option.def"
};
enum { N_OPTIONS = sizeof(options) / sizeof(options[0]) };

static char five_thousand[5001];

/* Text, and what it stands for; WRONG: for nothing. Sizes see it in KiB. */
#define WRONG LONG_MIN
struct value { const char *text; long plain, kib; };
static const struct value values[] = {
  { "", 1, 1 }, { "1", 1, 1 }, { "true", 1, 1 }, { "ON", 1, 1 }, { "Yes", 1, 1 },
  { "0", 0, 0 }, { "no", 0, 0 }, { "Off", 0, 0 }, { "-1", -1, 0 },
  { " ", WRONG, WRONG }, { "abc", WRONG, WRONG }, { "1e9", WRONG, WRONG }, { "1gg", WRONG, WRONG },
  { "0x10", WRONG, WRONG }, { "1 ", WRONG, WRONG },
  { "9999999999999999999999999999999999999999", WRONG, KIB_MAX },
  { five_thousand, WRONG, WRONG },
};

static struct env_run run;

/* The second run: the value of the option, and does the allocator still work? An option may forbid
 * to allocate. */
static int show_value(const char *number) {
  char text[64];
  void *volatile p = malloc(100);
  free(p);
  int n = snprintf(text, sizeof(text), "%ld %zu\n", mi_option_get((mi_option_t)atoi(number)),
                   mi_option_get_size((mi_option_t)atoi(number)));
  return write(STDOUT_FILENO, text, (size_t)n) == n ? 0 : 1;
}

static const char *entry_of(const struct option *o, const char *text) {
  static char entry[8192];
  int n = snprintf(entry, sizeof(entry), "MIMALLOC_");
  for (const char *c = o->name; *c != 0; c++) entry[n++] = (char)toupper((unsigned char)*c);
  snprintf(entry + n, sizeof(entry) - (size_t)n, "=%s", text);
  return entry;
}

static long value_of(const struct option *o, const struct value *v) {
  long want = strcmp(o->unit, "KIB") == 0 ? v->kib : v->plain;
  return want < o->min || want > o->max ? WRONG : want;
}

static void check_value(const struct option *o, const struct value *v) {
  char number[16];
  snprintf(number, sizeof(number), "%d", (int)o->number);
  long raw = strcmp(o->unit, "KIB") == 0 ? v->kib : v->plain;
  long want = raw == WRONG ? WRONG : value_of(o, v);
  bool is_verbose = strcmp(o->name, "verbose") == 0, is_show = strcmp(o->name, "show_errors") == 0;
  const char *entry = entry_of(o, v->text);
  env_run(&run, is_show ? ENV(entry) : ENV(entry, "MIMALLOC_SHOW_ERRORS=1"), "show", number);
  ENV_CHECK(&run, run.status == 0, "%.60s", entry);
  ENV_CHECK(&run, strtol(run.out, NULL, 10) == (want == WRONG ? o->standard : want), "%.60s",
    entry);
  char warning[128];
  int length = (int)(strchr(entry, '=') - entry);
  snprintf(warning, sizeof(warning), "mimalloc: warning: %.*s: ", length, entry);
  int shown = want == WRONG && (!is_show || ENV_DEBUG_IS) ? 1 : 0;
  ENV_CHECK(&run, env_count(run.err, warning) == shown, "%.60s", entry);
  ENV_CHECK(&run, env_count(run.err, "warning: MIMALLOC_") == shown, "%.60s", entry);
  if (strcmp(v->text, "abc") != 0 || is_show || ENV_DEBUG_IS) return;
  env_run(&run, ENV(entry), "show", number);
  ENV_CHECK(&run, run.status == 0, "%.60s", entry);
  ENV_CHECK(&run, env_count(run.err, "\n") == (is_verbose ? 1 : 0), "%.60s", entry);
}

static void check_sizes(void) {
  static const char *const gib[] = { "1073741824", "1g", "1G", "1GiB", "1gb", "1024M", "1024MiB",
    "1048576K",
                                     "1048576kib", "1073741823" };
  static const char *const names[] = { "ARENA_RESERVE", "ARENA_MAX_OBJECT_SIZE",
    "PURGE_HOLES_LARGE_FLOOR" };
  static const mi_option_t numbers[] = { mi_option_arena_reserve, mi_option_arena_max_object_size,
                                         mi_option_purge_holes_large_floor };
  for (size_t o = 0; o < 3; o++)
    for (size_t i = 0; i < sizeof(gib) / sizeof(gib[0]); i++) {
      char entry[128], number[16];
      snprintf(entry, sizeof(entry), "MIMALLOC_%s=%s", names[o], gib[i]);
      snprintf(number, sizeof(number), "%d", (int)numbers[o]);
      env_run(&run, ENV(entry, "MIMALLOC_VERBOSE=2"), "show", number);
      ENV_CHECK(&run, run.status == 0 && strcmp(run.out, "1048576 1073741824\n") == 0, "%s", entry);
      ENV_CHECK(&run, strstr(run.err, " is 1048576\n") != NULL, "%s", entry);
    }
}

/* Names in capitals only; old names, with a warning; a present name wins. */
static void check_names(void) {
  env_run(&run, ENV("mimalloc_purge_delay=7", "MIMALLOC_purge_delay=8", "Mimalloc_Purge_Delay=9"),
    "show", "15");
  ENV_CHECK(&run, run.status == 0 && strcmp(run.out, "100 100\n") == 0, "small letters");
  env_run(&run, ENV("MIMALLOC_RESET_DELAY=7", "MIMALLOC_SHOW_ERRORS=1"), "show", "15");
  ENV_CHECK(&run, strcmp(run.out, "7 7\n") == 0, "old name");
  const char *told = "MIMALLOC_RESET_DELAY is an old name of MIMALLOC_PURGE_DELAY\n";
  ENV_CHECK(&run, env_count(run.err, told) == 1, "old name");
  env_run(&run, ENV("MIMALLOC_RESET_DELAY=7", "MIMALLOC_PURGE_DELAY=8"), "show", "15");
  ENV_CHECK(&run, strcmp(run.out, "8 8\n") == 0, "both names");
}

/* What the program may do with an option, in this process. */
static void check_calls(void) {
  mi_option_set(mi_option_generic_collect, 77);
  CHECK(mi_option_get(mi_option_generic_collect) == 77);
  mi_option_set_default(mi_option_generic_collect, 78);
  CHECK(mi_option_get(mi_option_generic_collect) == 77);
  mi_option_set_default(mi_option_purge_delay, 55);
  CHECK(mi_option_get(mi_option_purge_delay) == 55);
  mi_option_set_enabled_default(mi_option_purge_decommits, false);
  CHECK(!mi_option_is_enabled(mi_option_purge_decommits));
  mi_option_enable(mi_option_purge_decommits);
  CHECK(mi_option_is_enabled(mi_option_purge_decommits));
  mi_option_disable(mi_option_purge_decommits);
  CHECK(!mi_option_is_enabled(mi_option_purge_decommits));
  mi_option_set_enabled(mi_option_purge_decommits, true);
  CHECK(mi_option_get(mi_option_purge_decommits) == 1);
  CHECK(mi_option_get_clamp(mi_option_purge_delay, 60, 70) == 60);
  CHECK(mi_option_get_clamp(mi_option_purge_delay, 10, 20) == 20);
  CHECK(mi_option_get_clamp(mi_option_purge_delay, 10, 90) == 55);
  mi_option_set(mi_option_purge_delay, -1);
  CHECK(mi_option_get(mi_option_purge_delay) == -1 &&
    mi_option_get_size(mi_option_purge_delay) == 0);
  mi_option_set(mi_option_purge_delay, -7);
  CHECK(mi_option_get(mi_option_purge_delay) == -1);
  mi_option_set(mi_option_guarded_min, LONG_MAX / 2);
  CHECK(mi_option_get(mi_option_guarded_max) == LONG_MAX / 2);
  mi_option_set(mi_option_guarded_max, 12);
  CHECK(mi_option_get(mi_option_guarded_min) == 12);
  mi_option_set((mi_option_t)_mi_option_last, 5);
  CHECK(mi_option_get((mi_option_t)_mi_option_last) == 0 && mi_option_get((mi_option_t)-1) == 0);
  CHECK(mi_version() == MI_MALLOC_VERSION);
}

int main(int argc, char **argv) {
  if (argc == 3) return show_value(argv[2]);
  memset(five_thousand, '1', sizeof(five_thousand) - 1);
  CHECK((int)N_OPTIONS == (int)_mi_option_last);
  /* A short run gives each option every other value, those without effect each sixth; two tell of the others, and have all. */
  for (size_t o = 0; o < N_OPTIONS; o++) {
    bool tells = options[o].number == mi_option_verbose || options[o].number == mi_option_show_errors;
    size_t step = tells ? 1 : strcmp(options[o].unit, "NONE") == 0 ? mi_test_scale(6, 1) : mi_test_scale(2, 1);
    for (size_t v = o % step; v < sizeof(values) / sizeof(values[0]); v += step)
      check_value(&options[o], &values[v]);
  }
  check_sizes();
  check_names();
  check_calls();
  return 0;
}
