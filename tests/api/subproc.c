/* SPDX-License-Identifier: MIT */
/* Sub-processes: memory of one never serves another; threads join one; its end takes all with it;
 * bad input. */
#include "thread/behave.h"
#include <pthread.h>
#include <semaphore.h>

static int n_errors;
static void count_error(int err, void *arg) {
  (void)arg;
  n_errors += err == EINVAL;
}
static bool is(mi_subproc_id_t a, mi_subproc_id_t b) { return a._mi_subproc == b._mi_subproc; }
static void in_thread(void *(*act)(void *), void *arg) {
  pthread_t t;
  CHECK(pthread_create(&t, NULL, act, arg) == 0);
  CHECK(pthread_join(t, NULL) == 0);
}

enum { MAX_HEAPS = 64 };
struct seen {
  int n;
  mi_heap_t *heaps[MAX_HEAPS];
};
static bool see(mi_heap_t *heap, void *arg) {
  struct seen *seen = arg;
  CHECK(seen->n < MAX_HEAPS);
  seen->heaps[seen->n++] = heap;
  return true;
}
static struct seen heaps_of(mi_subproc_id_t id) {
  struct seen seen = {0};
  CHECK(mi_subproc_visit_heaps(id, see, &seen));
  return seen;
}
static bool has(const struct seen *seen, const mi_heap_t *heap) {
  int n = 0;
  for (int i = 0; i < seen->n; i++) n += seen->heaps[i] == heap;
  return n == 1;
}
static bool stop(mi_heap_t *heap, void *arg) {
  (void)heap;
  return ++*(int *)arg < 2;
}

/* What a thread of a sub-process allocates, by any form, is in one of its heaps. */
static const size_t sizes[] = {8, 100, 5000, 50000, 400000, 700000, 5 << 20};
enum { N_SIZES = 7, N_EACH = 40 };
struct work {
  mi_subproc_id_t id;
  mi_heap_t *main, *extra;
  void *blocks[N_SIZES][N_EACH];
  uint64_t tag;
};
static void *allocate(void *arg) {
  struct work *w = arg;
  void *before = malloc(100); /* of the main one */
  CHECK(is(mi_subproc_current(), mi_subproc_main()));
  mi_subproc_add_current_thread(w->id);
  CHECK(is(mi_subproc_current(), w->id));
  CHECK(mi_heap_of(before) != mi_heap_main() && mi_heap_main() != NULL);
  w->main = mi_heap_main();
  free(before);
  w->extra = mi_heap_new();
  for (int s = 0; s < N_SIZES; s++) {
    for (int i = 0; i < (sizes[s] > 100000 ? 3 : N_EACH); i++) {
      void *p = i % 4 == 0   ? mi_heap_malloc(w->extra, sizes[s])
                : i % 4 == 1 ? malloc(sizes[s])
                : i % 4 == 2 ? mi_malloc_aligned(sizes[s], 256)
                             : calloc(1, sizes[s]);
      CHECK(p != NULL && mi_heap_of(p) == (i % 4 == 0 ? w->extra : w->main));
      behave_fill(p, sizes[s], w->tag);
      w->blocks[s][i] = p;
    }
  }
  void *p = malloc(16 << 20); /* freed again: its memory serves this one only */
  CHECK(mi_heap_of(p) == w->main);
  free(p);
  return NULL;
}
static void verify(const struct work *w) {
  for (int s = 0; s < N_SIZES; s++) {
    for (int i = 0; i < N_EACH && w->blocks[s][i] != NULL; i++) {
      CHECK(behave_verify(w->blocks[s][i], sizes[s], w->tag) == sizes[s]);
    }
  }
}
/* Any thread may free its blocks; their memory does not come to those of another. */
static int free_from; /* each second block from this one on */
static void *free_some(void *arg) {
  struct work *w = arg;
  for (int s = 0; s < N_SIZES; s++) {
    for (int i = free_from; i < N_EACH && w->blocks[s][i] != NULL; i += 2) {
      free(w->blocks[s][i]);
      void *volatile p = malloc(sizes[s]);
      if (p == NULL || p == w->blocks[s][i] || mi_heap_of(p) != mi_heap_main())
        FAIL("%zu bytes: %p of heap %p, after %p", sizes[s], p, (void *)mi_heap_of(p), w->blocks[s][i]);
      free(p);
    }
  }
  free_from ^= 1;
  return NULL;
}

static struct work works[2];

