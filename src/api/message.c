/* SPDX-License-Identifier: MIT */
/* The public functions that say who gets messages and errors. What was printed before is not
 * repeated. */
#include "mimalloc.h"
#include "rt/message.h"

void mi_register_output(mi_output_fun *out, void *arg) { mi__message_register_output(out, arg); }

void mi_register_error(mi_error_fun *fun, void *arg) { mi__message_register_error(fun, arg); }
