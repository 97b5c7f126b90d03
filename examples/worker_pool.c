/* SPDX-License-Identifier: MIT */
/* worker_pool - a pool of threads that gives its memory back while it has nothing to do.
 *
 *     cc -O2 -pthread worker_pool.c $(pkg-config --cflags --libs mimalloc) -o worker_pool
 *     ./worker_pool [WORKERS]
 *
 * A pool as JavaScript engines have one for their compiler threads: jobs come in bursts, each needs some megabytes for a
 * moment, and then there may be nothing to do for minutes. A worker that finds no task waits for 100 ms; most waits end
 * there, and cost nothing more than a wait. Then it tells the allocator that it is idle, which gives back what this thread
 * has free, and waits on. After 10 s it ends; the next burst starts new workers.
 *
 * What to copy is wait_for_task(): where mi_on_thread_idle() stands, that no lock is held there, and that the queue is
 * looked at again afterwards. */
#include <mimalloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the pool ---- */

struct task {
  void (*run)(void *arg);
  void *arg;
  struct task *next;
};

struct worker {
  pthread_t thread;
  struct pool *pool;
  bool made;  /* there is a thread, to be joined when it has ended */
  bool lives; /* it has not ended */
};

struct pool {
  pthread_mutex_t lock; /* guards all that follows, and is never held while a task or the allocator's release runs */
  pthread_cond_t work;  /* there is a task, or the pool closes */
  pthread_cond_t done;  /* n_done has reached n_added */
  struct task *first, **last;
  unsigned long n_added, n_taken, n_done; /* tasks; in the end all three are the same */
  unsigned long n_releases;               /* how often a worker gave its memory back */
  unsigned n_workers, n_live, n_idle;     /* room for workers; how many live; how many of them wait for a task */
  long release_ms, timeout_ms;            /* of one wait; release_ms < 0: memory is kept */
  bool closed;
  struct worker *workers;
};

static struct timespec after_ms(struct timespec from, long ms) {
  from.tv_sec += ms / 1000;
  from.tv_nsec += ms % 1000 * 1000000;
  if (from.tv_nsec >= 1000000000) from.tv_sec++, from.tv_nsec -= 1000000000;
  return from;
}

static bool has_reason_to_wake(const struct pool *pool) { return pool->first != NULL || pool->closed; }

/* With the lock held. Returns at that time at the latest. */
static void wait_until(struct pool *pool, struct timespec end) {
  while (!has_reason_to_wake(pool) && pthread_cond_timedwait(&pool->work, &pool->lock, &end) == 0) continue;
}

/* With the lock held. False: nothing came for timeout_ms. */
static bool wait_for_task(struct pool *pool) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  pool->n_idle++;
  if (pool->release_ms >= 0 && pool->release_ms < pool->timeout_ms) {
    wait_until(pool, after_ms(start, pool->release_ms));
    if (!has_reason_to_wake(pool)) {
      /* Milliseconds, in which others must be able to add tasks: so without the lock. Nobody wakes us here; a task that is
       * added meanwhile is seen in the queue when we have the lock again, before we sleep. */
      pool->n_releases++;
      pthread_mutex_unlock(&pool->lock);
      mi_on_thread_idle();
      pthread_mutex_lock(&pool->lock);
    }
  }
  wait_until(pool, after_ms(start, pool->timeout_ms));
  pool->n_idle--;
  return has_reason_to_wake(pool);
}

static struct task *take(struct pool *pool) {
  struct task *task = pool->first;
  pool->first = task->next;
  if (pool->first == NULL) pool->last = &pool->first;
  pool->n_taken++;
  return task;
}

