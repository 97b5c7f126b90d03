/* SPDX-License-Identifier: MIT */
/* E04 out-of-memory-at-awkward-places: RLIMIT_AS = current + 64 MiB; fill until NULL; then start 20 threads with tiny stacks
 * whose first malloc may fail; free everything. Only NULL and ENOMEM, never a signal; after freeing, normal service; no
 * endless output. The program runs itself with its standard error in a pipe. */
#include "thread/behave.h"
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { N_THREADS = 20, MOST = 2000000 };

struct link {
  struct link *next;
  size_t size;
};

static struct link *filled;
static size_t n_filled;

static void *try_malloc(size_t size) {
  errno = 0;
  void *p = malloc(size);
  if (p == NULL && errno != ENOMEM) FAIL("malloc(%zu) gave NULL and errno %d", size, errno);
  if (p != NULL && errno != 0) FAIL("malloc(%zu) gave a block and errno %d", size, errno);
  return p;
}

static void fill(void) {
  for (size_t size = 4 * BEHAVE_MiB; size >= 16; size = size > 32 ? size / 3 + 8 : size - 8) {
    for (struct link *l; n_filled < MOST && (l = try_malloc(size)) != NULL; n_filled++) {
      ((char *)l)[size - 1] = 1; /* no more of it is touched: the machine has less than an arena */
      l->next = filled;
      l->size = size;
      filled = l;
    }
  }
}

static void *first_malloc(void *arg) {
  size_t *n_got = arg;
  static const size_t sizes[] = {100, 16, 5000, 70000, 600000, 1, 8};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    unsigned char *p = try_malloc(sizes[i]);
    if (p != NULL) p[0] = p[sizes[i] - 1] = 1;
    unsigned char *q = p == NULL ? NULL : realloc(p, sizes[i] * 3);
    void *z = calloc(1, sizes[i]);
    *n_got += (p != NULL) + (z != NULL);
    free(q != NULL ? q : p);
    free(z);
  }
  return NULL;
}

/* Threads that wait before their first malloc; their stacks are there already. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t threads[N_THREADS];
static size_t n_got[N_THREADS];

static void *wait_first(void *arg) {
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  return first_malloc(arg);
}

static int start_threads(void *(*run)(void *)) {
  static _Alignas(4096) char stacks[N_THREADS][128 * 1024];
  int n = 0;
  for (; n < N_THREADS; n++) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, stacks[n], sizeof(stacks[n]));
    if (pthread_create(&threads[n], &attr, run, &n_got[n]) != 0) break;
  }
  return n;
}

static void join_threads(int n) {
  for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void be_full(void) {
  struct rlimit limit = {0, RLIM_INFINITY};
  behave_limit(60);
  free(malloc(100));
  limit.rlim_cur = behave_virtual() + 64 * BEHAVE_MiB;
  if (setrlimit(RLIMIT_AS, &limit) != 0) SKIP("RLIMIT_AS cannot be set");
  for (int round = 0; round < 3; round++) {
    pthread_mutex_lock(&gate);
    int n = start_threads(wait_first);
    if (n != N_THREADS) FAIL("only %d threads could be started", n);
    fill();
    pthread_mutex_unlock(&gate);
    join_threads(n);
    join_threads(start_threads(first_malloc)); /* may fail to start: it takes memory too */
    CHECK(n_filled > 10);
    for (struct link *next; filled != NULL; filled = next, n_filled--) {
      next = filled->next;
      free(filled);
    }
    size_t size = 3 * BEHAVE_MiB;
    for (int i = 0; i < 10; i++) {
      char *p = try_malloc(size), *small = try_malloc(200);
      CHECK(p != NULL && small != NULL);
      memset(p, 1, size);
      free(p);
      free(small);
    }
  }
}

int main(int argc, char **argv) {
  (void)argv;
  if (BEHAVE_SANITIZED) SKIP("a sanitizer needs the address space");
  if (argc > 1) {
    be_full();
    return 0;
  }
  behave_limit(100);
  int fds[2];
  CHECK(pipe(fds) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    setenv("MIMALLOC_SHOW_ERRORS", "1", 1);
    setenv("MIMALLOC_ARENA_RESERVE", "32MiB", 1); /* so that the limit is met outside of arenas */
    execl("/proc/self/exe", "out-of-memory", "run", (char *)NULL);
    _exit(MI_TEST_ERROR);
  }
  close(fds[1]);
  static char text[65536];
  size_t length = 0;
  for (ssize_t n; (n = read(fds[0], text, sizeof(text) - 1)) > 0;) {
    length += (size_t)n;
    text[n] = 0;
    if (write(STDERR_FILENO, text, (size_t)n) < 0) return MI_TEST_ERROR;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) return MI_TEST_SKIP;
  if (status != 0) FAIL("status %#x", (unsigned)status);
  if (length > 32 * BEHAVE_KiB) FAIL("%zu bytes of messages", length);
  return 0;
}
