// SPDX-License-Identifier: MIT
// The host of plugin.sh (A05). Arguments: the plug-in, and how it is opened: local, global or deepbind. With deepbind,
// blocks go back to the side that made them.
#include "plugin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LINKED
extern "C" bool mi_is_in_heap_region(const void *p);
#endif

namespace {

void fail(const char *what) {
  fprintf(stderr, "FAIL: %s\n", what);
  exit(1);
}

const struct plugin *open_plugin(const char *file, const char *mode) {
  int flags = RTLD_NOW;
  if (strcmp(mode, "global") == 0) flags |= RTLD_GLOBAL;
  if (strcmp(mode, "deepbind") == 0) flags |= RTLD_DEEPBIND;
  void *handle = dlopen(file, flags);
  if (handle == nullptr) fail(dlerror());
  const void *found = dlsym(handle, "plugin_functions");
  if (found == nullptr) fail(dlerror());
  return static_cast<const struct plugin *>(found);
}

void exchange(const struct plugin *p, size_t n, const char *file) {
  std::string *s = p->make_string(n);
  if (s->size() != n || (n > 0 && (*s)[n - 1] != 'p')) fail("a string of the plug-in is wrong");
  s->append(200, 'h');
  delete s;
  std::vector<int> *v = p->make_vector(n);
  v->push_back(8);
  if (v->back() != 8 || v->front() != (n == 0 ? 8 : 7)) fail("a vector of the plug-in is wrong");
  delete v;
  char *text = p->make_dup("some text of the host");
  if (strcmp(text, "some text of the host") != 0) fail("a strdup of the plug-in is wrong");
  free(realloc(text, n + 1));
  free(p->make_line(file));
  p->take_string(new std::string(n, 'x'));
  p->take_vector(new std::vector<int>(n, 3));
  p->take_text(strdup("for the plug-in"));
}

// What strdup and getline allocate is made by the C library, whose malloc is the preloaded one: not the plug-in's.
void keep_apart(const struct plugin *p, size_t n) {
  p->take_string(p->make_string(n));
  p->take_vector(p->make_vector(n));
  p->take_text(p->make_copy("apart"));
  delete new std::string(n, 'y');
  free(strdup("own"));
}

}

int main(int argc, char **argv) {
  if (argc != 3) return 99;
#ifdef LINKED
  void *own = malloc(100);
  if (!mi_is_in_heap_region(own)) fail("malloc is not the library's");
  free(own);
#endif
  const struct plugin *p = open_plugin(argv[1], argv[2]);
  bool apart = strcmp(argv[2], "deepbind") == 0;
  for (size_t n = 0; n < 400000; n = n * 3 + 1) {
    for (int i = 0; i < 4; i++) {
      if (apart) keep_apart(p, n);
      else exchange(p, n, "/proc/self/status");
    }
  }
  return 0;
}
