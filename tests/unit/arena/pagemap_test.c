/* SPDX-License-Identifier: MIT */
/* Every address has a record; foreign ones have the zero granule's. */
#include "arena/meta.h"
#include "arena/pagemap.h"
#include "fixture.h"
#include <pthread.h>

static char *record(uintptr_t address) { return (char *)mi__record_of((void *)address); }
static bool is_zero_granule(const char *record) {
  return record >= mi__pagemap.zero && record < mi__pagemap.zero + MI_RECORDS_BYTES;
}
/* Addresses that nothing is mapped at; records do not mind. */
static void *at_granule(size_t n) { return (void *)(n << MI_GRANULE_SHIFT); }

START_TEST(unknown_addresses) {
  ck_assert(is_zero_granule(record(0)));
  ck_assert(is_zero_granule(record(MI_ADDRESS_LIMIT - 1)));
  ck_assert(is_zero_granule((char *)mi__record_of_any((void *)UINTPTR_MAX)));
  ck_assert(!mi__pagemap_is_direct((void *)UINTPTR_MAX));
  ck_assert(!mi__pagemap_is_direct(NULL));
}
END_TEST

START_TEST(ensured_addresses) {
  char *start = (char *)at_granule(7) - MI_SLICE_SIZE;
  ck_assert(is_zero_granule(record((uintptr_t)start)));
  ck_assert(mi__pagemap_ensure(start, 2 * MI_SLICE_SIZE));
  ck_assert(!is_zero_granule(record((uintptr_t)start)));
  ck_assert(!is_zero_granule(record((uintptr_t)start + MI_SLICE_SIZE)));
  ck_assert(is_zero_granule(record(5u << MI_GRANULE_SHIFT)));
  ck_assert(is_zero_granule(record((uintptr_t)8 << MI_GRANULE_SHIFT)));
  char *first = record((uintptr_t)at_granule(7));
  for (size_t i = 0; i < MI_GRANULE_SLICES; i++) {
    char *r = record((uintptr_t)at_granule(7) + i * MI_SLICE_SIZE + i);
    if (r != first + i * MI_RECORD_SIZE) ck_abort_msg("record %zu", i);
    if (r[0] != 0 || r[MI_RECORD_SIZE - 1] != 0) ck_abort_msg("record %zu is not zero", i);
    r[0] = 1;
  }
  ck_assert(mi__pagemap_ensure(start, 2 * MI_SLICE_SIZE)); /* again: the same records */
  ck_assert_ptr_eq(record((uintptr_t)at_granule(7)), first);
}
END_TEST

START_TEST(one_mapping_for_all_that_is_missing) {
  script_os();
  ck_assert(mi__pagemap_ensure(at_granule(22), 1));
  int64_t before = mi__load(&mi__counters.mmap_calls, relaxed);
  ck_assert(mi__pagemap_ensure(at_granule(20), 5 * MI_GRANULE_SIZE));
  ck_assert_int_eq(mi__load(&mi__counters.mmap_calls, relaxed) - before, 2);
  script_fail_map = 1;
  ck_assert(!mi__pagemap_ensure(at_granule(30), 1));
  ck_assert(is_zero_granule(record((uintptr_t)at_granule(30))));
  ck_assert(mi__pagemap_ensure(at_granule(30), 1));
}
END_TEST

START_TEST(above_the_range) {
  ck_assert(!mi__pagemap_ensure((void *)MI_ADDRESS_LIMIT, 1));
  ck_assert(!mi__pagemap_ensure((char *)MI_ADDRESS_LIMIT - 4096, 8192));
  ck_assert(!mi__pagemap_ensure((void *)4096, SIZE_MAX));
  ck_assert(!mi__pagemap_ensure((void *)4096, 0));
  ck_assert(mi__pagemap_ensure((char *)MI_ADDRESS_LIMIT - 4096, 4096));
}
END_TEST

