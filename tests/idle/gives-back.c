/* SPDX-License-Identifier: MIT */
/* Cases D01 D02 D04 D07 D09: what a program has freed goes back by itself.
 * D01 idle-process-gives-back: main allocates a burst (small: 16..1024 B; 64 KiB blocks; 4 MiB
 *   blocks), touches, frees all in allocation order and in random order, then sleeps, no allocator
 *   call. Default options; also purge delay 0 and 1000 ms. Right: resident <= start + 15% of the
 *   burst within purge delay + 1 s, by itself; with delay -1 (never) it stays.
 * D02 producer-consumer-idle: a producer thread allocates 200000 x 1 KiB, a consumer frees all; both
 *   then block. (a) both announce idleness with the idle start/end calls, (b) no calls, (c) both
 *   joined. Right within 3 s: (a), (c) resident <= start + 15% of 200 MiB, (b) <= start + 60%.
 * D04 thread-pool-takes-turns: pool of 8 threads; one at a time builds a tree of 64 MiB (32 B..32
 *   KiB blocks), frees it, goes back to waiting. (a) with the one-shot idle call before waiting, (b)
 *   without. Right: after the 8th job + 2 s: (a) resident <= start + 32 MiB; (b) <= start + 128
 *   MiB, and a second round of all 8 does not raise it by more than 10%.
 * D07 several-heaps-per-thread-cross-free: thread A owns heaps H1 and H2, allocates 64 MiB of 256
 *   KiB blocks from H1; thread B frees them; A only uses and collects H2 / calls mi_collect(true).
 *   Right: resident within 16 MiB of start in 3 s after mi_collect(true); same when A exits instead.
 * D09 interleaved-large-small-rounds: 20 rounds of 4000 blocks, odd 128 KiB (touched), even 512 B,
 *   free all. Right: peak of round 20 <= 1.15 x peak of round 2; after the last round + 3 s resident
 *   <= start + 15% of peak.
 * These times are those of a machine with nothing else to do; here MI_TEST_PATIENCE_MS in their place. */
#include "idle/idle.h"

static void **block; /* not of the heap, or it would be part of what is measured */
static size_t n_blocks;
enum { MOST_BLOCKS = 2000000 };

/* ---- D01 ---- */

static size_t fill(size_t bytes, size_t low, size_t high) {
  uint64_t rng = 1;
  size_t used = 0;
  for (n_blocks = 0; used < bytes && n_blocks < MOST_BLOCKS; n_blocks++) {
    size_t size = low == high ? low : low + behave_random(&rng) % (high - low + 1);
    char *p = block[n_blocks] = malloc(size);
    CHECK(p != NULL);
    p[0] = p[size - 1] = 1;
    touch(p, size);
    used += size;
  }
  return used;
}
static void free_all(bool at_random) {
  uint64_t rng = 2;
  for (size_t i = n_blocks; at_random && i > 1; i--) {
    size_t k = behave_random(&rng) % i;
    void *p = block[k];
    block[k] = block[i - 1];
    block[i - 1] = p;
  }
  for (size_t i = 0; i < n_blocks; i++) free(block[i]);
}

static void give_back_idle(void) {
  static const size_t kinds[][2] = {{16, 1024}, {65536, 65536}, {4 << 20, 4 << 20}};
  long delay = mi_option_get(mi_option_purge_delay);
  size_t burst = mi_test_scale(24, 300) * BEHAVE_MiB;
  for (int kind = 0; kind < 3; kind++) {
    for (int at_random = 0; at_random < 2; at_random++) {
      fill(4096, 16, 16); /* the array of blocks, and what a start costs */
      free_all(false);
      size_t start = behave_resident();
      size_t used = fill(burst, kinds[kind][0], kinds[kind][1]);
      size_t peak = behave_resident();
      CHECK(peak >= start + used / 2);
      free_all(at_random);
      if (delay < 0) {
        behave_sleep_ms(250);
        CHECK(behave_resident() >= peak - used / 10);
        mi_collect(true);
        expect_resident(start + used * 15 / 100, "forced");
        continue;
      }
      char what[64];
      snprintf(what, sizeof what, "kind %d, %s order", kind, at_random ? "random" : "same");
      expect_resident(start + used * 15 / 100, what);
    }
  }
}

