/* SPDX-License-Identifier: MIT */
/* What C++ adds to names.c: the names in namespace std, as members, and in templates of the
 * standard library. With -DDEFINE_NEW the program also defines the operators (the header twice). */
#include <cstdlib>
#include <memory>
#include <vector>
#include "names.c"
#if defined(DEFINE_NEW)
#include "mimalloc-new-delete.h"
#include "mimalloc-new-delete.h"
#endif
#include <algorithm>
#include <functional>
#include <map>
#include <string>

/* A class with members of these names, of other types and argument counts. */
class pool {
public:
  pool() : free_(0), freed(0) {}
  void *malloc(std::size_t size) { return std::malloc(size); }
  void free(void *p) { ++freed, std::free(p); }
  void free() { freed = 0; }
  int free(int a, int b) const { return a + b + free_; }
  template <class T> void free(T *a, T *b) { free(a), free(b); }

private:
  int free_;

public:
  int freed;
};

struct derived : pool {
  using pool::free;
  virtual ~derived() {}
  virtual void release(void *p) { free(p); }
};

static void standard_namespace() {
  void *p = OURS(std::malloc(10));
  p = OURS(std::realloc(p, 1000));
  std::free(p);
  p = OURS(std::calloc(2, 10));
  ::free(p);
#if __cplusplus >= 201703L
  std::free(OURS(std::aligned_alloc(32, 64)));
#endif
  std::unique_ptr<char, void (*)(void *)> text(strdup("text"), std::free);
  OURS(text.get());
  std::unique_ptr<void, void (*)(void *)> block(std::malloc(10), &std::free);
  OURS(block.get());
  std::shared_ptr<void> shared(malloc(10), free);
  OURS(shared.get());
  std::vector<void *> blocks(3);
  std::generate(blocks.begin(), blocks.end(), [] { return std::malloc(5); });
  std::for_each(blocks.begin(), blocks.end(), std::free);
}

static void members() {
  derived d;
  void *p = OURS(d.malloc(10));
  d.free(p);
  p = OURS(d.malloc(10));
  d.release(p);
  if (d.freed != 2 || d.free(3, 4) != 7) n_failed++;
  void (pool::*plain)() = &pool::free;
  (d.*plain)();
  int *a = static_cast<int *>(std::malloc(sizeof(int))), *b = static_cast<int *>(malloc(9));
  d.free(a, b);
  if (d.freed != 2) n_failed++;
}

static void operators() {
#if defined(DEFINE_NEW)
  struct wide { /* over-aligned where new can do that */
#if __cplusplus >= 201703L
    alignas(64)
#endif
    char bytes[100];
  };
  std::unique_ptr<int> one(new int(3));
  OURS(one.get());
  std::unique_ptr<wide[]> many(new wide[5]);
  OURS(many.get());
#endif
  std::map<std::string, int> m;
  m[std::string(100, 'x')] = 1;
}

int main() {
  int failed = all_names();
  standard_namespace();
  members();
  operators();
  return failed || n_failed != 0;
}
