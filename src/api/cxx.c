/* SPDX-License-Identifier: MIT */
/* Finds the program's C++ runtime, and catches a C++ exception in C. */
#include "api/cxx.h"
#include "base/bits.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <unwind.h>

/* ---- looking up ---- */

/* Weak: NULL where the program has no C++ runtime. They bind when the program is loaded, with no
 * cost and no help of dlsym, to the runtime that the program itself uses. */
extern mi__new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));
extern void *__cxa_begin_catch(void *exception) __attribute__((weak));
extern void __cxa_end_catch(void) __attribute__((weak));

/* Plug-ins can bring in a runtime later, and out of sight of the program: then it is looked for
 * among the libraries of the object that called. A static program has no plug-ins. */
#ifdef PIC
#define MI_CXX_LOOKUP 1
#else
#define MI_CXX_LOOKUP 0
#endif

/* POSIX wants the pointer that dlsym gives to be usable as a function; C has no cast for that. */
static void set_symbol(void *library, const char *name, void *function_pointer) {
  void *symbol = dlsym(library, name);
  if (symbol != NULL) __builtin_memcpy(function_pointer, &symbol, sizeof symbol);
}

static void find_of_caller(struct mi__cxx *cxx, const void *caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0) return;
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return;
  set_symbol(library, "_ZSt15get_new_handlerv", &cxx->get_new_handler);
  set_symbol(library, "_ZSt17__throw_bad_allocv", &cxx->throw_bad_alloc);
  set_symbol(library, "__cxa_begin_catch", &cxx->begin_catch);
  set_symbol(library, "__cxa_end_catch", &cxx->end_catch);
  dlclose(library);
}

void mi__cxx_find(struct mi__cxx *cxx, const void *caller) {
  cxx->get_new_handler = _ZSt15get_new_handlerv;
  cxx->throw_bad_alloc = _ZSt17__throw_bad_allocv;
  cxx->begin_catch = __cxa_begin_catch;
  cxx->end_catch = __cxa_end_catch;
  if (MI_CXX_LOOKUP && cxx->throw_bad_alloc == NULL) find_of_caller(cxx, caller);
}

/* ---- catching ---- */

/* C has no catch. What a compiler makes of one is a personality routine, which the unwinder asks
 * about each frame in two phases: first whether the exception stops at this frame, then, when all
 * frames below it have been unwound, to go on there. call_with_personality has the one below,
 * which stops every C++ exception; it goes on by longjmp to the frame that wrote itself down.
 * That longjmp leaves only frames of the unwinder, which holds nothing at that point (the C library
 * ends the unwinding of a cancelled thread in the same way). */
#if defined(__GCC_HAVE_DWARF2_CFI_ASM) && !defined(__ARM_EABI__) && !defined(__mips__)
#define MI_CXX_CAN_CATCH 1
/* 0x9b: the address, relative to here, of a word that holds the address of the routine. */
#define MI_CXX_PERSONALITY __asm__ volatile(".cfi_personality 0x9b, mi__cxx_personality_word")
#else
#define MI_CXX_CAN_CATCH 0
#define MI_CXX_PERSONALITY ((void)0)
#endif

struct catcher {
  jmp_buf go_on;
  const struct mi__cxx *cxx;
  struct catcher *outer; /* a handler may call operator new(nothrow) itself */
};
static mi__thread_local struct catcher *innermost;

static _Unwind_Reason_Code catch_all(int version, _Unwind_Action actions,
                                     _Unwind_Exception_Class class,
                                     struct _Unwind_Exception *exception,
                                     struct _Unwind_Context *context) {
  (void)class;
  (void)context;
  if (version != 1) return _URC_FATAL_PHASE1_ERROR;
  /* The thread is being cancelled or has called pthread_exit: nobody may stop that. */
  if ((actions & _UA_FORCE_UNWIND) != 0) return _URC_CONTINUE_UNWIND;
  if ((actions & _UA_SEARCH_PHASE) != 0) return _URC_HANDLER_FOUND;
  struct catcher *catcher = innermost;
  catcher->cxx->begin_catch(exception);
  catcher->cxx->end_catch();
  longjmp(catcher->go_on, 1);
}

typedef _Unwind_Reason_Code personality_fun(int, _Unwind_Action, _Unwind_Exception_Class,
                                            struct _Unwind_Exception *, struct _Unwind_Context *);
extern personality_fun *const mi__cxx_personality_word;
__attribute__((used, visibility("hidden"))) personality_fun *const mi__cxx_personality_word =
    catch_all;

/* A frame of its own, so that the routine is asked about this call and nothing else. Returning a
 * value that is made after the call keeps the compiler from leaving by a jump to the handler. */
static mi__noinline bool call_with_personality(mi__new_handler *handler) {
  MI_CXX_PERSONALITY;
  handler();
  __asm__ volatile("" ::: "memory");
  return true;
}

bool mi__cxx_call_caught(const struct mi__cxx *cxx, mi__new_handler *handler) {
  if (!MI_CXX_CAN_CATCH || cxx->begin_catch == NULL || cxx->end_catch == NULL) return false;
  struct catcher catcher;
  catcher.cxx = cxx;
  catcher.outer = innermost;
  bool returned = false;
  if (_setjmp(catcher.go_on) == 0) {
    innermost = &catcher;
    returned = call_with_personality(handler);
  } else {
    returned = false;
  }
  innermost = catcher.outer;
  return returned;
}
