/* SPDX-License-Identifier: MIT */
/* JSON text into a buffer of fixed size, without allocation, stdio and locale.
 *
 * What does not fit is left out whole, and so is all that follows; the closing brackets always fit.
 * So the text is JSON whatever the size of the buffer, from 3 bytes up, and ends with 0.
 * Threads: one writer, one thread. */
#ifndef MI_RT_JSON_H
#define MI_RT_JSON_H

#include "base/compiler.h"

#define MI_JSON_DEPTH 16

struct mi__json {
  char *buf;
  size_t size;                  /* of buf, with the 0 at its end */
  size_t length;                /* written */
  size_t needed;                /* length of the whole text, had there been room for it */
  unsigned depth;               /* brackets that are open in the text */
  unsigned n_left_out;          /* brackets that are open and did not fit */
  bool comma;                   /* something stands before in the same brackets */
  bool full;                    /* something did not fit */
  char closing[MI_JSON_DEPTH];
};

/* buf may be NULL with size 0: only `needed` is of use then. */
void mi__json_begin(struct mi__json *json, char *buf, size_t size);
/* '{' or '['. name: of the member, a plain word; NULL in an array and for the whole. */
void mi__json_open(struct mi__json *json, const char *name, char bracket);
void mi__json_close(struct mi__json *json);
void mi__json_number(struct mi__json *json, const char *name, int64_t value);
/* An address or a hash: a string of 0x and hexadecimal digits, which no reader rounds. */
void mi__json_hex(struct mi__json *json, const char *name, uint64_t value);
void mi__json_bool(struct mi__json *json, const char *name, bool value);

#endif
