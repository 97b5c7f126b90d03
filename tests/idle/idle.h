/* SPDX-License-Identifier: MIT */
/* What the tests of idle points and of purging look at: counters that can be read without a lock or
 * an allocation, the background thread as the kernel shows it, resident memory; and how a test runs
 * itself again with other options. Nothing here allocates: an allocation would end a park, or purge.
 * Threads: any, where nothing is said. */
#ifndef MI_TESTS_IDLE_IDLE_H
#define MI_TESTS_IDLE_IDLE_H

#include "mimalloc-stats.h"
#include "thread/heaps.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* ---- counters ---- */

static inline void read_stats(mi_stats_t *stats) {
  mi_stats_init(stats);
  if (!mi_subproc_stats_get_exclusive(mi_subproc_main(), stats)) FAIL("no statistics");
}
static inline size_t purged(void) {
  mi_stats_t stats;
  read_stats(&stats);
  return (size_t)stats.purged.total;
}
static inline size_t arena_passes(void) {
  mi_stats_t stats;
  read_stats(&stats);
  return (size_t)stats.arena_purges.total;
}
static inline int64_t committed(void) {
  mi_stats_t stats;
  read_stats(&stats);
  return stats.committed.current;
}

static inline uint64_t now_ms(void) { return behave_now_ns() / 1000000; }

/* Bring all to rest: wait for the pass in progress, purge what was freed before. A pass that was asked
 * for may still come, at any time: it purges what is freed from now on. So who wants to see that
 * go reads the counter here, before the frees, and not between them and what is to purge them. */
static inline size_t purged_at_rest(void) {
  mi_collect(true);
  return purged();
}

/* Wait until so much was purged in all. False: not within MI_TEST_PATIENCE_MS. */
static inline bool wait_purged(size_t total) {
  uint64_t end = now_ms() + MI_TEST_PATIENCE_MS;
  for (; purged() < total; behave_sleep_ms(1)) {
    if (now_ms() > end) return purged() >= total;
  }
  return true;
}
#define EXPECT_PURGED(total, ...)                                                                \
  do {                                                                                           \
    size_t want_ = (total);                                                                      \
    if (!wait_purged(want_)) {                                                                   \
      behave_say("purged %zd KiB less than wanted", (ptrdiff_t)(want_ - purged()) / 1024);       \
      FAIL(__VA_ARGS__);                                                                         \
    }                                                                                            \
  } while (0)

/* Wait, as long as that, until no more than so much is resident. Returns what is. */
static inline size_t wait_resident(size_t bytes) {
  size_t resident;
  uint64_t end = now_ms() + MI_TEST_PATIENCE_MS;
  for (; (resident = behave_resident()) > bytes; behave_sleep_ms(5)) {
    if (now_ms() > end) break;
  }
  return resident;
}
static inline void expect_resident(size_t most, const char *what) {
  size_t now = wait_resident(most);
  if (now > most)
    FAIL("%s: %zu KiB are resident, at most %zu KiB wanted", what, now / 1024, most / 1024);
}

/* ---- the background thread ---- */

struct dirent64 {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

static inline bool read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, size - 1);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

/* How many tasks this process has, and how many of them are the background thread. */
struct tasks {
  int n, n_scavengers, scavenger;
};
static inline struct tasks look_at_tasks(void) {
  struct tasks tasks = {0};
  _Alignas(struct dirent64) char entries[4096];
  int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) SKIP("/proc/self/task cannot be read");
  for (long size; (size = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;) {
    const struct dirent64 *entry;
    for (long at = 0; at < size; at += entry->reclen) {
      entry = (const struct dirent64 *)(const void *)(entries + at);
      if (entry->name[0] == '.') continue;
      tasks.n++;
      char path[64], name[32];
      snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", entry->name);
      if (!read_text(path, name, sizeof name) || strcmp(name, "mi-scavenger\n") != 0) continue;
      tasks.n_scavengers++;
      tasks.scavenger = atoi(entry->name);
    }
  }
  close(fd);
  return tasks;
}
/* A line of its status, after the name of the field. */
static inline bool scavenger_field(const char *field, char *text, size_t size) {
  struct tasks tasks = look_at_tasks();
  if (tasks.n_scavengers != 1) return false;
  char path[64], status[4096];
  snprintf(path, sizeof path, "/proc/self/task/%d/status", tasks.scavenger);
  if (!read_text(path, status, sizeof status)) return false;
  const char *at = strstr(status, field);
  if (at == NULL) return false;
  snprintf(text, size, "%s", at + strlen(field));
  return true;
}
static inline unsigned long scavenger_switches(void) {
  char text[64];
  if (!scavenger_field("\nvoluntary_ctxt_switches:", text, sizeof text)) SKIP("no status of tasks");
  return strtoul(text, NULL, 10);
}

/* ---- how a test is run ---- */

