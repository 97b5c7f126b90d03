// SPDX-License-Identifier: MIT
// The program of late-free.sh (G01). Arguments: how to leave, and the exit code.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pthread.h>
#include <string>
#include <unistd.h>

namespace {

std::map<std::string, std::string> own;
void *kept;

void allocate() {
  char *p = static_cast<char *>(malloc(70000));
  memset(p, 1, 70000);
  free(kept);
  kept = p;
  setenv("MI_TEST_SET_IN_HANDLER", std::string(3000, 'v').c_str(), 1);
}

void in_handler() {
  allocate();
  printf("handlers ran\n");
}

void in_quick_handler() {
  allocate();
  static const char text[] = "quick handlers ran\n";
  if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0) abort();
}

void *work_a_while(void *) {
  for (int i = 0; i < 1000; i++) free(malloc(static_cast<size_t>(i) * 50));
  usleep(5000);
  free(malloc(100));
  return nullptr;
}

}

int main(int argc, char **argv) {
  if (argc != 3) return 99;
  int code = atoi(argv[2]);
  atexit(in_handler);
  at_quick_exit(in_quick_handler);
  for (int i = 0; i < 500; i++) own[std::to_string(i)] = std::string(100, 'o');
  if (strcmp(argv[1], "exit") == 0) exit(code);
  if (strcmp(argv[1], "quick_exit") == 0) quick_exit(code);
  if (strcmp(argv[1], "pthread_exit") == 0) {
    pthread_t t;
    if (pthread_create(&t, nullptr, work_a_while, nullptr) != 0) return 99;
    pthread_exit(nullptr);
  }
  return code;
}
