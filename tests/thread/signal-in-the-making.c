/* SPDX-License-Identifier: MIT */
/* thread-signal-in-the-making: a signal that comes while the background thread is made. Its handler calls exit, which must
 * not wait for the thread that it has interrupted; or forks, and the child makes a thread of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "common.h"
#include "mimalloc.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void (*in_handler)(void);
static bool in_child;
static int n_made;

/* In front of the C library's. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg) {
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  if (n_made++ == 0) raise(SIGUSR1);
  return next(t, attr, run, arg);
}

static void handle(int number) {
  (void)number;
  in_handler();
}

static void leave(void) { exit(0); }

static pid_t child;
static void fork_off(void) {
  child = fork();
  CHECK(child >= 0);
  in_child = child == 0;
}

static int count_threads(void) {
  DIR *dir = opendir("/proc/self/task");
  CHECK(dir != NULL);
  int n = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) n += entry->d_name[0] != '.';
  closedir(dir);
  return n;
}

/* In a process of its own; its exit code. */
static int run_with(void (*what)(void)) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  int status;
  if (pid > 0) {
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
  }
  alarm(120);
  in_handler = what;
  struct sigaction action = {.sa_handler = handle};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  mi_free(mi_malloc(100));
  CHECK(mi_on_thread_idle_start());
  mi_on_thread_idle_end();
  if (what == leave) _exit(1); /* not reached */
  if (in_child) {
    alarm(120);
    CHECK(mi_on_thread_idle_start());
    mi_on_thread_idle_end();
    CHECK(count_threads() == 2);
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(count_threads() == 2);
  exit(0);
}

int main(void) {
  mi_test_not_under("thread"); /* threads after a fork */
  CHECK(run_with(leave) == 0);
  /* Its own malloc may stay locked for ever in a child that ends while a thread begins. */
  if (!mi_test_under("address")) CHECK(run_with(fork_off) == 0);
  return 0;
}
