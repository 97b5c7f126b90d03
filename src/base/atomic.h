/* SPDX-License-Identifier: MIT */
/* Atomic accesses with the memory order written at each access: mi__load(&x, acquire).
 * Every release in the library names the acquire it pairs with. */
#ifndef MI_BASE_ATOMIC_H
#define MI_BASE_ATOMIC_H

#include "base/compiler.h"
#include <stdatomic.h>

#define mi__load(p, order) atomic_load_explicit((p), memory_order_##order)
#define mi__store(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define mi__exchange(p, v, order) atomic_exchange_explicit((p), (v), memory_order_##order)
#define mi__fetch_add(p, v, order) atomic_fetch_add_explicit((p), (v), memory_order_##order)
#define mi__fetch_sub(p, v, order) atomic_fetch_sub_explicit((p), (v), memory_order_##order)
#define mi__fetch_or(p, v, order) atomic_fetch_or_explicit((p), (v), memory_order_##order)
#define mi__fetch_xor(p, v, order) atomic_fetch_xor_explicit((p), (v), memory_order_##order)
#define mi__fetch_and(p, v, order) atomic_fetch_and_explicit((p), (v), memory_order_##order)
/* Compare-and-swap; on failure *expected holds what was seen, read with relaxed order unless
 * _acquire_fail is used. */
#define mi__cas(p, expected, v, order) \
  atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_##order, \
                                          memory_order_relaxed)
#define mi__cas_weak(p, expected, v, order) \
  atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_##order, \
                                        memory_order_relaxed)
#define mi__fence(order) atomic_thread_fence(memory_order_##order)
/* A full fence behind an atomic read-modify-write, which is one itself on x86. */
#if defined(__x86_64__) || defined(__i386__)
#define mi__fence_after_rmw() mi__fence(acq_rel)
#else
#define mi__fence_after_rmw() mi__fence(seq_cst)
#endif

/* Tell the processor that this is a wait of a few cycles. */
mi__inline void mi__relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

#endif
