/* SPDX-License-Identifier: MIT */
/* Where the background thread is made, and where never; and case C12.
 * - Never in a free that the C library calls, maybe with its locks held: threads with stacks of 16
 *   MiB end and are joined, enough waits to be purged (stacks.sh has them free more); a buffer grows.
 * - With it running, setuid() and setgid() in another thread come back.
 * - A small program stays single-threaded: unshare(CLONE_NEWUSER) works after 8 MiB were freed.
 * - C12 purge-thread-cannot-start: thread creation fails once, or always. Burst 128 MiB alloc/free,
 *   then slow small traffic for 3 s. Right: no abort, no output; resident memory falls by >= 75% of
 *   the burst within 3 s of ordinary traffic (purge done by the calling threads; a busy machine gets longer).
 *
 * All threads are made through the function below, the background thread too. */
#include "idle/idle.h"
#include <dlfcn.h>
#include <sched.h>

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int n_refused;             /* so many calls fail */
static __thread bool is_joining;  /* the calling thread is in pthread_join */
static atomic_int n_made;

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*act)(void *), void *arg) {
  if (is_joining) FAIL("a thread is made within pthread_join");
  if (n_refused != 0) {
    if (n_refused > 0) n_refused--;
    return EAGAIN;
  }
  n_made++;
  return real_create(t, attr, act, arg);
}

static pthread_t start_large(void *(*act)(void *), void *arg) {
  pthread_attr_t attr;
  pthread_t t;
  CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 16 * BEHAVE_MiB) == 0);
  CHECK(pthread_create(&t, &attr, act, arg) == 0);
  pthread_attr_destroy(&attr);
  return t;
}

static void *use_little(void *arg) {
  void *p = malloc(BEHAVE_KiB);
  CHECK(p != NULL);
  free(p);
  return arg;
}

static void stack_cache(void) {
  mi_option_set(mi_option_scavenger, 0); /* not yet */
  for (size_t round = 0; round < mi_test_scale(20, 100); round++) {
    pthread_t t[6]; /* more than the C library keeps stacks for */
    for (int i = 0; i < 6; i++) t[i] = start_large(use_little, NULL);
    while (look_at_tasks().n > 1) usleep(100); /* they have all ended */
    void *p[8];
    for (int i = 0; i < 8; i++) CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
    for (int i = 0; i < 8; i++) free(p[i]); /* waits from now on */
    mi_option_set(mi_option_scavenger, 1);
    is_joining = true;
    for (int i = 0; i < 6; i++) CHECK(pthread_join(t[i], NULL) == 0);
    is_joining = false;
    mi_option_set(mi_option_scavenger, 0);
  }
  if (look_at_tasks().n_scavengers != 0) FAIL("it was made in a join");
  mi_option_set(mi_option_scavenger, 1);
  void *p[8];
  for (int i = 0; i < 8; i++) CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
  for (int i = 0; i < 8; i++) free(p[i]); /* and here it is */
  wait_scavenger();
  CHECK(look_at_tasks().n_scavengers == 1);
}

/* What the C library frees by itself, a buffer that grows, does not make it; the next free does. */
static void within_libc(void) {
  if (!idle_is_override()) SKIP("the C library has its own memory");
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  CHECK(file != NULL);
  static char part[1 << 20];
  size_t before = purged();
  for (int i = 0; i < 128; i++) CHECK(fwrite(part, sizeof part, 1, file) == 1);
  CHECK(fflush(file) == 0 && size >= 128 * sizeof part);
  if (n_made != 0) FAIL("it was made in a call by the C library");
  CHECK(purged() == before); /* so it is known that much waits */
  CHECK(fclose(file) == 0 && n_made == 0);
  (free)(text);
  CHECK(n_made == 1);
}

static void *set_ids(void *arg) {
  for (int i = 0; i < 100; i++) {
    if (setuid(getuid()) != 0 || setgid(getgid()) != 0) FAIL("setuid failed, errno %d", errno);
    free(malloc(1000));
  }
  return arg;
}
static void credentials(void) {
  idle_skip_without_parks();
  behave_limit(10);
  in_thread(set_ids, NULL);
  set_ids(NULL);
  CHECK(mi_on_thread_idle_start());
  in_thread(set_ids, NULL); /* while the main thread is parked */
  mi_on_thread_idle_end();
}

