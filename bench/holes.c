/* SPDX-License-Identifier: MIT */
/* holes MODE [SCALE] - free memory in pages that are still in use: what of it goes back when a program is idle, and what that
 * costs. Prints pairs of a name and a number. A run that finds damage ends with status 3.
 *   inline    idle churn: 150000 x 512 B, 100000 x 1 KiB, 50000 x 2 KiB, mixed; one in 20 stays, the others are freed; then
 *             idle for three seconds, with an idle call each 100 ms
 *   park      the same, with one park; nothing is printed where there are none
 *   threads   the same by four threads, a quarter each, which park, or give back and wait
 *   buffers   2000 buffers of 100 to 500 KiB, 256 at a time, and one in 12 stays; then idle for two seconds
 *   server    16 connections by socket pairs, two server threads with eight each; a request and its answer have 256 KiB;
 *             the server threads park around poll. SCALE is in seconds
 * Idle is what the allocator has for it: mi_on_thread_idle; else the purge of jemalloc, tcmalloc, or mimalloc 2; else
 * malloc_trim. All are looked up at run time. BENCH_TRACE names a file: a child process writes there each 10 ms the time
 * in ms and the resident KiB, until the rest is over. */
#include "resident.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { KIB = 1024, OS_PAGE = 4096 };

static void (*idle)(void);
static bool (*park_begin)(void);
static void (*park_end)(void);
static void (*hole_counts)(size_t counts[16]);
static char *(*stats_json)(size_t size, char *buffer);
static int (*mallctl)(const char *name, void *old, size_t *old_size, void *new, size_t new_size);
static void (*release)(void); /* tcmalloc's */
static void (*collect)(bool);
static double scale = 1;
static pid_t observer;

/* ---- figures ---- */

static double ms_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}
static double now_ms(void) { return ms_of(CLOCK_MONOTONIC); }

