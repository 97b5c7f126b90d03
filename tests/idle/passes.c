/* SPDX-License-Identifier: MIT */
/* Passes and what happens beside them: a forced purge waits for the pass in progress and then runs
 * its own; what is freed during or behind a pass goes in a later one, in the same arena or another,
 * and in a forked child, with nobody calling the allocator. Waiting is by reading counters only:
 * a park or a collect would purge too, and hide the fault. */
#include "idle/idle.h"

enum { BLOCK = 8 * 1024 * 1024, MOST = 64 };
static void *block[MOST];
/* What a pass has to do: long enough for something to happen beside it. */
static size_t n_in_pass(void) { return mi_test_scale(12, 32); }

static void take(size_t n, mi_heap_t *heap, void **to) {
  for (size_t i = 0; i < n; i++) {
    if ((to[i] = mi_heap_malloc(heap, BLOCK)) == NULL) FAIL("no memory for block %zu", i);
    touch(to[i], BLOCK);
  }
}
static void give(size_t n, void **from) {
  for (size_t i = 0; i < n; i++) free(from[i]);
}
/* A pass makes what is young old; the next one purges it. Wait until one of them has begun. Where the first came so late
 * that it purged all `freed` bytes, there is no second. */
static void wait_pass(bool purges, size_t before, size_t passes, size_t n_arenas, size_t freed) {
  uint64_t end = now_ms() + MI_TEST_PATIENCE_MS;
  while (purges ? purged() == before : arena_passes() < passes + n_arenas) {
    if (now_ms() > end) FAIL("no pass began");
  }
  while (purges && arena_passes() < passes + 2 * n_arenas && purged() < before + freed) {
    if (now_ms() > end) FAIL("no second pass, and not all was purged");
  }
}
static bool wait_purged_spinning(size_t total) {
  for (uint64_t end = now_ms() + MI_TEST_PATIENCE_MS; purged() < total;) {
    if (now_ms() > end) return purged() >= total;
  }
  return true;
}

/* A forced collect while the background thread is in its pass. */
static void check_forced(void) {
  const uint64_t MOST_NS = BEHAVE_SANITIZED ? UINT64_MAX : 1000000000;
  size_t n = BEHAVE_SANITIZED ? 16 : mi_test_scale(16, 48), rounds = mi_test_scale(2, 4);
  uint64_t best = UINT64_MAX;
  /* More rounds than asked for where the machine had other things to do in each of them. */
  for (size_t round = 0; round < rounds || (best > MOST_NS && round < 4 * rounds); round++) {
    take(n, mi_heap_main(), block);
    size_t before = purged_at_rest(), passes = arena_passes();
    give(n, block);
    wait_pass(true, before, passes, 1, n * (size_t)BLOCK);
    uint64_t begin = behave_now_ns();
    mi_collect(true);
    uint64_t took = behave_now_ns() - begin;
    if (took < best) best = took;
    size_t back = purged() - before;
    if (back < n * BLOCK) FAIL("round %zu: %zu of %zu MiB are back on return", round, back >> 20, n * 8);
  }
  if (best > MOST_NS)
    FAIL("the quickest of %zu forced collects took %llu ms", rounds, (unsigned long long)best / 1000000);
}

static void check_behind(void) {
  size_t n = n_in_pass(), all = n + n / 4;
  for (size_t round = 0; round < 2; round++) {
    take(all, mi_heap_main(), block);
    size_t before = purged_at_rest(), passes = arena_passes();
    give(n, block);
    wait_pass(round % 2 == 0, before, passes, 1, n * (size_t)BLOCK);
    give(all - n, block + n);
    if (!wait_purged_spinning(before + all * (size_t)BLOCK)) {
      FAIL("round %zu: only %zu of %zu MiB went", round, (purged() - before) >> 20, all * BLOCK >> 20);
    }
  }
}

static mi_heap_t *heap_of_own_arena(size_t size) {
  mi_arena_id_t arena;
  if (mi_reserve_os_memory_ex(size, false, false, true, &arena) != 0) FAIL("no memory for an arena");
  mi_heap_t *heap = mi_heap_new_in_arena(arena);
  if (heap == NULL) FAIL("no heap in an arena");
  return heap;
}

static void check_two_arenas(bool purges) {
  static mi_heap_t *heap;
  static void *other[MOST];
  size_t n = n_in_pass() / 2;
  if (heap == NULL) heap = heap_of_own_arena(2 * (n + 2) * (size_t)BLOCK);
  take(n + 1, mi_heap_main(), block);
  take(n, heap, other);
  size_t before = purged_at_rest(), passes = arena_passes();
  give(n, block);
  give(n, other);
  wait_pass(purges, before, passes, 2, 2 * n * (size_t)BLOCK); /* in the second arena */
  free(block[n]);
  if (!wait_purged_spinning(before + (2 * n + 1) * (size_t)BLOCK))
    FAIL("only %zu of %zu MiB went", (purged() - before) >> 20, (2 * n + 1) * BLOCK >> 20);
}

