/* SPDX-License-Identifier: MIT */
/* For static-tls.sh (A12). Arguments: the library to open last, and those to open before it. */
#include "thread/behave.h"
#include <dlfcn.h>
#include <pthread.h>

static void *(*take)(size_t size);
static void (*give)(void *p);

static void *use(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *held[100] = {0};
  size_t sizes[100];
  for (size_t i = 0; i < 20000; i++) {
    size_t k = behave_random(&rng) % 100;
    if (held[k] != NULL) {
      CHECK(behave_verify(held[k], sizes[k], k) == sizes[k]);
      give(held[k]);
    }
    sizes[k] = behave_random_size(&rng, 1, 20000);
    held[k] = take(sizes[k]);
    CHECK(held[k] != NULL);
    behave_fill(held[k], sizes[k], k);
  }
  for (size_t k = 0; k < 100; k++) give(held[k]);
  return NULL;
}

int main(int argc, char **argv) {
  behave_limit(20);
  if (argc < 2) return MI_TEST_ERROR;
  for (int i = 2; i < argc; i++) {
    if (dlopen(argv[i], RTLD_NOW) == NULL) FAIL("%s", dlerror());
  }
  void *library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) FAIL("%s", dlerror());
  *(void **)&take = dlsym(library, "mi_malloc");
  *(void **)&give = dlsym(library, "mi_free");
  CHECK(take != NULL && give != NULL);
  use((void *)1);
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, use, (void *)(i + 2)) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  use((void *)7);
  return 0;
}