static long faults(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

static void say(const char *name, double value) { printf("%s %.3f\n", name, value); }
static void say_resident(const char *name) { say(name, (double)resident_kib() / KIB); }
/* The rest is over: what follows is not of the load. */
static void say_rest(const char *name) {
  say_resident(name);
  if (observer > 0) kill(observer, SIGKILL);
}
static void say_peak(void) { say("peak", (double)proc_number("/proc/self/status", "\nVmHWM:") / KIB); }

/* CPU time of the background thread; 0 where there is none. */
static double background_ms(void) {
  DIR *tasks = opendir("/proc/self/task");
  double ms = 0;
  for (struct dirent *d; tasks != NULL && (d = readdir(tasks)) != NULL;) {
    char path[300], name[32] = "";
    unsigned long long ns = 0;
    if (d->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
    FILE *f = fopen(path, "r");
    if (f == NULL) continue;
    if (fgets(name, sizeof name, f) == NULL) name[0] = 0;
    fclose(f);
    if (strcmp(name, "mi-scavenger\n") != 0) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", d->d_name);
    if ((f = fopen(path, "r")) == NULL) continue;
    if (fscanf(f, "%llu", &ns) == 1) ms = (double)ns * 1e-6;
    fclose(f);
  }
  if (tasks != NULL) closedir(tasks);
  return ms;
}

/* Calls of the OS to make holes, and bytes given back: in holes, and of what was wholly free. */
struct discards {
  double calls, hole_mib, arena_mib;
};
static struct discards discards(void) {
  static char text[1 << 16];
  size_t counts[16] = {0};
  struct discards d = {0, 0, 0};
  if (hole_counts != NULL) {
    hole_counts(counts);
    d.calls = (double)(counts[3] + counts[11]);
    d.hole_mib = (double)(counts[2] + counts[10]) / (KIB * KIB);
  }
  if (stats_json != NULL && stats_json(sizeof text, text) != NULL) {
    const char *at = strstr(text, "\"purged\"");
    if (at != NULL && (at = strstr(at, "\"total\"")) != NULL && (at = strchr(at, ':')) != NULL)
      d.arena_mib = strtod(at + 1, NULL) / (KIB * KIB);
  }
  return d;
}
static void say_discards(struct discards before) {
  if (hole_counts == NULL) return;
  struct discards now = discards();
  say("discard-calls", now.calls - before.calls);
  say("discarded-mib", now.hole_mib - before.hole_mib);
}

/* ---- idle, as each allocator has it ---- */

static void flush_thread(void) {
  if (mallctl != NULL) (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}
static void give_back(void) {
  if (idle != NULL) {
    idle();
  } else if (mallctl != NULL) {
    flush_thread();
    if (mallctl("arena.4096.purge", NULL, NULL, NULL, 0) != 0) _exit(4);
  } else if (release != NULL) {
    release();
  } else if (collect != NULL) {
    collect(true);
  } else {
    malloc_trim(0);
  }
}
/* CPU ms. */
static double give_back_timed(void) {
  double began = ms_of(CLOCK_THREAD_CPUTIME_ID);
  give_back();
  return ms_of(CLOCK_THREAD_CPUTIME_ID) - began;
}
/* An idle point each 100 ms, as an event loop has them; the others' purges are for the first one only. Returns CPU ms. */
static double idle_inline(double ms) {
  double cpu = 0, end = now_ms() + ms;
  for (bool first = true; now_ms() < end; first = false) {
    if (first || idle != NULL) cpu += give_back_timed();
    double left = end - now_ms();
    if (left > 0) usleep((useconds_t)((left < 100 ? left : 100) * 1000));
  }
  return cpu;
}

/* ---- idle churn ---- */

enum { BLOCKS = 300000, KEEP = 20, WORKERS = 4 };
static unsigned char *table[BLOCKS];
static size_t n_blocks = BLOCKS;

static size_t size_of(size_t i) {
  static const size_t sizes[] = {512, 512, 512, 1024, 1024, 2048};
  return sizes[(uint32_t)i * 2654435761u % 6];
}
static void churn(size_t from, size_t to) {
  uint64_t dice = 88172645463325252u + from;
  for (size_t i = from; i < to; i++) {
    if ((table[i] = malloc(size_of(i))) == NULL) _exit(1);
    memset(table[i], (int)(i % 251 + 1), size_of(i));
  }
  for (size_t group = from; group < to; group += KEEP) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    size_t end = group + KEEP < to ? group + KEEP : to, stays = group + (dice >> 33) % (end - group);
    for (size_t i = group; i < end; i++) {
      if (i == stays) continue;
      free(table[i]);
      table[i] = NULL;
    }
  }
}
static void verify_churn(void) {
  size_t live = 0;
  for (size_t i = 0; i < n_blocks; i++) {
    if (table[i] == NULL) continue;
    live += size_of(i);
    for (size_t at = 0; at < size_of(i); at++)
      if (table[i][at] != i % 251 + 1) _exit(3);
  }
  say("live", (double)live / (KIB * KIB));
}
/* After the frees; rest for three seconds, with what `rest` does, and tell. */
static void churn_alone(bool parked) {
  if (parked && park_begin == NULL) return;
  struct discards before = discards();
  churn(0, n_blocks);
  say_resident("freed");
  double cpu = 0;
  if (parked) {
    double background = background_ms();
    bool is_parked = park_begin();
    usleep(1000000);
    say_resident("rest"); /* nothing of it is allocated by a thread that is parked: stdio has its buffer */
    usleep(2000000);
    say_rest("rest-3s");
    if (is_parked) park_end();
    cpu = background_ms() - background;
  } else {
    cpu = idle_inline(1000);
    say_resident("rest");
    if (idle != NULL) cpu += idle_inline(2000);
    else usleep(2000000);
    say_rest("rest-3s");
  }
  say("sweep-cpu-ms", cpu);
  say_discards(before);
  say("faults", (double)faults());
  say_peak();
  verify_churn();
}

static pthread_barrier_t freed;
static _Atomic(long) workers_cpu_us;
static void *churn_worker(void *arg) {
  size_t k = (size_t)(uintptr_t)arg, share = n_blocks / WORKERS;
  churn(k * share, k == WORKERS - 1 ? n_blocks : (k + 1) * share);
  pthread_barrier_wait(&freed); /* main looks */
  pthread_barrier_wait(&freed);
  bool is_parked = park_begin != NULL && park_begin();
  if (!is_parked) workers_cpu_us += (long)(give_back_timed() * 1000);
  pthread_barrier_wait(&freed);
  pause();
  return NULL;
}
static pthread_t start(void *(*work)(void *), void *arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, arg) != 0) _exit(1);
  return thread;
}
static void churn_threads(void) {
  struct discards before = discards();
  pthread_barrier_init(&freed, NULL, WORKERS + 1);
  for (uintptr_t k = 0; k < WORKERS; k++) start(churn_worker, (void *)k);
  pthread_barrier_wait(&freed);
  say_resident("freed");
  double background = background_ms();
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&freed);
  if (idle == NULL) workers_cpu_us += (long)(give_back_timed() * 1000); /* what they flushed to the arenas */
  usleep(1000000);
  say_resident("rest");
  usleep(2000000);
  say_rest("rest-3s");
  say("sweep-cpu-ms", background_ms() - background + (double)workers_cpu_us / 1000);
  say_discards(before);
  say("faults", (double)faults());
  say_peak();
  verify_churn();
}

