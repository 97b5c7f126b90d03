/* SPDX-License-Identifier: MIT */
/* What the forms of operator new need of the program's C++ runtime. The library is plain C and is
 * not linked with any C++ library, so that C programs do not load one; what is needed is looked up
 * at run time, only when memory has run out.
 * Threads: any. No lock is held while the program's handler runs. */
#ifndef MI_API_CXX_H
#define MI_API_CXX_H

#include "base/compiler.h"

typedef void mi__new_handler(void);

/* Members that the process does not have are NULL. */
struct mi__cxx {
  mi__new_handler *(*get_new_handler)(void); /* std::get_new_handler */
  void (*throw_bad_alloc)(void);             /* std::__throw_bad_alloc: does not return */
  void *(*begin_catch)(void *exception);     /* __cxa_begin_catch */
  void (*end_catch)(void);                   /* __cxa_end_catch: destroys the exception */
};

/* Fill *cxx. `caller` is an address in the code that asked for memory: in a process with several
 * C++ runtimes, or where a plug-in brought one in, it tells which is meant. */
void mi__cxx_find(struct mi__cxx *cxx, const void *caller);

/* Call the program's handler. False: it threw, and the exception is caught and destroyed.
 * Where this platform offers no way to catch (MI_CXX_CAN_CATCH), false without a call. */
bool mi__cxx_call_caught(const struct mi__cxx *cxx, mi__new_handler *handler);

#endif
