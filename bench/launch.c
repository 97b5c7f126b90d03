/* SPDX-License-Identifier: MIT */
/* launch LIBRARY|- PROGRAM ARGS... - run PROGRAM with LIBRARY preloaded ("-": none), then print
 * one line: "@ STATUS PEAK_KIB MINOR_FAULTS USER_S SYSTEM_S" (STATUS as wait4 gives it).
 *
 * The runner does not start the loads itself: the peak that wait4 reports contains the memory of
 * whoever called exec, and an interpreter is larger than many a load. This program is small. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: launch LIBRARY|- PROGRAM ARGS...\n");
    return 2;
  }
  pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a run that is timed out leaves nothing behind */
    unsetenv("LD_PRELOAD");
    if (strcmp(argv[1], "-") != 0) setenv("LD_PRELOAD", argv[1], 1);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    _exit(127);
  }
  int status;
  struct rusage used;
  if (wait4(child, &status, 0, &used) != child) return 1;
  printf("@ %d %ld %ld %.3f %.3f\n", status, used.ru_maxrss, used.ru_minflt,
         seconds(used.ru_utime), seconds(used.ru_stime));
  return 0;
}
