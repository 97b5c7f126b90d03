/* SPDX-License-Identifier: MIT */
/* The options about messages: show_errors, verbose, max_errors, max_warnings, show_stats; and where
 * messages go. */
#include "env/frame.h"
#include <errno.h>

static struct env_run run;

/* ---- the second runs ---- */

/* An alignment that is no power of two: NULL, EINVAL, and an error message. */
static int make_errors(int n) {
  for (int i = 0; i < n; i++) {
    errno = 0;
    CHECK(mi_malloc_aligned(8, 3) == NULL && errno == EINVAL);
  }
  return 0;
}

static char taken[65536];
static void take(const char *text, void *arg) {
  CHECK(arg == taken);
  if (strlen(taken) + strlen(text) < sizeof(taken)) strcat(taken, text);
  free(malloc(100)); /* a callback may allocate */
}

static int n_errors;
static void count_error(int err, void *arg) {
  CHECK(err == EINVAL && arg == &n_errors);
  n_errors++;
  (void)make_errors(1); /* a mistake in the function itself is not told to it */
}

/* Errors go to the registered functions; what was printed before is not repeated. */
static int take_errors(void) {
  (void)make_errors(1);
  mi_register_output(take, taken);
  mi_register_error(count_error, &n_errors);
  CHECK(taken[0] == 0);
  (void)make_errors(2);
  mi_register_output(NULL, NULL);
  mi_register_error(NULL, NULL);
  (void)make_errors(1);
  CHECK(n_errors == 2);
  printf("%s", taken);
  return 0;
}

static int print_options(void) {
  mi_option_set(mi_option_purge_delay, 7);
  mi_options_print_out(take, taken);
  printf("%s", taken);
  return 0;
}

/* ---- the first run ---- */

static void check_show_errors(void) {
  env_run(&run, ENV("MIMALLOC_SHOW_ERRORS=0"), "errors", "3");
  ENV_CHECK(&run, run.status == 0 && run.err[0] == 0, "off");
  env_run(&run, ENV("MIMALLOC_SHOW_ERRORS=1"), "errors", "3");
  ENV_CHECK(&run, run.status == 0 && env_count(run.err, "mimalloc: error: ") == 3, "on");
  ENV_CHECK(&run, env_count(run.err, "\n") == 3, "on");
}

static void check_max_errors(void) {
  static const struct { const char *entry; int want; } rows[] = {
    { "MIMALLOC_MAX_ERRORS=5", 5 }, { "MIMALLOC_MAX_ERRORS=0", 0 },
    { "MIMALLOC_MAX_ERRORS=-1", 100 },
    { "MIMALLOC_MAX_ERRORS=junk", 32 },
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    env_run(&run, ENV(rows[i].entry, "MIMALLOC_SHOW_ERRORS=1"), "errors", "100");
    ENV_CHECK(&run, env_count(run.err, "mimalloc: error: ") == rows[i].want, "%s", rows[i].entry);
  }
}

static void check_max_warnings(void) {
  const char *three[] = { "MIMALLOC_PURGE_DELAY=x", "MIMALLOC_ALLOW_THP=x", "MIMALLOC_OS_TAG=x",
    NULL, NULL, NULL };
  for (int most = 0; most < 4; most++) {
    char entry[64];
    snprintf(entry, sizeof(entry), "MIMALLOC_MAX_WARNINGS=%d", most);
    three[3] = entry;
    three[4] = "MIMALLOC_VERBOSE=1";
    env_run(&run, three, "errors", "0");
    ENV_CHECK(&run, env_count(run.err, "mimalloc: warning: ") == most, "%s", entry);
  }
}

/* Each line of every message begins alike, so that a program's own output can be told from it. */
static void check_verbose(void) {
  static const char *const levels[] = { "MIMALLOC_VERBOSE=0", "MIMALLOC_VERBOSE=1",
    "MIMALLOC_VERBOSE=2" };
  int lines = -1;
  for (int level = 0; level < 3; level++) {
    env_run(&run, ENV(levels[level], "MIMALLOC_SHOW_ERRORS=0", "MIMALLOC_PURGE_DELAY=20"),
      "errors", "3");
    int n = env_count(run.err, "\n");
    ENV_CHECK(&run, run.status == 0 && n == env_count(run.err, "mimalloc: "), "%s", levels[level]);
    ENV_CHECK(&run, level == 0 ? n == 0 : n > lines, "%s", levels[level]);
    lines = n;
  }
  ENV_CHECK(&run, env_count(run.err, "mimalloc: option purge_delay is 20\n") == 1, "verbose 2");
}

static void check_callbacks(void) {
  env_run(&run, ENV("MIMALLOC_SHOW_ERRORS=1"), "take", NULL);
  ENV_CHECK(&run, run.status == 0, "take");
  ENV_CHECK(&run, env_count(run.err, "mimalloc: error: ") == 2, "before and after");
  ENV_CHECK(&run, env_count(run.out, "mimalloc: error: ") == 4,
    "two, and two inside of the error function");
}

static void check_print(void) {
  env_run(&run, ENV("MIMALLOC_ARENA_RESERVE=256M"), "print", NULL);
  ENV_CHECK(&run, run.status == 0 && run.err[0] == 0, "print");
  ENV_CHECK(&run, strncmp(run.out, "version 3.5.", 12) == 0, "print");
  ENV_CHECK(&run, env_count(run.out, "\n") == 1 + _mi_option_last, "print");
  ENV_CHECK(&run, strstr(run.out, "\noption arena_reserve: 262144 KiB (environment)\n") != NULL,
    "print");
  ENV_CHECK(&run, strstr(run.out, "\noption purge_delay: 7 ms (program)\n") != NULL, "print");
}

/* Statistics at the end go to standard error, and only when asked for. */
static void check_show_stats(void) {
  env_run(&run, ENV_NONE, "errors", "0");
  ENV_CHECK(&run, run.err[0] == 0, "show_stats 0");
  env_run(&run, ENV("MIMALLOC_SHOW_STATS=1"), "errors", "0");
  ENV_CHECK(&run, run.status == 0 && env_count(run.err, "\n") > 3, "show_stats 1");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "errors") == 0) return make_errors(atoi(argv[2]));
  if (argc > 1 && strcmp(argv[1], "take") == 0) return take_errors();
  if (argc > 1 && strcmp(argv[1], "print") == 0) return print_options();
  check_show_errors();
  check_max_errors();
  check_max_warnings();
  check_verbose();
  check_callbacks();
  check_print();
  check_show_stats();
  return 0;
}
