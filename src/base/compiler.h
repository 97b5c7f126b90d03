/* SPDX-License-Identifier: MIT */
/* What the compiler must be told: branch hints, attributes, and the switches of the build as
 * constants.
 * Layer 0: includes nothing of ours. */
#ifndef MI_BASE_COMPILER_H
#define MI_BASE_COMPILER_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Switches of the build are constants, so that code asks `if (MI_DEBUG)` and is always compiled. */
#ifndef MI_DEBUG
#define MI_DEBUG 0
#endif
#ifndef MI_VALGRIND
#define MI_VALGRIND 0 /* the tracking build: see track.h */
#endif
#ifndef MI_TSAN
#define MI_TSAN 0
#endif

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MI_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MI_SANITIZED 1
#endif

/* Does the library replace malloc? The sanitizers bring one of their own. */
#ifndef MI_OVERRIDE
#ifdef MI_SANITIZED
#define MI_OVERRIDE 0
#else
#define MI_OVERRIDE 1
#endif
#endif

#define mi__likely(x) __builtin_expect(!!(x), 1)
#define mi__unlikely(x) __builtin_expect(!!(x), 0)
#define mi__noinline __attribute__((noinline))
#define mi__inline static inline __attribute__((always_inline))
#define mi__cold __attribute__((noinline, cold))
#define mi__printf_like(f, a) __attribute__((format(printf, f, a)))
#define mi__export __attribute__((visibility("default")))
#define mi__unused __attribute__((unused))
#define mi__aligned(n) __attribute__((aligned(n)))
#define mi__assume_some(p) __attribute__((nonnull(p)))
/* Thread-local storage that needs no call: the library is loaded with the program or fits the
 * loader's reserve. */
#define mi__thread_local __thread __attribute__((tls_model("initial-exec")))

/* Keep a pointer in a register of its own, so that it is not folded into an address with an index
 * or a sum.
 * On x86-64 rdx: what is loaded through it may then stand in rax, where it is returned. */
#if defined(__x86_64__)
#define mi__pin_pointer(p) __asm__("" : "+d"(p))
#else
#define mi__pin_pointer(p) __asm__("" : "+r"(p))
#endif
#define mi__pin_base(p) __asm__("" : "+r"(p))

#define MI_CACHE_LINE 64
#define MI_KIB ((size_t)1024)
#define MI_MIB (MI_KIB * MI_KIB)
#define MI_GIB (MI_KIB * MI_MIB)

#endif
