/* SPDX-License-Identifier: MIT */
/* Figures as text, for info.c and stats_print.c. */
#ifndef MI_API_TEXT_H
#define MI_API_TEXT_H

#include "base/compiler.h"
#include "mimalloc.h"

struct mi__sink {
  mi_output_fun *out; /* NULL: the registered output function */
  void *arg;
};
struct mi__text {
  char s[24];
};
struct mi__text mi__text_count(size_t n);
/* One digit after the point, cut off; integers only. */
struct mi__text mi__text_bytes(size_t n);
struct mi__text mi__text_seconds(size_t ms);
void mi__print_process(struct mi__sink sink);

#endif
