/* SPDX-License-Identifier: MIT */
/* src/base/check.c: a failed check tells the hook, then stops the process; only the debug build
 * evaluates checks. */
#include "base/check.h"
#include "unit/suite.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int told[2];

static void hook(const char *condition, const char *file, unsigned line) {
  (void)file;
  char c = line == 7 && strcmp(condition, "x > 0") == 0 ? 'y' : 'n';
  if (write(told[1], &c, 1) != 1) _exit(3);
}

static void fail_directly(void) { mi__check_failed("x > 0", "file.c", 7); }

static int evaluated;
static bool evaluate(bool result) {
  evaluated++;
  return result;
}
static void assert_false(void) { mi__assert(evaluate(false)); }
static void assert_true(void) { mi__assert(evaluate(true)); }

/* The signal that ended a child in which `act` ran; 0: it ran to its end. */
static int run(void (*act)(void)) {
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    act();
    _exit(0);
  }
  int status;
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(stops_the_process) {
  ck_assert_int_ne(run(fail_directly), 0);
}
END_TEST

START_TEST(tells_the_hook_first) {
  ck_assert_int_eq(pipe(told), 0);
  mi__check_set_hook(hook);
  ck_assert_int_ne(run(fail_directly), 0);
  close(told[1]);
  char c = 0, more;
  ck_assert_int_eq(read(told[0], &c, 1), 1);
  ck_assert_int_eq(c, 'y');
  ck_assert_int_eq(read(told[0], &more, 1), 0);
}
END_TEST

START_TEST(only_the_debug_build_evaluates) {
  assert_true();
  ck_assert_int_eq(evaluated, MI_DEBUG);
  ck_assert_int_eq(run(assert_true), 0);
  ck_assert(MI_DEBUG ? run(assert_false) != 0 : run(assert_false) == 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("base/check");
  TCase *tcase = tcase_create("check");
  tcase_add_test(tcase, stops_the_process);
  tcase_add_test(tcase, tells_the_hook_first);
  tcase_add_test(tcase, only_the_debug_build_evaluates);
  suite_add_tcase(suite, tcase);
  return mi_test_run_suite(suite);
}
