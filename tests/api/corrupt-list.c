/* SPDX-License-Identifier: MIT */
/* freelist-corruption: the program writes over the link of a free block. A forced collection of the
 * heap reports it once, EFAULT, with the name of the list; it does not loop; blocks that live keep
 * their bytes and their heap; no block of the list from the bad one on is handed out again; the next
 * collection is silent. A bad remote list is dropped whole, and what was on it counts as used. */
#include "thread/heaps.h"

enum { N = 24, SIZE = 1000, MORE = 400 };
enum list { READY, FREE, REMOTE };
static const char *const names[] = {"ready list", "free list", "remote list"};
/* Which of the blocks that are freed gets a new link: the one that the list begins with, or one
 * behind it; and to where. */
enum where { HEAD, INNER };
enum to { SELF, OUTSIDE, ODD, LOW, LIVE, N_TO };

static int n_errors, last_error;
static void on_error(int err, void *arg) {
  (void)arg;
  n_errors++;
  last_error = err;
}
static char text[4096];
static void on_output(const char *msg, void *arg) {
  (void)arg;
  strncat(text, msg, sizeof text - strlen(text) - 1);
}
static void forget(void) {
  n_errors = last_error = 0;
  text[0] = 0;
}

static void *blocks[1000];
static size_t n_blocks;
static bool freed[1000];

static bool sum_used(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t size, void *arg) {
  (void)heap, (void)block, (void)size;
  *(size_t *)arg += area->used;
  return true;
}
static size_t used(mi_heap_t *heap) {
  size_t n = 0;
  CHECK(mi_heap_visit_blocks(heap, false, sum_used, &n));
  return n;
}

/* Every third block of the first N; the last one freed begins the list. */
static void *free_some(void *arg) {
  (void)arg;
  for (size_t i = 1; i < N; i += 3) {
    freed[i] = true;
    free(blocks[i]);
  }
  return NULL;
}
static void scribble(enum where where, enum to to) {
  static char stranger[64];
  size_t i = where == HEAD ? N - 2 : N - 8;
  void *links[N_TO] = {blocks[i], stranger, (char *)blocks[1] + 8, (void *)(uintptr_t)0x4141414141414141u,
                       blocks[3]};
  memcpy(blocks[i], &links[to], sizeof(void *));
}

static bool is_one_of_them(const void *p) {
  for (size_t i = 0; i < n_blocks; i++)
    if (p == blocks[i]) return true;
  return false;
}

static void verify_live(const mi_heap_t *heap) {
  for (size_t i = 0; i < n_blocks; i++) {
    if (freed[i]) continue;
    expect_heap(blocks[i], heap);
    if (behave_verify(blocks[i], SIZE, i) != SIZE) FAIL("block %zu is changed", i);
  }
}

