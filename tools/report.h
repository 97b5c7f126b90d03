/* SPDX-License-Identifier: MIT */
/* What the commands of mi-heapview print. The text goes to standard output, whose errors main
 * looks for at the end. */
#ifndef MI_TOOLS_REPORT_H
#define MI_TOOLS_REPORT_H

#include "names.h"
#include "snapshot.h"

#include <stdio.h>

struct view {
  bool human;           /* sizes as 1.2 MiB */
  bool color;           /* escape sequences for a terminal */
  bool by_heap, by_tid; /* a group for each */
  uint64_t top;         /* rows at most */
};
struct input {
  const char *path;
  struct snapshot snapshot;
  struct names names;
};

enum { SIZE_TEXT = 32 };
/* Bytes as text, in `to`. */
const char *size_text(char to[SIZE_TEXT], uint64_t bytes, bool human);
const char *page_kind_name(unsigned kind);

/* report.c */
void report_summary(const struct input *in, const struct view *view);
void report_sizes(const struct input *in, const struct view *view);
void report_diff(const struct input *before, const struct input *after, const struct view *view);

/* lists.c */
void list_frag(const struct input *in, const struct view *view);
void list_arenas(const struct input *in, const struct view *view);
void list_pages(const struct input *in, const struct view *view);
/* False: the snapshot has no maps; nothing was printed. */
bool list_blocks(const struct input *in, const struct view *view);

/* peek.c. False: there is nothing to show; `error` tells why, and `blamed` of which file. */
bool peek(const struct input *in, const char *core_path, uint64_t address,
          const struct view *view, const char **blamed, char *error, size_t error_size);

/* json.c */
void write_json(const struct input *in);

/* map.c */
void write_map(const struct input *in, FILE *out);

/* Memory, or the end of the program with a message. */
void *need(size_t n, size_t size);

#endif
