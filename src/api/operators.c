/* SPDX-License-Identifier: MIT */
/* C++'s operators new and delete, under the names that C++ compilers give them.
 * All in one object, which the linker takes from the static archive for C++ programs only. */
#include "api/new.h"
#include "api/override.h"

#if MI_OVERRIDE

MI_OVERRIDE_ANCHORED;

#ifndef PIC
/* The static archive: weak references take no object from libstdc++.a, so that a program that
 * itself neither throws nor sets a handler would get NULL instead of an exception. */
extern void *_ZSt15get_new_handlerv(void);
extern void _ZSt17__throw_bad_allocv(void);
extern void *__cxa_begin_catch(void *exception);
extern void __cxa_end_catch(void);
typedef void any_function(void);
__attribute__((used)) static any_function *const runtime[] = {
    (any_function *)_ZSt15get_new_handlerv, (any_function *)_ZSt17__throw_bad_allocv,
    (any_function *)__cxa_begin_catch, (any_function *)__cxa_end_catch};
#endif

/* In the names, std::size_t is `unsigned long` (m) or `unsigned int` (j). */
#if __SIZEOF_SIZE_T__ == 8 || defined(__s390__) || defined(__APPLE__)
#define WITH_SIZE(before, after) before##m##after
#else
#define WITH_SIZE(before, after) before##j##after
#endif

/* `op` is the plain or the array form; const std::nothrow_t & is a pointer to nothing. */
#define DEFINE_NEW(op) \
  extern void *WITH_SIZE(op, )(size_t size); \
  mi__export void *WITH_SIZE(op, )(size_t size) { return mi__new(size, MI_CALLER); } \
  extern void *WITH_SIZE(op, RKSt9nothrow_t)(size_t size, const void *nothrow); \
  mi__export void *WITH_SIZE(op, RKSt9nothrow_t)(size_t size, mi__unused const void *nothrow) { \
    return mi__new_nothrow(size, MI_CALLER); \
  } \
  extern void *WITH_SIZE(op, St11align_val_t)(size_t size, size_t align); \
  mi__export void *WITH_SIZE(op, St11align_val_t)(size_t size, size_t align) { \
    return mi__new_aligned(size, align, MI_CALLER); \
  } \
  extern void *WITH_SIZE(op, St11align_val_tRKSt9nothrow_t)(size_t size, size_t align, \
                                                            const void *nothrow); \
  mi__export void *WITH_SIZE(op, St11align_val_tRKSt9nothrow_t)( \
      size_t size, size_t align, mi__unused const void *nothrow) { \
    return mi__new_aligned_nothrow(size, align, MI_CALLER); \
  }

DEFINE_NEW(_Znw)
DEFINE_NEW(_Zna)

/* Size and alignment are told again at delete; the page record knows better. */
#define DEFINE_DELETE(op) \
  extern void op(void *p); \
  mi__export void op(void *p) { mi__free(p); } \
  extern void op##RKSt9nothrow_t(void *p, const void *nothrow); \
  mi__export void op##RKSt9nothrow_t(void *p, mi__unused const void *nothrow) { mi__free(p); } \
  extern void op##St11align_val_t(void *p, size_t align); \
  mi__export void op##St11align_val_t(void *p, mi__unused size_t align) { mi__free(p); } \
  extern void op##St11align_val_tRKSt9nothrow_t(void *p, size_t align, const void *nothrow); \
  mi__export void op##St11align_val_tRKSt9nothrow_t(void *p, mi__unused size_t align, \
                                                    mi__unused const void *nothrow) { \
    mi__free(p); \
  } \
  extern void WITH_SIZE(op, )(void *p, size_t size); \
  mi__export void WITH_SIZE(op, )(void *p, mi__unused size_t size) { mi__free(p); } \
  extern void WITH_SIZE(op, St11align_val_t)(void *p, size_t size, size_t align); \
  mi__export void WITH_SIZE(op, St11align_val_t)(void *p, mi__unused size_t size, \
                                                 mi__unused size_t align) { \
    mi__free(p); \
  }

DEFINE_DELETE(_ZdlPv)
DEFINE_DELETE(_ZdaPv)

#endif
