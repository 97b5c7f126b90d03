/* SPDX-License-Identifier: MIT */
/* Process and thread start and end, collection, deferred frees. */
#include "api/core.h"
#include "api/snapshot.h"
#include "heap/process.h"
#include "heap/collect.h"
#include "heap/thread.h"
#include "idle/scavenger.h"
#include "mimalloc.h"

void mi__at_exit(void) {
  mi__scavenger_stop(true);
  mi__snapshot_at_exit();
  mi__print_at_exit();
}

mi__export void mi_process_init(void) { mi__process_init(); }
mi__export void mi_process_done(void) { mi__process_done(); }
mi__export void mi_thread_init(void) { (void)mi__thread_self(true); }
mi__export void mi_thread_done(void) { mi__thread_end(true); }

mi__export void mi_thread_set_in_threadpool(void) {
  struct mi_thread *self = mi__thread_self(true);
  if (self != NULL) self->in_pool = true;
}

mi__export void mi_collect(bool force) { mi__collect(force); }
mi__export void mi_collect_reduce(size_t target_thread_owned) {
  (void)target_thread_owned;
  mi__collect(true);
}
mi__export void mi_register_deferred_free(mi_deferred_free_fun *deferred_free, void *arg) {
  mi__set_deferred_free(deferred_free, arg);
}