static void check_apart(void) {
  for (int k = 0; k < 2; k++) {
    works[k].id = mi_subproc_new();
    works[k].tag = (uint64_t)k + 1;
    CHECK(works[k].id._mi_subproc != NULL && !is(works[k].id, mi_subproc_main()));
    struct seen seen = heaps_of(works[k].id);
    CHECK(seen.n == 1 && seen.heaps[0] != mi_heap_main());
    in_thread(allocate, &works[k]);
    CHECK(seen.heaps[0] == works[k].main);
    seen = heaps_of(works[k].id);
    CHECK(seen.n == 2 && has(&seen, works[k].main) && has(&seen, works[k].extra));
  }
  CHECK(!is(works[0].id, works[1].id) && works[0].main != works[1].main);
  struct seen seen = heaps_of(mi_subproc_main());
  for (int k = 0; k < 2; k++) CHECK(!has(&seen, works[k].main) && !has(&seen, works[k].extra));
  CHECK(has(&seen, mi_heap_main()));

  /* Slices of one are no slices of another: what lies between two of its blocks, either. */
  void *p[64];
  for (int i = 0; i < 64; i++) {
    p[i] = malloc(i % 2 == 0 ? 1 << 20 : 60000);
    CHECK(mi_heap_of(p[i]) == mi_heap_main());
    memset(p[i], 0xff, 60000);
  }
  for (int k = 0; k < 2; k++) verify(&works[k]);
  for (int i = 0; i < 64; i++) free(p[i]);

  /* A heap of a sub-process may be used and ended by a thread of another: live blocks go to the
   * main heap of theirs. */
  void *q = mi_heap_malloc(works[0].extra, 3000), *huge = mi_heap_malloc(works[0].extra, 9 << 20);
  CHECK(mi_heap_of(q) == works[0].extra && mi_heap_of(huge) == works[0].extra);
  mi_heap_delete(works[0].extra);
  CHECK(mi_heap_of(q) == works[0].main && mi_heap_of(huge) == works[0].main);
  verify(&works[0]);
  free(q);
  free(huge);
  CHECK(heaps_of(works[0].id).n == 1);
  for (int k = 0; k < 2; k++) {
    free_some(&works[k]);
    in_thread(free_some, &works[k]);
    mi_subproc_destroy(works[k].id);
    CHECK(mi_heap_of(works[k].blocks[0][0]) == NULL);
  }
}

/* The default theap's heap is ended by another thread: what the thread gets then is still its
 * sub-process's, huge blocks too. The other thread is there before: what the C library allocates to
 * make one must not be in the heap that goes. */
static sem_t heap_is_there, heap_is_gone;
static mi_heap_t *doomed;
static void *destroy_doomed(void *arg) {
  (void)arg;
  for (int i = 0; i < 4; i++) {
    while (sem_wait(&heap_is_there) != 0) {}
    mi_heap_destroy(doomed);
    sem_post(&heap_is_gone);
  }
  return NULL;
}
static void *lose_default(void *arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t *)arg);
  static const size_t firsts[] = {3 << 20, 100};
  pthread_t destroyer;
  CHECK(sem_init(&heap_is_there, 0, 0) == 0 && sem_init(&heap_is_gone, 0, 0) == 0);
  CHECK(pthread_create(&destroyer, NULL, destroy_doomed, NULL) == 0);
  for (int i = 0; i < 4; i++) {
    mi_heap_t *heap = mi_heap_new();
    mi_theap_set_default(mi_heap_theap(heap));
    void *p = malloc(50);
    CHECK(mi_heap_of(p) == heap);
    doomed = heap;
    sem_post(&heap_is_there);
    while (sem_wait(&heap_is_gone) != 0) {}
    p = i < 2 ? malloc(firsts[i]) : mi_malloc_aligned(firsts[i - 2], 1 << 20);
    CHECK(p != NULL && mi_heap_of(p) == mi_heap_main());
    free(p);
  }
  CHECK(pthread_join(destroyer, NULL) == 0);
  return NULL;
}

