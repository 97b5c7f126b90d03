/* SPDX-License-Identifier: MIT */
/* The companions of malloc in glibc: table G (malloc_trim(0) and mallopt of a known option: 1), and
 * that the figures are those of this library's memory. */
#include "family.h"

#define MIB ((size_t)1 << 20)
#define TAKE(size) hidden_families[1].malloc(size)

static void check_figures(void) {
  struct mallinfo2 before = mallinfo2();
  char *p = TAKE(64 * MIB);
  char *q[64];
  CHECK(p != NULL);
  memset(p, 1, 64 * MIB);
  for (int i = 0; i < 64; i++) {
    q[i] = TAKE(300000);
    CHECK(q[i] != NULL);
    memset(q[i], 1, 300000);
  }
  struct mallinfo2 now = mallinfo2();
  CHECK(now.hblkhd >= before.hblkhd + 64 * MIB);
  CHECK(now.arena >= before.arena + 64 * 300000 - 16 * MIB);
  CHECK(now.uordblks >= before.uordblks + 64 * MIB + 64 * 300000 - 16 * MIB);
  CHECK(now.uordblks + now.fordblks == now.arena + now.hblkhd);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
  CHECK((size_t)old.hblkhd == now.hblkhd && (size_t)old.arena == now.arena);
  for (int i = 0; i < 64; i++) hidden_families[1].free(q[i]);
  hidden_families[1].free(p);
}

/* D12's core: what was freed goes back, also where nothing is purged by itself. */
static void check_trim(void) {
  mi_option_set(mi_option_purge_delay, 100000);
  size_t before = mi_test_rss_kib();
  char *p[16];
  for (int i = 0; i < 16; i++) {
    p[i] = TAKE(4 * MIB);
    CHECK(p[i] != NULL);
    memset(p[i], 1, 4 * MIB);
  }
  for (int i = 0; i < 16; i++) hidden_families[1].free(p[i]);
  CHECK(malloc_trim(0) == 1);
  size_t after = mi_test_rss_kib();
  if (after > before + 16384) fprintf(stderr, "resident %zu KiB, then %zu KiB\n", before, after);
  CHECK(after <= before + 16384);
  int again = malloc_trim(0);
  CHECK(again == 0 || again == 1);
}

static void check_info(void) {
  FILE *file = tmpfile();
  CHECK(file != NULL && malloc_info(0, file) == 0);
  rewind(file);
  char text[4096];
  size_t n = fread(text, 1, sizeof text - 1, file);
  text[n] = 0;
  CHECK(strncmp(text, "<malloc version=\"1\">\n", 21) == 0);
  const char *system = strstr(text, "<system type=\"current\" size=\"");
  CHECK(system != NULL && strtoul(system + 29, NULL, 10) > 0);
  CHECK(strstr(text, "<aspace type=\"total\" size=\"") != NULL);
  CHECK(n > 11 && strcmp(text + n - 10, "</malloc>\n") == 0);
  fclose(file);
  errno = 0;
  CHECK(malloc_info(1, stderr) == -1 && errno == EINVAL);
}

static int lines;
static void count_lines(const char *msg, void *arg) {
  (void)arg;
  if (strstr(msg, "committed") != NULL) lines++;
}

int main(void) {
  if (!is_overriding()) {
    fprintf(stderr, "the library leaves the C library's functions alone\n");
    return MI_TEST_SKIP;
  }
  CHECK(mallopt(M_TRIM_THRESHOLD, 1000000) == 1 && mallopt(M_ARENA_MAX, 1) == 1);
  check_figures();
  check_trim();
  check_info();
  mi_register_output(count_lines, NULL);
  malloc_stats();
  mi_register_output(NULL, NULL);
  CHECK(lines >= 1);
  return 0;
}
