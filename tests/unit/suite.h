/* SPDX-License-Identifier: MIT */
/* The main function of a unit test: one suite, run as the CK_ variables of the environment say. */
#ifndef MI_TESTS_UNIT_SUITE_H
#define MI_TESTS_UNIT_SUITE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* For cases that the sanitizer itself breaks: it keeps books of its own and maps terabytes, and it handles signals. */
static inline int mi_test_under_sanitizer(const char *name) {
  const char *list = getenv("MI_TEST_SANITIZE");
  return list != NULL && strstr(list, name) != NULL;
}
static inline int mi_test_under_shadow(void) {
  return mi_test_under_sanitizer("thread") || mi_test_under_sanitizer("address");
}

static inline int mi_test_run_suite(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The seam keeps nothing from one case to the next: each case runs in a process of its own. Without
 * that (CK_FORK=no) only cases that leave the process as it was can run. */
static inline int mi_test_forks(void) {
  const char *fork = getenv("CK_FORK");
  return fork == NULL || fork[0] != 'n';
}

#endif
