/* SPDX-License-Identifier: MIT */
/* What the plug-in of plugin.sh and its host do to each other (A05). */
#ifndef MI_TESTS_PLUGIN_H
#define MI_TESTS_PLUGIN_H

#include <stddef.h>
#include <string>
#include <vector>

struct plugin {
  std::string *(*make_string)(size_t length);
  std::vector<int> *(*make_vector)(size_t length);
  char *(*make_dup)(const char *text);
  char *(*make_line)(const char *file);
  char *(*make_copy)(const char *text); /* by malloc, not by a function of the C library */
  void (*take_string)(std::string *s);
  void (*take_vector)(std::vector<int> *v);
  void (*take_text)(char *text);
};

#endif