/* Do the C library's names belong to the library? */
static inline bool idle_is_override(void) {
  const char *s = getenv("MI_TEST_OVERRIDE");
  return s == NULL || strcmp(s, "0") != 0;
}

/* Wait until it has its name, which it gives itself. */
static inline void wait_scavenger(void) {
  for (int i = 0; i < MI_TEST_PATIENCE_MS && look_at_tasks().n_scavengers == 0; i++) usleep(1000);
}

static inline void idle_skip_without_parks(void) {
  free(malloc(16));
  if (!mi_on_thread_idle_start()) SKIP("there is no background thread");
  mi_on_thread_idle_end();
  wait_scavenger();
}

/* Run the program anew with `mode` and with these of MIMALLOC_ variables only (ended by NULL): its beginning, its
 * end, and both. */
static inline pid_t run_begin(const char *const *entries, const char *mode) {
  static char *variables[2048];
  size_t n = 0;
  for (char **e = environ; *e != NULL && n < 2000; e++)
    if (strncmp(*e, "MIMALLOC_", 9) != 0) variables[n++] = *e;
  for (; *entries != NULL; entries++) variables[n++] = (char *)(uintptr_t)*entries;
  variables[n] = NULL;
  char *argv[] = {(char *)(uintptr_t) "idle", (char *)(uintptr_t)mode, NULL};
  pid_t pid = fork();
  if (pid < 0) FAIL("fork failed, errno %d", errno);
  if (pid == 0) {
    execve("/proc/self/exe", argv, variables);
    _exit(MI_TEST_ERROR);
  }
  return pid;
}
static inline void run_end(pid_t pid, const char *const *entries, const char *mode) {
  const char *first = *entries != NULL ? *entries : "no options";
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) {
    behave_say("%s, %s: skipped", mode, first);
    return;
  }
  if (status != 0) FAIL("%s, %s: status %#x", mode, first, (unsigned)status);
}
static inline void run_with(const char *const *entries, const char *mode) { run_end(run_begin(entries, mode), entries, mode); }
#define WITH(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A child of fork that has so many seconds. */
static inline pid_t fork_for(unsigned seconds) {
  pid_t pid = fork();
  if (pid < 0) FAIL("fork failed, errno %d", errno);
  if (pid == 0) behave_limit(seconds);
  return pid;
}
static inline void expect_exit(pid_t pid, const char *what) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) FAIL("waitpid failed, errno %d", errno);
  }
  if (WIFSIGNALED(status)) FAIL("%s: the child was ended by signal %d", what, WTERMSIG(status));
  if (status != 0) FAIL("%s: the child left with exit code %d", what, WEXITSTATUS(status));
}

/* ---- blocks ---- */

/* One byte in each OS page. */
static inline void touch(void *p, size_t size) {
  for (size_t at = 0; at < size; at += 4096) ((volatile char *)p)[at] = 1;
}

/* Blocks of one size with a pattern. `keep` of every `of` runs of RUN_BYTES stay when it is thinned,
 * so that the others leave whole pages free. */
enum { HERD_MOST = 131072, RUN_BYTES = 256 * 1024 };
struct herd {
  size_t n, size;
  uint64_t tag;
  void **block;
};
static inline struct herd herd_make(size_t n, size_t size, uint64_t tag) {
  struct herd h = {.n = n, .size = size, .tag = tag};
  void *p = mmap(NULL, n * sizeof(void *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) FAIL("no memory for %zu pointers", n);
  h.block = p;
  return h;
}
static inline void herd_fill(struct herd *h) {
  for (size_t i = 0; i < h->n; i++) {
    if (h->block[i] != NULL) continue;
    h->block[i] = malloc(h->size);
    if (h->block[i] == NULL) FAIL("malloc(%zu) gave NULL", h->size);
    behave_fill(h->block[i], h->size, h->tag + i);
  }
}
static inline bool herd_stays(const struct herd *h, size_t i) {
  return i * h->size / RUN_BYTES % 4 == 0;
}
static inline void herd_free_if(struct herd *h, bool (*goes)(const struct herd *, size_t)) {
  for (size_t i = 0; i < h->n; i++) {
    if (h->block[i] == NULL || (goes != NULL && !goes(h, i))) continue;
    free(h->block[i]);
    h->block[i] = NULL;
  }
}
static inline bool herd_goes(const struct herd *h, size_t i) { return !herd_stays(h, i); }
static inline void herd_thin(struct herd *h) { herd_free_if(h, herd_goes); }
static inline void herd_verify(const struct herd *h) {
  for (size_t i = 0; i < h->n; i++) {
    if (h->block[i] == NULL) continue;
    size_t at = behave_verify(h->block[i], h->size, h->tag + i);
    if (at != h->size) FAIL("block %zu at %p is changed at byte %zu", i, h->block[i], at);
  }
}
static inline void herd_end(struct herd *h) {
  herd_verify(h);
  herd_free_if(h, NULL);
  munmap(h->block, h->n * sizeof(void *));
}

#endif
