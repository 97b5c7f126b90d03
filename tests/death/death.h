/* SPDX-License-Identifier: MIT */
/* The frame of a death test: a program with one misuse. It runs itself twice: with error messages off it must be silent, with
 * MIMALLOC_SHOW_ERRORS=1 each line on standard error begins with "mimalloc: " and, where the misuse must be seen, one of
 * them holds the word that names it. Both times the program goes on and leaves with exit code 0.
 *
 * A test defines `misuse` and calls death_test from main. Threads: main only, outside of `misuse`. */
#ifndef MI_TESTS_DEATH_H
#define MI_TESTS_DEATH_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "thread/behave.h"
#include <sys/wait.h>

#ifdef MI_DEBUG
#define DEATH_DEBUG_BUILD 1
#else
#define DEATH_DEBUG_BUILD 0
#endif

static void misuse(void);

struct death_output {
  char text[16384];
  size_t length;
  int status;
};

static inline void death_run(struct death_output *out, const char *show_errors) {
  int fds[2];
  out->length = 0;
  if (pipe(fds) != 0) exit(MI_TEST_ERROR);
  pid_t pid = fork();
  if (pid < 0) exit(MI_TEST_ERROR);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    close(fds[1]);
    setenv("MIMALLOC_SHOW_ERRORS", show_errors, 1);
    setenv("MI_TEST_DEATH", "1", 1);
    execl("/proc/self/exe", "death", (char *)NULL);
    _exit(MI_TEST_ERROR);
  }
  close(fds[1]);
  ssize_t n;
  while ((n = read(fds[0], out->text + out->length, sizeof(out->text) - 1 - out->length)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || (out->length += (size_t)n) >= sizeof(out->text) - 1) break;
  }
  close(fds[0]);
  out->text[out->length] = 0;
  while (waitpid(pid, &out->status, 0) < 0 && errno == EINTR) {
  }
}

static inline void death_check_exit(const struct death_output *out, const char *how) {
  if (WIFSIGNALED(out->status)) FAIL("%s: ended by signal %d; it printed:\n%s", how, WTERMSIG(out->status), out->text);
  if (WEXITSTATUS(out->status) == MI_TEST_SKIP) exit(MI_TEST_SKIP);
  if (WEXITSTATUS(out->status) != 0) FAIL("%s: exit code %d; it printed:\n%s", how, WEXITSTATUS(out->status), out->text);
}

static inline void death_check_lines(const char *text) {
  for (const char *line = text; *line != 0; line = strchr(line, '\n') + 1) {
    if (strncmp(line, "mimalloc: ", 10) != 0) FAIL("a line does not begin with \"mimalloc: \" in:\n%s", text);
    if (strchr(line, '\n') == NULL) FAIL("the last line does not end in:\n%s", text);
  }
}

/* word: NULL where the misuse need not be seen. */
static inline int death_test(const char *word) {
  static struct death_output out;
  behave_limit(60);
  if (getenv("MI_TEST_DEATH") != NULL) {
    misuse();
    return 0;
  }
  death_run(&out, "0");
  death_check_exit(&out, "with error messages off");
  if (out.length != 0) FAIL("with error messages off it printed:\n%s", out.text);
  death_run(&out, "1");
  death_check_exit(&out, "with error messages on");
  death_check_lines(out.text);
  if (word != NULL && strstr(out.text, word) == NULL) FAIL("no message with \"%s\" in:\n%s", word, out.text);
  return 0;
}

/* The allocator still works: 100000 blocks come and go, each with its own bytes. */
static inline void death_work_on(void) {
  static void *held[512];
  static size_t sizes[512];
  uint64_t rng = 11;
  for (size_t i = 0; i < 100000; i++) {
    size_t k = behave_random(&rng) % 512;
    if (held[k] != NULL) {
      if (behave_verify(held[k], sizes[k], k) != sizes[k]) FAIL("block %p is changed", held[k]);
      free(held[k]);
    }
    sizes[k] = behave_random_size(&rng, 1, i % 64 == 0 ? 256 * BEHAVE_KiB : 2 * BEHAVE_KiB);
    held[k] = malloc(sizes[k]);
    if (held[k] == NULL) FAIL("malloc(%zu) gave NULL", sizes[k]);
    behave_fill(held[k], sizes[k], k);
  }
  for (size_t k = 0; k < 512; k++) {
    if (held[k] != NULL && behave_verify(held[k], sizes[k], k) != sizes[k]) FAIL("block %p is changed", held[k]);
    free(held[k]);
    held[k] = NULL;
  }
}

#endif
