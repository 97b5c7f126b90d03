/* SPDX-License-Identifier: MIT */
/* B13 new-failure-and-handler. Symptom: operator new aborts or returns NULL on failure. Right:
 * std::bad_alloc caught (exit 0, not SIGABRT); nothrow returns nullptr; handler called until
 * success or throw; derived exception arrives with its own type; nothrow + throwing handler gives
 * nullptr; aligned forms too. Handlers that (1) free a reserve and let the retry succeed under
 * RLIMIT_AS, (2) reset the handler, (3) throw a type derived from bad_alloc. */
#include "common.h"
#include <mimalloc.h>

#include <exception>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/resource.h>

static volatile std::size_t huge = PTRDIFF_MAX;
static int calls;
static bool redirected; /* else the operators are not the library's, and only mi_new is tested */

struct own_failure : std::bad_alloc {
  int value;
  explicit own_failure(int v) : value(v) {}
};

/* Every form that throws, with an absurd size. The operators come last. */
static int n_throwing() { return redirected ? 9 : 5; }
static void *throwing(int n) {
  std::align_val_t align{64};
  switch (n) {
    case 0: return mi_new(huge);
    case 1: return mi_new_aligned(huge, 64);
    case 2: return mi_new_n(1, huge);
    case 3: return mi_new_realloc(nullptr, huge);
    case 4: return mi_new_reallocn(nullptr, 1, huge);
    case 5: return ::operator new(huge);
    case 6: return ::operator new[](huge);
    case 7: return ::operator new(huge, align);
    default: return ::operator new[](huge, align);
  }
}

static int n_nothrow() { return redirected ? 6 : 2; }
static void *not_throwing(int n) {
  std::align_val_t align{64};
  switch (n) {
    case 0: return mi_new_nothrow(huge);
    case 1: return mi_new_aligned_nothrow(huge, 64);
    case 2: return ::operator new(huge, std::nothrow);
    case 3: return ::operator new[](huge, std::nothrow);
    case 4: return ::operator new(huge, align, std::nothrow);
    default: return ::operator new[](huge, align, std::nothrow);
  }
}

/* 1: bad_alloc itself; 2: own_failure with value 42; 3: an int; 0: nothing was thrown. */
static int thrown_by(int form) {
  try {
    void *volatile p = throwing(form);
    (void)p;
  } catch (own_failure &e) {
    return e.value == 42 ? 2 : -1;
  } catch (std::bad_alloc &) {
    return 1;
  } catch (int) {
    return 3;
  }
  return 0;
}

static void reset_handler() {
  calls++;
  std::set_new_handler(nullptr);
}
static void throw_own() {
  calls++;
  throw own_failure(42);
}
static void throw_int() {
  calls++;
  throw 7;
}

static void check_without_handler() {
  for (int i = 0; i < n_throwing(); i++) CHECK(thrown_by(i) == 1);
  for (int i = 0; i < n_nothrow(); i++) CHECK(not_throwing(i) == nullptr);
  try {
    void *volatile p = mi_new_n(huge, 16); /* the product overflows */
    (void)p;
    CHECK(false);
  } catch (std::bad_alloc &) {
  }
  if (!redirected) return;
  bool caught = false;
  try {
    char *volatile p = new char[huge];
    (void)p;
  } catch (std::bad_alloc &) {
    caught = true;
  }
  char *volatile none = new (std::nothrow) char[huge]; /* volatile: or clang leaves it out */
  CHECK(caught && none == nullptr);
}

static void check_handlers() {
  for (int i = 0; i < n_throwing(); i++) {
    calls = 0;
    std::set_new_handler(reset_handler);
    CHECK(thrown_by(i) == 1 && calls == 1);
    std::set_new_handler(throw_own);
    CHECK(thrown_by(i) == 2 && calls == 2);
    std::set_new_handler(throw_int);
    CHECK(thrown_by(i) == 3 && calls == 3);
  }
  for (int i = 0; i < n_nothrow(); i++) {
    calls = 0;
    std::set_new_handler(reset_handler);
    CHECK(not_throwing(i) == nullptr && calls == 1);
    std::set_new_handler(throw_own);
    CHECK(not_throwing(i) == nullptr && calls == 2);
    std::set_new_handler(throw_int);
    CHECK(not_throwing(i) == nullptr && calls == 3);
    CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
  }
  std::set_new_handler(nullptr);
}

