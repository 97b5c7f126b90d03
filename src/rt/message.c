/* SPDX-License-Identifier: MIT */
/* Messages: who gets them, how many of them, and in what form.
 *
 * Owns: the two registered callbacks, the counts of messages.
 * Threads: any, without a lock, so that a message can be made in a signal handler and in a fork
 * child. */
#include "rt/message.h"
#include "base/atomic.h"
#include "base/check.h"
#include "base/track.h"
#include "os/os.h"
#include "rt/option.h"
#include <errno.h>
#include <string.h>

#define TEXT_SIZE 1024 /* "mimalloc: warning: ", 1000 bytes, the end of the line */

/* ---- registered callbacks ----
 * A callback and its argument are written to a slot of their own, then published by number. A
 * reader takes both from the slot, then looks whether so many registrations began meanwhile that
 * its slot may have been written again. */

#define N_SLOTS 8

struct registry {
  _Atomic(uint32_t) begun, published;
  struct { _Atomic(uintptr_t) fun, arg; } slot[N_SLOTS];
};

static struct registry output, error_handler;

static void register_pair(struct registry *r, uintptr_t fun, void *arg) {
  uint32_t ticket = mi__fetch_add(&r->begun, 1, relaxed) + 1;
  mi__fence(release); /* begun before the slot: with the acquire fence of read_pair */
  mi__store(&r->slot[ticket % N_SLOTS].fun, fun, relaxed);
  mi__store(&r->slot[ticket % N_SLOTS].arg, (uintptr_t)arg, relaxed);
  uint32_t before = mi__load(&r->published, relaxed);
  /* The latest to begin wins. The release goes with the acquire of read_pair. */
  while ((int32_t)(ticket - before) > 0 &&
         !mi__cas_weak(&r->published, &before, ticket, release)) {}
}

static uintptr_t read_pair(struct registry *r, void **arg) {
  uint32_t ticket, begun;
  uintptr_t fun;
  do {
    ticket = mi__load(&r->published, acquire);
    fun = mi__load(&r->slot[ticket % N_SLOTS].fun, relaxed);
    *arg = (void *)mi__load(&r->slot[ticket % N_SLOTS].arg, relaxed);
    mi__fence(acquire);
    begun = mi__load(&r->begun, relaxed);
  } while (begun - ticket >= N_SLOTS);
  return fun;
}

void mi__message_register_output(mi_output_fun *out, void *arg) {
  register_pair(&output, (uintptr_t)out, arg);
}

void mi__message_register_error(mi_error_fun *fun, void *arg) {
  register_pair(&error_handler, (uintptr_t)fun, arg);
}

/* ---- output ---- */

/* What this thread is in the middle of. Its own callbacks may come back to the library, and must
 * not come back here. */
enum { PRINTING = 1, HANDLING_ERROR = 2 };
static mi__thread_local uint32_t busy;

static void send(mi_output_fun *out, void *arg, const char *text) {
  if (busy & PRINTING) return;
  if (out == NULL) out = (mi_output_fun *)read_pair(&output, &arg);
  if (out == NULL) {
    mi__os_write_stderr(text, strlen(text));
    return;
  }
  int saved = errno;
  busy |= PRINTING;
  unsigned depth = mi__track_pause();
  out(text, arg);
  mi__track_resume(depth);
  busy &= ~(uint32_t)PRINTING;
  errno = saved;
}

void mi__print(mi_output_fun *out, void *arg, const char *fmt, ...) {
  char text[TEXT_SIZE];
  va_list args;
  va_start(args, fmt);
  (void)mi__vformat(text, sizeof(text), fmt, args);
  va_end(args);
  send(out, arg, text);
}

/* One whole line: prefix, text, end of line; what is too long is cut. */
static void print_line(const char *prefix, const char *fmt, va_list args) {
  char text[TEXT_SIZE];
  size_t start = mi__format(text, sizeof(text), "mimalloc: %s", prefix);
  size_t room = sizeof(text) - start - 1; /* the end of the line has its byte always */
  size_t length = mi__vformat(text + start, room, fmt, args);
  char *end = text + start + (length < room ? length : room - 1);
  if (end[-1] != '\n') *end++ = '\n';
  *end = 0;
  send(NULL, NULL, text);
}

/* ---- kinds of messages ---- */

/* One of at most `most` messages (below 0: no limit)? Counts only those that are shown. */
static bool may_show(_Atomic(int64_t) *shown, long most) {
  int64_t n = mi__load(shown, relaxed);
  do {
    if (most >= 0 && n >= most) return false;
  } while (!mi__cas_weak(shown, &n, n + 1, relaxed));
  return true;
}

void mi__warning(const char *fmt, ...) {
  static _Atomic(int64_t) shown;
  bool wanted =
    mi__option_get(mi_option_verbose) >= 1 || mi__option_get(mi_option_show_errors) != 0;
  if (!wanted || (busy & PRINTING)) return;
  if (!may_show(&shown, mi__option_get(mi_option_max_warnings))) return;
  va_list args;
  va_start(args, fmt);
  print_line("warning: ", fmt, args);
  va_end(args);
}

static void call_error_handler(int err) {
  void *arg;
  mi_error_fun *fun = (mi_error_fun *)read_pair(&error_handler, &arg);
  if (fun == NULL || (busy & HANDLING_ERROR)) return;
  busy |= HANDLING_ERROR;
  unsigned depth = mi__track_pause();
  fun(err, arg);
  mi__track_resume(depth);
  busy &= ~(uint32_t)HANDLING_ERROR;
}

void mi__error(int err, const char *fmt, ...) {
  static _Atomic(int64_t) shown;
  int saved = errno;
  if (!(busy & PRINTING) && mi__option_get(mi_option_show_errors) != 0 &&
      may_show(&shown, mi__option_get(mi_option_max_errors))) {
    va_list args;
    va_start(args, fmt);
    print_line("error: ", fmt, args);
    va_end(args);
  }
  call_error_handler(err);
  errno = saved;
}

void mi__verbose(int level, const char *fmt, ...) {
  if (mi__option_get(mi_option_verbose) < level) return;
  va_list args;
  va_start(args, fmt);
  print_line("", fmt, args);
  va_end(args);
}

/* ---- start and fork ---- */

/* Straight to standard error: the process stops, and the program's callback might need what just
 * failed. */
static void report_check(const char *condition, const char *file, unsigned line) {
  char text[TEXT_SIZE];
  static const char fmt[] = "mimalloc: check failed: %s (%s:%u)\n";
  (void)mi__format(text, sizeof(text), fmt, condition, file, line);
  mi__os_write_stderr(text, strlen(text));
}

void mi__message_init(void) { mi__check_set_hook(report_check); }

/* Nothing is held while a message is made, so there is nothing to free here; but a thread that is
 * not here any more may have been reading the options. */
void mi__message_fork_child(void) { mi__option_fork_child(); }
