#!/bin/sh
# SPDX-License-Identifier: MIT
# A14 dlopen-constructor-thread-malloc: dlopen of a .so whose constructor creates a thread; that thread mallocs and frees 1000
# blocks and signals; the constructor waits for the signal, then mallocs. Finishes within 5 s, exit code 0, 50 of 50.
. "$MI_TEST_SRCDIR/tests/preload/lib.sh"
cat >starter.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static int done;
static void *work(void *arg) {
  (void)arg;
  for (size_t i = 0; i < 1000; i++) {
    char *volatile p = malloc(i * 13 % 5000 + 1);
    if (p == NULL) abort();
    p[0] = 1;
    free(p);
  }
  pthread_mutex_lock(&lock);
  done = 1;
  pthread_cond_signal(&ready);
  pthread_mutex_unlock(&lock);
  return NULL;
}
__attribute__((constructor)) static void start(void) {
  pthread_t t;
  if (pthread_create(&t, NULL, work, NULL) != 0) abort();
  pthread_mutex_lock(&lock);
  while (!done) pthread_cond_wait(&ready, &lock);
  pthread_mutex_unlock(&lock);
  char *volatile p = malloc(3000);
  memset(p, 1, 3000);
  free(p);
  pthread_join(t, NULL);
}
END
cat >opener.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  char *volatile p = argc > 2 ? malloc(100) : NULL;
  if (dlopen(argv[1], RTLD_NOW) == NULL) { fputs(dlerror(), stderr); return 1; }
  free(p);
  return 0;
}
END
$MI_TEST_CC -O1 -fPIC -shared -o starter.so starter.c -pthread || exit 99
$MI_TEST_CC -O1 -o opener opener.c -ldl -pthread || exit 99
i=0
while [ $((i += 1)) -le 25 ]; do
  limited 100 ./opener ./starter.so || fail "run $i: exit code $?"
  limited 100 ./opener ./starter.so malloc-first || fail "run $i, after a malloc: exit code $?"
done
