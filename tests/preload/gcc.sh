#!/bin/sh
# SPDX-License-Identifier: MIT
# The C compiler under LD_PRELOAD makes the same assembly as without, and a program that runs.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
set -- $MI_TEST_CC
need "$1"
compiler=$1
cat >hello.c <<'END'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
struct node { struct node *left, *right; double value; char name[24]; };
static struct node *insert(struct node *n, double v) {
  if (n == NULL) { n = calloc(1, sizeof(*n)); n->value = v; snprintf(n->name, sizeof(n->name), "%g", v); return n; }
  if (v < n->value) n->left = insert(n->left, v); else n->right = insert(n->right, v);
  return n;
}
#define ONE(k) static int f##k(int x) { for (int i = 0; i < 9; i++) x = x * k + (x >> 3) ^ i; return x; }
#define TEN(k) ONE(k##0) ONE(k##1) ONE(k##2) ONE(k##3) ONE(k##4) ONE(k##5) ONE(k##6) ONE(k##7) ONE(k##8) ONE(k##9)
TEN(1) TEN(2) TEN(3) TEN(4)
static int (*const all[])(int) = {f10, f11, f22, f23, f34, f35, f46, f47, f18, f29, f30, f41};
int main(void) {
  struct node *root = NULL; unsigned x = 1; int sum = 0;
  for (int i = 0; i < 1000; i++) { x = x * 1664525u + 1013904223u; root = insert(root, sqrt((double)(x >> 8))); }
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) sum += all[i]((int)i) & 255;
  printf("%s %d %zu\n", root->name, sum, wcslen(L"wide"));
  return 0;
}
END
cat >wrong.c <<'END'
int main(void) { return missing; }
END
same "$compiler -O2 -g -S" "$compiler" -w -O2 -g -S -o - hello.c
same "$compiler with an error" "$compiler" -S -o - wrong.c
limited 60 "$compiler" -w -O2 -o hello hello.c -lm || fail "$compiler does not link under the library"
"$work/hello" >expected
same "the program that it made" ./hello
[ -s expected ] && cmp -s expected out.with || fail "the program that it made prints something else"
ours "the program that it made" ./hello
ours "$compiler" "$compiler" -w -O2 -S -o hello.s hello.c
