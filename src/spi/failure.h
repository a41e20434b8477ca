/* SPDX-License-Identifier: BSD-3-Clause */
/* A failure as another rank reports it: a result and an error message. Whatever comes from another
 * process passes through here before it is returned or passed on; a whole fault by tt_fault_check()
 * (transport.h). */
#ifndef TT_SPI_FAILURE_H
#define TT_SPI_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* Is `result` an error that this version of tutti has? */
bool tt_failure_is_known(int32_t result);

/* Copy text[length], up to its first zero byte if it has any, into `capacity` bytes at most. The
 * copy ends with a zero byte and is printable. In place is fine. */
void tt_failure_text(char *out, size_t capacity, const char *text, size_t length);

/* tt_fail() with a failure that another rank reported: its result, and its text[length] behind
 * `before`. A result that is no error of this version becomes TUTTI_ERR_UNSUPPORTED, with a message
 * that says so. */
tutti_result_t tt_fail_reported_write(enum tt_log_subsystem subsystem, const char *before,
				      int32_t result, const char *text, size_t length);
#define tt_fail_reported(subsystem, ...) tt_fail_reported_write(TT_LOG_##subsystem, __VA_ARGS__)

#endif
