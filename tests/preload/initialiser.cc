// SPDX-License-Identifier: MIT
// The program of initialiser.sh (A06).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <string>

extern "C" bool early_whole_1(void);
extern "C" bool early_whole_2(void);
extern "C" bool early_whole_3(void);

static void *kept, *zero;
static int n_destroyed;

static void before_all(int, char **, char **) {
  free(malloc(100));
  kept = malloc(3000);
  zero = calloc(1, 1672);
  memset(kept, 1, 3000);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **, char **) = before_all;

// Called by the destructors of the libraries, the last of which runs after the program's own.
extern "C" __attribute__((visibility("default"))) void early_destroyed(bool whole) {
  if (!whole) _exit(3);
  if (++n_destroyed == 7) {
    static const char text[] = "all 7 are gone\n";
    if (write(1, text, sizeof(text) - 1) < 0) _exit(4);
  }
}

struct Own {
  std::string text;
  Own() : text(500, 'o') {}
  ~Own() { early_destroyed(text == std::string(500, 'o')); }
};
static Own own;

int main() {
  if (kept == nullptr || zero == nullptr) return 1;
  for (int i = 0; i < 1672; i++) {
    if (static_cast<char *>(zero)[i] != 0 || static_cast<char *>(kept)[i] != 1) return 2;
  }
  free(zero);
  free(kept);
  return early_whole_1() && early_whole_2() && early_whole_3() ? 0 : 5;
}