static void *work(void *arg) {
  struct worker *self = arg;
  struct pool *pool = self->pool;
  pthread_mutex_lock(&pool->lock);
  while (pool->first != NULL || (!pool->closed && wait_for_task(pool))) {
    if (pool->first == NULL) continue; /* another worker was faster, or the pool closes */
    struct task *task = take(pool);
    pthread_mutex_unlock(&pool->lock);
    task->run(task->arg);
    mi_free(task);
    pthread_mutex_lock(&pool->lock);
    if (++pool->n_done == pool->n_added) pthread_cond_broadcast(&pool->done);
  }
  self->lives = false;
  pool->n_live--;
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* With the lock held: one more worker. False: it cannot be made. */
static bool start_worker(struct pool *pool) {
  struct worker *w = pool->workers;
  while (w->lives) w++;
  if (w->made) pthread_join(w->thread, NULL); /* it holds the lock no more, and is about to be gone */
  w->made = w->lives = pthread_create(&w->thread, NULL, work, w) == 0;
  if (w->made) pool->n_live++;
  return w->made;
}

/* False: there is no memory, or no thread at all. */
static bool pool_add(struct pool *pool, void (*run)(void *arg), void *arg) {
  struct task *task = mi_malloc(sizeof *task);
  if (task == NULL) return false;
  *task = (struct task){run, arg, NULL};
  pthread_mutex_lock(&pool->lock);
  bool ok = true;
  /* Those that wait are enough for the tasks that wait, or there is one more. */
  if (pool->n_added - pool->n_taken >= pool->n_idle && pool->n_live < pool->n_workers)
    ok = start_worker(pool) || pool->n_live > 0;
  if (ok) {
    *pool->last = task;
    pool->last = &task->next;
    pool->n_added++;
    pthread_cond_signal(&pool->work);
  }
  pthread_mutex_unlock(&pool->lock);
  if (!ok) mi_free(task);
  return ok;
}

static void pool_wait(struct pool *pool) {
  pthread_mutex_lock(&pool->lock);
  while (pool->n_done < pool->n_added) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

/* release_ms < 0: workers keep their memory. */
static bool pool_open(struct pool *pool, unsigned n_workers, long release_ms, long timeout_ms) {
  *pool = (struct pool){.n_workers = n_workers, .release_ms = release_ms, .timeout_ms = timeout_ms};
  pool->last = &pool->first;
  pool->workers = mi_calloc(n_workers, sizeof *pool->workers);
  if (pool->workers == NULL) return false;
  for (unsigned i = 0; i < n_workers; i++) pool->workers[i].pool = pool;
  pthread_condattr_t monotonic; /* so that nobody who sets the clock ends a wait */
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&pool->work, &monotonic);
  pthread_cond_init(&pool->done, NULL);
  pthread_condattr_destroy(&monotonic);
  pthread_mutex_init(&pool->lock, NULL);
  return true;
}

static unsigned pool_live(struct pool *pool) {
  pthread_mutex_lock(&pool->lock);
  unsigned n = pool->n_live;
  pthread_mutex_unlock(&pool->lock);
  return n;
}

/* What has been added is done first; nobody adds any more. */
static void pool_close(struct pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->closed = true;
  pthread_cond_broadcast(&pool->work);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->n_workers; i++) {
    if (pool->workers[i].made) pthread_join(pool->workers[i].thread, NULL);
  }
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->done);
  pthread_mutex_destroy(&pool->lock);
  mi_free(pool->workers);
}

/* ---- a burst of jobs ---- */

enum { N_JOBS = 30, JOB_BYTES = 10 << 20, MOST_BLOCKS = 4096 };

/* A job as a compiler is one: trees of small nodes, tables that grow, buffers for code; all of it freed at its end. */
static void job(void *arg) {
  void **blocks = mi_calloc(MOST_BLOCKS, sizeof *blocks);
  unsigned n = 0, dice = *(unsigned *)arg;
  for (size_t left = JOB_BYTES; blocks != NULL && n < MOST_BLOCKS && left > 0; n++) {
    dice = dice * 1664525u + 1013904223u;
    size_t size = (size_t)32 << (dice >> 16) % 14; /* to 256 KiB */
    size += size * (dice >> 24) / 512;
    if (size > left) size = left;
    blocks[n] = mi_malloc(size);
    if (blocks[n] != NULL) memset(blocks[n], 1, size);
    left -= size;
  }
  while (n > 0) mi_free(blocks[--n]);
  mi_free(blocks);
}

static double resident_mib(void) {
  long size, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f == NULL || fscanf(f, "%ld %ld", &size, &resident) != 2) resident = 0;
  if (f != NULL) fclose(f);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* MiB for each worker one second after a burst; < 0: the pool did not work. */
static double burst(unsigned n_workers, long release_ms) {
  static unsigned seeds[N_JOBS];
  struct pool pool;
  double before = resident_mib();
  if (!pool_open(&pool, n_workers, release_ms, 10000)) return -1;
  for (unsigned i = 0; i < N_JOBS; i++) {
    seeds[i] = i;
    if (!pool_add(&pool, job, &seeds[i])) break;
  }
  pool_wait(&pool);
  sleep(1);
  unsigned n_live = pool_live(&pool);
  double each = (resident_mib() - before) / (n_live > 0 ? n_live : 1);
  pool_close(&pool);
  bool balanced = pool.n_added == N_JOBS && pool.n_taken == N_JOBS && pool.n_done == N_JOBS;
  return balanced ? (each > 0 ? each : 0) : -1;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4;
  if (n < 1) {
    fprintf(stderr, "usage: worker_pool [WORKERS]\n");
    return 2;
  }
  double with = burst((unsigned)n, 100), without = burst((unsigned)n, -1);
  if (with < 0 || without < 0) {
    fprintf(stderr, "worker_pool: no memory or no threads\n");
    return 1;
  }
  printf("up to %d workers, one second after %d jobs: %.1f MiB each where idle workers give memory back, %.1f without\n", n,
         (int)N_JOBS, with, without);
  return 0;
}
