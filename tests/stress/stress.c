/* SPDX-License-Identifier: MIT */
/* The stress test: threads that come and go obtain blocks of 1 byte to 64 MiB in every form, write every byte, hand blocks to
 * each other, resize them, and verify every byte before they give them back. Blocks outlive the threads that made them.
 *
 * MI_STRESS_SECONDS  how long; MI_STRESS_THREADS  how many at a time; MI_STRESS_MIB  bound on what is live at once
 * MI_TEST_SEED       repeat a run: each thread's choices follow from it and from the thread's number
 * Threads: a worker owns its table; the market's slots are guarded by one lock each. */
#include "stress/forms.h"
#include <pthread.h>
#include <stdatomic.h>

enum { TABLE_SIZE = 400, MARKET_SIZE = 256, MOST_THREADS = 64 };

struct slot {
  pthread_mutex_t lock;
  struct block block; /* p == NULL: empty */
};

struct worker {
  pthread_t thread;
  uint64_t number;
  uint64_t rng;
  uint64_t step;
  unsigned keep_percent; /* how full it tries to keep its table */
  struct block table[TABLE_SIZE];
};

static struct slot market[MARKET_SIZE];
static struct worker workers[MOST_THREADS];
static _Atomic size_t live_bytes;
static _Atomic uint64_t next_tag = 1;
static _Atomic uint64_t total_steps;
static size_t most_live_bytes;
static uint64_t seed;

static __thread struct worker *me;

/* Said before every report of a failure. */
static void say_where(void) {
  if (me == NULL) {
    behave_say("in the main thread, MI_TEST_SEED=%llu", (unsigned long long)seed);
    return;
  }
  behave_say("in thread %llu at step %llu, MI_TEST_SEED=%llu", (unsigned long long)me->number,
             (unsigned long long)me->step, (unsigned long long)seed);
}

static size_t choose_size(uint64_t *rng) {
  unsigned dice = (unsigned)(behave_random(rng) % 10000);
  if (dice < 6000) return behave_random_size(rng, 1, 256);
  if (dice < 8500) return behave_random_size(rng, 128, 8 * BEHAVE_KiB);
  if (dice < 9500) return behave_random_size(rng, 8 * BEHAVE_KiB, 64 * BEHAVE_KiB);
  if (dice < 9940) return behave_random_size(rng, 64 * BEHAVE_KiB, 512 * BEHAVE_KiB);
  if (dice < 9996) return behave_random_size(rng, 512 * BEHAVE_KiB, 4 * BEHAVE_MiB);
  return behave_random_size(rng, 4 * BEHAVE_MiB, 64 * BEHAVE_MiB);
}

/* Count `size` bytes as live, unless that goes over the bound. */
static bool try_charge(size_t size) {
  size_t before = atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed);
  if (before + size <= most_live_bytes) return true;
  atomic_fetch_sub_explicit(&live_bytes, size, memory_order_relaxed);
  return false;
}

static void uncharge(size_t size) {
  atomic_fetch_sub_explicit(&live_bytes, size, memory_order_relaxed);
}

static void write_block(struct block *b) {
  b->tag = atomic_fetch_add_explicit(&next_tag, 1, memory_order_relaxed) * 0xD6E8FEB86659FD93u;
  behave_fill(b->p, b->size, b->tag);
}

static void verify_block(const struct block *b, size_t size, const char *when) {
  size_t at = behave_verify(b->p, size, b->tag);
  if (at != size) FAIL("%s: block %p of %zu bytes is changed at byte %zu", when, (void *)b->p, b->size, at);
}

static void obtain(struct worker *w, struct block *b) {
  size_t size = choose_size(&w->rng);
  if (!try_charge(size)) {
    size = 1 + size % 512;
    if (!try_charge(size)) return;
  }
  *b = take_block(&w->rng, size);
  if (behave_random(&w->rng) % 4 == 0) { /* all that is usable may be written */
    size_t usable = malloc_usable_size(b->p);
    if (try_charge(usable - size)) b->size = usable;
  }
  write_block(b);
}

static void give_back(struct worker *w, struct block *b, const char *when) {
  verify_block(b, b->size, when);
  drop_block(&w->rng, b);
  uncharge(b->size);
  b->p = NULL;
}

static void resize(struct worker *w, struct block *b) {
  static const unsigned char eighths[] = {1, 4, 7, 8, 9, 10, 12, 16, 24};
  size_t size = b->size * eighths[behave_random(&w->rng) % sizeof(eighths)] / 8 + behave_random(&w->rng) % 16;
  if (size == 0) size = 1;
  if (size > 64 * BEHAVE_MiB || !try_charge(size)) return;
  size_t kept = size < b->size ? size : b->size;
  verify_block(b, b->size, "before a resize");
  resize_more(&w->rng, b, size);
  if (b->p == NULL) FAIL("a resize of %zu bytes to %zu gave NULL, errno %d", b->size, size, errno);
  /* the last word of the pattern is cut at the old end: verify up to the last whole one */
  verify_block(b, kept == b->size ? kept : kept & ~(size_t)7, "after a resize");
  uncharge(b->size);
  b->size = size;
  b->alignment = 8;
  write_block(b);
}

