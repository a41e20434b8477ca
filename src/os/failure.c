/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is believed of a failure that another rank reports. */
#include "failure.h"

#include <string.h>

#include "printable.h"

bool tt_failure_is_known(int32_t result)
{
	return result <= TUTTI_ERR_INVALID && result >= TUTTI_ERR_UNSUPPORTED;
}

void tt_failure_text(char *out, size_t capacity, const char *text, size_t length)
{
	const size_t there = strnlen(text, length), bytes = there < capacity ? there : capacity - 1;

	memmove(out, text, bytes);
	out[bytes] = '\0';
	tt_printable(out);
}

tutti_result_t tt_fail_reported_write(enum tt_log_subsystem subsystem, const char *before,
				      int32_t result, const char *text, size_t length)
{
	char printable[TT_ERROR_MAX];

	tt_failure_text(printable, sizeof(printable), text, length);
	if (tt_failure_is_known(result))
		return tt_fail_write((tutti_result_t)result, subsystem, "%s%s", before, printable);
	return tt_fail_write(TUTTI_ERR_UNSUPPORTED, subsystem,
			     "%sit failed with result %d, which this version of tutti does not "
			     "have: all ranks must use the same "
			     "version; its message: %s",
			     before, (int)result, printable);
}
