/* SPDX-License-Identifier: MIT */
/* fork-parked: a parked thread forks; the child declares itself idle too, and gets a thread that sweeps. */
#include "common.h"
#include "mimalloc.h"
#include <dirent.h>
#include <sys/wait.h>

static int count_threads(void) {
  DIR *dir = opendir("/proc/self/task");
  CHECK(dir != NULL);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) n += entry->d_name[0] != '.';
  closedir(dir);
  return n;
}

int main(void) {
  mi_test_not_under("thread"); /* threads after a fork */
  mi_free(mi_malloc(100));
  CHECK(mi_on_thread_idle_start());
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(120);
    CHECK(mi_on_thread_idle_start());
    mi_on_thread_idle_end();
    CHECK(count_threads() == 2);
    mi_scavenger_stop();
    CHECK(!mi_on_thread_idle_start());
    exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  mi_scavenger_stop();
  CHECK(!mi_on_thread_idle_start()); /* parked until now, and nobody is left who sweeps */
  mi_free(mi_malloc(100));
  return 0;
}
