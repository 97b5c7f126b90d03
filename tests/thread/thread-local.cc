// SPDX-License-Identifier: MIT
// C07 alloc-after-thread-teardown: a thread_local C++ object with malloc in its constructor and free in its destructor, and
// objects that allocate in their destructor, some made before and some after a key of the program; 2000 threads. No crash;
// the resident memory grows by at most 1 MiB over threads 1000 to 2000.
#include <string>
#include <vector>

#include "thread/behave.h"
#include <pthread.h>

namespace {

const int n_threads = 2000;
pthread_key_t key;
int n_destroyed;

struct Holder {
  void *block;
  Holder() : block(malloc(300)) { behave_fill(block, 300, 5); }
  ~Holder() {
    if (behave_verify(block, 300, 5) != 300) FAIL("the block of a thread_local object is changed");
    free(block);
    n_destroyed++;
  }
};

// Its destructor allocates more than it frees, and sets the key of the program once more.
struct Late {
  std::vector<std::string> texts;
  ~Late() {
    for (int i = 0; i < 50; i++) texts.push_back(std::string(static_cast<size_t>(i) * 7, 'x'));
    if (texts.back().size() != 343 || texts.back()[342] != 'x') FAIL("a string made in a destructor is wrong");
    pthread_setspecific(key, malloc(40));
    n_destroyed++;
  }
};

thread_local Holder first;
thread_local Late late;
thread_local Holder second;

void free_value(void *p) { free(p); }

void *live(void *) {
  pthread_setspecific(key, malloc(64));
  if (first.block == second.block) FAIL("two live blocks have one address");
  late.texts.push_back("a text that is too long for the small string buffer");
  return nullptr;
}

}

int main() {
  behave_limit(60);
  if (pthread_key_create(&key, free_value) != 0) FAIL("pthread_key_create failed");
  size_t resident_half = 0;
  for (int i = 0; i < n_threads; i++) {
    pthread_t t;
    if (i == n_threads / 2) resident_half = behave_resident();
    int err = pthread_create(&t, nullptr, live, nullptr);
    if (err != 0) FAIL("pthread_create gave %d", err);
    pthread_join(t, nullptr);
  }
  size_t resident = behave_resident();
  if (n_destroyed != 3 * n_threads) FAIL("%d objects were destroyed", n_destroyed);
  if (!BEHAVE_SANITIZED && resident > resident_half + BEHAVE_MiB) {
    FAIL("%zu KiB more are resident after %d threads than after half of them",
         (resident - resident_half) / BEHAVE_KiB, n_threads);
  }
  return 0;
}