/* ---- D02 ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int stage, n_blocked;
static char how; /* a, b, c as above */

static void wait_for_stage(int s) {
  if (how == 'a') CHECK(mi_on_thread_idle_start());
  pthread_mutex_lock(&mutex);
  n_blocked++;
  while (stage < s) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  mi_on_thread_idle_end();
}
static void set_stage(int s) {
  pthread_mutex_lock(&mutex);
  stage = s;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static void *produce(void *arg) {
  (void)arg;
  for (size_t i = 0; i < n_blocks; i++) {
    CHECK((block[i] = malloc(1024)) != NULL);
    memset(block[i], 1, 1024);
  }
  set_stage(1);
  if (how != 'c') wait_for_stage(3);
  return NULL;
}
static void *consume(void *arg) {
  (void)arg;
  pthread_mutex_lock(&mutex);
  while (stage < 1) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < n_blocks; i++) free(block[i]);
  set_stage(2);
  if (how != 'c') wait_for_stage(3);
  return NULL;
}
static void producer_and_consumer(void) {
  for (how = 'a'; how <= 'c'; how++) {
    n_blocks = mi_test_scale(40000, 200000);
    memset(block, 1, n_blocks * sizeof *block);
    stage = n_blocked = 0;
    mi_collect(true);
    size_t begin = behave_resident(), burst = n_blocks * 1024;
    pthread_t p = start(produce, NULL), c = start(consume, NULL);
    if (how == 'c') {
      join(p);
      join(c);
    } else {
      pthread_mutex_lock(&mutex);
      while (stage < 2) pthread_cond_wait(&changed, &mutex);
      pthread_mutex_unlock(&mutex);
    }
    expect_resident(begin + burst * (how == 'b' ? 60 : 15) / 100, how == 'a' ? "parked" :
                    how == 'b' ? "blocked" : "joined");
    if (how == 'c') continue;
    set_stage(3);
    join(p);
    join(c);
  }
}

/* ---- D04 ---- */

struct node {
  struct node *left, *right;
};
static struct node *build(size_t *budget, uint64_t *rng, int depth) {
  if (*budget == 0 || depth == 0) return NULL;
  size_t size = behave_random_size(rng, 32, 32768);
  *budget -= *budget < size ? *budget : size;
  struct node *node = malloc(size);
  CHECK(node != NULL);
  memset(node, 0, size);
  node->left = build(budget, rng, depth - 1);
  node->right = build(budget, rng, depth - 1);
  return node;
}
static void fell(struct node *node) {
  if (node == NULL) return;
  fell(node->left);
  fell(node->right);
  free(node);
}
enum { POOL = 8, PAUSE = -1, END = -2 };
static int turn; /* whose: a number from 0 to 2 * POOL - 1 */
static size_t job_bytes;

static void wait_turn(int t) {
  pthread_mutex_lock(&mutex);
  while (turn != t) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}
static void set_turn(int t) {
  pthread_mutex_lock(&mutex);
  turn = t;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}
static void *take_turns(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  for (int mine = (int)(uintptr_t)arg; mine < 2 * POOL; mine += POOL) {
    wait_turn(mine);
    size_t budget = job_bytes;
    while (budget > 0) {
      struct node *tree = build(&budget, &rng, 12);
      fell(tree);
    }
    if (how == 'a') mi_on_thread_idle();
    set_turn(mine % POOL == POOL - 1 ? PAUSE : mine + 1);
  }
  wait_turn(END);
  return NULL;
}
static void pool(void) {
  job_bytes = mi_test_scale(20, 64) * BEHAVE_MiB;
  for (how = 'a'; how <= 'b'; how++) {
    size_t begin = behave_resident(), most = begin + job_bytes * (how == 'a' ? 1 : 4) / 2;
    pthread_t t[POOL];
    set_turn(0);
    for (uintptr_t i = 0; i < POOL; i++) t[i] = start(take_turns, (void *)i);
    wait_turn(PAUSE);
    expect_resident(most, how == 'a' ? "pool with idle calls" : "pool");
    behave_sleep_ms(200);
    size_t first = behave_resident();
    set_turn(POOL);
    wait_turn(PAUSE);
    const char *what = how == 'a' ? "pool with idle calls, again" : "pool, again";
    expect_resident(first + first / 10 + 4 * BEHAVE_MiB, what);
    set_turn(END);
    for (int i = 0; i < POOL; i++) join(t[i]);
  }
}

