/* SPDX-License-Identifier: MIT */
/* idle MODE - what goes back to the system when a program has nothing to do, and what that costs. The functions of the
 * library are looked up at run time; without them the program just waits. Prints one or two numbers:
 *   worker    a worker frees 256 MiB and is idle (mi_on_thread_idle): resident MiB over the start after 1 s, and ms until it
 *             is 12 or less (-1: never)
 *   behind    256 blocks of 1.25 MiB are freed while a pass over as much is going on, nobody calls anything: MiB left after
 *             1 s
 *   blocked   32 threads use buffers of 100 to 500 KiB and block, without a call: resident MiB for each after 1 s
 *   parks     1000 parks of 1 ms: wakes of the background thread, and at most so many intervals + 4
 *   quiet     nothing is left to do: wakes of the background thread in 2.5 s
 *   forks     200 forks while four threads allocate: seconds
 *   collect   mi_collect(true) while a pass over 384 MiB is going on: ms, and MiB left on return */
#include "resident.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>

enum { MIB = 1 << 20, MANY = 1024 };

static void (*idle)(void);
static bool (*park_begin)(void);
static void (*park_end)(void);
static void (*collect)(bool);
static void *blocks[MANY];
static pthread_barrier_t gate;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void look_up(void *fun, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(fun, &found, sizeof found);
}

static double over(long start_kib) { return (double)(resident_kib() - start_kib) / 1024; }

static void fill(unsigned from, unsigned n, size_t size) {
  for (unsigned i = from; i < from + n; i++) {
    if ((blocks[i] = malloc(size)) == NULL) _exit(1);
    memset(blocks[i], 1, size);
  }
}
static void drop(unsigned from, unsigned n) {
  for (unsigned i = from; i < from + n; i++) free(blocks[i]);
}

static pthread_t start(void *(*work)(void *), void *arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, arg) != 0) _exit(1);
  return thread;
}

/* Voluntary switches of the background thread; -1: there is none. */
static long wakes(void) {
  DIR *tasks = opendir("/proc/self/task");
  long n = -1;
  for (struct dirent *d; tasks != NULL && (d = readdir(tasks)) != NULL;) {
    char path[300], text[2000];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
    FILE *f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (f == NULL) continue;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *at = strstr(text, "\nvoluntary_ctxt_switches:");
    if (strstr(text, "mi-scavenger") != NULL && at != NULL) n = atol(at + 25);
  }
  if (tasks != NULL) closedir(tasks);
  return n;
}

/* ---- the modes ---- */

static void *be_idle(void *arg) {
  fill(0, MANY, 256 * 1024);
  drop(0, MANY);
  *(double *)arg = now_ms();
  if (idle != NULL) idle();
  pthread_barrier_wait(&gate);
  pause();
  return NULL;
}

static void worker(void) {
  double freed = 0, reached = -1;
  long first = resident_kib();
  pthread_barrier_init(&gate, NULL, 2);
  start(be_idle, &freed);
  pthread_barrier_wait(&gate);
  while (now_ms() < freed + 1000) {
    if (reached < 0 && over(first) <= 12) reached = now_ms() - freed;
    usleep(1000);
  }
  printf("%.1f %.1f\n", over(first), reached);
}

static void *wait_here(void *arg) {
  (void)arg;
  pause();
  return NULL;
}

static void behind(void) {
  long first = resident_kib();
  start(wait_here, NULL);
  fill(0, 512, 5 * MIB / 4);
  drop(0, 256);
  double end = now_ms() + 2000;
  long full = resident_kib(); /* the pass has begun when memory goes back */
  while (resident_kib() > full - 10 * 1024 && now_ms() < end) continue;
  drop(256, 256);
  sleep(1);
  printf("%.1f\n", over(first));
}

static void *use_and_block(void *arg) {
  uint64_t dice = (uintptr_t)arg * 2 + 1;
  void *mine[40] = {NULL};
  for (unsigned i = 0; i < 2000; i++) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    void **at = &mine[dice >> 33 & 31];
    size_t size = 100 * 1024 + (size_t)(dice >> 40) % (400 * 1024);
    free(*at);
    if ((*at = malloc(size)) != NULL) memset(*at, 1, size);
  }
  for (unsigned i = 0; i < 40; i++) free(mine[i]);
  pthread_barrier_wait(&gate);
  pause();
  return NULL;
}

static void blocked(void) {
  long first = resident_kib();
  pthread_barrier_init(&gate, NULL, 33);
  for (uintptr_t k = 0; k < 32; k++) start(use_and_block, (void *)k);
  pthread_barrier_wait(&gate);
  sleep(1);
  printf("%.2f\n", over(first) / 32);
}

static void parks(void) {
  if (park_begin == NULL) return;
  free(malloc(1));
  double began = now_ms();
  long before;
  do { /* until the thread is there, and has its name */
    (void)park_begin();
    usleep(1000);
    park_end();
    before = wakes();
  } while (before < 0 && now_ms() < began + 2000);
  began = now_ms();
  for (int i = 0; i < 1000; i++) {
    free(malloc(1000));
    (void)park_begin();
    usleep(1000);
    park_end();
  }
  long n = wakes() - before;
  if (before >= 0) printf("%ld %.0f\n", n, 4 * ((now_ms() - began) / 100 + 1));
}

static void quiet(void) {
  if (park_begin == NULL) return;
  fill(0, 64, MIB);
  drop(0, 64);
  (void)park_begin();
  sleep(1);
  long before = wakes();
  usleep(2500000);
  if (before >= 0) printf("%ld\n", wakes() - before);
}

static void *allocate(void *arg) {
  uint64_t dice = (uintptr_t)arg * 2 + 1;
  for (void *mine[256] = {NULL};;) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    void **at = &mine[dice >> 33 & 255];
    free(*at);
    *at = malloc((size_t)1 << (dice >> 42) % 21);
  }
  return NULL;
}

static void forks(void) {
  for (uintptr_t k = 0; k < 4; k++) start(allocate, (void *)k);
  double began = now_ms();
  for (int i = 0; i < 200; i++) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
      drop(0, 0);
      free(malloc(100000));
      _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(1);
  }
  printf("%.2f\n", (now_ms() - began) / 1000);
}

static void collect_in_pass(void) {
  if (collect == NULL) return;
  long first = resident_kib();
  start(wait_here, NULL);
  fill(0, 384, MIB);
  drop(0, 384);
  double end = now_ms() + 2000;
  long full = resident_kib();
  while (resident_kib() > full - 10 * 1024 && now_ms() < end) continue;
  double began = now_ms();
  collect(true);
  double took = now_ms() - began;
  printf("%.1f %.1f\n", took, over(first));
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } modes[] = {{"worker", worker}, {"behind", behind}, {"blocked", blocked},      {"parks", parks},
               {"quiet", quiet},   {"forks", forks},   {"collect", collect_in_pass}};
  look_up(&idle, "mi_on_thread_idle");
  look_up(&park_begin, "mi_on_thread_idle_start");
  look_up(&park_end, "mi_on_thread_idle_end");
  look_up(&collect, "mi_collect");
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (argc != 2 || strcmp(argv[1], modes[i].name) != 0) continue;
    modes[i].run();
    fflush(stdout);
    _exit(0); /* threads that block are no matter */
  }
  return 2;
}
