/* SPDX-License-Identifier: MIT */
/* Keeps the overriding functions together: one object of the static archive brings in all others
 * that replace functions of the C library. See override.h. */
#include "api/alloc.h"
#include "api/override.h"

const char mi__override_rest = 1;

#if MI_OVERRIDE
extern const char mi__override_companions __attribute__((visibility("hidden")));
__attribute__((used)) static const char *const companions = &mi__override_companions;
#if MI_VALGRIND
extern const char mi__override_tracked __attribute__((visibility("hidden")));
__attribute__((used)) static const char *const tracked = &mi__override_tracked;
#endif

/* One function of each file that has aliases. The operators of C++ are not among them: they come
 * with the programs that use them. */
__attribute__((used)) static void (*const family[])(void) = {
    (void (*)(void))mi__free,              /* alloc.c */
    (void (*)(void))mi_reallocarray,       /* forms.c */
    (void (*)(void))mi_posix_memalign,     /* posix.c */
};
#endif