/* Theaps that a thread had before it joined are its theaps afterwards. */
static void *join_with_theaps(void *arg) {
  mi_heap_t *heap = mi_heap_new();
  mi_theap_t *theap = mi_heap_theap(heap);
  void *p = mi_heap_malloc(heap, 100);
  mi_theap_set_default(theap);
  mi_subproc_add_current_thread(*(mi_subproc_id_t *)arg);
  CHECK(mi_heap_theap(heap) == theap);
  void *q = mi_heap_malloc(heap, 100);
  CHECK(mi_heap_of(p) == heap && mi_heap_of(q) == heap);
  mi_theap_set_default(NULL);
  void *r = malloc(100);
  CHECK(mi_heap_of(r) == mi_heap_main());
  free(r);
  mi_heap_delete(heap); /* of the main sub-process: there they go */
  CHECK(mi_heap_of(p) != mi_heap_main() && mi_heap_of(p) == mi_heap_of(q));
  free(p);
  free(q);
  return NULL;
}

static pthread_barrier_t barrier;
static void *stay(void *arg) {
  mi_subproc_add_current_thread(*(mi_subproc_id_t *)arg);
  n_errors = 0;
  mi_subproc_destroy(*(mi_subproc_id_t *)arg); /* its own: refused */
  CHECK(n_errors == 1);
  mi_subproc_id_t other = mi_subproc_new();
  mi_subproc_add_current_thread(other); /* it is in one already */
  CHECK(n_errors == 2 && is(mi_subproc_current(), *(mi_subproc_id_t *)arg));
  mi_subproc_destroy(other);
  CHECK(n_errors == 2);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

static void check_bad_input(void) {
  mi_subproc_id_t none = {NULL};
  n_errors = 0;
  mi_subproc_destroy(none);
  mi_subproc_add_current_thread(none);
  CHECK(is(mi_subproc_current(), mi_subproc_main()));
  CHECK(!mi_subproc_visit_heaps(none, see, NULL) && !mi_subproc_visit_heaps(mi_subproc_main(), NULL, NULL));
  CHECK(n_errors == 0);
  mi_subproc_destroy(mi_subproc_main());
  CHECK(n_errors == 1 && heaps_of(mi_subproc_main()).n >= 1);

  mi_subproc_id_t id = mi_subproc_new();
  pthread_t t;
  pthread_barrier_init(&barrier, NULL, 2);
  CHECK(pthread_create(&t, NULL, stay, &id) == 0);
  pthread_barrier_wait(&barrier);
  n_errors = 0;
  mi_subproc_destroy(id); /* a thread is in it */
  CHECK(n_errors == 1 && heaps_of(id).n == 1);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_join(t, NULL) == 0);
  mi_heap_t *main_of_it = heaps_of(id).heaps[0];
  mi_heap_destroy(main_of_it); /* stays */
  CHECK(n_errors == 2);
  int n = 0;
  CHECK(!mi_subproc_visit_heaps(mi_subproc_main(), stop, &n) || n == 1);
  mi_subproc_destroy(id);
  CHECK(n_errors == 2);
  mi_subproc_destroy(id); /* again */
  CHECK(n_errors == 3);
  mi_subproc_add_current_thread(id); /* there is none */
  CHECK(n_errors == 4 && is(mi_subproc_current(), mi_subproc_main()));
  CHECK(heaps_of(id).n == 0);
  free(malloc(100));
}

/* Made and destroyed: nothing piles up. */
static void check_many(void) {
  size_t resident = 0, space = 0;
  size_t n = mi_test_scale(200, 2000);
  for (size_t i = 0; i < n; i++) {
    static struct work w;
    memset(&w, 0, sizeof w);
    w.id = mi_subproc_new();
    CHECK(w.id._mi_subproc != NULL);
    if (i % 16 == 0) in_thread(allocate, &w);
    if (i % 4 == 1) CHECK(mi_heap_malloc(heaps_of(w.id).heaps[0], 100) != NULL);
    mi_subproc_destroy(w.id);
    if (i == n / 2) {
      resident = behave_resident();
      space = behave_virtual();
    }
  }
  if (BEHAVE_SANITIZED) return;
  if (behave_resident() > resident + 2 * BEHAVE_MiB) FAIL("%zu KiB more are resident", (behave_resident() - resident) / 1024);
  if (behave_virtual() > space + 64 * BEHAVE_MiB) FAIL("%zu MiB more are mapped", (behave_virtual() - space) >> 20);
}

int main(void) {
  behave_limit(100);
  mi_option_set(mi_option_show_errors, 0);
  mi_register_error(count_error, NULL);
  free(malloc(1));
  check_apart();
  mi_subproc_id_t id = mi_subproc_new();
  in_thread(lose_default, &id);
  in_thread(join_with_theaps, &id);
  mi_subproc_destroy(id);
  check_bad_input();
  check_many();
  return 0;
}
