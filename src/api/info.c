/* SPDX-License-Identifier: MIT */
/* What the process uses, as figures and as text. doc/statistics.md explains every line.
 * Threads: any. */
#include "api/text.h"
#include "mimalloc-stats.h"
#include "os/os.h"
#include "rt/counter.h"
#include "rt/message.h"

static void store(size_t *out, size_t value) {
  if (out != NULL) *out = value;
}

mi__export void mi_process_info(size_t *elapsed_msecs, size_t *user_msecs, size_t *system_msecs,
                                size_t *current_rss, size_t *peak_rss, size_t *current_commit,
                                size_t *peak_commit, size_t *page_faults) {
  struct mi__os_process_info info;
  mi__os_process_info(&info);
  struct mi__gauge_values committed = mi__gauge_read(&mi__counters.committed);
  store(elapsed_msecs, info.elapsed_ms);
  store(user_msecs, info.user_ms);
  store(system_msecs, info.system_ms);
  store(current_rss, info.current_rss);
  store(peak_rss, info.peak_rss);
  store(current_commit, (size_t)committed.current);
  store(peak_commit, (size_t)committed.peak);
  store(page_faults, info.major_faults);
}

/* ---- text ---- */

struct mi__text mi__text_count(size_t n) {
  struct mi__text text;
  mi__format(text.s, sizeof text.s, "%zu", n);
  return text;
}

struct mi__text mi__text_bytes(size_t n) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  struct mi__text text;
  unsigned unit = 0;
  size_t tenths = 0;
  for (; n >= 1024 && unit < sizeof units / sizeof units[0] - 1; unit++, n /= 1024) {
    tenths = n % 1024 * 10 / 1024;
  }
  if (unit == 0) {
    mi__format(text.s, sizeof text.s, "%zu B", n);
  } else {
    mi__format(text.s, sizeof text.s, "%zu.%zu %s", n, tenths, units[unit]);
  }
  return text;
}

struct mi__text mi__text_seconds(size_t ms) {
  struct mi__text text;
  size_t rest = ms % 1000;
  mi__format(text.s, sizeof text.s, "%zu.%s%zu s", ms / 1000,
             rest < 10 ? "00" : rest < 100 ? "0" : "", rest);
  return text;
}

void mi__print_process(struct mi__sink sink) {
  struct mi__os_process_info info;
  mi__os_process_info(&info);
  mi__print(sink.out, sink.arg, "process\n");
  mi__print(sink.out, sink.arg, "  time since start %s, user %s, system %s\n",
            mi__text_seconds(info.elapsed_ms).s, mi__text_seconds(info.user_ms).s,
            mi__text_seconds(info.system_ms).s);
  mi__print(sink.out, sink.arg, "  resident memory %s, at its peak %s\n",
            mi__text_bytes(info.current_rss).s, mi__text_bytes(info.peak_rss).s);
  mi__print(sink.out, sink.arg, "  page faults %zu without and %zu with I/O\n", info.page_faults,
            info.major_faults);
}

mi__export void mi_process_info_print_out(mi_output_fun *out, void *arg) {
  mi__print_process((struct mi__sink){out, arg});
}

mi__export void mi_process_info_print(void) { mi_process_info_print_out(NULL, NULL); }
