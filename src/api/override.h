/* SPDX-License-Identifier: MIT */
/* How the library replaces the C library's allocation functions: each is a plain alias of its mi_
 * twin, exported without a symbol version (a versioned malloc would be ignored under LD_PRELOAD),
 * and written in the file that defines the twin.
 *
 * In a static program the linker takes single objects from the archive. A program that got one
 * half of the family from here and the other half from the C library would not link, so each
 * object that holds an alias refers to override.c (MI_OVERRIDE_ANCHORED), and override.c refers to
 * every such object: one of them brings in all. */
#ifndef MI_API_OVERRIDE_H
#define MI_API_OVERRIDE_H

#include "base/compiler.h"

#if defined(__GNUC__) && !defined(__clang__)
#define MI_COPY_ATTRIBUTES(target) , copy(target)
#else
#define MI_COPY_ATTRIBUTES(target)
#endif

extern const char mi__override_rest __attribute__((visibility("hidden"))); /* override.c */

/* MI_ALIAS(name, target): `name` is an exported alias of `target`, which is defined above in the
 * same file. Both macros stand at file scope and end with a semicolon. The tracking build has
 * functions instead, in tracked.c. */
#if MI_OVERRIDE && !MI_VALGRIND
#define MI_ALIAS(name, target) \
  extern __typeof__(target) name \
      __attribute__((alias(#target), visibility("default") MI_COPY_ATTRIBUTES(target)))
#else
#define MI_ALIAS(name, target) extern const char mi__override_rest
#endif
#if MI_OVERRIDE
#define MI_OVERRIDE_ANCHORED \
  static const char *const override_anchor __attribute__((used)) = &mi__override_rest
#else
#define MI_OVERRIDE_ANCHORED extern const char mi__override_rest
#endif

#endif
