/* SPDX-License-Identifier: MIT */
/* src/rt/message.c: who gets a message, how many there are, and what a callback may do. */
#include "rt/message.h"
#include "base/check.h"
#include "rt/option.h"
#include "../suite.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char seen[8192];
static void *seen_arg;
static int n_seen, n_errors, last_error;

static void take(const char *text, void *arg) {
  n_seen++;
  seen_arg = arg;
  if (strlen(seen) + strlen(text) < sizeof(seen)) strcat(seen, text);
  errno = 1234; /* a callback may do that */
}

static void handle(int err, void *arg) {
  n_errors++;
  last_error = err;
  if (arg != NULL) mi__error(err + 1, "again\n");
  errno = 1234;
}

static void start(void) {
  mi__option_set(mi_option_show_errors, 0);
  mi__option_set(mi_option_verbose, 0);
  mi__message_register_output(take, seen);
  mi__message_register_error(NULL, NULL);
}

/* ---- what is shown ---- */

START_TEST(says_nothing_by_default) {
  mi__warning("w\n");
  mi__error(EINVAL, "e\n");
  mi__verbose(1, "v\n");
  ck_assert_int_eq(n_seen, 0);
}
END_TEST

START_TEST(shows_by_option) {
  errno = 4711;
  mi__option_set(mi_option_verbose, 1);
  mi__warning("bad %d", 1);
  mi__error(EINVAL, "hidden");
  mi__verbose(1, "note\n");
  mi__verbose(2, "detail\n");
  ck_assert_str_eq(seen, "mimalloc: warning: bad 1\nmimalloc: note\n");
  ck_assert_ptr_eq(seen_arg, seen);
  mi__option_set(mi_option_verbose, 0);
  mi__option_set(mi_option_show_errors, 1);
  seen[0] = 0;
  mi__error(EINVAL, "wrong %s\n", "pointer");
  mi__warning("bad");
  mi__verbose(1, "note\n");
  ck_assert_str_eq(seen, "mimalloc: error: wrong pointer\nmimalloc: warning: bad\n");
  ck_assert_int_eq(n_seen, 4); /* each line by one call */
  ck_assert_int_eq(errno, 4711);
}
END_TEST

START_TEST(cuts_long_lines) {
  static char text[3000];
  memset(text, 'a', sizeof(text) - 1);
  mi__option_set(mi_option_verbose, 1);
  mi__verbose(1, "%s\n", text);
  size_t length = strlen(seen);
  ck_assert_uint_ge(length, 1000);
  ck_assert_uint_lt(length, 1024);
  ck_assert_int_eq(seen[length - 1], '\n');
  ck_assert_int_eq(seen[length - 2], 'a');
  seen[0] = 0;
  text[1000] = 0;
  mi__print(NULL, NULL, "%s", text);
  ck_assert_uint_eq(strlen(seen), 1000);
}
END_TEST

START_TEST(counts_errors_and_warnings_apart) {
  mi__option_set(mi_option_max_errors, 3);
  mi__option_set(mi_option_max_warnings, 2);
  mi__message_register_error(handle, NULL);
  for (int i = 0; i < 10; i++) mi__error(EINVAL, "not shown, not counted");
  mi__option_set(mi_option_show_errors, 1);
  for (int i = 0; i < 10; i++) {
    mi__error(EINVAL, "e");
    mi__warning("w");
  }
  ck_assert_int_eq(n_seen, 5);
  ck_assert_int_eq(n_errors, 20); /* the function of the program hears of all */
  mi__option_set(mi_option_max_errors, -1);
  for (int i = 0; i < 100; i++) mi__error(EINVAL, "e");
  ck_assert_int_eq(n_seen, 105);
  mi__option_set(mi_option_max_errors, 0);
  mi__error(EINVAL, "e");
  ck_assert_int_eq(n_seen, 105);
}
END_TEST

/* ---- callbacks ---- */

START_TEST(error_function_gets_the_number) {
  mi__message_register_error(handle, NULL);
  errno = 4711;
  mi__error(EOVERFLOW, "x");
  ck_assert_int_eq(last_error, EOVERFLOW);
  ck_assert_int_eq(errno, 4711);
  ck_assert_int_eq(n_seen, 0);
  mi__message_register_error(NULL, NULL);
  mi__error(EAGAIN, "x");
  ck_assert_int_eq(n_errors, 1);
}
END_TEST

START_TEST(error_function_is_not_entered_again) {
  mi__message_register_error(handle, seen);
  mi__error(EINVAL, "x");
  mi__error(EINVAL, "x");
  ck_assert_int_eq(n_errors, 2);
}
END_TEST

