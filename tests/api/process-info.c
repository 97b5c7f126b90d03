/* SPDX-License-Identifier: MIT */
/* H02 process-info-filled-on-linux. Symptom: current_rss 0. Right: current_rss within 10% of VmRSS,
 * peak_rss >= current, commit >= 100 MiB at the top, page_faults > 0 or documented; NULL
 * out-pointers accepted. And the text forms: whole lines, to the function given. */
#include "family.h"
#include <mimalloc-stats.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

struct info {
  size_t elapsed, user, system, rss, peak_rss, commit, peak_commit, faults;
};

static struct info read_info(void) {
  struct info i;
  memset(&i, 0xff, sizeof i);
  mi_process_info(&i.elapsed, &i.user, &i.system, &i.rss, &i.peak_rss, &i.commit, &i.peak_commit,
                  &i.faults);
  return i;
}

/* VmRSS counts per-thread caches of the kernel late: 1 MiB for those. */
static void check_rss(const struct info *i) {
  size_t rss = mi_test_rss_kib() * 1024;
  size_t slack = rss / 10 + MIB;
  if (i->rss + slack < rss || i->rss > rss + slack) {
    fprintf(stderr, "resident %zu, the kernel says %zu\n", i->rss, rss);
    _exit(1);
  }
  CHECK(i->peak_rss >= i->rss && i->peak_commit >= i->commit);
}

static char text[16384];
static size_t length;
static bool whole_lines = true;
static void collect_text(const char *msg, void *arg) {
  CHECK(arg == text);
  size_t n = strlen(msg);
  if (n == 0 || msg[n - 1] != '\n') whole_lines = false;
  if (length + n < sizeof text) memcpy(text + length, msg, n + 1);
  length += n;
}

static void check_text(void (*print)(mi_output_fun *, void *), const char *const *words) {
  length = 0;
  text[0] = 0;
  print(collect_text, text);
  CHECK(length > 0 && length < sizeof text && whole_lines);
  for (; *words != NULL; words++) {
    if (strstr(text, *words) == NULL) {
      fprintf(stderr, "no \"%s\" in:\n%s", *words, text);
      _exit(1);
    }
  }
}

static void to_registered(mi_output_fun *out, void *arg) {
  mi_register_output(out, arg);
  mi_stats_print(NULL);
  mi_process_info_print();
  mi_register_output(NULL, NULL);
}

static void burn(void) {
  clock_t until = clock() + CLOCKS_PER_SEC / 20;
  while (clock() < until) continue;
}

int main(void) {
  mi_test_not_under("thread");
  struct info start = read_info();
  check_rss(&start);
  CHECK(start.rss > 0 && start.elapsed < 60000 && start.user < 60000 && start.system < 60000);

  char *p = mi_malloc(100 * MIB);
  CHECK(p != NULL);
  memset(p, 1, 100 * MIB);
  burn();
  struct info top = read_info();
  check_rss(&top);
  CHECK(top.rss >= 100 * MIB && top.commit >= 100 * MIB);
  CHECK(top.user + top.system >= start.user + start.system + 40);
  CHECK(top.elapsed >= start.elapsed + 40);
  CHECK(top.faults < 1000000); /* those that needed I/O: often none */

  mi_free(p);
  mi_collect(true);
  struct info end = read_info();
  check_rss(&end);
  CHECK(end.rss < 50 * MIB && end.peak_rss >= 100 * MIB);
  CHECK(end.commit < 50 * MIB && end.peak_commit >= 100 * MIB);
  mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

  static const char *const process_words[] = {"process", "time since start", "resident memory",
                                              "at its peak 1", "page faults", NULL};
  static const char *const stats_words[] = {"reserved", "committed", "huge blocks", "pages",
                                            "threads", "purged", "refills", "process", NULL};
  static const char *const heap_words[] = {"heap 0", "blocks", "huge blocks", "pages", "theaps",
                                           "blocks of size", NULL};
  check_text(mi_process_info_print_out, process_words);
  check_text(mi_stats_print_out, stats_words);
  check_text(mi_thread_stats_print_out, heap_words);
  check_text(to_registered, stats_words);
  return 0;
}
