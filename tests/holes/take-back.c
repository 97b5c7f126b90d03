/* SPDX-License-Identifier: MIT */
/* Large buffers that go from their threads to another one and come back, with parks, holes and ended threads in between: no
 * byte of a live buffer changes. Producers of six rounds, each round with threads of its own, keep a third of their buffers in
 * slots and hand the rest to a consumer. */
#include "holes/holes.h"

enum { PRODUCERS = 4, BUFFERS = 400, SLOTS = 24, QUEUE = 256 };

static void *queue[QUEUE];
static size_t n_queued;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool ended;

/* A buffer begins with its size and its tag; the tag stands in each OS page and in the last byte. */
struct head {
  size_t size;
  uint64_t tag;
};
static void *make(uint64_t *rng) {
  static const size_t kib[] = {100, 160, 256, 300, 384, 512};
  size_t size = kib[behave_random(rng) % N_OF(kib)] * 1024;
  char *p = malloc(size);
  CHECK(p != NULL);
  struct head head = {size, behave_random(rng)};
  for (size_t at = 0; at < size; at += 4096) memcpy(p + at, &head.tag, sizeof head.tag);
  memcpy(p, &head, sizeof head);
  p[size - 1] = (char)head.tag;
  return p;
}
static void check_and_free(void *block) {
  char *p = block;
  struct head head;
  memcpy(&head, p, sizeof head);
  CHECK(head.size >= 100 * 1024 && head.size <= 512 * 1024);
  for (size_t at = 4096; at < head.size; at += 4096) {
    uint64_t tag;
    memcpy(&tag, p + at, sizeof tag);
    if (at + sizeof tag <= head.size && tag != head.tag) FAIL("buffer %p of %zu KiB is changed at %zu", block, head.size / 1024, at);
  }
  CHECK(p[head.size - 1] == (char)head.tag);
  free(block);
}

static void hand_over(void *p) {
  pthread_mutex_lock(&mutex);
  while (n_queued == QUEUE) pthread_cond_wait(&changed, &mutex);
  queue[n_queued++] = p;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}
static void *consume(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (n_queued == 0 && !ended) pthread_cond_wait(&changed, &mutex);
    if (n_queued == 0) break;
    size_t k = behave_random(&rng) % n_queued;
    void *p = queue[k];
    queue[k] = queue[--n_queued];
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    check_and_free(p);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}
static void *produce(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *slots[SLOTS] = {NULL};
  for (size_t i = 0; i < BUFFERS; i++) {
    void *p = make(&rng);
    if (behave_random(&rng) % 3 == 0) {
      size_t k = behave_random(&rng) % SLOTS;
      if (slots[k] != NULL) check_and_free(slots[k]);
      slots[k] = p;
    } else {
      hand_over(p);
    }
    if (i % 64 != 63) continue;
    if (mi_on_thread_idle_start()) {
      usleep(2000);
      mi_on_thread_idle_end();
    } else {
      mi_on_thread_idle();
    }
  }
  for (size_t k = 0; k < SLOTS; k++)
    if (slots[k] != NULL) check_and_free(slots[k]);
  return NULL;
}

static void check_take_back(void) {
  uint64_t seed = behave_seed();
  behave_say("seed %#llx", (unsigned long long)seed);
  ended = false;
  pthread_t consumer = start(consume, (void *)(uintptr_t)(seed | 1));
  size_t rounds = mi_test_scale(2, 6);
  for (size_t round = 0; round < rounds; round++) {
    pthread_t t[PRODUCERS];
    for (size_t i = 0; i < PRODUCERS; i++) t[i] = start(produce, (void *)(uintptr_t)(seed + round * PRODUCERS + i));
    for (size_t i = 0; i < PRODUCERS; i++) join(t[i]);
  }
  pthread_mutex_lock(&mutex);
  ended = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  join(consumer);
}

int main(int argc, char **argv) {
  static const struct scenario all[] = {
    {"take-back", check_take_back, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=1"}, false},
    {"eager", check_take_back, {"MIMALLOC_PURGE_HOLES_MIN_INTERVAL=0", "MIMALLOC_PURGE_HOLES_LARGE_FLOOR=0"}, false},
  };
  return run_scenarios(argc, argv, all, N_OF(all), WITH("MIMALLOC_PURGE_HOLES_EAGER_ZERO=1"));
}
