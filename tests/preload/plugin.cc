// SPDX-License-Identifier: MIT
// The plug-in of plugin.sh (A05): gives out what it allocated, and frees what it is given.
#include "plugin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

std::string *make_string(size_t length) { return new std::string(length, 'p'); }
std::vector<int> *make_vector(size_t length) { return new std::vector<int>(length, 7); }
char *make_dup(const char *text) { return strdup(text); }
char *make_line(const char *file) {
  char *line = nullptr;
  size_t size = 0;
  FILE *f = fopen(file, "r");
  if (f == nullptr || getline(&line, &size, f) < 0) abort();
  fclose(f);
  return line;
}
char *make_copy(const char *text) {
  char *copy = static_cast<char *>(malloc(strlen(text) + 1));
  return strcpy(copy, text);
}
void take_string(std::string *s) { delete s; }
void take_vector(std::vector<int> *v) {
  v->resize(v->size() * 3 + 5, 1);
  delete v;
}
void take_text(char *text) { free(realloc(text, 5000)); }

}

extern "C" __attribute__((visibility("default"))) const struct plugin plugin_functions = {
    make_string, make_vector, make_dup, make_line,
    make_copy, take_string, take_vector, take_text};