/* A caught exception is destroyed with all that it owns, once. */
struct counted {
  static int alive;
  std::string text;
  counted() : text(200, 'x') { alive++; }
  counted(const counted &other) : text(other.text) { alive++; }
  ~counted() { alive--; }
};
int counted::alive;

static void throw_counted() { throw counted(); }

struct on_the_way {
  static int destroyed;
  ~on_the_way() { destroyed++; }
};
int on_the_way::destroyed;

/* A handler with objects on its stack, that itself calls the nothrow form. */
static void nested() {
  static int depth;
  on_the_way object;
  if (++depth % 2 == 0) throw_counted();
  void *volatile p = mi_new_nothrow(huge);
  CHECK(p == nullptr);
  throw_counted();
}

static void check_unwinding() {
  std::set_new_handler(throw_counted);
  for (int i = 0; i < 10000; i++) CHECK(mi_new_nothrow(huge) == nullptr);
  CHECK(counted::alive == 0);
  std::set_new_handler(nested);
  for (int i = 0; i < 100; i++) CHECK(mi_new_nothrow(huge) == nullptr);
  CHECK(counted::alive == 0 && on_the_way::destroyed == 200);
  try {
    throw 3;
  } catch (int three) { /* while another exception is being handled */
    std::set_new_handler(throw_counted);
    CHECK(mi_new_nothrow(huge) == nullptr);
    CHECK(std::current_exception() != nullptr && three == 3);
  }
  CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
  std::set_new_handler(nullptr);
}

/* A thread that ends inside the handler is not held up. (What the caller of a function that may not
 * throw has on its stack is not unwound by compilers.) */
static void end_thread() {
  on_the_way object;
  pthread_exit(nullptr);
}
static void *run_to_end(void *) {
  void *volatile p = mi_new_nothrow(huge);
  (void)p;
  return (void *)1;
}
static void check_thread_end() {
  on_the_way::destroyed = 0;
  std::set_new_handler(end_thread);
  pthread_t thread;
  void *result = (void *)1;
  CHECK(pthread_create(&thread, nullptr, run_to_end, nullptr) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == nullptr && on_the_way::destroyed == 1);
  std::set_new_handler(nullptr);
}

/* ---- a reserve that is given up when memory runs out ---- */

static void *reserve;
static void free_reserve() {
  calls++;
  if (reserve == nullptr) throw own_failure(42);
  ::operator delete(reserve);
  reserve = nullptr;
}

static std::size_t address_space() {
  FILE *file = fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  CHECK(file != nullptr && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  return pages * (std::size_t)sysconf(_SC_PAGESIZE);
}

static void check_reserve() {
  const std::size_t mib = (std::size_t)1 << 20;
  reserve = ::operator new(32 * mib);
  memset(reserve, 1, 32 * mib);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = address_space() + 64 * mib;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  std::set_new_handler(nullptr);
  static void *filler[4096]; /* all that is left */
  int n = 0;
  while (n < 4096 && (filler[n] = ::operator new(4 * mib, std::nothrow)) != nullptr) n++;
  CHECK(n < 4096);
  calls = 0;
  std::set_new_handler(free_reserve);
  void *p = ::operator new(16 * mib); /* finds room where the reserve was */
  CHECK(p != nullptr && calls == 1 && reserve == nullptr);
  memset(p, 2, 16 * mib);
  std::set_new_handler(nullptr);
  ::operator delete(p);
  while (n > 0) ::operator delete(filler[--n]);
}

int main() {
  redirected = mi_is_redirected();
  check_without_handler();
  check_handlers();
  check_unwinding();
  check_thread_end();
  if (redirected) check_reserve(); /* not under sanitizers, which need room */
  return 0;
}
