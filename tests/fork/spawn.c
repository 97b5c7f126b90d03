/* SPDX-License-Identifier: MIT */
/* Other ways to start a program, from a process whose threads allocate without pause: vfork and exec, posix_spawn, system,
 * popen. Each must start it, get its exit code and its output, and leave the parent's memory as it was. */
#include "fork/workload.h"
#include <spawn.h>

extern char **environ;
static struct churn churn;

/* The exit code of a child; -1 when it did not exit. */
static int code_of(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) FAIL("waitpid failed, errno %d", errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void try_vfork(char *const argv[]) {
  pid_t pid = vfork();
  if (pid < 0) FAIL("vfork failed, errno %d", errno);
  if (pid == 0) {
    execve(argv[0], argv, environ);
    _exit(99);
  }
  CHECK(code_of(pid) == 3);
}

static void try_spawn(char *const argv[]) {
  posix_spawn_file_actions_t actions;
  CHECK(posix_spawn_file_actions_init(&actions) == 0);
  CHECK(posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0) == 0);
  pid_t pid;
  CHECK(posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) == 0);
  CHECK(code_of(pid) == 3);
  posix_spawn_file_actions_destroy(&actions);
}

static void try_popen(void) {
  char text[64] = "";
  FILE *f = popen("echo from the shell", "r");
  CHECK(f != NULL);
  CHECK(fgets(text, sizeof(text), f) != NULL);
  CHECK(strcmp(text, "from the shell\n") == 0);
  CHECK(pclose(f) == 0);
}

int main(void) {
  if (access("/bin/sh", X_OK) != 0) SKIP("there is no /bin/sh");
  size_t rounds = mi_test_scale(25, 200);
  behave_limit((unsigned)(60 + rounds));
  char shell[] = "/bin/sh", option[] = "-c", text[] = "exit 3";
  char *const argv[] = {shell, option, text, NULL};
  struct set mine = set_make(500, 8, 16 * BEHAVE_KiB, 12);
  churn_start(&churn);
  for (size_t i = 0; i < rounds; i++) {
    try_vfork(argv);
    try_spawn(argv);
    int status = system("exit 4");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    try_popen();
    set_verify(&mine);
  }
  churn_stop(&churn);
  set_free(&mine);
  return 0;
}