/* ---- buffers ---- */

enum { BUFFERS = 2000, WINDOW = 256, KEEP_BUFFER = 12, UNIT = 16 * KIB, SET = 1 << 18 };
static struct {
  char *at;
  size_t size;
  bool live;
} buffers[BUFFERS];

/* The units that buffers ever filled: 0 is none; bit 0 of an entry: a live buffer has a part of it. 16 KiB, the least that a
 * large page gives back: what is less beside a live buffer counts as its own. */
static uintptr_t *units;
static uintptr_t *find_unit(uintptr_t unit) {
  size_t i = (size_t)(unit / UNIT * 0x9E3779B97F4A7C15u >> 44) % SET;
  while (units[i] != 0 && (units[i] & ~(uintptr_t)1) != unit) i = (i + 1) % SET;
  return &units[i];
}
/* MiB that are resident, of units that no live buffer has a part of. */
static double free_resident(size_t n) {
  units = mmap(NULL, SET * sizeof *units, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (units == MAP_FAILED) _exit(1);
  for (size_t i = 0; i < n; i++) {
    uintptr_t from = (uintptr_t)buffers[i].at, to = from + buffers[i].size;
    if (buffers[i].live) from &= ~(uintptr_t)(UNIT - 1), to = (uintptr_t)buffers[i].at + malloc_usable_size(buffers[i].at);
    else from = (from + UNIT - 1) & ~(uintptr_t)(UNIT - 1), to &= ~(uintptr_t)(UNIT - 1);
    for (uintptr_t unit = from; unit < to; unit += UNIT) {
      uintptr_t *entry = find_unit(unit);
      *entry = unit | (*entry & 1) | (buffers[i].live ? 1 : 0);
    }
  }
  size_t resident = 0;
  for (size_t i = 0; i < SET; i++) {
    unsigned char in[UNIT / OS_PAGE];
    if (units[i] == 0 || (units[i] & 1) != 0 || mincore((void *)units[i], UNIT, in) != 0) continue;
    for (size_t k = 0; k < sizeof in; k++) resident += in[k] & 1;
  }
  munmap(units, SET * sizeof *units);
  return (double)resident * OS_PAGE / (KIB * KIB);
}
static void drop(size_t i) {
  if (i % KEEP_BUFFER == 0) return;
  free(buffers[i].at);
  buffers[i].live = false;
}
static void use_buffers(void) {
  size_t n = (size_t)(BUFFERS * scale) > WINDOW ? (size_t)(BUFFERS * scale) : WINDOW;
  uint64_t dice = 7;
  struct discards before = discards();
  for (size_t i = 0; i < n; i++) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    size_t size = 100 * KIB + (dice >> 33) % (400 * KIB);
    if ((buffers[i].at = malloc(size)) == NULL) _exit(1);
    memset(buffers[i].at, (int)(i % 251 + 1), size);
    buffers[i].size = size;
    buffers[i].live = true;
    if (i >= WINDOW) drop(i - WINDOW);
  }
  for (size_t i = n - WINDOW; i < n; i++) drop(i);
  say_resident("freed");
  if (observer == 0) say("freed-free", free_resident(n));
  double cpu = idle_inline(2000);
  say_rest("rest");
  say("rest-free", free_resident(n));
  say("sweep-cpu-ms", cpu);
  say_discards(before);
  say("faults", (double)faults());
  say_peak();
  for (size_t i = 0; i < n; i++)
    for (size_t at = 0; buffers[i].live && at < buffers[i].size; at++)
      if ((unsigned char)buffers[i].at[at] != i % 251 + 1) _exit(3);
}

