/* SPDX-License-Identifier: MIT */
/* The frame of a test of options: the program runs itself again with variables set, and looks at
 * what the second run said and how it ended. The second run is told what to do by its arguments.
 * Threads: main only. */
#ifndef MI_TESTS_ENV_FRAME_H
#define MI_TESTS_ENV_FRAME_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "common.h"
#include <mimalloc.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct env_run {
  int status; /* the exit code, or -signal */
  char out[16384], err[65536];
};

extern char **environ;

static inline void env_read(int fd, char *text, size_t size) {
  ssize_t n = pread(fd, text, size - 1, 0);
  text[n > 0 ? n : 0] = 0;
  close(fd);
}

static inline int env_file(void) {
  int fd = memfd_create("output", MFD_CLOEXEC);
  if (fd < 0) exit(MI_TEST_ERROR);
  return fd;
}

/* Run this program with `mode` and `arg` (NULL: none), and of MIMALLOC_ variables with `entries`
 * only (ended by NULL). */
static inline void env_run(struct env_run *run, const char *const *entries, const char *mode,
  const char *arg) {
  static char *variables[4096];
  size_t n = 0;
  for (char **e = environ; *e != NULL && n < 4000; e++)
    if (strncmp(*e, "MIMALLOC_", 9) != 0) variables[n++] = *e;
  for (; *entries != NULL; entries++) variables[n++] = (char *)(uintptr_t)*entries;
  variables[n] = NULL;
  char *argv[] = { "env", (char *)(uintptr_t)mode, (char *)(uintptr_t)arg, NULL };
  int out = env_file(), err = env_file();
  pid_t pid = fork();
  if (pid < 0) exit(MI_TEST_ERROR);
  if (pid == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execve("/proc/self/exe", argv, variables);
    _exit(MI_TEST_ERROR);
  }
  int status;
  if (waitpid(pid, &status, 0) != pid) exit(MI_TEST_ERROR);
  run->status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  env_read(out, run->out, sizeof(run->out));
  env_read(err, run->err, sizeof(run->err));
}

#define ENV(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define ENV_NONE ((const char *const[]){ NULL })

static inline int env_count(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)) != NULL; text += strlen(what)) n++;
  return n;
}

/* Say it all when a run was not as it should be. */
#define ENV_CHECK(run, cond, ...) \
  do { \
    if (!(cond)) { \
      fprintf(stderr, "%s:%d: not true: %s\n  ", __FILE__, __LINE__, #cond); \
      fprintf(stderr, __VA_ARGS__); \
      fprintf(stderr, "\n  exit %d, output \"%s\", errors \"%s\"\n", (run)->status, (run)->out, \
        (run)->err); \
      exit(1); \
    } \
  } while (0)

#endif
