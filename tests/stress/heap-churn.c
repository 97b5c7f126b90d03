/* SPDX-License-Identifier: MIT */
/* Many threads, each with heaps of its own: scenarios churn, release-mt (without parks) and the
 * stress of new. Every byte is verified; blocks are freed by others; heaps are destroyed, deleted and
 * kept; what is left in the end is verified once more. */
#include "thread/heaps.h"
#include <mimalloc-stats.h>

enum { MAX_THREADS = 76, N_BOXES = 32 };
static struct mailbox boxes[N_BOXES]; /* blocks of heaps that are not destroyed: anybody frees them */
static _Atomic(size_t) n_made, n_destroyed, n_deleted;

static size_t pick(uint64_t *random, size_t n) { return behave_random(random) % n; }

/* ---- churn ---- */

struct job_heap {
  mi_heap_t *heap;
  struct stamped *all; /* blocks that stay */
};
static void keep(struct job_heap *h, struct stamped *s) {
  expect_heap(s, h->heap);
  s->next = h->all;
  h->all = s;
}
static void populate(struct job_heap *h, uint64_t *random, uint64_t tag) {
  for (size_t i = 0; i < 400; i++) keep(h, stamped_in(h->heap, 40 + pick(random, 472), tag));
  for (size_t i = 0; i < 20; i++) keep(h, stamped_in(h->heap, 1000 + pick(random, 7000), tag));
  for (size_t i = 0; i < 3; i++) keep(h, stamped_in(h->heap, 16384, tag));
  for (size_t i = 0; i < 1 + pick(random, 2); i++) keep(h, stamped_in(h->heap, 65536 + pick(random, 458752), tag));
}
/* Some grow, some shrink, some are freed here. */
static void shake(struct job_heap *h, uint64_t *random) {
  struct stamped *all = h->all;
  h->all = NULL;
  for (struct stamped *s = all, *next; s != NULL; s = next) {
    next = s->next;
    verify(s);
    size_t what = pick(random, 8);
    if (what == 0) {
      free(s);
      continue;
    }
    if (what == 1) {
      size_t size = sizeof *s + 8 + pick(random, 2 * s->size);
      uint64_t tag = s->tag;
      s = pick(random, 2) ? mi_heap_realloc(h->heap, s, size) : mi_heap_rezalloc(h->heap, s, size);
      CHECK(s != NULL);
      stamp(s, size, tag);
    }
    s->next = h->all;
    h->all = s;
  }
}
static void verify_all(const struct job_heap *h) {
  for (const struct stamped *s = h->all; s != NULL; s = s->next) {
    verify(s);
    expect_heap(s, h->heap);
  }
}
/* The heap goes, its blocks stay: some other thread frees them. */
static void delete_and_post(struct job_heap *h, uint64_t *random) {
  mi_heap_delete(h->heap);
  n_deleted++;
  for (struct stamped *s = h->all, *next; s != NULL; s = next) {
    next = s->next;
    verify(s);
    CHECK(mi_heap_of(s) == mi_heap_main());
    post(&boxes[pick(random, N_BOXES)], s);
  }
}
static void *churn(void *arg) {
  uint64_t random = 1000 + (uint64_t)(uintptr_t)arg;
  for (size_t i = 0; i < mi_test_scale(4, 100); i++) {
    struct job_heap heaps[3];
    for (int k = 0; k < 3; k++) {
      heaps[k] = (struct job_heap){new_heap(), NULL};
      n_made++;
      populate(&heaps[k], &random, behave_random(&random));
    }
    for (int k = 0; k < 3; k++) shake(&heaps[k], &random);
    free_list(fetch_all(&boxes[pick(&random, N_BOXES)]));
    for (int k = 0; k < 3; k++) verify_all(&heaps[k]);
    for (int k = 0; k < 3; k++) {
      if (k == 0 && pick(&random, 4) == 0) {
        delete_and_post(&heaps[k], &random);
      } else {
        mi_heap_destroy(heaps[k].heap);
        n_destroyed++;
      }
    }
  }
  return NULL;
}

/* ---- heaps of one use, by threads that come and go ---- */

