/* SPDX-License-Identifier: MIT */
/* E02 map-count-stays-low: many blocks of 64 KiB, and again of 4 KiB to 256 KiB at random; free each second one; have it
 * purged; allocate again; 20 rounds; count the lines of /proc/self/maps: at most 300 above the start, with the option for
 * huge pages on and off. The purge is one that the program asks for, with and without
 * a purge delay, or one that comes by itself. */
#include "thread/behave.h"
#include <sys/wait.h>

enum { MOST = 16384 };

static void *blocks[MOST];

static size_t count_maps(void) {
  static char text[65536];
  size_t lines = 0;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) SKIP("/proc/self/maps cannot be read");
  for (ssize_t n; (n = read(fd, text, sizeof(text))) > 0;) {
    for (ssize_t i = 0; i < n; i++) lines += text[i] == '\n';
  }
  close(fd);
  return lines;
}

static size_t fill(size_t budget, bool mixed, uint64_t *rng) {
  size_t n = 0;
  for (size_t used = 0; used < budget && n < MOST; n++) {
    size_t size = mixed ? behave_random_size(rng, 4 * BEHAVE_KiB, 256 * BEHAVE_KiB) : 64 * BEHAVE_KiB;
    if (blocks[n] == NULL) {
      blocks[n] = malloc(size);
      CHECK(blocks[n] != NULL);
      for (size_t at = 0; at < size; at += 4096) ((char *)blocks[n])[at] = 1;
    }
    used += size;
  }
  return n;
}

static void free_each_second(size_t n) {
  for (size_t i = 0; i < n; i += 2) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void have_it_purged(bool by_itself) {
  if (by_itself) behave_sleep_ms(60); /* the delay is 20 */
  else behave_collect(true);
}

static void run(bool mixed, bool by_itself) {
  size_t budget = mi_test_scale(96, 512) * BEHAVE_MiB, rounds = mi_test_scale(5, 20);
  uint64_t rng = 21;
  size_t start = count_maps();
  for (size_t round = 0; round < rounds; round++) {
    size_t n = fill(budget, mixed, &rng);
    free_each_second(n);
    have_it_purged(by_itself);
    size_t now = count_maps();
    if (now > start + 300) FAIL("round %zu: %zu mappings, %zu at the start", round, now, start);
  }
  for (size_t i = 0; i < MOST; i++) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
  behave_collect(true);
  size_t now = count_maps();
  if (now > start + 300) FAIL("%zu mappings at the end, %zu at the start", now, start);
}

/* Options are read when a process starts: run the program anew with each. */
static void run_with(const char *name, const char *value) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    setenv(name, value, 1);
    execl("/proc/self/exe", "map-count", "run", (char *)NULL);
    _exit(MI_TEST_ERROR);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) _exit(MI_TEST_SKIP);
  if (status != 0) FAIL("with %s=%s: status %#x", name, value, (unsigned)status);
}

int main(int argc, char **argv) {
  (void)argv;
  behave_limit(200);
  if (argc > 1) {
    bool by_itself = mi_option_get(mi_option_purge_delay) == 20;
    run(false, by_itself);
    run(true, by_itself);
    return 0;
  }
  run_with("MIMALLOC_ALLOW_THP", "2");
  run_with("MIMALLOC_ALLOW_THP", "0");
  run_with("MIMALLOC_PURGE_DELAY", "0");
  run_with("MIMALLOC_PURGE_DELAY", "20");
  run_with("MIMALLOC_ARENA_EAGER_COMMIT", "0");
  return 0;
}
