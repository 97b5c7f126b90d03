/* SPDX-License-Identifier: MIT */
/* The JSON forms: the caller's buffer of any size, a fresh block, the longest text that can be; that
 * all forms agree; the heap dump, with addresses and without. With an argument it prints one form for a real parser (json-parsed.sh). */
#include "stats.h"

/* buf holds what fits, and nothing behind its end is written. */
static void check_sizes(const char *whole, mi_stats_t *stats) {
  static char buf[32768];
  size_t length = strlen(whole), before = 0;
  for (size_t size = 3; size < length + 20; size += size < 600 ? 1 : 97) {
    memset(buf, 'x', sizeof buf);
    CHECK(mi_stats_as_json(stats, size, buf) == buf);
    size_t n = strlen(buf);
    CHECK(n < size && buf[size] == 'x' && is_balanced(buf) && n >= before);
    CHECK((n == length) == (size > length));
    before = n;
  }
  for (size_t size = 1; size < 3; size++) {
    memset(buf, 'x', 8);
    CHECK(mi_stats_as_json(stats, size, buf) == buf && buf[0] == 0 && buf[2] == 'x');
  }
  memset(buf, 'x', 8);
  CHECK(mi_stats_as_json(stats, 0, buf) == NULL && buf[0] == 'x');
}

static int64_t member(const char *text, const char *name) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "\"%s\":", name);
  const char *at = strstr(text, quoted);
  CHECK(at != NULL);
  return strtoll(at + strlen(quoted) + strcspn(at + strlen(quoted), "-0123456789"), NULL, 10);
}

static void check_longest(void) {
  mi_stats_t_decl(stats);
  memset((char *)&stats + 2 * sizeof(size_t), 0, sizeof stats - 2 * sizeof(size_t));
  int64_t *word = (int64_t *)(void *)&stats.pages;
  for (; word < (int64_t *)(void *)(&stats + 1); word++) *word = INT64_MIN;
  char *text = mi_stats_as_json(&stats, 0, NULL);
  CHECK(text != NULL && is_balanced(text) && strlen(text) < 32768); /* as the manual says */
  check_sizes(text, &stats);
  mi_free(text);
}

static void check_dump(const void *p, size_t size) {
  char pair[80], address[40];
  snprintf(address, sizeof address, "\"%p\"", p);
  snprintf(pair, sizeof pair, "[%s,%zu]", address, size);
  char *plain = mi_heap_dump_json(true, false), *pages = mi_heap_dump_json(false, false);
  char *hidden = mi_heap_dump_json(true, true), *again = mi_heap_dump_json(true, true);
  CHECK(plain != NULL && pages != NULL && hidden != NULL && again != NULL);
  CHECK(is_balanced(plain) && is_balanced(pages) && is_balanced(hidden));
  CHECK(mi_test_tracked() || strstr(plain, pair) != NULL);
  CHECK(strstr(pages, pair) == NULL && strstr(pages, "\"blocks\"") == NULL);
  CHECK(strstr(hidden, address) == NULL && strstr(hidden, "\"blocks\"") != NULL);
  /* The same block has the same name in each dump. */
  const char *name = strstr(hidden, "\"seq\":1,\"pages\":[\n{\"id\":");
  CHECK(name != NULL);
  char part[80];
  snprintf(part, sizeof part, "%.60s", name);
  CHECK(strstr(again, part) != NULL);
  mi_free(plain);
  mi_free(pages);
  mi_free(hidden);
  mi_free(again);
}

/* A long one, of blocks that another thread has not counted yet too. */
#define N_EACH 30000
static pthread_barrier_t allocated;
static void *allocate_many(void *heap) {
  for (int i = 0; i < N_EACH; i++) CHECK(mi_heap_malloc(heap, 24) != NULL);
  pthread_barrier_wait(&allocated);
  pthread_barrier_wait(&allocated);
  return NULL;
}
static void check_long_dump(void) {
  mi_heap_t *heap = mi_heap_new();
  pthread_t thread;
  CHECK(pthread_barrier_init(&allocated, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, allocate_many, heap) == 0);
  for (int i = 0; i < N_EACH; i++) CHECK(mi_heap_malloc(heap, 2000) != NULL);
  pthread_barrier_wait(&allocated);
  char *text = mi_heap_dump_json(true, true);
  CHECK(text != NULL && is_balanced(text));
  int n = 0;
  for (const char *at = text; (at = strstr(at, "[\"0x")) != NULL; at++) n++;
  CHECK(n >= 2 * N_EACH);
  pthread_barrier_wait(&allocated);
  pthread_join(thread, NULL);
  mi_free(text);
  mi_heap_destroy(heap);
}

int main(int argc, char **argv) {
  static char buf[32768];
  mi_heap_t *heap = mi_heap_new();
  void *p = mi_heap_malloc(heap, 1000), *q = mi_heap_malloc(heap, 5 << 20);
  CHECK(p != NULL && q != NULL);
  if (argc > 1) {
    char *text = strcmp(argv[1], "heap") == 0   ? mi_heap_stats_get_json(heap, 0, NULL)
                 : strcmp(argv[1], "dump") == 0 ? mi_heap_dump_json(true, false)
                 : strcmp(argv[1], "hash") == 0 ? mi_heap_dump_json(true, true)
                 : strcmp(argv[1], "pages") == 0
                     ? mi_heap_dump_json(false, false)
                     : mi_stats_get_json((size_t)atoi(argv[1]), atoi(argv[1]) > 0 ? buf : NULL);
    CHECK(text != NULL);
    puts(text);
    return 0;
  }
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  char *text = mi_stats_as_json(&stats, 0, NULL);
  CHECK(text != NULL && is_balanced(text));
  check_sizes(text, &stats);
  CHECK(member(text, "stat_version") == MI_STAT_VERSION);
  CHECK(member(text, "pages") == stats.pages.total);
  CHECK(member(text, "malloc_huge") == stats.malloc_huge.total);
  CHECK(member(text, "mmap_calls") == stats.mmap_calls.total);
  mi_free(text);
  text = mi_heap_stats_get_json(heap, 0, NULL);
  CHECK(text != NULL && member(text, "malloc_huge") >= 5 << 20 && member(text, "pages") == 2);
  mi_free(text);
  CHECK(mi_stats_get_json(sizeof buf, buf) == buf && is_balanced(buf));
  CHECK(mi_subproc_stats_get_json(mi_subproc_main(), sizeof buf, buf) == buf && is_balanced(buf));
  check_longest();
  check_dump(p, mi_usable_size(p));
  mi_heap_destroy(heap);
  check_long_dump();
  return 0;
}