/* ---- D07 ---- */

static atomic_int step; /* 1: H1 is full, 2: it was freed, 3: H2 was collected */
static mi_heap_t *other_heap;
static void *own_two_heaps(void *arg) {
  bool exits = arg != NULL;
  mi_heap_t *h1 = new_heap(), *h2 = new_heap();
  other_heap = h1;
  for (size_t i = 0; i < n_blocks; i++) {
    CHECK((block[i] = mi_heap_malloc(h1, 256 * BEHAVE_KiB)) != NULL);
    touch(block[i], 256 * BEHAVE_KiB);
  }
  step = 1;
  while (step < 2) usleep(100);
  for (int i = 0; i < 1000; i++) free(mi_heap_malloc(h2, 100));
  mi_heap_collect(h2, true);
  mi_heap_delete(h2);
  if (exits) return NULL;
  mi_collect(true);
  step = 3;
  while (step < 4) usleep(100);
  return NULL;
}
static void two_heaps(void) {
  for (uintptr_t exits = 0; exits < 2; exits++) {
    n_blocks = mi_test_scale(128, 256);
    memset(block, 0, n_blocks * sizeof *block);
    step = 0;
    size_t begin = behave_resident();
    pthread_t t = start(own_two_heaps, (void *)exits);
    while (step < 1) usleep(100);
    CHECK(behave_resident() > begin + n_blocks * 240 * BEHAVE_KiB);
    for (size_t i = 0; i < n_blocks; i++) free(block[i]);
    step = 2;
    if (exits) join(t);
    while (!exits && step < 3) usleep(100);
    expect_resident(begin + n_blocks * 64 * BEHAVE_KiB, exits ? "owner gone" : "owner collects");
    step = 4;
    if (!exits) join(t);
    mi_heap_delete(other_heap);
  }
}

/* ---- D09 ---- */

static void rounds(void) {
  size_t n = mi_test_scale(800, 4000), n_rounds = mi_test_scale(5, 20), second = 0, peak = 0;
  memset(block, 1, n * sizeof *block);
  size_t begin = behave_resident();
  for (size_t round = 1; round <= n_rounds; round++) {
    for (size_t i = 0; i < n; i++) {
      size_t size = i % 2 == 1 ? 128 * BEHAVE_KiB : 512;
      CHECK((block[i] = malloc(size)) != NULL);
      touch(block[i], size);
    }
    size_t now = behave_resident();
    if (now > peak) peak = now;
    if (round == 2) second = now;
    if (round > 2 && now > second * 115 / 100)
      FAIL("round %zu: peak %zu KiB, %zu KiB in round 2", round, now / 1024, second / 1024);
    for (size_t i = 0; i < n; i++) free(block[i]);
  }
  expect_resident(begin + peak * 15 / 100, "after the last round");
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } cases[] = {
    {"D01", give_back_idle}, {"D02", producer_and_consumer}, {"D04", pool}, {"D07", two_heaps},
    {"D09", rounds}};
  if (BEHAVE_SANITIZED) SKIP("a sanitizer keeps memory of its own");
  if (argc > 1) {
    behave_limit(120);
    block = mmap(NULL, MOST_BLOCKS * sizeof *block, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      if (strcmp(argv[1], cases[i].name) == 0) cases[i].run();
    return 0;
  }
#define DEFAULTS WITH("MIMALLOC_VERBOSE=0")
  run_with(DEFAULTS, "D01");
  run_with(WITH("MIMALLOC_PURGE_DELAY=0"), "D01");
  run_with(WITH("MIMALLOC_PURGE_DELAY=-1"), "D01");
  if (mi_test_size() != MI_TEST_SHORT) run_with(WITH("MIMALLOC_PURGE_DELAY=1000"), "D01");
  for (size_t i = 1; i < sizeof cases / sizeof *cases; i++) run_with(DEFAULTS, cases[i].name);
  return 0;
}
