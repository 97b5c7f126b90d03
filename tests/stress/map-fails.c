/* SPDX-License-Identifier: MIT */
/* E04 out-of-memory-at-awkward-places, second half: each k-th mmap and mprotect returns ENOMEM, k = 1..40. Only NULL and ENOMEM,
 * never a signal; afterwards normal service. The calls are caught by a filter that traps; the handler fails every k-th, and
 * makes the others itself from an address that the filter lets through. */
#include "stress/filter.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#if defined(__x86_64__)

/* The system call instruction of the handler, and the address behind it, which the filter sees. */
__asm__(".text\n"
        ".globl passed_syscall\n"
        ".hidden passed_syscall\n"
        "passed_syscall:\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n"
        "  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n"
        "  syscall\n"
        ".globl passed_syscall_end\n"
        ".hidden passed_syscall_end\n"
        "passed_syscall_end:\n"
        "  ret\n");
extern long passed_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char passed_syscall_end[];

static unsigned fail_each = 1;
static bool failing;
static unsigned n_calls, n_failed;

static void on_trap(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number;
  ucontext_t *uc = context;
  greg_t *r = uc->uc_mcontext.gregs;
  unsigned n = __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(&failing, __ATOMIC_RELAXED) && n % fail_each == 0) {
    __atomic_fetch_add(&n_failed, 1, __ATOMIC_RELAXED);
    r[REG_RAX] = -ENOMEM;
    return;
  }
  r[REG_RAX] = passed_syscall(info->si_syscall, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
}

static void install(void) {
  uint64_t end = (uintptr_t)passed_syscall_end;
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)end, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(end >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (sigaction(SIGSYS, &action, NULL) != 0) exit(MI_TEST_ERROR);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    SKIP("filters of system calls are not to be had here, errno %d", errno);
  }
}

/* Whatever is obtained is whole; whatever is not sets ENOMEM. Returns how many requests failed. */
static size_t work(void) {
  enum { SLOTS = 128 };
  unsigned char *held[SLOTS] = {0};
  size_t sizes[SLOTS], n_null = 0;
  uint64_t rng = 5 + fail_each;
  for (size_t i = 0; i < 600; i++) {
    size_t k = behave_random(&rng) % SLOTS;
    size_t size = behave_random_size(&rng, 1, i % 16 == 0 ? 8 * BEHAVE_MiB : 300 * BEHAVE_KiB);
    errno = 0;
    if (held[k] != NULL && i % 3 == 0) {
      size_t kept = (sizes[k] < size ? sizes[k] : size) & ~(size_t)7;
      unsigned char *p = realloc(held[k], size);
      if (p == NULL) {
        CHECK(errno == ENOMEM && behave_verify(held[k], sizes[k], k) == sizes[k]);
        n_null++;
        continue;
      }
      CHECK(behave_verify(p, kept, k) == kept || sizes[k] < 8);
      held[k] = p;
    } else {
      if (held[k] != NULL) CHECK(behave_verify(held[k], sizes[k], k) == sizes[k]);
      free(held[k]);
      held[k] = i % 2 == 0 ? calloc(1, size) : malloc(size);
      if (held[k] == NULL) {
        CHECK(errno == ENOMEM);
        n_null++;
        continue;
      }
      if (i % 2 == 0) CHECK(behave_is_zero(held[k], size < 16384 ? size : 16384));
    }
    sizes[k] = size < 16384 ? size : 16384; /* only so much is written and checked */
    behave_fill(held[k], sizes[k], k);
    if (i % 100 == 0) behave_collect(i % 200 == 0);
  }
  for (size_t k = 0; k < SLOTS; k++) free(held[k]);
  return n_null;
}

static void *work_in_thread(void *arg) {
  (void)arg;
  work();
  return NULL;
}

static void be_process(unsigned k, bool from_the_first_call) {
  behave_limit(30);
  fail_each = k;
  install();
  if (!from_the_first_call) work();
  __atomic_store_n(&failing, true, __ATOMIC_RELAXED);
  work();
  pthread_t t[3];
  int n = 0;
  while (n < 3 && pthread_create(&t[n], NULL, work_in_thread, NULL) == 0) n++;
  work();
  for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
  __atomic_store_n(&failing, false, __ATOMIC_RELAXED);
  size_t n_null = work();
  if (n_null != 0) FAIL("k = %u: %zu requests failed after the OS served again", k, n_null);
}

int main(int argc, char **argv) {
  if (BEHAVE_SANITIZED) SKIP("a sanitizer makes system calls of its own");
  if (argc > 2) {
    be_process((unsigned)atoi(argv[1]), argv[2][0] == '1');
    return 0;
  }
  behave_limit(250);
  unsigned step = (unsigned)mi_test_scale(7, 1);
  for (unsigned k = 1; k <= 40; k += k < 5 ? 1 : step) {
    for (int from_start = 0; from_start < 2; from_start++) {
      char number[12];
      snprintf(number, sizeof(number), "%u", k);
      pid_t pid = fork();
      CHECK(pid >= 0);
      if (pid == 0) {
        execl("/proc/self/exe", argv[0], number, from_start ? "1" : "0", (char *)NULL);
        _exit(MI_TEST_ERROR);
      }
      int status = 0;
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) == MI_TEST_SKIP) return MI_TEST_SKIP;
      if (WIFSIGNALED(status)) FAIL("k = %u, from %d: ended by signal %d", k, from_start, WTERMSIG(status));
      if (status != 0) FAIL("k = %u, from %d: exit code %d", k, from_start, WEXITSTATUS(status));
    }
  }
  return 0;
}

#else
int main(void) { SKIP("written for x86-64 only"); }
#endif
