/* SPDX-License-Identifier: MIT */
/* Heaps that many threads share: F04 heaps-across-many-threads; scenarios theap-sentinel (its
 * stress), abandoned-lazy, and the visits and metadata of new. */
#include "thread/heaps.h"
#include <mimalloc-stats.h>

/* ---- F04: a list of heaps under a mutex; each thread makes, uses and destroys ---- */

enum { MAX_SHARED = 64 };
static struct {
  pthread_rwlock_t lock; /* to use a heap: shared; to end one: exclusive */
  mi_heap_t *heaps[MAX_SHARED];
  size_t n;
} shared = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static void *step_about(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  for (int i = 0; i < 200; i++) {
    uint64_t what = behave_random(&random) % 10;
    if (what < 2) {
      pthread_rwlock_wrlock(&shared.lock);
      if (shared.n < MAX_SHARED) shared.heaps[shared.n++] = new_heap();
      pthread_rwlock_unlock(&shared.lock);
    } else if (what < 3) {
      mi_heap_t *heap = NULL;
      pthread_rwlock_wrlock(&shared.lock);
      if (shared.n > 0) {
        size_t k = behave_random(&random) % shared.n;
        heap = shared.heaps[k];
        shared.heaps[k] = shared.heaps[--shared.n];
      }
      pthread_rwlock_unlock(&shared.lock);
      if (heap != NULL) mi_heap_destroy(heap);
    } else {
      pthread_rwlock_rdlock(&shared.lock);
      if (shared.n > 0) {
        mi_heap_t *heap = shared.heaps[behave_random(&random) % shared.n];
        struct stamped *s = stamped_in(heap, behave_random(&random) % 9000, what);
        expect_heap(s, heap);
        verify(s);
        if (what == 9) free(s);
      }
      pthread_rwlock_unlock(&shared.lock);
    }
  }
  return NULL;
}
static void check_shared(void) {
  for (size_t round = 0; round < mi_test_scale(1, 5); round++) {
    pthread_t t[48];
    for (size_t i = 0; i < 48; i++) t[i] = start(step_about, (void *)(uintptr_t)(round * 100 + i));
    for (size_t i = 0; i < 48; i++) join(t[i]);
  }
  while (shared.n > 0) mi_heap_destroy(shared.heaps[--shared.n]);
}

/* ---- theap-sentinel ---- */

static void *make_and_destroy(void *arg) {
  (void)arg;
  mi_thread_set_in_threadpool();
  for (size_t i = 0; i < mi_test_scale(2000, 200000); i++) {
    mi_heap_t *heap = new_heap();
    char *p = mi_heap_malloc(heap, 65536);
    CHECK(p != NULL);
    p[0] = p[65535] = 1;
    mi_heap_destroy(heap);
  }
  return NULL;
}
static void check_sentinel(void) {
  pthread_t t[8];
  for (int i = 0; i < 8; i++) t[i] = start(make_and_destroy, NULL);
  for (int i = 0; i < 8; i++) join(t[i]);
}

/* ---- abandoned-lazy ---- */

static const size_t lazy_sizes[] = {40, 64, 512, 4096, 16000, 40000};
enum { N_LAZY = 8, N_EACH = 64 };
static mi_heap_t *lazy_heap; /* NULL: the main heap */
static struct stamped *lazy[N_LAZY][6][N_EACH];
static void *leave_lazy(void *arg) {
  size_t id = (size_t)(uintptr_t)arg;
  for (int s = 0; s < 6; s++) {
    for (size_t i = 0; i < N_EACH; i++)
      lazy[id][s][i] = stamped_in(lazy_heap == NULL ? mi_heap_main() : lazy_heap, lazy_sizes[s], id * 1000 + i);
  }
  return NULL;
}
static void check_lazy(bool user_heap) {
  for (size_t round = 0; round < mi_test_scale(4, 100); round++) {
    pthread_t t[N_LAZY];
    if (user_heap) lazy_heap = new_heap();
    for (size_t i = 0; i < N_LAZY; i++) t[i] = start(leave_lazy, (void *)(uintptr_t)i);
    for (int i = 0; i < N_LAZY; i++) join(t[i]);
    for (int k = 0; k < N_LAZY; k++) {
      for (int s = 0; s < 6; s++) {
        for (int i = 0; i < N_EACH; i++) {
          expect_heap(lazy[k][s][i], user_heap ? lazy_heap : mi_heap_main());
          if ((i + k) % 2 == 0) verify_and_free(lazy[k][s][i]);
        }
      }
    }
    /* Pages of those threads with room are taken over. */
    struct stamped *fresh = NULL;
    for (int i = 0; i < 2000; i++) {
      struct stamped *s = stamped_in(user_heap ? lazy_heap : mi_heap_main(), lazy_sizes[i % 4], 5);
      s->next = fresh;
      fresh = s;
    }
    for (int k = 0; k < N_LAZY; k++) {
      for (int s = 0; s < 6; s++) {
        for (int i = 0; i < N_EACH; i++) {
          if ((i + k) % 2 == 1) verify_and_free(lazy[k][s][i]);
        }
      }
    }
    free_list(fresh);
    if (user_heap) mi_heap_destroy(lazy_heap);
    lazy_heap = NULL;
  }
}