/* Fork in a pass: the child purges the arena that the pass had not come to. False: the pass was over before the fork. */
static bool fork_in_pass(bool purges) {
  mi_heap_t *heap = heap_of_own_arena(32 * BEHAVE_MiB);
  void *one;
  take(1, heap, &one);
  size_t n = n_in_pass();
  take(n, mi_heap_main(), block);
  size_t before = purged_at_rest(), passes = arena_passes();
  unsigned delay = (unsigned)mi_option_get(mi_option_purge_delay);
  give(n, block);
  behave_sleep_ms(delay / 2);
  free(one);
  wait_pass(purges, before, passes, 1, n * (size_t)BLOCK);
  int in_time[2];
  CHECK(pipe(in_time) == 0);
  pid_t pid = fork_for(20);
  if (pid == 0) {
    size_t at_fork = purged();
    if (at_fork >= before + (n + 1) * (size_t)BLOCK) _exit(0);
    CHECK(write(in_time[1], "", 1) == 1);
    for (uint64_t end = now_ms() + MI_TEST_PATIENCE_MS; purged() == at_fork;) {
      if (now_ms() > end) FAIL("the child gives nothing back");
      mi_heap_collect(heap, false);
      behave_sleep_ms(1);
    }
    _exit(0);
  }
  close(in_time[1]);
  expect_exit(pid, "fork in a pass");
  char byte;
  bool was = read(in_time[0], &byte, 1) == 1;
  close(in_time[0]);
  mi_heap_delete(heap);
  return was;
}
static void check_fork(bool purges) {
  for (int attempt = 0; attempt < 5; attempt++) {
    if (fork_in_pass(purges)) return;
  }
  behave_say("fork in a pass: the passes were over before, five times");
}

/* The pattern that could leave an arena unarmed for good: many threads that free whole blocks beside
 * forced and other passes, and then stop. All that they freed must go. */
static atomic_bool stop_churn;
static void *churn(void *arg) {
  uint64_t rng = behave_seed() ^ (uintptr_t)arg;
  void *held[8] = {0};
  while (!stop_churn) {
    size_t i = behave_random(&rng) % 8;
    free(held[i]);
    size_t size = behave_random_size(&rng, BEHAVE_MiB, 8 * BEHAVE_MiB);
    held[i] = malloc(size);
    if (held[i] != NULL) ((char *)held[i])[0] = 1;
    if (behave_random(&rng) % 64 == 0) mi_collect(behave_random(&rng) % 4 == 0);
  }
  for (int i = 0; i < 8; i++) free(held[i]);
  return NULL;
}
static void check_churn(void) {
  for (size_t round = 0; round < mi_test_scale(2, 3); round++) {
    int64_t base;
    mi_collect(true);
    base = committed();
    stop_churn = false;
    pthread_t t[4];
    for (uintptr_t i = 0; i < 4; i++) t[i] = start(churn, (void *)(i + 1));
    behave_sleep_ms((unsigned)mi_test_scale(200, 400));
    stop_churn = true;
    for (int i = 0; i < 4; i++) join(t[i]);
    int64_t now = 0;
    for (uint64_t end = now_ms() + MI_TEST_PATIENCE_MS; now_ms() < end; behave_sleep_ms(5)) {
      if ((now = committed()) <= base + 2 * (int64_t)BEHAVE_MiB) break;
    }
    if (now > base + 2 * (int64_t)BEHAVE_MiB)
      FAIL("round %zu: %lld KiB stay", round, (long long)(now - base) / 1024);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) {
    behave_limit(120);
    idle_skip_without_parks(); /* and so the background thread is there */
    if (strcmp(argv[1], "forced") == 0) check_forced();
    if (strcmp(argv[1], "behind") == 0) check_behind();
    if (strcmp(argv[1], "arenas") == 0) for (int i = 0; i < 4; i++) check_two_arenas(i % 2 == 0);
    if (strcmp(argv[1], "fork") == 0) for (int i = 0; i < 2; i++) check_fork(i % 2 == 0);
    if (strcmp(argv[1], "churn") == 0) check_churn();
    return 0;
  }
  run_with(WITH("MIMALLOC_MINIMAL_PURGE_SIZE=4K"), "forced");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "behind");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "arenas");
  if (!mi_test_under("thread")) run_with(WITH("MIMALLOC_VERBOSE=0"), "fork");
  run_with(WITH("MIMALLOC_VERBOSE=0"), "churn");
  if (mi_test_size() == MI_TEST_SHORT) return 0;
  run_with(WITH("MIMALLOC_PURGE_DELAY=10"), "behind");
  run_with(WITH("MIMALLOC_PURGE_DELAY=1000"), "behind");
  run_with(WITH("MIMALLOC_PURGE_DELAY=10"), "churn");
  run_with(WITH("MIMALLOC_PURGE_DELAY=1000"), "churn");
  return 0;
}
