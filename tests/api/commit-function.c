/* SPDX-License-Identifier: MIT */
/* A commit function of the program's: malloc gets no memory without it, nothing is purged without
 * it, a commit that fails is an allocation that fails, and its address ranges always add up. Also
 * from several threads. */
#include "common.h"
#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define SLICE ((size_t)64 << 10)
#define AREA (64 * MIB)

static char *start;
static bool usable[AREA / 65536];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t n_commits, n_decommits, n_usable;
static bool refuse;
static unsigned refuse_each, n_asked;

static bool commit_fun(bool commit, void *at, size_t size, bool *is_zero, void *arg) {
  CHECK(arg == &start);
  size_t first = (size_t)((char *)at - start) / SLICE;
  CHECK((uintptr_t)at % SLICE == 0 && size % SLICE == 0 && size > 0);
  CHECK((char *)at >= start && (size_t)((char *)at - start) + size <= AREA);
  bool ok = true;
  pthread_mutex_lock(&lock);
  if (commit && refuse) ok = false;
  if (commit && refuse_each > 0 && ++n_asked % refuse_each == 0) ok = false;
  for (size_t i = 0; ok && i < size / SLICE; i++) {
    CHECK(usable[first + i] != commit);
    usable[first + i] = commit;
  }
  if (ok && commit) n_commits++, n_usable += size / SLICE;
  if (ok && !commit) n_decommits++, n_usable -= size / SLICE;
  pthread_mutex_unlock(&lock);
  if (!ok) return false;
  if (commit) CHECK(mprotect(at, size, PROT_READ | PROT_WRITE) == 0);
  else CHECK(madvise(at, size, MADV_DONTNEED) == 0 && mprotect(at, size, PROT_NONE) == 0);
  if (is_zero != NULL && commit) *is_zero = true;
  return true;
}

static void *churn(void *arg) {
  char *p[20] = { NULL };
  unsigned seed = (unsigned)(uintptr_t)arg;
  for (size_t i = 0; i < mi_test_scale(20000, 200000); i++) {
    seed = seed * 1103515245 + 12345;
    unsigned k = seed >> 16 & 15;
    mi_free(p[k]);
    size_t size = (size_t)1 << (seed >> 20) % 20;
    p[k] = mi_zalloc(size);
    if (p[k] == NULL) continue;
    CHECK(p[k] >= start && p[k] + size <= start + AREA);
    CHECK(p[k][0] == 0 && p[k][size / 2] == 0 && p[k][size - 1] == 0);
    memset(p[k], 1, size);
  }
  for (int k = 0; k < 20; k++) mi_free(p[k]);
  return NULL;
}

static int again(char **argv, const char *on_demand, const char *purge_size) {
  pid_t pid = fork();
  if (pid == 0) {
    setenv("MIMALLOC_DISALLOW_OS_ALLOC", "1", 1);
    setenv("MIMALLOC_PURGE_DELAY", "1", 1);
    setenv("MIMALLOC_PAGE_COMMIT_ON_DEMAND", on_demand, 1);
    setenv("MIMALLOC_MINIMAL_PURGE_SIZE", purge_size, 1);
    execl("/proc/self/exe", argv[0], "managed", (char *)NULL);
  }
  int status;
  if (pid <= 0 || waitpid(pid, &status, 0) != pid) return MI_TEST_ERROR;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* A page that has room, but gets no memory for it: NULL, and its next block when there is some. */
static void refuse_all(void) {
  char *first = mi_malloc(256 << 10);
  CHECK(first != NULL);
  refuse = true;
  char *more[20];
  int n = 0; /* a page that was committed whole has some */
  while (n < 20 && (more[n] = mi_malloc(256 << 10)) != NULL) n++;
  CHECK(n < 20 && errno == ENOMEM);
  CHECK(mi_malloc(256 << 10) == NULL);
  refuse = false;
  char *next = mi_malloc(256 << 10);
  CHECK(next != NULL);
  if (n == 0 && !mi_test_tracked()) CHECK(next == first + (256 << 10));
  memset(next, 1, 256 << 10);
  mi_free(next);
  mi_free(first);
  while (n > 0) mi_free(more[--n]);
}

/* commit-fail: each n-th commit refused; NULL or a block that works, and after it all is as
 * before. */
static void refuse_some(void) {
  for (unsigned each = 1; each < 5; each++) {
    static char *p[200];
    refuse_each = each;
    for (int i = 0; i < 200; i++) {
      size_t size = (size_t)(i % 3 == 0 ? 256 : i % 3 == 1 ? 40 : 100) << 10;
      errno = 0;
      p[i] = mi_malloc(size);
      CHECK(p[i] != NULL ? errno == 0 : errno == ENOMEM);
      if (p[i] != NULL) memset(p[i], i, size);
      if (i > 0 && p[i - 1] != NULL && i % 4 != 0) {
        CHECK(p[i - 1][0] == (char)(i - 1) && p[i - 1][40000] == (char)(i - 1));
        mi_free(p[i - 1]);
        p[i - 1] = NULL;
      }
      if (i % 16 == 0) mi_collect(true);
    }
    refuse_each = 0;
    char *q = mi_malloc(256 << 10);
    CHECK(q != NULL);
    mi_free(q);
    for (int i = 0; i < 200; i++) mi_free(p[i]);
    mi_collect(true);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    int status = again(argv, "0", "0");
    if (status == 0) status = again(argv, "1", "0");
    return status != 0 ? status : again(argv, "0", "1M");
  }
  start = mmap(NULL, AREA + 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return MI_TEST_ERROR;
  start = (char *)(((uintptr_t)start + 4 * MIB - 1) / (4 * MIB) * (4 * MIB));
  CHECK(mi_manage_memory(start, AREA, false, false, true, -1, false, commit_fun, &start, NULL));
  CHECK(n_commits == 0);
  char *p = mi_malloc(100);
  CHECK(p != NULL && n_commits == 1);
  refuse = true;
  errno = 0;
  CHECK(mi_malloc(MIB) == NULL && errno == ENOMEM);
  for (size_t size = 8; size < 40 * MIB; size *= 3) {
    char *q = mi_malloc(size); /* from the page that is there, or not at all */
    CHECK(q == NULL || (q[0] = 1) == 1);
    mi_free(q);
  }
  refuse = false;
  char *q = mi_malloc(MIB);
  CHECK(q != NULL);
  memset(q, 1, MIB);
  mi_free(q);
  mi_collect(true);
  CHECK(n_decommits > 0);
  q = mi_zalloc(MIB);
  CHECK(q != NULL && q[0] == 0 && q[MIB - 1] == 0);
  mi_free(q);

  refuse_all();
  refuse_some();
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, churn, (void *)i) == 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  mi_collect(true);
  CHECK(n_usable <= 16 * MIB / SLICE); /* pages in slots; all else is back */
  mi_free(p);
  return 0;
}