/* ---- the server ---- */

enum { CONNECTIONS = 16, SERVERS = 2, EACH = CONNECTIONS / SERVERS, BODY = 256 * KIB };
struct connection {
  int server, client;
  char *in, *out, *head;
  size_t n_in, n_out;
};
static struct connection connections[CONNECTIONS];
static atomic_bool stops;

/* Where bodies have been, a part of `buffers` for each server thread. */
enum { PLACES = BUFFERS / SERVERS };
static size_t n_places[SERVERS];
static char *new_body(size_t k) {
  char *body = malloc(BODY);
  size_t i = 0;
  if (body == NULL) _exit(1);
  while (i < n_places[k] && buffers[k * PLACES + i].at != body) i++;
  if (i < n_places[k] || i == PLACES) return body;
  buffers[k * PLACES + i].at = body;
  buffers[k * PLACES + i].size = BODY;
  n_places[k]++;
  return body;
}
static _Atomic(long) n_requests;

static void *use_client(void *arg) {
  struct connection *c = arg;
  static char sent[CONNECTIONS][BODY], got[CONNECTIONS][BODY];
  size_t k = (size_t)(c - connections);
  for (unsigned turn = 1; !stops; turn++) {
    memset(sent[k], (int)turn, BODY);
    for (size_t n = 0; n < BODY;) {
      ssize_t step = write(c->client, sent[k] + n, BODY - n);
      if (step <= 0) return NULL;
      n += (size_t)step;
    }
    for (size_t n = 0; n < BODY;) {
      ssize_t step = read(c->client, got[k] + n, BODY - n);
      if (step <= 0) return NULL;
      n += (size_t)step;
    }
    for (size_t i = 0; i < BODY; i++)
      if (got[k][i] != (char)~turn) _exit(3);
    n_requests++;
  }
  return NULL;
}
/* Blocks come and go with the request: its body, some small ones, the answer. */
static void serve(struct connection *c) {
  while (c->out == NULL) {
    if (c->in == NULL) {
      c->in = new_body((size_t)(c - connections) / EACH);
      if ((c->head = malloc(700)) == NULL) _exit(1);
      memset(c->head, 1, 700);
      c->n_in = 0;
    }
    ssize_t step = read(c->server, c->in + c->n_in, BODY - c->n_in);
    if (step <= 0) break;
    if ((c->n_in += (size_t)step) < BODY) continue;
    c->out = new_body((size_t)(c - connections) / EACH);
    for (size_t i = 0; i < BODY; i++) c->out[i] = (char)~c->in[i];
    free(c->in);
    c->in = NULL;
    c->n_out = 0;
  }
  while (c->out != NULL) {
    ssize_t step = write(c->server, c->out + c->n_out, BODY - c->n_out);
    if (step <= 0) return;
    if ((c->n_out += (size_t)step) < BODY) continue;
    free(c->out);
    free(c->head);
    c->out = c->head = NULL;
  }
}
/* A body that waits for its first byte is not held. */
static void *use_server(void *arg) {
  struct connection *mine = arg;
  struct pollfd polls[EACH];
  for (;;) {
    for (int i = 0; i < EACH; i++) {
      polls[i] = (struct pollfd){.fd = mine[i].server, .events = mine[i].out != NULL ? POLLOUT : POLLIN};
      if (mine[i].in == NULL || mine[i].n_in > 0) continue;
      free(mine[i].in);
      free(mine[i].head);
      mine[i].in = mine[i].head = NULL;
    }
    bool is_parked = park_begin != NULL && park_begin();
    int n = poll(polls, EACH, -1);
    if (is_parked) park_end();
    if (n < 0 && errno != EINTR) _exit(1);
    for (int i = 0; i < EACH; i++)
      if (polls[i].revents != 0) serve(&mine[i]);
  }
}
static void server(void) {
  for (int i = 0; i < CONNECTIONS; i++) {
    int ends[2], size = 64 * KIB;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) _exit(1);
    connections[i].server = ends[0];
    connections[i].client = ends[1];
    for (int k = 0; k < 2; k++) (void)setsockopt(ends[k], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  for (int i = 0; i < SERVERS; i++) start(use_server, connections + i * EACH);
  pthread_t clients[CONNECTIONS];
  for (int i = 0; i < CONNECTIONS; i++) clients[i] = start(use_client, connections + i);
  double settle = scale < 4 ? scale / 4 : 1;
  usleep((useconds_t)(settle * 1e6));
  struct discards before = discards();
  double began = now_ms(), background = background_ms();
  long requests = n_requests, first_faults = faults();
  usleep((useconds_t)(scale * 1e6));
  double seconds = (now_ms() - began) / 1000, used = background_ms() - background;
  struct discards after = discards();
  requests = n_requests - requests;
  say("requests/s", (double)requests / seconds);
  say("faults/request", (double)(faults() - first_faults) / (double)(requests > 0 ? requests : 1));
  if (hole_counts != NULL) {
    say("holes-MB/s", (after.hole_mib - before.hole_mib) * 1.048576 / seconds);
    say("arenas-MB/s", (after.arena_mib - before.arena_mib) * 1.048576 / seconds);
    say("background-cpu-%", used / 10 / seconds);
  }
  say_resident("loaded");
  stops = true;
  for (int i = 0; i < CONNECTIONS; i++) pthread_join(clients[i], NULL);
  if (idle == NULL) give_back();
  usleep(2000000);
  say_rest("rest");
  size_t n = n_places[0];
  for (size_t i = 0; i < n_places[1]; i++) buffers[n++] = buffers[PLACES + i];
  say("rest-free", free_resident(n));
  say_peak();
}

/* ---- the whole ---- */

static void observe(const char *path) {
  pid_t parent = getpid();
  double began = now_ms();
  if ((observer = fork()) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  char name[64], text[128];
  snprintf(name, sizeof name, "/proc/%d/statm", (int)parent);
  while (out >= 0 && getppid() == parent) {
    int in = open(name, O_RDONLY);
    ssize_t n = in < 0 ? 0 : read(in, text, sizeof text - 1);
    if (n <= 0) break;
    close(in);
    text[n] = 0;
    char *end;
    strtoul(text, &end, 10);
    long kib = (long)strtoul(end, NULL, 10) * (sysconf(_SC_PAGESIZE) / KIB);
    n = snprintf(text, sizeof text, "%.1f %ld\n", now_ms() - began, kib);
    if (write(out, text, (size_t)n) != n) break;
    usleep(10000);
  }
  _exit(0);
}

static void look_up(void *fun, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(fun, &found, sizeof found);
}

int main(int argc, char **argv) {
  static char out[4096];
  setvbuf(stdout, out, _IOFBF, sizeof out);
  look_up(&idle, "mi_on_thread_idle");
  look_up(&park_begin, "mi_on_thread_idle_start");
  look_up(&park_end, "mi_on_thread_idle_end");
  look_up(&hole_counts, "mi_purge_holes_stats_get");
  if (hole_counts != NULL) look_up(&stats_json, "mi_stats_get_json");
  look_up(&mallctl, "mallctl");
  look_up(&release, "MallocExtension_ReleaseFreeMemory");
  look_up(&collect, "mi_collect");
  const char *trace = getenv("BENCH_TRACE"), *mode = argc > 1 ? argv[1] : "";
  if (argc > 2) scale = atof(argv[2]);
  if (scale <= 0) return 2;
  if (scale < 1) n_blocks = (size_t)(BLOCKS * scale);
  memset(table, 0, sizeof table);
  if (trace != NULL) observe(trace);
  if (strcmp(mode, "inline") == 0) churn_alone(false);
  else if (strcmp(mode, "park") == 0) churn_alone(true);
  else if (strcmp(mode, "threads") == 0) churn_threads();
  else if (strcmp(mode, "buffers") == 0) use_buffers();
  else if (strcmp(mode, "server") == 0) server();
  else return 2;
  fflush(stdout);
  _exit(0);
}
