/* SPDX-License-Identifier: MIT */
/* Run by small.sh under LD_PRELOAD, and without for a comparison:
 *   unshare   10000 small malloc and free, then unshare(CLONE_NEWUSER)
 *   tiny N    N threads (0: main) malloc 100 bytes each and sleep; prints Private_Dirty in KiB
 *   trim      allocate and free 128 MiB, malloc_trim(0)
 *   stacks P  threads with stacks of 16 MiB and much thread-local memory, of the plugin P, end
 *   flags     a block of 64 MiB; prints how many mappings have the flag nh */
#include "thread/behave.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

static int n_ready;
static void *be_tiny(void *arg) {
  char *p = malloc(100);
  CHECK(p != NULL);
  memset(p, 1, 100);
  __atomic_add_fetch(&n_ready, 1, __ATOMIC_RELEASE);
  if (arg != NULL) behave_sleep_ms(10000);
  return NULL;
}

static int trim(void) {
  enum { N = 128 };
  static char *p[N];
  size_t begin = behave_resident();
  for (int i = 0; i < N; i++) {
    CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
    memset(p[i], 1, BEHAVE_MiB);
  }
  size_t peak = behave_resident();
  CHECK(peak >= begin + (N - 1) * BEHAVE_MiB);
  for (int i = 0; i < N; i++) free(p[i]);
  size_t before = behave_resident();
  if (before < begin + N / 2 * BEHAVE_MiB) FAIL("it went without malloc_trim");
  int gave = malloc_trim(0);
  if (gave != 1) FAIL("malloc_trim gave %d", gave);
  size_t now = behave_resident();
  if (now > begin + N / 4 * BEHAVE_MiB) FAIL("%zu KiB stay", (now - begin) / 1024);
  gave = malloc_trim(0);
  if (gave != 0 && gave != 1) FAIL("malloc_trim gave %d", gave);
  return 0;
}

static char *(*thread_memory)(void);
static void *use_thread_memory(void *arg) {
  char *p = thread_memory(); /* allocated now, freed by the C library with its list of stacks locked */
  p[0] = 1;
  pthread_barrier_wait(arg);
  return NULL;
}
static int end_stacks(const char *plugin) {
  enum { N = 8 };
  void *handle = dlopen(plugin, RTLD_NOW);
  if (handle == NULL) FAIL("%s", dlerror());
  *(void **)&thread_memory = dlsym(handle, "thread_memory");
  CHECK(thread_memory != NULL);
  pthread_attr_t attr;
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 16 * BEHAVE_MiB) == 0);
  for (int round = 0; round < 10; round++) {
    pthread_t t[N];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, N);
    for (int i = 0; i < N; i++) CHECK(pthread_create(&t[i], &attr, use_thread_memory, &barrier) == 0);
    for (int i = 0; i < N; i++) CHECK(pthread_join(t[i], NULL) == 0);
    pthread_barrier_destroy(&barrier);
  }
  return 0;
}

static int count_flags(void) {
  char *p = malloc(64 * BEHAVE_MiB), line[512];
  CHECK(p != NULL);
  p[0] = 1;
  int n = 0;
  FILE *file = fopen("/proc/self/smaps", "r");
  if (file == NULL) return MI_TEST_SKIP;
  while (fgets(line, sizeof line, file) != NULL)
    n += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " nh") != NULL;
  fclose(file);
  free(p);
  printf("%d\n", n);
  return 0;
}

int main(int argc, char **argv) {
  behave_limit(30);
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "unshare") == 0) {
    for (int i = 0; i < 10000; i++) {
      char *p = malloc((size_t)(i % 300) + 1);
      CHECK(p != NULL);
      p[0] = 1;
      free(p);
    }
    if (unshare(CLONE_NEWUSER) != 0) FAIL("unshare failed, errno %d", errno);
    return 0;
  }
  if (strcmp(mode, "tiny") == 0) {
    int n = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t t;
    be_tiny(NULL);
    for (int i = 0; i < n; i++) CHECK(pthread_create(&t, NULL, be_tiny, (void *)1) == 0);
    while (__atomic_load_n(&n_ready, __ATOMIC_ACQUIRE) < n + 1) behave_sleep_ms(1);
    behave_sleep_ms(300);
    dprintf(STDOUT_FILENO, "%zu\n", mi_test_memory_kib("Private_Dirty:"));
    _exit(0);
  }
  if (strcmp(mode, "trim") == 0) return trim();
  if (strcmp(mode, "stacks") == 0 && argc > 2) return end_stacks(argv[2]);
  if (strcmp(mode, "flags") == 0) return count_flags();
  return MI_TEST_ERROR;
}