/* ---- which heaps there are ---- */

enum { N_MAKERS = 40, N_HEAPS = 5 };
static mi_heap_t *made[N_MAKERS][N_HEAPS];
static void *make_heaps(void *arg) {
  mi_heap_t **heaps = arg;
  for (int i = 0; i < N_HEAPS; i++) {
    __atomic_store_n(&heaps[i], new_heap(), __ATOMIC_RELAXED); /* a visit looks for it */
    CHECK(mi_heap_malloc(heaps[i], 100 * (size_t)(i + 1)) != NULL);
  }
  return NULL;
}
static size_t n_seen[N_MAKERS][N_HEAPS], n_main, n_others;
static size_t last_seq;
static bool quiet; /* no heap comes or goes: each may be asked for its number */
static bool see(mi_heap_t *heap, void *arg) {
  (void)arg;
  bool known = heap == mi_heap_main();
  size_t seq = quiet ? mi_heap_get_seq(heap) : 0;
  if (n_main == 0) CHECK(known && seq == 0);
  if (quiet && n_main > 0) {
    CHECK(seq > last_seq); /* in the order in which they were made */
    last_seq = seq;
  }
  n_main += known;
  for (int i = 0; i < N_MAKERS; i++) {
    for (int k = 0; k < N_HEAPS; k++) {
      if (__atomic_load_n(&made[i][k], __ATOMIC_RELAXED) != heap) continue;
      n_seen[i][k]++;
      known = true;
    }
  }
  n_others += !known;
  return true;
}
static void *destroy_heaps(void *arg) {
  mi_heap_t **heaps = arg;
  for (int i = 0; i < N_HEAPS; i++) mi_heap_destroy(heaps[i]);
  return NULL;
}
static void visit(void) {
  memset(n_seen, 0, sizeof n_seen);
  n_main = n_others = last_seq = 0;
  CHECK(mi_subproc_visit_heaps(mi_subproc_main(), see, NULL));
  CHECK(n_main == 1);
}
/* Others come and go behind them and between them. */
static _Atomic(bool) made_all;
static void *make_others(void *arg) {
  (void)arg;
  while (!made_all) {
    mi_heap_t *h[3];
    for (int i = 0; i < 3; i++) h[i] = new_heap();
    for (int i = 0; i < 3; i++) mi_heap_destroy(h[(i + 1) % 3]);
  }
  return NULL;
}
static void check_visits(void) {
  pthread_t t[N_MAKERS];
  for (int i = 0; i < N_MAKERS; i++) t[i] = start(make_heaps, made[i]);
  visit(); /* while they come */
  for (int i = 0; i < N_MAKERS; i++) join(t[i]);
  quiet = true;
  visit();
  quiet = false;
  CHECK(n_others == 0);
  for (int i = 0; i < N_MAKERS; i++) {
    for (int k = 0; k < N_HEAPS; k++) CHECK(n_seen[i][k] == 1);
  }
  pthread_t other = start(make_others, NULL);
  for (int i = 1; i < N_MAKERS; i += 2) t[i] = start(destroy_heaps, made[i]); /* by another thread */
  for (size_t round = 0; round < mi_test_scale(2000, 20000); round++) {
    visit();
    for (int i = 0; i < N_MAKERS; i += 2) { /* those that stay */
      for (int k = 0; k < N_HEAPS; k++)
        if (n_seen[i][k] != 1) FAIL("round %zu: a heap is seen %zu times", round, n_seen[i][k]);
    }
  }
  made_all = true;
  join(other);
  for (int i = 1; i < N_MAKERS; i += 2) join(t[i]);
  for (int i = 0; i < N_MAKERS; i += 2) in_thread(destroy_heaps, made[i]);
  memset(made, 0, sizeof made);
  visit();
  CHECK(n_others == 0);
}

/* What a thread leaves of its heaps: the main heap has hardly more pages. */
static bool count_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg) {
  (void)heap, (void)area, (void)block, (void)size;
  ++*(size_t *)arg;
  return true;
}
static size_t main_pages(void) {
  size_t n = 0;
  CHECK(mi_heap_visit_blocks(mi_heap_main(), false, count_area, &n));
  return n;
}
static void *six_heaps(void *arg) {
  (void)arg;
  mi_heap_t *heaps[6];
  for (int i = 0; i < 6; i++) {
    heaps[i] = new_heap();
    for (int k = 0; k < 50; k++) CHECK(mi_heap_malloc(heaps[i], 40 + (size_t)k) != NULL);
  }
  for (int i = 0; i < 6; i++) mi_heap_destroy(heaps[i]);
  return NULL;
}
static void check_metadata(void) {
  pthread_t t[32];
  size_t before = main_pages();
  for (int i = 0; i < 32; i++) t[i] = start(six_heaps, NULL);
  for (int i = 0; i < 32; i++) join(t[i]);
  mi_collect(true);
  size_t after = main_pages();
  if (after > before + 8) FAIL("%zu pages in the main heap, %zu before", after, before);
}

int main(void) {
  behave_limit(280);
  check_shared();
  check_sentinel();
  check_lazy(true);
  check_lazy(false);
  check_visits();
  check_metadata();
  return 0;
}
