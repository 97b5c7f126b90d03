// SPDX-License-Identifier: MIT
// A library of initialiser.sh (A06): two global objects that allocate while they are made, one of them as early as can be.
#include <stdlib.h>
#include <string.h>
#include <string>

#define GLUE_AGAIN(a, b) a##b
#define GLUE(a, b) GLUE_AGAIN(a, b)

extern "C" void early_destroyed(bool whole);

namespace {

struct Early {
  char *block;
  std::string text;
  explicit Early(size_t size) : block(static_cast<char *>(malloc(size))), text(1000, 'e') {
    if (block == nullptr) abort();
    memset(block, 0x5C, size);
    block[size - 1] = 0x5D;
    length = size;
  }
  bool whole() const { return block[0] == 0x5C && block[length - 1] == 0x5D && text[999] == 'e'; }
  ~Early() {
    early_destroyed(whole());
    free(block);
  }
  size_t length;
};

__attribute__((init_priority(101))) Early first(1672);
Early second(70000);

}

extern "C" bool GLUE(early_whole_, NUMBER)(void) { return first.whole() && second.whole(); }
