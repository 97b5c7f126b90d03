/* SPDX-License-Identifier: MIT */
/* The committed figure is exact: never below 0, and back at its base after what was taken went back.
 * With purge delay 0, where each free is a purge. */
#include "idle/idle.h"

static bool exact = true; /* arena_eager_commit 0: a high-water mark, which may only not grow */

static int64_t look(void) {
  int64_t now = committed();
  if (now < 0) FAIL("%lld bytes are committed", (long long)now);
  return now;
}
static void expect(const char *what, int64_t now, int64_t base) {
  int64_t most = base + 2 * (int64_t)BEHAVE_MiB;
  if (now > most) FAIL("%s: %lld KiB are committed, base %lld KiB", what, (long long)now / 1024,
                       (long long)base / 1024);
}

static void check_growing(void) {
  free(malloc(64 * BEHAVE_KiB));
  mi_collect(true);
  int64_t base = look();
  for (size_t mib = 1; mib <= 32; mib *= 2) {
    char *p = malloc(mib * BEHAVE_MiB);
    CHECK(p != NULL);
    touch(p, mib * BEHAVE_MiB);
    CHECK(look() >= base + (int64_t)(mib * BEHAVE_MiB));
    free(p);
    look();
    mi_collect(true);
    look();
  }
  if (exact) expect("after growing blocks", look(), base);
}

static void check_cycles(size_t size) {
  int n_rounds = (int)mi_test_scale(4, 8), n = size > BEHAVE_MiB ? (int)mi_test_scale(6, 16) : 16;
  int64_t base = 0, held = 0;
  for (int round = -1; round < n_rounds; round++) {
    void *p[16];
    for (int i = 0; i < n; i++) {
      CHECK((p[i] = malloc(size)) != NULL);
      touch(p[i], size);
      look();
    }
    int64_t now = look();
    if (round == 0) held = now;
    if (round > 0) expect("held", now, held);
    for (int i = 0; i < n; i++) {
      free(p[i]);
      look();
    }
    mi_collect(true);
    now = look();
    if (round == -1) base = now;
    else expect("after a purge", now, base);
  }
}

int main(int argc, char **argv) {
  behave_limit(60);
  if (argc > 1) {
    exact = strcmp(argv[1], "exact") == 0;
    check_growing();
    check_cycles(BEHAVE_MiB);
    check_cycles(64 * BEHAVE_KiB);
    check_cycles(4 * BEHAVE_MiB);
    return 0;
  }
#define AT_ONCE "MIMALLOC_PURGE_DELAY=0", "MIMALLOC_MINIMAL_PURGE_SIZE=4K"
  run_with(WITH(AT_ONCE), "exact");
  run_with(WITH("MIMALLOC_PAGE_COMMIT_ON_DEMAND=1", AT_ONCE), "exact");
  run_with(WITH("MIMALLOC_ARENA_EAGER_COMMIT=0", AT_ONCE), "high-water");
  run_with(WITH("MIMALLOC_PURGE_DECOMMITS=0", AT_ONCE), "exact");
  run_with(WITH("MIMALLOC_PURGE_DELAY=20"), "high-water");
  return 0;
}
