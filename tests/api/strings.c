/* SPDX-License-Identifier: MIT */
/* Copies of strings, path names and environment variables. */
#include "family.h"
#include <limits.h>
#include <locale.h>
#include <wchar.h>

static void check_copies(void) {
  const char *text = "a text of some length";
  errno = 99;
  char *s = mi_strdup(text);
  CHECK(s != NULL && s != text && strcmp(s, text) == 0 && mi_check_owned(s));
  mi_free(s);
  s = mi_strndup(text, 6);
  CHECK(s != NULL && strcmp(s, "a text") == 0);
  mi_free(s);
  s = mi_strndup(text, 1000);
  CHECK(s != NULL && strcmp(s, text) == 0 && mi_usable_size(s) < 1000);
  mi_free(s);
  const char open_ended[3] = {'a', 'b', 'c'}; /* no byte after the n-th may be read */
  s = mi_strndup(open_ended, 3);
  CHECK(s != NULL && memcmp(s, "abc", 4) == 0);
  mi_free(s);
  s = mi_strdup("");
  CHECK(s != NULL && *s == 0);
  mi_free(s);
  unsigned char *m = mi_mbsdup((const unsigned char *)"gr\303\274n");
  CHECK(m != NULL && strcmp((char *)m, "gr\303\274n") == 0);
  mi_free(m);
  wchar_t *w = mi_wcsdup(L"wide \x20ac");
  CHECK(w != NULL && wcscmp(w, L"wide \x20ac") == 0 && mi_check_owned(w));
  mi_free(w);
  CHECK(mi_strdup(NULL) == NULL && mi_strndup(NULL, 3) == NULL && mi_mbsdup(NULL) == NULL &&
        mi_wcsdup(NULL) == NULL);
  CHECK(errno == 99);
}

static void check_realpath(void) {
  char *p = mi_realpath("/usr/../.", NULL);
  CHECK(p != NULL && strcmp(p, "/") == 0 && mi_check_owned(p));
  mi_free(p);
  char buffer[PATH_MAX];
  CHECK(mi_realpath("//usr/..", buffer) == buffer && strcmp(buffer, "/") == 0);
  errno = 0;
  CHECK(mi_realpath("/no/such/folder", NULL) == NULL && errno == ENOENT);
}

static void check_environment(void) {
  char *s = (char *)1;
  size_t n = 99;
  setenv("MI_TEST_VARIABLE", "gr\303\274n", 1);
  unsetenv("MI_TEST_ABSENT");
  CHECK(mi_dupenv_s(&s, &n, "MI_TEST_VARIABLE") == 0 && strcmp(s, "gr\303\274n") == 0 && n == 6);
  CHECK(mi_check_owned(s));
  mi_free(s);
  CHECK(mi_dupenv_s(&s, NULL, "MI_TEST_VARIABLE") == 0 && strcmp(s, "gr\303\274n") == 0);
  mi_free(s);
  CHECK(mi_dupenv_s(&s, &n, "MI_TEST_ABSENT") == 0 && s == NULL && n == 0);
  CHECK(mi_dupenv_s(NULL, &n, "MI_TEST_VARIABLE") == EINVAL);
  CHECK(mi_dupenv_s(&s, &n, NULL) == EINVAL && s == NULL);

  wchar_t *w = (wchar_t *)1;
  setenv("MI_TEST_PLAIN", "plain", 1);
  CHECK(mi_wdupenv_s(&w, &n, L"MI_TEST_PLAIN") == 0 && wcscmp(w, L"plain") == 0 && n == 6);
  CHECK(mi_check_owned(w));
  mi_free(w);
  CHECK(mi_wdupenv_s(&w, &n, L"MI_TEST_ABSENT") == 0 && w == NULL && n == 0);
  CHECK(mi_wdupenv_s(NULL, &n, L"MI_TEST_PLAIN") == EINVAL);
  CHECK(mi_wdupenv_s(&w, &n, NULL) == EINVAL && w == NULL);
  CHECK(mi_wdupenv_s(&w, &n, L"MI_TEST_\x20ac") == EINVAL && w == NULL); /* not in locale C */
  if (setlocale(LC_CTYPE, "C.UTF-8") != NULL) {
    CHECK(mi_wdupenv_s(&w, &n, L"MI_TEST_VARIABLE") == 0 && wcscmp(w, L"gr\374n") == 0 && n == 5);
    mi_free(w);
  }
}

int main(void) {
  check_copies();
  check_realpath();
  check_environment();
  return 0;
}