static const size_t mt_sizes[] = {8, 16, 40, 64, 128, 300, 700, 1500, 4000, 9000, 20000, 50000, 120000, 200000};
static struct { /* heaps that wait for their end by another thread */
  pthread_mutex_t mutex;
  mi_heap_t *heaps[64];
  size_t n;
} ends = {.mutex = PTHREAD_MUTEX_INITIALIZER};
static mi_heap_t *exchange_heap(mi_heap_t *heap, uint64_t *random) {
  pthread_mutex_lock(&ends.mutex);
  mi_heap_t *other = heap;
  if (ends.n < 64) {
    ends.heaps[ends.n++] = heap;
    other = NULL;
  } else {
    mi_heap_t **place = &ends.heaps[pick(random, 64)];
    other = *place;
    *place = heap;
  }
  pthread_mutex_unlock(&ends.mutex);
  return other;
}
static void *short_life(void *arg) {
  uint64_t random = (uint64_t)(uintptr_t)arg;
  mi_heap_t *heap = new_heap();
  n_made++;
  for (int i = 0; i < 60; i++) {
    size_t size = mt_sizes[pick(&random, 14)];
    struct stamped *s = stamped_in(heap, size, behave_random(&random));
    if (i % 3 == 0) verify_and_free(s);
  }
  /* Its end comes by another thread, when this one may be gone. */
  mi_heap_t *other = exchange_heap(heap, &random);
  if (other != NULL) {
    if (pick(&random, 2)) mi_heap_destroy(other), n_destroyed++;
    else mi_heap_delete(other), n_deleted++;
  }
  return NULL;
}
static void *spawn(void *arg) {
  uint64_t random = 77 + (uint64_t)(uintptr_t)arg;
  for (size_t i = 0; i < mi_test_scale(30, 600); i++) {
    pthread_t t[3];
    for (int k = 0; k < 3; k++) t[k] = start(short_life, (void *)(uintptr_t)behave_random(&random));
    for (int k = 0; k < 3; k++) join(t[k]);
  }
  return NULL;
}
static _Atomic(bool) stopped;
static void *free_posted(void *arg) {
  uint64_t random = 99 + (uint64_t)(uintptr_t)arg;
  while (!stopped) {
    struct stamped *s = fetch_all(&boxes[pick(&random, N_BOXES)]);
    if (s == NULL) behave_sleep_ms(1);
    free_list(s);
  }
  return NULL;
}

/* ---- the stress of new ---- */

static void *many_heaps(void *arg) {
  uint64_t random = 5 + (uint64_t)(uintptr_t)arg;
  for (size_t i = 0; i < mi_test_scale(40, 400); i++) {
    mi_heap_t *heap = new_heap();
    n_made++;
    size_t n = pick(&random, 250), bytes = 0;
    struct stamped *all = NULL;
    for (size_t k = 0; k < n && bytes < 1500000; k++) {
      size_t size = behave_random_size(&random, 40, 100000), align = (size_t)16 << pick(&random, 9);
      uint64_t tag = behave_random(&random);
      char *p = k % 3 == 0   ? mi_heap_zalloc(heap, size)
                : k % 3 == 1 ? mi_heap_malloc_aligned(heap, size, align)
                             : mi_heap_malloc(heap, size);
      CHECK(p != NULL && mi_heap_of(p) == heap);
      if (k % 3 == 0) CHECK(behave_is_zero(p, size));
      if (k % 3 == 1) CHECK((uintptr_t)p % align == 0);
      bytes += size;
      struct stamped *s = stamp(p, size, tag);
      s->next = all;
      all = s;
      if (k % 5 == 4) {
        all = s->next;
        verify_and_free(s);
      }
    }
    for (struct stamped *s = all; s != NULL; s = s->next) verify(s);
    size_t end = pick(&random, 10);
    if (end < 8) {
      mi_heap_destroy(heap);
      n_destroyed++;
    } else {
      if (end == 8) mi_heap_delete(heap), n_deleted++; /* else it is kept */
      while (all != NULL) {
        struct stamped *next = all->next;
        post(&boxes[pick(&random, N_BOXES)], all);
        all = next;
      }
    }
  }
  return NULL;
}

static bool count_heap(mi_heap_t *heap, void *arg) {
  (void)heap;
  ++*(size_t *)arg;
  return true;
}

int main(void) {
  behave_limit(280);
  mi_option_set(mi_option_show_errors, 1); /* none is expected: a message tells more than the end */
  for (int i = 0; i < N_BOXES; i++) pthread_mutex_init(&boxes[i].mutex, NULL);
  pthread_t t[MAX_THREADS], freers[4];
  size_t n_churn = mi_test_scale(12, 64), n = 0;
  for (size_t i = 0; i < 4; i++) freers[i] = start(free_posted, (void *)(uintptr_t)i);
  for (size_t i = 0; i < n_churn; i++) t[n++] = start(churn, (void *)(uintptr_t)i);
  for (size_t i = 0; i < 4; i++) t[n++] = start(spawn, (void *)(uintptr_t)i);
  for (size_t i = 0; i < 8; i++) t[n++] = start(many_heaps, (void *)(uintptr_t)i);
  for (size_t i = 0; i < n; i++) join(t[i]);
  stopped = true;
  for (size_t i = 0; i < 4; i++) join(freers[i]);
  for (int i = 0; i < N_BOXES; i++) free_list(fetch_all(&boxes[i]));
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats) && stats.heaps.total == 1 + (int64_t)n_made);
  size_t n_heaps = 0;
  CHECK(mi_subproc_visit_heaps(mi_subproc_main(), count_heap, &n_heaps));
  if (n_heaps != 1 + n_made - n_destroyed - n_deleted)
    FAIL("%zu heaps are left of %zu made, %zu destroyed, %zu deleted", n_heaps, n_made, n_destroyed, n_deleted);
  return 0;
}
