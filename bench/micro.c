/* SPDX-License-Identifier: MIT */
/* micro MODE N [t] - small loops over the plain malloc family, for use with LD_PRELOAD.
 *
 * With a third argument it prints the wall time of the loop in seconds. Instructions per iteration
 * are the slope between two N under callgrind (`run` does that). An iteration of batch and of
 * batch-lifo is 1000 pairs. Build with -fno-builtin, or the compiler drops pairs it sees through.
 *
 * The loops are part of the instruction counts: change one, and no older count compares any more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOUCH(p) (*(volatile char *)(p) = 1)

static inline uint64_t next_random(uint64_t *s) {
  uint64_t x = *s;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *s = x;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void *slots[1024];
static void *blocks[1000];
static void *volatile sink;

static void fixed(long n) {
  for (long i = 0; i < n; i++) {
    void *p = malloc(48);
    TOUCH(p);
    free(p);
  }
}

static void random_sizes(long n) { /* 16..1039 bytes, 1024 live */
  uint64_t s = 88172645463325252ull;
  for (long i = 0; i < n; i++) {
    uint64_t r = next_random(&s);
    size_t size = 16 + (r >> 20) % 1024, k = i & 1023;
    free(slots[k]);
    void *p = malloc(size);
    TOUCH(p);
    slots[k] = p;
  }
}

static void none(long n) { /* the loop of random_sizes alone */
  static char fake[2048];
  uint64_t s = 88172645463325252ull;
  for (long i = 0; i < n; i++) {
    uint64_t r = next_random(&s);
    size_t size = 16 + (r >> 20) % 1024, k = i & 1023;
    sink = slots[k];
    void *p = &fake[size];
    TOUCH(p);
    slots[k] = p;
  }
}

static void fill(void) {
  for (int j = 0; j < 1000; j++) {
    void *p = malloc(64);
    TOUCH(p);
    blocks[j] = p;
  }
}

static void batch(long n) {
  for (long i = 0; i < n; i++) {
    fill();
    for (int j = 0; j < 1000; j++) free(blocks[j]);
  }
}

static void batch_lifo(long n) {
  for (long i = 0; i < n; i++) {
    fill();
    for (int j = 999; j >= 0; j--) free(blocks[j]);
  }
}

static void zeroed(long n) {
  for (long i = 0; i < n; i++) {
    void *p = calloc(1, 256);
    TOUCH(p);
    free(p);
  }
}

static void ladder(long n) { /* 16 bytes to 64 KiB by doubling, with the copying */
  for (long i = 0; i < n; i++) {
    char *p = NULL;
    for (size_t s = 16; s <= 65536; s *= 2) {
      p = realloc(p, s);
      TOUCH(p + s - 1);
    }
    free(p);
  }
}

/* 64 blocks of one size live, a random one replaced: the steady state of a cache or a queue. */
static void replace(long n, size_t size) {
  uint64_t s = 88172645463325252ull;
  for (long i = 0; i < n; i++) {
    size_t k = (next_random(&s) >> 20) % 64;
    free(slots[k]);
    void *p = malloc(size);
    TOUCH(p);
    slots[k] = p;
  }
}

static void replace_512(long n) { replace(n, 512); }
static void replace_16k(long n) { replace(n, 16 * 1024); }
static void replace_100k(long n) { replace(n, 100 * 1024); }
static void replace_300k(long n) { replace(n, 300 * 1024); }

static void large(long n) {
  for (long i = 0; i < n; i++) {
    void *p = malloc(128 * 1024);
    TOUCH(p);
    free(p);
  }
}

/* One thread allocates, another frees; each block goes through one slot of a ring. */
enum { RING = 4096 };
static _Atomic(void *) ring[RING];
static long handed;

static void *consumer(void *arg) {
  (void)arg;
  for (long i = 0; i < handed; i++) {
    _Atomic(void *) *r = &ring[i % RING];
    void *p;
    while ((p = atomic_load_explicit(r, memory_order_acquire)) == NULL) relax();
    atomic_store_explicit(r, NULL, memory_order_release);
    free(p);
  }
  return NULL;
}

static void xfree(long n) {
  pthread_t t;
  handed = n;
  pthread_create(&t, NULL, consumer, NULL);
  for (long i = 0; i < n; i++) {
    void *p = malloc(64);
    TOUCH(p);
    _Atomic(void *) *r = &ring[i % RING];
    while (atomic_load_explicit(r, memory_order_acquire) != NULL) relax();
    atomic_store_explicit(r, p, memory_order_release);
  }
  pthread_join(t, NULL);
}

static const struct {
  const char *name;
  void (*run)(long);
} modes[] = {
    {"fixed", fixed},
    {"random", random_sizes},
    {"none", none},
    {"batch", batch},
    {"batch-lifo", batch_lifo},
    {"calloc", zeroed},
    {"realloc", ladder},
    {"large", large},
    {"xfree", xfree},
    {"replace-512", replace_512},
    {"replace-16k", replace_16k},
    {"replace-100k", replace_100k},
    {"replace-300k", replace_300k},
};

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: micro MODE N [t]\n");
    return 2;
  }
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    if (strcmp(argv[1], modes[m].name) != 0) continue;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    modes[m].run(atol(argv[2]));
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (argc > 3) {
      printf("%.4f\n",
             (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9);
    }
    return 0;
  }
  fprintf(stderr, "micro: no mode %s\n", argv[1]);
  return 2;
}
