/* SPDX-License-Identifier: MIT */
/* Copies of strings, path names and environment variables in fresh blocks, to be freed by mi_free.
 * A NULL string gives NULL. */
#include "api/alloc.h"
#include "api/core.h"
#include "base/bits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

void *mi__copy_bytes_in(mi_theap_t *theap, const void *s, size_t n, size_t end) {
  char *t = mi__malloc_in(theap, n + end);
  if (mi__unlikely(t == NULL)) return NULL;
  memcpy(t, s, n);
  memset(t + n, 0, end);
  return t;
}

static void *copy_bytes(const void *s, size_t n, size_t end) {
  return mi__copy_bytes_in(mi__theap_default(), s, n, end);
}

mi__export char *mi_strdup(const char *s) {
  return s != NULL ? copy_bytes(s, strlen(s), 1) : NULL;
}

mi__export char *mi_strndup(const char *s, size_t n) {
  return s != NULL ? copy_bytes(s, strnlen(s, n), 1) : NULL;
}

/* A string of bytes in a multi-byte encoding ends with one zero byte, as any other. */
mi__export unsigned char *mi_mbsdup(const unsigned char *s) {
  return s != NULL ? copy_bytes(s, strlen((const char *)s), 1) : NULL;
}

mi__export wchar_t *mi_wcsdup(const wchar_t *s) {
  return s != NULL ? copy_bytes(s, wcslen(s) * sizeof(wchar_t), sizeof(wchar_t)) : NULL;
}

/* The C library resolves into a buffer that is given to it, so that the block comes from here
 * whether or not malloc is overridden. */
char *mi__realpath_in(mi_theap_t *theap, const char *fname, char *resolved_name) {
  if (resolved_name != NULL) return realpath(fname, resolved_name);
  char path[PATH_MAX];
  if (realpath(fname, path) == NULL) return NULL;
  return mi__copy_bytes_in(theap, path, strlen(path), 1);
}
mi__export char *mi_realpath(const char *fname, char *resolved_name) {
  return mi__realpath_in(mi__theap_default(), fname, resolved_name);
}

/* *buf: a copy, or NULL where there is no such variable; *size: its elements with the final 0. */
mi__export int mi_dupenv_s(char **buf, size_t *size, const char *name) {
  if (size != NULL) *size = 0;
  if (buf == NULL) return EINVAL;
  *buf = NULL;
  if (name == NULL) return EINVAL;
  const char *value = getenv(name);
  if (value == NULL) return 0;
  int kept = errno;
  *buf = mi_strdup(value);
  errno = kept;
  if (*buf == NULL) return ENOMEM;
  if (size != NULL) *size = strlen(value) + 1;
  return 0;
}

/* In the multi-byte encoding of the current locale; NULL: no memory, or no such character. */
static char *narrow(const wchar_t *s) {
  mbstate_t state;
  memset(&state, 0, sizeof state);
  const wchar_t *from = s;
  size_t length = wcsrtombs(NULL, &from, 0, &state);
  if (length == (size_t)-1) return NULL;
  char *t = mi__malloc_in(mi__theap_default(), length + 1);
  if (t == NULL) return NULL;
  memset(&state, 0, sizeof state);
  from = s;
  wcsrtombs(t, &from, length + 1, &state);
  return t;
}

static wchar_t *widen(const char *s, size_t *n_elements) {
  mbstate_t state;
  memset(&state, 0, sizeof state);
  const char *from = s;
  size_t length = mbsrtowcs(NULL, &from, 0, &state);
  if (length == (size_t)-1) return NULL;
  wchar_t *t = mi__malloc_in(mi__theap_default(), (length + 1) * sizeof(wchar_t));
  if (t == NULL) return NULL;
  memset(&state, 0, sizeof state);
  from = s;
  mbsrtowcs(t, &from, length + 1, &state);
  *n_elements = length + 1;
  return t;
}

/* The environment is one of bytes: name and value are converted. EINVAL where they cannot be. */
mi__export int mi_wdupenv_s(wchar_t **buf, size_t *size, const wchar_t *name) {
  if (size != NULL) *size = 0;
  if (buf == NULL) return EINVAL;
  *buf = NULL;
  if (name == NULL) return EINVAL;
  int kept = errno;
  errno = 0;
  size_t n_elements = 0;
  char *narrow_name = narrow(name);
  const char *value = narrow_name != NULL ? getenv(narrow_name) : NULL;
  if (value != NULL) *buf = widen(value, &n_elements);
  int result = 0;
  if (narrow_name == NULL || (value != NULL && *buf == NULL)) {
    result = errno == ENOMEM ? ENOMEM : EINVAL; /* EILSEQ: not in this encoding */
  }
  mi__free(narrow_name);
  errno = kept;
  if (size != NULL) *size = n_elements;
  return result;
}
