/* SPDX-License-Identifier: MIT */
/* A reader of just so much JSON as names of threads take: {"threads": {"0x1a2b": "worker"}}, with
 * whatever else stands beside. It never complains: it stops where it does not understand. */
#include "names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  FILE_MAX = 1 << 20,  /* bytes that are read; a name takes some 30 of them */
  NAME_MAX_BYTES = 128 /* longer names are cut */
};

struct text {
  const unsigned char *at, *end;
};

/* ---- characters ---- */

/* What XML, JSON or a terminal would stumble over becomes U+FFFD. */
static unsigned long clean(unsigned long c) {
  bool bad = c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000) ||
             (c & 0xfffe) == 0xfffe || c > 0x10ffff;
  return bad ? 0xfffd : c;
}

static size_t encode(unsigned long c, char *to) {
  if (c < 0x80) {
    to[0] = (char)c;
    return 1;
  }
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)(lead[n] | c);
  return n;
}

/* One character of UTF-8; of a malformed one a byte. */
static unsigned long decode(struct text *t) {
  unsigned long c = *t->at++;
  int more = c < 0x80 ? 0 : c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : -1;
  if (c >= 0xf8 || more < 0 || t->end - t->at < more) return 0xfffd;
  if (more == 0) return c;
  unsigned long value = c & (0x3fu >> more);
  for (int i = 0; i < more; i++) {
    if ((t->at[i] & 0xc0) != 0x80) return 0xfffd;
    value = value << 6 | (t->at[i] & 0x3f);
  }
  static const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
  t->at += more;
  return value < least[more] ? 0xfffd : value;
}

static bool hex4(struct text *t, unsigned long *value) {
  *value = 0;
  for (int i = 0; i < 4; i++) {
    if (t->at == t->end) return false;
    const char *digits = "0123456789abcdef", *d;
    int c = *t->at | 0x20;
    if ((d = strchr(digits, c)) == NULL || c < '0') return false;
    *value = *value << 4 | (unsigned long)(d - digits);
    t->at++;
  }
  return true;
}

/* What stands behind a backslash. */
static bool escaped(struct text *t, unsigned long *c) {
  if (t->at == t->end) return false;
  *c = *t->at++;
  if (*c != 'u') {
    if (strchr("bfnrt", (int)*c) != NULL) *c = ' ';
    return true;
  }
  unsigned long low;
  if (!hex4(t, c)) return false;
  if (*c < 0xd800 || *c >= 0xdc00 || t->end - t->at < 6 || t->at[0] != '\\' || t->at[1] != 'u')
    return true;
  struct text ahead = {t->at + 2, t->end};
  if (!hex4(&ahead, &low) || low < 0xdc00 || low >= 0xe000) return true;
  *t = ahead;
  *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

/* ---- tokens ---- */

static bool next_is(struct text *t, char c) {
  while (t->at < t->end && strchr(" \t\r\n", *t->at) != NULL && *t->at != 0) t->at++;
  return t->at < t->end && *t->at == (unsigned char)c;
}
static bool accept(struct text *t, char c) {
  if (!next_is(t, c)) return false;
  t->at++;
  return true;
}

/* A string, cut to what fits. */
static bool string(struct text *t, char to[NAME_MAX_BYTES]) {
  size_t n = 0;
  if (!accept(t, '"')) return false;
  while (t->at < t->end && *t->at != '"') {
    unsigned long c = decode(t);
    if (c == '\\' && !escaped(t, &c)) return false;
    if (n + 4 < NAME_MAX_BYTES) n += encode(clean(c), to + n);
  }
  to[n] = 0;
  return accept(t, '"');
}

/* Past a value of any kind, without a look at its grammar. */
static bool skip_value(struct text *t) {
  char ignored[NAME_MAX_BYTES];
  size_t depth = 0;
  do {
    if (next_is(t, '"')) {
      if (!string(t, ignored)) return false;
    } else if (t->at == t->end) {
      return false;
    } else if (*t->at == '{' || *t->at == '[') {
      depth++;
      t->at++;
    } else if (*t->at == '}' || *t->at == ']') {
      if (depth-- == 0) return false;
      t->at++;
    } else {
      t->at++;
    }
  } while (depth > 0 || !(next_is(t, ',') || next_is(t, '}')));
  return true;
}

/* ---- names ---- */

static bool add(struct names *names, const char *key, const char *text) {
  char *end;
  errno = 0;
  uint64_t tid = strtoull(key, &end, 16);
  if (*key == '-' || *key == 0 || *end != 0 || errno != 0) return true; /* no thread's */
  struct name *grown = realloc(names->all, (names->n + 1) * sizeof *grown);
  if (grown == NULL) return false;
  names->all = grown;
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  if (copy == NULL) return false;
  memcpy(copy, text, size);
  names->all[names->n++] = (struct name){tid, copy};
  return true;
}

/* The members of an object; of the outer one only "threads" is looked at. */
static bool members(struct text *t, struct names *names, bool outer) {
  if (!accept(t, '{')) return false;
  if (accept(t, '}')) return true;
  do {
    char key[NAME_MAX_BYTES], value[NAME_MAX_BYTES];
    if (!string(t, key) || !accept(t, ':')) return false;
    if (outer && strcmp(key, "threads") == 0 && next_is(t, '{')) {
      if (!members(t, names, false)) return false;
    } else if (!outer && next_is(t, '"')) {
      if (!string(t, value) || !add(names, key, value)) return false;
    } else if (!skip_value(t)) {
      return false;
    }
  } while (accept(t, ','));
  return accept(t, '}');
}

static int by_tid(const void *a, const void *b) {
  uint64_t x = ((const struct name *)a)->tid, y = ((const struct name *)b)->tid;
  return (x > y) - (x < y);
}

void names_read(const char *snapshot_path, struct names *names) {
  static const char suffix[] = ".meta.json";
  memset(names, 0, sizeof *names);
  size_t length = strlen(snapshot_path);
  char *path = malloc(length + sizeof suffix);
  unsigned char *bytes = malloc(FILE_MAX);
  FILE *f = NULL;
  if (path != NULL && bytes != NULL) {
    memcpy(path, snapshot_path, length);
    memcpy(path + length, suffix, sizeof suffix);
    f = fopen(path, "rb");
  }
  if (f != NULL) {
    size_t n = fread(bytes, 1, FILE_MAX, f);
    fclose(f);
    (void)members(&(struct text){bytes, bytes + n}, names, true);
    if (names->n > 0) qsort(names->all, names->n, sizeof names->all[0], by_tid);
  }
  free(path);
  free(bytes);
}

void names_free(struct names *names) {
  for (size_t i = 0; i < names->n; i++) free(names->all[i].text);
  free(names->all);
  memset(names, 0, sizeof *names);
}

const char *names_find(const struct names *names, uint64_t tid) {
  struct name key = {tid, NULL};
  if (names->n == 0) return NULL;
  struct name *found = bsearch(&key, names->all, names->n, sizeof key, by_tid);
  return found == NULL ? NULL : found->text;
}
