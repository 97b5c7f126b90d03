/* SPDX-License-Identifier: MIT */
/* mi-heapview: looks at heap snapshots (doc/snapshot.md). Commands, options, exit statuses:
 * 0 done, 1 a file cannot be read or written, 2 wrong usage. */
#include "config.h"

#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DONE, FAILED, USAGE };

static const char help[] =
    "Usage: mi-heapview COMMAND [OPTION...] FILE...\n"
    "Looks at a heap snapshot, as mi_heap_snapshot and MIMALLOC_SNAPSHOT_ON_EXIT write them.\n"
    "\n"
    "  summary FILE             totals\n"
    "  sizes FILE               sums for each block size, most committed first\n"
    "  diff OLD NEW             what changed for each block size, largest change first\n"
    "  frag FILE                pages, most waste first\n"
    "  arenas FILE              arenas and what their slices are\n"
    "  pages FILE               pages as they come\n"
    "  blocks FILE              address and size of each live block (snapshots with maps)\n"
    "  peek FILE CORE ADDRESS   the block that holds the hexadecimal address, out of a core file\n"
    "  json FILE                everything, as JSON\n"
    "  map FILE [-o OUT.svg]    a picture of the arenas\n"
    "\n"
    "      --human          sizes as 1.2 MiB\n"
    "      --top N          at most N rows, of groups each\n"
    "      --by-heap        with summary, sizes, frag: for each heap\n"
    "      --by-tid         with summary, sizes, frag: for each thread\n"
    "  -o, --output FILE    with map: write it there\n"
    "      --help           print this help and exit\n"
    "      --version        print the version and exit\n"
    "\n"
    "Names of threads come from FILE.meta.json where there is one.\n";

/* ---- messages ---- */

static int usage(const char *what, const char *detail) {
  fprintf(stderr, "mi-heapview: %s%s\nTry 'mi-heapview --help'.\n", what, detail);
  return USAGE;
}

static int failed(const char *file, const char *why) {
  fprintf(stderr, "mi-heapview: %s: %s\n", file, why);
  return FAILED;
}

void *need(size_t n, size_t size) {
  void *p = calloc(n > 0 ? n : 1, size);
  if (p != NULL) return p;
  fputs("mi-heapview: out of memory\n", stderr);
  exit(FAILED);
}

/* ---- commands ---- */

struct call {
  struct view view;
  const char *output;
  char **operands;
  struct input in, second;
};

static int run_summary(struct call *c) { return report_summary(&c->in, &c->view), DONE; }
static int run_sizes(struct call *c) { return report_sizes(&c->in, &c->view), DONE; }
static int run_diff(struct call *c) { return report_diff(&c->in, &c->second, &c->view), DONE; }
static int run_frag(struct call *c) { return list_frag(&c->in, &c->view), DONE; }
static int run_arenas(struct call *c) { return list_arenas(&c->in, &c->view), DONE; }
static int run_pages(struct call *c) { return list_pages(&c->in, &c->view), DONE; }
static int run_json(struct call *c) { return write_json(&c->in), DONE; }

static int run_blocks(struct call *c) {
  if (list_blocks(&c->in, &c->view)) return DONE;
  return failed(c->in.path, "was written without maps of blocks (MI_SNAPSHOT_BLOCKS)");
}

static int run_peek(struct call *c) {
  char *end, error[200];
  const char *text = c->operands[2], *blamed;
  errno = 0;
  uint64_t address = strtoull(text, &end, 16);
  if (*end != 0 || end == text || errno != 0 || strpbrk(text, "+- \t\n\v\f\r") != NULL)
    return usage("not a hexadecimal address: ", text);
  if (peek(&c->in, c->operands[1], address, &c->view, &blamed, error, sizeof error)) return DONE;
  fflush(stdout); /* what is known of the block comes before what is not */
  return failed(blamed, error);
}

static int run_map(struct call *c) {
  if (c->output == NULL) return write_map(&c->in, stdout), DONE;
  FILE *out = fopen(c->output, "w");
  if (out == NULL) return failed(c->output, strerror(errno));
  write_map(&c->in, out);
  bool wrong = ferror(out) != 0;
  if (fclose(out) != 0 || wrong) return failed(c->output, "cannot be written");
  return DONE;
}

