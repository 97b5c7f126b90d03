/* SPDX-License-Identifier: MIT */
/* Defines the operators new and delete by the functions of libmimalloc, for a C++ program that is
 * linked with the library without its override. Include it in exactly one source: the operators
 * hold for the whole program, and the linker refuses a second set. A library with its override has
 * them already; then these are used, which comes to the same. */
#ifndef MIMALLOC_NEW_DELETE_H
#define MIMALLOC_NEW_DELETE_H

#if defined(__cplusplus)
#include "mimalloc.h"
#include <new>

void operator delete(void *p) noexcept { mi_free(p); }
void operator delete[](void *p) noexcept { mi_free(p); }
void operator delete(void *p, const std::nothrow_t &) noexcept { mi_free(p); }
void operator delete[](void *p, const std::nothrow_t &) noexcept { mi_free(p); }

void *operator new(std::size_t n) { return mi_new(n); }
void *operator new[](std::size_t n) { return mi_new(n); }
void *operator new(std::size_t n, const std::nothrow_t &) noexcept { return mi_new_nothrow(n); }
void *operator new[](std::size_t n, const std::nothrow_t &) noexcept { return mi_new_nothrow(n); }

#if __cplusplus >= 201402L || defined(__cpp_sized_deallocation)
void operator delete(void *p, std::size_t n) noexcept { mi_free_size(p, n); }
void operator delete[](void *p, std::size_t n) noexcept { mi_free_size(p, n); }
#endif

#if __cplusplus > 201402L || defined(__cpp_aligned_new)
void operator delete(void *p, std::align_val_t a) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete[](void *p, std::align_val_t a) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete(void *p, std::size_t n, std::align_val_t a) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(a));
}
void operator delete[](void *p, std::size_t n, std::align_val_t a) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(a));
}
void operator delete(void *p, std::align_val_t a, const std::nothrow_t &) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete[](void *p, std::align_val_t a, const std::nothrow_t &) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}

void *operator new(std::size_t n, std::align_val_t a) {
  return mi_new_aligned(n, static_cast<std::size_t>(a));
}
void *operator new[](std::size_t n, std::align_val_t a) {
  return mi_new_aligned(n, static_cast<std::size_t>(a));
}
void *operator new(std::size_t n, std::align_val_t a, const std::nothrow_t &) noexcept {
  return mi_new_aligned_nothrow(n, static_cast<std::size_t>(a));
}
void *operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t &) noexcept {
  return mi_new_aligned_nothrow(n, static_cast<std::size_t>(a));
}
#endif
#endif

#endif