static void trade(struct worker *w, struct block *b) {
  struct slot *s = &market[behave_random(&w->rng) % MARKET_SIZE];
  pthread_mutex_lock(&s->lock);
  struct block other = s->block;
  s->block = *b;
  pthread_mutex_unlock(&s->lock);
  *b = other;
  if (b->p != NULL && behave_random(&w->rng) % 4 != 0) give_back(w, b, "taken from the market");
}

static void one_step(struct worker *w) {
  struct block *b = &w->table[behave_random(&w->rng) % TABLE_SIZE];
  unsigned dice = (unsigned)(behave_random(&w->rng) % 1000);
  if (dice < 150) {
    trade(w, b);
  } else if (dice == 999) {
    behave_collect((behave_random(&w->rng) & 15) == 0);
  } else if (b->p == NULL) {
    if (dice % 100 < w->keep_percent) obtain(w, b);
  } else if (dice < 300) {
    resize(w, b);
  } else if (dice < 320) {
    verify_block(b, b->size, "kept");
  } else if (dice % 100 >= w->keep_percent) {
    give_back(w, b, "kept");
  }
}

/* A life: a few waves of growing and shrinking, then an end that gives back all, or leaves what it can to the others. */
static void *live_once(void *arg) {
  struct worker *w = me = arg;
  uint64_t waves = 1 + behave_random(&w->rng) % 4;
  for (uint64_t i = 0; i < waves; i++) {
    w->keep_percent = 10 + (unsigned)(behave_random(&w->rng) % 85);
    uint64_t steps = 200 + behave_random(&w->rng) % mi_test_scale(2500, 6000);
    for (uint64_t k = 0; k < steps; k++, w->step++) one_step(w);
  }
  bool leave = behave_random(&w->rng) % 3 != 0;
  for (int i = 0; i < TABLE_SIZE; i++) {
    struct block *b = &w->table[i];
    if (b->p != NULL && leave) trade(w, b);
    if (b->p != NULL) give_back(w, b, "at the end of a thread");
  }
  atomic_fetch_add_explicit(&total_steps, w->step, memory_order_relaxed);
  return NULL;
}

static void start_worker(struct worker *w, uint64_t number) {
  w->number = number;
  w->step = 0;
  w->rng = seed + number * 0xA24BAED4963EE407u;
  int err = pthread_create(&w->thread, NULL, live_once, w);
  if (err != 0) FAIL("pthread_create gave %d", err);
}

static void clear_market(void) {
  static struct worker last = {.rng = 1};
  for (int i = 0; i < MARKET_SIZE; i++) {
    if (market[i].block.p != NULL) give_back(&last, &market[i].block, "left in the market");
  }
}

static unsigned long setting(const char *name, unsigned long otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text != 0 ? strtoul(text, NULL, 0) : otherwise;
}

int main(void) {
  unsigned long seconds = setting("MI_STRESS_SECONDS", mi_test_seconds(2, 10));
  unsigned long n_threads = setting("MI_STRESS_THREADS", 6);
  if (n_threads < 1 || n_threads > MOST_THREADS) n_threads = MOST_THREADS;
  most_live_bytes = setting("MI_STRESS_MIB", BEHAVE_SANITIZED ? 48 : 224) * BEHAVE_MiB;
  seed = behave_seed();
  behave_context = say_where;
  behave_limit((unsigned)seconds + 60);
  for (int i = 0; i < MARKET_SIZE; i++) pthread_mutex_init(&market[i].lock, NULL);

  uint64_t end = behave_now_ns() + seconds * 1000000000u;
  uint64_t number = 0;
  for (unsigned long i = 0; i < n_threads; i++) start_worker(&workers[i], number++);
  for (unsigned long i = 0; behave_now_ns() < end; i = (i + 1) % n_threads) {
    pthread_join(workers[i].thread, NULL);
    start_worker(&workers[i], number++);
  }
  for (unsigned long i = 0; i < n_threads; i++) pthread_join(workers[i].thread, NULL);
  clear_market();
  if (live_bytes != 0) FAIL("%zu bytes are counted as live at the end", (size_t)live_bytes);
  behave_say("stress: seed %llu, %llu threads, %llu steps, %zu MiB resident at the end", (unsigned long long)seed,
             (unsigned long long)number, (unsigned long long)total_steps, behave_resident() / BEHAVE_MiB);
  return 0;
}
