/* SPDX-License-Identifier: MIT */
/* F06 managed-memory-only: with disallow_os_alloc and a static array handed over, all blocks lie in
 * the array, nearly all of it is used, and no mapping above 1 MiB is made. A filter of system calls
 * ends the process at such a mapping. */
#include "stress/filter.h"
#include <errno.h>
#include <mimalloc.h>

#define MIB ((size_t)1 << 20)
static char memory[256 << 20];

#ifdef SYS_mmap2
#define NR_MMAP SYS_mmap2
#else
#define NR_MMAP SYS_mmap
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_WORD 0
#else
#define LOW_WORD 4
#endif

static void forbid_large_mappings(void) {
  size_t arg = offsetof(struct seccomp_data, args) + sizeof(uint64_t);
  struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_MMAP, 0, 5),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)arg + 4 - LOW_WORD),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 2, 0),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)arg + LOW_WORD),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (unsigned)MIB, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    SKIP("filters of system calls are not to be had here, errno %d", errno);
}

static void check_place(const char *p, size_t size) {
  CHECK(p >= memory && p + size <= memory + sizeof(memory));
}

int main(int argc, char **argv) {
  mi_test_not_under("thread"); /* they map what they like */
  mi_test_not_under("address");
  if (argc < 2) { /* the option must hold from the first allocation on */
    setenv("MIMALLOC_DISALLOW_OS_ALLOC", "1", 1);
    execl("/proc/self/exe", argv[0], "managed", (char *)NULL);
    return MI_TEST_ERROR;
  }
  CHECK(mi_option_is_enabled(mi_option_disallow_os_alloc));
  forbid_large_mappings();
  errno = 0;
  CHECK(mi_malloc(10) == NULL && errno == ENOMEM);
  CHECK(mi_manage_os_memory(memory, sizeof(memory), true, false, true, -1));
  char *large = mi_malloc(64 * MIB);
  CHECK(large != NULL);
  check_place(large, 64 * MIB);
  CHECK(mi_calloc(64, MIB) != NULL); /* zeros that need not be written: no memory is touched */
  size_t sum = 128 * MIB;
  size_t each = mi_test_tracked() ? 1280 : 1024; /* the size class, with a trailer */
  for (int i = 0; i < 1000; i++) {
    char *p = mi_malloc(1024);
    CHECK(p != NULL);
    check_place(p, 1024);
    memset(p, 1, 1024);
    sum += each;
  }
  char *p;
  for (size_t i = 0; (p = mi_malloc(1024)) != NULL; i++, sum += each) {
    check_place(p, 1024);
    *p = (char)i; /* one in four touches a page */
  }
  CHECK(errno == ENOMEM);
  CHECK(sum >= sizeof(memory) / 10 * 9);
  CHECK(mi_malloc(200 * MIB) == NULL && mi_malloc(5000) == NULL);
  mi_free(large);
  for (int i = 0; i < 3; i++) {
    p = mi_realloc(NULL, 8 * MIB);
    CHECK(p != NULL);
    check_place(p, 8 * MIB);
  }
  p = mi_realloc(p, 24 * MIB);
  CHECK(p != NULL);
  check_place(p, 24 * MIB);
  return 0;
}