static const struct command {
  const char *name;
  int (*run)(struct call *c);
  int operands, snapshots; /* snapshots come first */
  bool groups;
} commands[] = {
    {"summary", run_summary, 1, 1, true}, {"sizes", run_sizes, 1, 1, true},
    {"diff", run_diff, 2, 2, false},      {"frag", run_frag, 1, 1, true},
    {"arenas", run_arenas, 1, 1, false},  {"pages", run_pages, 1, 1, false},
    {"blocks", run_blocks, 1, 1, false},  {"peek", run_peek, 3, 1, false},
    {"json", run_json, 1, 1, false},      {"map", run_map, 1, 1, false},
};

static bool open_input(struct input *in, const char *path) {
  char error[200];
  in->path = path;
  if (!snapshot_read(path, &in->snapshot, error, sizeof error))
    return failed(path, error), false;
  names_read(path, &in->names);
  return true;
}
static void close_input(struct input *in) {
  snapshot_free(&in->snapshot);
  names_free(&in->names);
}

/* What was printed must have arrived. */
static int finish(int status) {
  bool wrong = ferror(stdout) != 0;
  if (fclose(stdout) == 0 && !wrong) return status;
  return failed("standard output", wrong && errno == 0 ? "cannot be written" : strerror(errno));
}

static int run(const struct command *command, struct call *c) {
  int status = FAILED;
  if (open_input(&c->in, c->operands[0]) &&
      (command->snapshots < 2 || open_input(&c->second, c->operands[1])))
    status = command->run(c);
  close_input(&c->in);
  close_input(&c->second);
  return finish(status);
}

/* ---- options ---- */

static bool to_count(const char *text, uint64_t *n) {
  char *end;
  errno = 0;
  *n = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && *n > 0;
}

static bool wants_color(void) {
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && (no_color == NULL || *no_color == 0) && term != NULL &&
         strcmp(term, "dumb") != 0;
}

int main(int argc, char **argv) {
  enum { OPT_HELP = 256, OPT_VERSION, OPT_HUMAN, OPT_TOP, OPT_BY_HEAP, OPT_BY_TID };
  static const struct option options[] = {
      {"help", no_argument, NULL, OPT_HELP},
      {"version", no_argument, NULL, OPT_VERSION},
      {"human", no_argument, NULL, OPT_HUMAN},
      {"top", required_argument, NULL, OPT_TOP},
      {"by-heap", no_argument, NULL, OPT_BY_HEAP},
      {"by-tid", no_argument, NULL, OPT_BY_TID},
      {"output", required_argument, NULL, 'o'},
      {NULL, 0, NULL, 0},
  };
  static struct call call = {.view = {.top = UINT64_MAX}};
  int option;
  opterr = 0;
  while ((option = getopt_long(argc, argv, ":o:", options, NULL)) != -1) {
    switch (option) {
    case OPT_HELP: fputs(help, stdout); return finish(DONE);
    case OPT_VERSION: puts("mi-heapview (mimalloc) " PACKAGE_VERSION); return finish(DONE);
    case OPT_HUMAN: call.view.human = true; break;
    case OPT_TOP:
      if (!to_count(optarg, &call.view.top)) return usage("not a number of rows: ", optarg);
      break;
    case OPT_BY_HEAP: call.view.by_heap = true; break;
    case OPT_BY_TID: call.view.by_tid = true; break;
    case 'o': call.output = optarg; break;
    case ':': return usage("a value is missing after ", argv[optind - 1]);
    default: return usage("unknown option: ", argv[optind - 1]);
    }
  }
  if (optind == argc) return usage("a command is missing", "");
  const char *name = argv[optind++];
  const struct command *command = NULL;
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(commands[i].name, name) == 0) command = &commands[i];
  if (command == NULL) return usage("unknown command: ", name);
  if (argc - optind != command->operands) return usage("wrong number of operands for ", name);
  if (call.output != NULL && command->run != run_map) return usage("--output is not for ", name);
  if ((call.view.by_heap || call.view.by_tid) && !command->groups)
    return usage("--by-heap and --by-tid are not for ", name);
  call.operands = argv + optind;
  call.view.color = wants_color();
  return run(command, &call);
}