static bool can_unshare(void) {
  pid_t pid = (pid_t)syscall(SYS_fork);
  if (pid < 0) return false;
  if (pid == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}
static void small_program(void) {
  bool can = can_unshare();
  for (int i = 0; i < 10000; i++) {
    void *p = malloc((size_t)(i % 500));
    CHECK(p != NULL);
    free(p);
  }
  void *block[8];
  for (int i = 0; i < 8; i++) {
    CHECK((block[i] = malloc(BEHAVE_MiB)) != NULL);
    touch(block[i], BEHAVE_MiB);
  }
  for (int i = 0; i < 8; i++) free(block[i]);
  for (int i = 0; i < 1000; i++) free(malloc(100));
  CHECK(look_at_tasks().n == 1 && n_made == 0);
  if (!can) SKIP("user namespaces are not to be had here");
  if (unshare(CLONE_NEWUSER) != 0) FAIL("unshare failed, errno %d", errno);
}

/* It is made for much memory, and for less where there is a second thread. */
static void thresholds(void) {
  void *p = malloc(24 * BEHAVE_MiB);
  CHECK(p != NULL);
  touch(p, 24 * BEHAVE_MiB);
  size_t before = purged();
  free(p);
  EXPECT_PURGED(before + 24 * BEHAVE_MiB, "what a single thread freed did not go");
}
static void *free_much(void *arg) {
  void *p = malloc(3 * BEHAVE_MiB);
  CHECK(p != NULL);
  touch(p, 3 * BEHAVE_MiB);
  free(p);
  return arg;
}
static void thresholds_threads(void) {
  free(malloc(100));
  size_t before = purged();
  in_thread(free_much, NULL);
  EXPECT_PURGED(before + 3 * BEHAVE_MiB, "what a second thread freed did not go");
}

/* Every way in which a program frees much asks for it, or nothing would go while the program then
 * does nothing: each in a process of its own, where nothing else is called afterwards. */
static void *theirs[256];
static atomic_int step;
static void *own_blocks(void *arg) {
  for (int i = 0; i < 256; i++) {
    CHECK((theirs[i] = malloc(256 * BEHAVE_KiB)) != NULL);
    touch(theirs[i], 256 * BEHAVE_KiB);
  }
  step = 1;
  while (step < 2) usleep(100);
  return arg;
}
static void one_way(const char *way) {
  enum { N = 65536, SIZE = 1000 };
  size_t want = 48 * BEHAVE_MiB;
  if (strcmp(way, "small") == 0 || strcmp(way, "c-small") == 0) {
    bool c = way[0] == 'c';
    if (c && !idle_is_override()) SKIP("the C names are not the library's");
    struct herd h = herd_make(N, SIZE, 1);
    herd_fill(&h);
    for (size_t i = 0; i < h.n; i++) {
      if (c) (free)(h.block[i]);
      else free(h.block[i]);
    }
  } else if (strcmp(way, "huge") == 0) {
    void *p = malloc(64 * BEHAVE_MiB);
    CHECK(p != NULL);
    touch(p, 64 * BEHAVE_MiB);
    free(p);
  } else if (strcmp(way, "destroy") == 0) {
    mi_heap_t *heap = new_heap();
    for (size_t i = 0; i < N; i++) {
      void *p = mi_heap_malloc(heap, SIZE);
      CHECK(p != NULL);
      touch(p, SIZE);
    }
    mi_heap_destroy(heap);
  } else if (strcmp(way, "thread-end") == 0) {
    pthread_t t = start(own_blocks, NULL);
    while (step < 1) usleep(100);
    for (int i = 0; i < 256; i++) free(theirs[i]);
    step = 2;
    join(t);
  }
  if (!wait_purged(want)) {
    FAIL("%s: only %zu MiB went, %d background threads", way, purged() >> 20,
         look_at_tasks().n_scavengers);
  }
}

static void refused(int times) {
  n_refused = times;
  size_t begin = behave_resident(), burst = 128 * BEHAVE_MiB;
  static void *p[128];
  for (int i = 0; i < 128; i++) {
    CHECK((p[i] = malloc(BEHAVE_MiB)) != NULL);
    touch(p[i], BEHAVE_MiB);
  }
  CHECK(behave_resident() >= begin + burst);
  for (int i = 0; i < 128; i++) free(p[i]);
  bool parked = mi_on_thread_idle_start();
  mi_on_thread_idle_end();
  if (times < 0) CHECK(!parked && look_at_tasks().n_scavengers == 0);
  static void *slow[1024];
  size_t now = 0;
  uint64_t end = now_ms() + MI_TEST_PATIENCE_MS;
  for (size_t i = 0; now_ms() < end; i++) {
    free(slow[i % 1024]);
    slow[i % 1024] = malloc(16 + i * 37 % 2000);
    usleep(1000);
    if (i % 100 == 0 && (now = behave_resident()) <= begin + burst / 4) break;
  }
  if (now > begin + burst / 4) FAIL("%zu KiB of the burst stay", (now - begin) / 1024);
  if (times < 0) CHECK(look_at_tasks().n_scavengers == 0);
}

int main(int argc, char **argv) {
  *(void **)&real_create = dlsym(RTLD_NEXT, "pthread_create");
  CHECK(real_create != NULL);
  if (BEHAVE_SANITIZED) SKIP("threads are made through a sanitizer");
  if (argc > 1) {
    const char *mode = argv[1];
    behave_limit(30);
    if (strcmp(mode, "stack-cache") == 0) stack_cache();
    if (strcmp(mode, "within-libc") == 0) within_libc();
    if (strcmp(mode, "credentials") == 0) credentials();
    if (strcmp(mode, "small") == 0) small_program();
    if (strcmp(mode, "thresholds") == 0) thresholds();
    if (strcmp(mode, "thresholds-threads") == 0) thresholds_threads();
    if (strncmp(mode, "way-", 4) == 0) one_way(mode + 4);
    if (strcmp(mode, "refused-once") == 0) refused(1);
    if (strcmp(mode, "refused") == 0) refused(-1);
    return 0;
  }
  run_with(WITH("MIMALLOC_PURGE_DELAY=100000"), "stack-cache");
  run_with(WITH("MIMALLOC_PURGE_DELAY=100000"), "within-libc");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "credentials");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "small");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "thresholds");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "thresholds-threads");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "way-small");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "way-c-small");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "way-huge");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "way-destroy");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "way-thread-end");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "refused-once");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "refused");
  return 0;
}
