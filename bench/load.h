/* SPDX-License-Identifier: MIT */
/* load.h - what the multi-threaded loads share: seeded random numbers, blocks that are checked when
 * they are freed, the clock, and the start of a run.
 *
 * The loads use the plain malloc family and nothing else, so that LD_PRELOAD decides which allocator
 * is measured. The work of a run is fixed by a count (SCALE times the default), never by a time: so
 * that both wall time and peak memory can be compared.
 *
 * Threads: everything here works on its arguments; nothing is shared. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The start of every block. A block is found damaged when the stamp does not fit its address any
 * more, or its last byte not its size: an allocator that hands out one address twice, overlapping
 * blocks, or a block that is too small shows in most of these runs, for the price of two stores. */
struct block {
  uintptr_t stamp;
  size_t size;
  struct block *next; /* for the load's own lists */
};
enum { BLOCK_MIN = sizeof(struct block) + 1 }; /* the last byte lies behind the head */
#define BLOCK_KEY ((uintptr_t)0x9e3779b97f4a7c15u)

static inline uint64_t random_next(uint64_t *state) { /* xorshift64; the state is never 0 */
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}

static inline uint64_t random_seed(uint64_t number) {
  return (number + 1) * 0x9e3779b97f4a7c15u | 1;
}

/* A number below n. The low bits of xorshift64 are its weak ones, so they are dropped. */
static inline size_t random_below(uint64_t *state, size_t n) {
  return (size_t)((random_next(state) >> 20) % n);
}

/* lo..hi, small ones far more often: each size class between them is about as likely as the next
 * smaller one is twice as likely. */
static inline size_t random_skewed(uint64_t *state, size_t lo, size_t hi) {
  uint64_t r = random_next(state) >> 20;
  unsigned halvings = (unsigned)__builtin_ctz((unsigned)(r & 0xff) | 0x100);
  size_t span = (hi - lo) >> halvings;
  return lo + (size_t)((r >> 8) % (span + 1));
}

/* _exit, not exit: handlers could allocate from what is broken. */
static inline void fail(const char *what) {
  const char *parts[] = {"bench: ", what, "\n"};
  for (size_t i = 0; i < 3; i++) {
    if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
  }
  _exit(3);
}

static inline struct block *block_new(size_t size) {
  if (size < BLOCK_MIN) size = BLOCK_MIN;
  struct block *b = malloc(size);
  if (b == NULL) fail("out of memory");
  b->stamp = (uintptr_t)b ^ BLOCK_KEY;
  b->size = size;
  ((volatile unsigned char *)b)[size - 1] = (unsigned char)(size ^ 0xa5);
  return b;
}

static inline void block_check(const struct block *b) {
  if (b->stamp != ((uintptr_t)b ^ BLOCK_KEY)) fail("damaged block (stamp)");
  if (((const volatile unsigned char *)b)[b->size - 1] != (unsigned char)(b->size ^ 0xa5)) {
    fail("damaged block (last byte)");
  }
}

static inline void block_free(struct block *b) {
  block_check(b);
  b->stamp = 0; /* a second free of it, or a live block at its address, is found */
  free(b);
}

static inline void thread_start(pthread_t *t, void *(*run)(void *), void *arg) {
  if (pthread_create(t, NULL, run, arg) != 0) fail("no thread");
}

static inline double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Arguments of every load: [SCALE [THREADS]]. */
struct load {
  double scale;
  size_t n_threads;
  double start;
};

static inline struct load load_start(int argc, char **argv, size_t n_threads, size_t max_threads) {
  struct load l = {.scale = argc > 1 ? atof(argv[1]) : 1.0,
                   .n_threads = argc > 2 ? (size_t)atol(argv[2]) : n_threads};
  if (!(l.scale > 0) || l.n_threads == 0 || l.n_threads > max_threads) {
    fprintf(stderr, "usage: %s [SCALE [THREADS]], at most %zu threads\n", argv[0], max_threads);
    exit(2);
  }
  l.start = now_seconds();
  return l;
}

static inline size_t load_count(const struct load *l, size_t count) {
  double n = (double)count * l->scale;
  return n < 1 ? 1 : (size_t)n;
}

static inline int load_end(const struct load *l) {
  printf("%.4f\n", now_seconds() - l->start);
  return 0;
}

#endif