START_TEST(spare_arrays) {
  char *spare = mi__os_map(4 * MI_GRANULE_META_BYTES, 4096, MI_OS_COMMIT);
  ck_assert(mi__pagemap_ensure(at_granule(41), 1));
  ck_assert_uint_eq(mi__pagemap_ensure_from(at_granule(40), 3 * MI_GRANULE_SIZE, spare, 4), 2);
  ck_assert_ptr_eq(record((uintptr_t)at_granule(40)), spare);
  ck_assert_ptr_eq(record((uintptr_t)at_granule(42)), spare + MI_GRANULE_META_BYTES);
  ck_assert_uint_eq(mi__pagemap_ensure_from(at_granule(50), 2 * MI_GRANULE_SIZE, spare, 1),
                    SIZE_MAX);
  ck_assert_uint_ge(mi__pagemap_arrays_for(1), 2);
}
END_TEST

START_TEST(direct_mappings_are_remembered) {
  char *start = (char *)at_granule(61) - 70 * MI_SLICE_SIZE;
  size_t size = 5000 * MI_SLICE_SIZE;
  ck_assert(mi__pagemap_ensure(start, size));
  mi__pagemap_mark_direct(start, size, true);
  ck_assert(!mi__pagemap_is_direct(start - 1));
  for (size_t i = 0; i < size; i += MI_SLICE_SIZE / 2) {
    if (!mi__pagemap_is_direct(start + i)) ck_abort_msg("slice %zu", i / MI_SLICE_SIZE);
  }
  ck_assert(!mi__pagemap_is_direct(start + size));
  mi__pagemap_mark_direct(start + 10 * MI_SLICE_SIZE, size - 20 * MI_SLICE_SIZE, false);
  ck_assert(mi__pagemap_is_direct(start + 10 * MI_SLICE_SIZE - 1));
  ck_assert(!mi__pagemap_is_direct(start + 10 * MI_SLICE_SIZE));
  ck_assert(mi__pagemap_is_direct(start + size - 1));
  ck_assert_int_eq(*record((uintptr_t)start), 0); /* records are left alone */
}
END_TEST

static void *ensure_all(void *seen) {
  for (size_t g = 100; g < 300; g++) {
    if (!mi__pagemap_ensure(at_granule(g), 1)) ck_abort();
    ((char **)seen)[g - 100] = record((uintptr_t)at_granule(g));
  }
  return NULL;
}
START_TEST(threads_agree_on_the_records) {
  static char *seen[4][200];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ensure_all, seen[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 1; i < 4; i++) ck_assert_mem_eq(seen[i], seen[0], sizeof seen[0]);
}
END_TEST

START_TEST(meta_memory) {
  script_os();
  char *last = NULL;
  for (int i = 0; i < 3000; i++) {
    size_t size = (size_t)i * 37 % 700 + 1, align = (size_t)1 << i % 13;
    unsigned char *p = mi__meta_alloc(size, align);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % align, 0);
    for (size_t k = 0; k < size; k++) {
      if (p[k] != 0) ck_abort_msg("piece %d", i);
    }
    memset(p, 0xff, size); /* pieces that overlap would not be zero */
    last = (char *)p;
  }
  ck_assert_ptr_nonnull(last);
  char *large = mi__meta_alloc(3 * MI_MIB + 1, 64);
  ck_assert_ptr_nonnull(large);
  large[3 * MI_MIB] = 1;
  script_fail_map = -1;
  while (mi__meta_alloc(4096, 64) != NULL) {
  }
  ck_assert_ptr_null(mi__meta_alloc(MI_MIB, 64));
  ck_assert_ptr_null(mi__meta_alloc(SIZE_MAX, 64));
  script_fail_map = 0;
  ck_assert_ptr_nonnull(mi__meta_alloc(4096, 64));
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("pagemap");
  tcase_add_test(tcase, unknown_addresses);
  tcase_add_test(tcase, ensured_addresses);
  tcase_add_test(tcase, one_mapping_for_all_that_is_missing);
  tcase_add_test(tcase, above_the_range);
  tcase_add_test(tcase, spare_arrays);
  tcase_add_test(tcase, direct_mappings_are_remembered);
  tcase_add_test(tcase, threads_agree_on_the_records);
  tcase_add_test(tcase, meta_memory);
  return run_suite("arena/pagemap", tcase);
}
