/* SPDX-License-Identifier: MIT */
/* Uses malloc and its family under all their names, while mimalloc-override.h renames them; it is
 * included before the system's headers (-include) or after them (-DAFTER). Compiled as C and, by
 * names.cc, as C++; exit code 0 when every block was the library's. */
#if defined(AFTER)
#define _GNU_SOURCE 1
#endif
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#if defined(AFTER)
#include "mimalloc-override.h"
#endif
#include "mimalloc-profile.h" /* the renaming does not reach into the library's own headers */
#include "mimalloc-stats.h"

/* Structs like this are the most common use of the names other than calls. */
struct functions {
  void *(*malloc)(size_t size);
  void *(*realloc)(void *p, size_t size);
  void (*free)(void *p);
};

static int n_failed;
static void *is_ours(void *p, const char *what) {
  if (p == NULL || !mi_check_owned(p)) {
    fprintf(stderr, "%s: not a block of the library\n", what);
    n_failed++;
  }
  return p;
}
#define OURS(call) is_ours(call, #call)

static void standard(void) {
  void *p = OURS(malloc(100));
  p = OURS(realloc(p, 1000));
  free(p);
  p = OURS(calloc(3, 100));
  free_sized(p, 300);
  p = OURS(aligned_alloc(64, 128));
  free_aligned_sized(p, 64, 128);
  free(OURS(strdup("text")));
  free(OURS(strndup("text", 2)));
  free(OURS(wcsdup(L"text")));
  /* Where the C library's header defines it, and comes later, it is the C library's. */
#if defined(AFTER) || defined(__cplusplus) || __USE_FORTIFY_LEVEL + 0 == 0
  free(OURS(realpath("/", NULL)));
#endif
}

static void others(void) {
  void *p = NULL;
  if (posix_memalign(&p, 64, 100) != 0) n_failed++;
  free(OURS(p));
  free(OURS(memalign(64, 100)));
  free(OURS(valloc(100)));
  cfree(OURS(pvalloc(100)));
  p = OURS(reallocarray(NULL, 3, 100));
  if (reallocarr(&p, 6, 100) != 0) n_failed++;
  if (malloc_usable_size(p) < 600 || malloc_size(p) < 600) n_failed++;
  if (malloc_good_size(600) < 600) n_failed++;
  p = OURS(reallocf(p, 2000));
  free(p);
}

static void microsoft(void) {
  char *text = NULL;
  void *p = OURS(_recalloc(NULL, 3, 100));
  if (_msize(p) < 300 || _expand(p, 200) != p) n_failed++;
  free(p);
  free(OURS(_strdup("text")));
  free(OURS(_strndup("text", 2)));
  free(OURS(_wcsdup(L"text")));
  free(OURS(_mbsdup((const unsigned char *)"text")));
  if (_dupenv_s(&text, NULL, "PATH") != 0) n_failed++;
  free(text);
  p = OURS(_aligned_malloc(100, 64));
  p = OURS(_aligned_realloc(p, 200, 64));
  p = OURS(_aligned_recalloc(p, 2, 200, 64));
  if (_aligned_msize(p, 64, 0) < 400) n_failed++;
  _aligned_free(p);
  p = OURS(_aligned_offset_malloc(100, 64, 8));
  p = OURS(_aligned_offset_realloc(p, 200, 64, 8));
  p = OURS(_aligned_offset_recalloc(p, 2, 200, 64, 8));
  _aligned_free(p);
}

static void by_address(void) {
  struct functions functions;
  void (*release)(void *) = free;
  void *p;
  functions.malloc = malloc;
  functions.realloc = &realloc;
  functions.free = free;
  p = OURS(functions.malloc(10));
  p = OURS(functions.realloc(p, 1000));
  functions.free(p);
  release(OURS(strdup("text")));
}

static int all_names(void) {
  standard();
  others();
  microsoft();
  by_address();
  return n_failed != 0;
}

#if !defined(__cplusplus)
int main(void) {
  return all_names();
}
#endif