static void talk_back(const char *text, void *arg) {
  n_seen++;
  if (n_seen < 100) {
    mi__warning("from inside: %s", text);
    mi__error(EINVAL, "from inside");
    mi__print(NULL, NULL, "from inside");
    mi__verbose(1, "from inside");
  }
  (void)arg;
}

START_TEST(messages_of_a_callback_are_dropped) {
  mi__option_set(mi_option_verbose, 1);
  mi__option_set(mi_option_show_errors, 1);
  mi__message_register_output(talk_back, NULL);
  mi__warning("one");
  ck_assert_int_eq(n_seen, 1);
  mi__warning("two");
  ck_assert_int_eq(n_seen, 2);
}
END_TEST

START_TEST(prints_to_the_function_given) {
  char arg;
  mi__message_register_output(NULL, NULL);
  mi__print(take, &arg, "a%d", 1);
  ck_assert_str_eq(seen, "a1");
  ck_assert_ptr_eq(seen_arg, &arg);
}
END_TEST

START_TEST(prints_to_standard_error) {
  int ends[2];
  char got[64] = "";
  ck_assert_int_eq(pipe(ends), 0);
  int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  mi__message_register_output(NULL, seen);
  mi__option_set(mi_option_verbose, 1);
  mi__verbose(1, "hello\n");
  dup2(saved, STDERR_FILENO);
  close(ends[1]);
  ck_assert_int_gt((int)read(ends[0], got, sizeof(got) - 1), 0);
  ck_assert_str_eq(got, "mimalloc: hello\n");
  ck_assert_int_eq(n_seen, 0);
}
END_TEST

/* A callback never meets the argument of another, however often they change, and though it is a
 * signal handler that changes them while the pair is read. Each slot that holds a pair gets the
 * other pair after one round of the slots. */
static char right[2];
static volatile int n_mixed, n_calls, n_signals;

static void first(const char *text, void *arg) {
  (void)text;
  n_calls++;
  if (arg != &right[0]) n_mixed++;
}

static void second(const char *text, void *arg) {
  (void)text;
  n_calls++;
  if (arg != &right[1]) n_mixed++;
}

static void register_in_signal(int signal) {
  (void)signal;
  static unsigned n;
  n_signals++;
  for (int i = 0; i < 8; i++, n++) {
    if (n / 8 % 2 == 0) mi__message_register_output(first, &right[0]);
    else mi__message_register_output(second, &right[1]);
  }
}

START_TEST(a_callback_gets_its_own_argument) {
  struct sigaction action = { .sa_handler = register_in_signal };
  struct itimerval often = { { 0, 20 }, { 0, 20 } };
  register_in_signal(0);
  ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
  ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
  /* Without the second look of the reader some in a thousand signals mix a pair up. */
  while (n_signals < 10000 && n_calls < 50000000) mi__print(NULL, NULL, "x");
  ck_assert_int_ge(n_signals, 1000);
  ck_assert_int_eq(n_mixed, 0);
}
END_TEST

/* ---- failed checks ---- */

START_TEST(a_failed_check_says_where) {
  int ends[2];
  char got[256] = "";
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    mi__message_init();
    mi__check_failed("a == b", "file.c", 42);
  }
  close(ends[1]);
  int status;
  ck_assert_int_gt((int)read(ends[0], got, sizeof(got) - 1), 0);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status));
  ck_assert_str_eq(got, "mimalloc: check failed: a == b (file.c:42)\n");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rt/message");
  if (!mi_test_forks()) return 77;
  TCase *shown = tcase_create("shown");
  tcase_set_timeout(shown, 60);
  tcase_add_checked_fixture(shown, start, NULL);
  tcase_add_test(shown, says_nothing_by_default);
  tcase_add_test(shown, shows_by_option);
  tcase_add_test(shown, cuts_long_lines);
  tcase_add_test(shown, counts_errors_and_warnings_apart);
  suite_add_tcase(suite, shown);

  TCase *callbacks = tcase_create("callbacks");
  tcase_set_timeout(callbacks, 60);
  tcase_add_checked_fixture(callbacks, start, NULL);
  tcase_add_test(callbacks, error_function_gets_the_number);
  tcase_add_test(callbacks, error_function_is_not_entered_again);
  tcase_add_test(callbacks, messages_of_a_callback_are_dropped);
  tcase_add_test(callbacks, prints_to_the_function_given);
  tcase_add_test(callbacks, prints_to_standard_error);
  tcase_add_test(callbacks, a_callback_gets_its_own_argument);
  tcase_add_test(callbacks, a_failed_check_says_where);
  suite_add_tcase(suite, callbacks);
  return mi_test_run_suite(suite);
}
