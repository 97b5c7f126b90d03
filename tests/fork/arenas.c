/* SPDX-License-Identifier: MIT */
/* Forks while other threads reserve arenas, hand memory over (with a commit function too), and have
 * free memory of it purged: each child can do the same, at once. */
#include "common.h"
#include <mimalloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
static _Atomic(bool) stop;

static bool commit_fun(bool commit, void *start, size_t size, bool *is_zero, void *arg) {
  (void)is_zero, (void)arg;
  if (!commit) return madvise(start, size, MADV_DONTNEED) == 0;
  return mprotect(start, size, PROT_READ | PROT_WRITE) == 0;
}

static void *map(size_t size) {
  void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) exit(MI_TEST_ERROR);
  return p;
}

static void add(size_t i) {
  mi_arena_id_t id = NULL;
  if (i % 3 == 0) CHECK(mi_reserve_os_memory_ex(5 * MIB, i % 2, false, i % 4 == 0, &id) == 0);
  if (i % 3 == 1)
    CHECK(mi_manage_os_memory_ex(map(6 * MIB), 6 * MIB, false, false, true, -1, i % 2, &id));
  if (i % 3 == 2)
    CHECK(mi_manage_memory(map(7 * MIB), 7 * MIB, false, false, true, -1, false, commit_fun, NULL,
                           &id));
  size_t size;
  CHECK(mi_arena_area(id, &size) != NULL && size >= 4 * MIB);
}

static void use(void) {
  char *p[4];
  for (int i = 0; i < 4; i++) {
    CHECK((p[i] = mi_malloc((size_t)100 << (4 * i))) != NULL);
    memset(p[i], 1, (size_t)100 << (4 * i));
  }
  for (int i = 0; i < 4; i++) mi_free(p[i]);
}

/* There may be 1024 arenas; those of a child are its own. */
static void *add_arenas(void *arg) {
  for (size_t i = 0; i < 400 && !stop; i++) {
    add(i);
    use();
    usleep(500);
  }
  return arg;
}
static void *use_and_purge(void *arg) {
  while (!stop) {
    use();
    mi_collect(true);
  }
  return arg;
}

int main(void) {
  pthread_t threads[3];
  /* It does not support threads in a fork child. */
  if (mi_test_under("thread")) mi_option_set(mi_option_scavenger, 0);
  add(2);
  pthread_create(&threads[0], NULL, add_arenas, NULL);
  pthread_create(&threads[1], NULL, add_arenas, NULL);
  pthread_create(&threads[2], NULL, use_and_purge, NULL);
  for (size_t n = 0; n < mi_test_scale(60, 400); n++) {
    pid_t pid = fork();
    if (pid < 0) return MI_TEST_ERROR;
    if (pid == 0) {
      alarm(120);
      for (size_t i = 0; i < 3; i++) add(n + i);
      use();
      mi_collect(true);
      use();
      _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return 0;
}