enum end { DELETE, DESTROY };
static void run(enum list list, enum where where, enum to to, enum end end) {
  mi_heap_t *heap = new_heap();
  /* Frees into the current page go to the ready list; into one before it, to its own list. */
  n_blocks = list == FREE ? 100 : N;
  for (size_t i = 0; i < n_blocks; i++) {
    blocks[i] = mi_heap_malloc(heap, SIZE);
    CHECK(blocks[i] != NULL);
    behave_fill(blocks[i], SIZE, i);
    freed[i] = false;
  }
  if (list == REMOTE) in_thread(free_some, NULL);
  else free_some(NULL);
  scribble(where, to);
  forget();
  mi_heap_collect(heap, true);
  if (n_errors != 1 || last_error != EFAULT)
    FAIL("%s, %d, %d: %d errors, the last is %d", names[list], where, to, n_errors, last_error);
  const char *line = strstr(text, "mimalloc: error: ");
  if (line == NULL || strstr(line + 1, "mimalloc: ") != NULL || strstr(line, names[list]) == NULL)
    FAIL("%s, %d, %d: \"%s\"", names[list], where, to, text);
  for (int k = 0; k < 3; k++)
    if (k != (int)list && strstr(text, names[k]) != NULL) FAIL("%s: \"%s\"", names[list], text);
  verify_live(heap);
  size_t live = 0;
  for (size_t i = 0; i < n_blocks; i++) live += !freed[i];
  size_t dropped = list == REMOTE ? n_blocks - live : 0;
  if (used(heap) < live + dropped) FAIL("%s: %zu blocks in use", names[list], used(heap));

  forget();
  mi_heap_collect(heap, true);
  mi_collect(true);
  if (n_errors != 0 || text[0] != 0) FAIL("%s again: %d errors, \"%s\"", names[list], n_errors, text);
  for (size_t i = 0; i < MORE; i++) { /* none of the live ones, none of what the bad list held */
    void *p = mi_heap_malloc(heap, SIZE);
    CHECK(p != NULL);
    if (is_one_of_them(p)) FAIL("%s, %d, %d: a block is handed out again", names[list], where, to);
    memset(p, 0x55, SIZE);
  }
  verify_live(heap);
  for (size_t i = 0; i < n_blocks; i += 2) { /* late frees into what is kept */
    if (freed[i]) continue;
    freed[i] = true;
    free(blocks[i]);
  }
  mi_heap_collect(heap, true);
  verify_live(heap);
  if (end == DELETE) {
    mi_heap_delete(heap);
    verify_live(mi_heap_main());
  } else {
    mi_heap_destroy(heap);
  }
  mi_collect(true);
  if (n_errors != 0) FAIL("%s: %d errors at the end, \"%s\"", names[list], n_errors, text);
}

/* The heap ends first: what is found then is reported once too, and a destroyed heap is gone. */
static void run_end(enum list list) {
  mi_heap_t *heap = new_heap();
  n_blocks = N;
  for (size_t i = 0; i < N; i++) {
    blocks[i] = mi_heap_malloc(heap, SIZE);
    behave_fill(blocks[i], SIZE, i);
    freed[i] = false;
  }
  if (list == REMOTE) in_thread(free_some, NULL);
  else free_some(NULL);
  scribble(INNER, OUTSIDE);
  forget();
  mi_heap_delete(heap);
  if (n_errors != 1 || last_error != EFAULT || strstr(text, names[list]) == NULL)
    FAIL("%s: %d errors, the last is %d, \"%s\"", names[list], n_errors, last_error, text);
  verify_live(mi_heap_main());
  forget();
  mi_collect(true);
  CHECK(n_errors == 0);
}

/* mi_collect looks at all heaps of the thread, and tells of each page. */
static void run_all_heaps(void) {
  mi_heap_t *heaps[3];
  void *b[3][N];
  for (int h = 0; h < 3; h++) {
    heaps[h] = new_heap();
    for (int i = 0; i < N; i++) b[h][i] = mi_heap_malloc(heaps[h], SIZE);
  }
  for (int h = 0; h < 3; h++) {
    free(b[h][3]);
    free(b[h][5]);
    memset(b[h][5], 'A', sizeof(void *));
  }
  forget();
  mi_collect(true);
  if (n_errors != 1 || last_error != EFAULT || strstr(text, "3 page(s)") == NULL)
    FAIL("%d errors, the last is %d, \"%s\"", n_errors, last_error, text);
  for (int h = 0; h < 3; h++) mi_heap_destroy(heaps[h]);
}

int main(void) {
  mi_test_not_tracked();
  if (mi_test_under("address")) SKIP("free blocks cannot be written to\n");
  behave_limit(60);
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_max_errors, 10000);
  mi_register_error(on_error, NULL);
  mi_register_output(on_output, NULL);
  for (int list = READY; list <= REMOTE; list++)
    for (int where = HEAD; where <= INNER; where++)
      for (int to = 0; to < N_TO; to++) {
        /* Two pushes in a row of one block by others look the same, and are told as a double free. */
        if (list == REMOTE && where == HEAD && to == SELF) continue;
        run(list, where, to, (where + to) % 2 ? DELETE : DESTROY);
      }
  run_end(READY);
  run_end(REMOTE);
  run_all_heaps();
  return 0;
}
