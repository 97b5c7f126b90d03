/* SPDX-License-Identifier: MIT */
/* For lazy-tls.sh (A15). Arguments: libraries, each with a thread variable behind a function variable_touch. The main thread
 * opens and closes them; 4 threads allocate, and touch the variable of the one that is open. */
#include "thread/behave.h"
#include <dlfcn.h>
#include <pthread.h>

static pthread_rwlock_t open_lock = PTHREAD_RWLOCK_INITIALIZER;
static char *(*touch)(void); /* NULL: no library is open */
static bool stop;

static void *allocate_and_touch(void *arg) {
  uint64_t rng = (uintptr_t)arg;
  void *held[64] = {0};
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    size_t k = behave_random(&rng) % 64;
    free(held[k]);
    held[k] = malloc(behave_random_size(&rng, 1, 30000));
    pthread_rwlock_rdlock(&open_lock);
    if (touch != NULL) *touch() = 1;
    pthread_rwlock_unlock(&open_lock);
  }
  for (size_t k = 0; k < 64; k++) free(held[k]);
  return NULL;
}

static void set_touch(char *(*function)(void)) {
  pthread_rwlock_wrlock(&open_lock);
  touch = function;
  pthread_rwlock_unlock(&open_lock);
}

int main(int argc, char **argv) {
  size_t rounds = mi_test_scale(2, 6);
  pthread_t t[4];
  behave_limit(20);
  for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, allocate_and_touch, (void *)(i + 1)) == 0);
  for (size_t round = 0; round < rounds; round++) {
    for (int i = 1; i < argc; i++) {
      void *library = dlopen(argv[i], RTLD_NOW);
      if (library == NULL) FAIL("%s", dlerror());
      char *(*function)(void);
      *(void **)&function = dlsym(library, "variable_touch");
      CHECK(function != NULL);
      set_touch(function);
      *function() = 2;
      behave_sleep_ms(2);
      set_touch(NULL);
      dlclose(library);
    }
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  return 0; /* the loader frees the thread variables' table at exit */
}
