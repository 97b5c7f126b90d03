// SPDX-License-Identifier: MIT
// F12 heap-in-static-destructor: a global object owns a heap and destroys it in its destructor, as
// do one of a thread and one of a function; atexit handlers allocate from heaps. Exit 0, with
// destroy-on-exit, too.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include "mimalloc.h"

static void check(bool ok, const char *what) {
  if (ok) return;
  std::fprintf(stderr, "static-heap: %s\n", what);
  _exit(1);
}

struct owner {
  mi_heap_t *heap;
  char *block;
  bool destroys;
  explicit owner(bool d) : heap(mi_heap_new()), block(nullptr), destroys(d) {
    check(heap != nullptr, "no heap");
    block = static_cast<char *>(mi_heap_malloc(heap, 300));
    std::memset(block, 7, 300);
  }
  ~owner() {
    void *p = mi_heap_malloc(heap, 5000), *huge = mi_heap_malloc(heap, 3 << 20);
    check(p != nullptr && mi_heap_of(p) == heap && mi_heap_of(huge) == heap, "a destructor's block");
    check(block[0] == 7 && block[299] == 7, "the contents at exit");
    if (destroys) {
      mi_heap_destroy(heap);
    } else {
      mi_heap_delete(heap);
      check(mi_heap_of(block) == mi_heap_main(), "deleted");
      mi_free(block);
      mi_free(p);
      mi_free(huge);
    }
    mi_heap_t *late = mi_heap_new();
    check(mi_heap_contains(late, mi_heap_zalloc(late, 100)), "a late heap");
    mi_heap_destroy(late);
  }
};

typedef mi_heap_destroy_stl_allocator<std::pair<const int, std::string>> map_allocator;
static owner destroys(true), deletes(false);
static std::map<int, std::string, std::less<int>, map_allocator> table;
static thread_local owner of_thread(true);

static mi_heap_t *at_exit_heap;
static void at_exit() {
  check(mi_heap_malloc(at_exit_heap, 1000) != nullptr, "an exit handler's block");
  mi_heap_t *heap = mi_heap_new();
  check(mi_heap_malloc(heap, 100000) != nullptr, "an exit handler's heap");
  mi_heap_delete(heap);
}

static void run() {
  for (int i = 0; i < 1000; i++) table[i] = std::string(static_cast<size_t>(i % 100), 'x');
  at_exit_heap = mi_heap_new();
  check(std::atexit(at_exit) == 0, "atexit");
  static owner of_function(true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back([] { check(of_thread.block[0] == 7, "of a thread"); });
  for (auto &t : threads) t.join();
  check(of_thread.block[0] == 7 && of_function.block[0] == 7, "of the main thread");
}

int main(int argc, char **argv) {
  if (argc > 1) { // as the options of the environment say
    run();
    return 0;
  }
  for (const char *value : {"0", "1"}) {
    pid_t pid = fork();
    check(pid >= 0, "fork");
    if (pid == 0) {
      setenv("MIMALLOC_DESTROY_ON_EXIT", value, 1);
      char again[] = "again", *args[] = {argv[0], again, nullptr};
      execv("/proc/self/exe", args);
      _exit(2);
    }
    int status = 0;
    check(waitpid(pid, &status, 0) == pid && status == 0, value);
  }
  run();
  return 0;
}
