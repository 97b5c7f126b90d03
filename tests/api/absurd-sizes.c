/* SPDX-License-Identifier: MIT */
/* B09 ptrdiff-max-and-absurd-sizes. Symptom: request above PTRDIFF_MAX succeeded, or an absurd size
 * was reserved. Right: NULL + ENOMEM, each call under 10 ms of processor time, RSS unchanged, no output by default,
 * later malloc works; realloc keeps the old block. */
#include "family.h"
#include <sys/wait.h>
#include <time.h>

enum { ROUNDS = 1000, N_CALLS = 12 };

static double used_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Call number `call` with this size; p is a live block for realloc. */
static void *call_with(const struct family *f, int call, void *p, size_t size) {
  void *q = NULL;
  switch (call) {
    case 0: return f->malloc(size);
    case 1: return f->calloc(1, size);
    case 2: return f->realloc(p, size);
    case 3: return f->memalign(64, size);
    case 4: return f->valloc(size);
    case 5: return f->pvalloc(size);
    case 6: return f->aligned_alloc(4096, size);
    case 7: errno = f->posix_memalign(&q, 64, size); return q;
    case 8: return mi_new_nothrow(size);
    case 9: return mi_zalloc_aligned_at(size, 256, 16);
    case 10: return mi_rezalloc(p, size);
    default: return mi_mallocn(1, size);
  }
}

static void check_family(const struct family *f, int rounds) {
  unsigned char *p = f->malloc(1000);
  CHECK_IN(f, p != NULL);
  memset(p, 0x77, 1000);
  double slowest = 0;
  for (int call = 0; call < N_CALLS; call++) {
    for (size_t i = 0; i < N_ABSURD_SIZES; i++) {
      for (int round = 0; round < rounds; round++) {
        errno = 0;
        double start = used_ms();
        void *q = call_with(f, call, p, absurd_sizes[i]);
        double took = used_ms() - start;
        if (took > slowest) slowest = took;
        if (q != NULL || errno != ENOMEM) {
          fprintf(stderr, "%s family, call %d, size %zu: %p, errno %d\n", f->name, call,
                  absurd_sizes[i], q, errno);
          _exit(1);
        }
      }
    }
  }
  for (int i = 0; i < 1000; i++) CHECK_IN(f, p[i] == 0x77);
  f->free(p);
  p = f->malloc(100000);
  CHECK_IN(f, p != NULL);
  memset(p, 1, 100000);
  f->free(p);
  /* A single call may meet a page fault or an interrupt; the typical one may not take long. */
  CHECK_IN(f, slowest < 100);
}

/* All of it; what it prints is for the caller to judge. */
static void check_all(void) {
  FOR_FAMILIES(f) check_family(f, 1); /* code and stack are in memory from now on */
  size_t before = mi_test_rss_kib();
  double start = used_ms();
  int n_families = 0;
  FOR_FAMILIES(f) {
    check_family(f, ROUNDS);
    n_families++;
  }
  double mean = (used_ms() - start) / (double)(n_families * N_CALLS * ROUNDS * (int)N_ABSURD_SIZES);
  size_t after = mi_test_rss_kib();
  CHECK(mean < 10);
  const char *sanitizers = getenv("MI_TEST_SANITIZE"); /* they keep books of their own */
  if (after > before + 512) fprintf(stderr, "resident %zu KiB, then %zu KiB\n", before, after);
  CHECK(after <= before + 512 || (sanitizers != NULL && *sanitizers != 0));
}

int main(void) {
  mi_test_not_under("thread");
  int printed[2];
  CHECK(pipe(printed) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(printed[1], STDERR_FILENO);
    close(printed[1]);
    check_all();
    _exit(0);
  }
  close(printed[1]);
  char text[4096];
  size_t length = 0;
  for (ssize_t n; (n = read(printed[0], text, sizeof text)) > 0; length += (size_t)n) {
    fwrite(text, 1, (size_t)n, stderr);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(length == 0 || mi_option_is_enabled(mi_option_show_errors)); /* as in the debug build */
  return 0;
}
