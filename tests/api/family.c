/* SPDX-License-Identifier: MIT */
/* A11 pvalloc-and-libc-aliases. Symptom: pvalloc came from libc, free went to the replacement:
 * crash. Recipe: call every function of the family, check with the library's own "is this mine"
 * call, free. Right: all blocks belong to the library; values as in table G. (The test of the
 * exported symbols reads their list.) Here also the functions of the C library that allocate. */
#include "family.h"
#include <dlfcn.h>
#include <wchar.h>

static void take(const struct family *f, void *p, const char *what) {
  if (p == NULL || !mi_check_owned(p) || !mi_is_in_heap_region(p) || !mi_any_heap_contains(p)) {
    fprintf(stderr, "%s family, %s: %p is not the library's\n", f->name, what, p);
    _exit(1);
  }
  f->free(p);
}

/* No header has declared it since it was dropped from glibc's. */
static void check_cfree(void) {
  void (*plain_cfree)(void *) = NULL;
  void *symbol = dlsym(RTLD_DEFAULT, "cfree");
  memcpy(&plain_cfree, &symbol, sizeof symbol);
  CHECK(plain_cfree != NULL);
  const struct family *f = &hidden_families[1];
  void *p = f->malloc(100);
  plain_cfree(p);
  void *q = f->malloc(100);
  CHECK(is_same(p, q));
  f->free(q);
}

static void check_libc(const struct family *f) {
  char *s = NULL;
  size_t n = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL && getline(&s, &n, file) > 0);
  take(f, s, "getline");
  fclose(file);
  CHECK(asprintf(&s, "%d", 17) == 2);
  take(f, s, "asprintf");
  take(f, strdup("text"), "strdup");
  take(f, strndup("text", 2), "strndup");
  take(f, wcsdup(L"text"), "wcsdup");
  take(f, realpath("/", NULL), "realpath");
  take(f, getcwd(NULL, 0), "getcwd");
  file = open_memstream(&s, &n);
  CHECK(file != NULL && fputs("text", file) >= 0 && fclose(file) == 0);
  take(f, s, "open_memstream");
}

int main(void) {
  FOR_FAMILIES(f) {
    void *p = NULL;
    take(f, f->malloc(100), "malloc");
    take(f, f->calloc(10, 10), "calloc");
    take(f, f->realloc(f->malloc(10), 1000), "realloc");
    take(f, f->realloc(NULL, 1000), "realloc of NULL");
    take(f, f->reallocarray(NULL, 10, 100), "reallocarray");
    CHECK_IN(f, f->posix_memalign(&p, 64, 100) == 0);
    take(f, p, "posix_memalign");
    take(f, f->memalign(64, 100), "memalign");
    take(f, f->aligned_alloc(64, 100), "aligned_alloc");
    take(f, f->valloc(100), "valloc");
    take(f, f->pvalloc(100), "pvalloc");
    p = f->malloc(100);
    CHECK_IN(f, f->usable(p) >= 100 && f->usable(p) == mi_usable_size(p));
    f->free(p);
    int on_the_stack = 0;
    static int in_the_program;
    CHECK_IN(f, !mi_check_owned(&on_the_stack) && !mi_check_owned(&in_the_program));
    CHECK_IN(f, !mi_check_owned(NULL));
  }
  if (is_overriding()) {
    check_cfree();
    check_libc(&families[1]);
  }
  return 0;
}
