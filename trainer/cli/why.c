/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the error message of a thread. */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

#include "printable.h"

_Thread_local struct why why;

bool why_set(tutti_result_t result, const char *format, ...)
{
	struct why set = { .result = result };
	va_list args;

	va_start(args, format);
	vsnprintf(set.text, sizeof(set.text), format, args);
	va_end(args);
	tt_printable(set.text); /* it may tell what a file holds */
	why = set;
	return false;
}

bool why_no_memory(const char *what)
{
	return why_set(
		TUTTI_ERR_NO_MEMORY,
		"no memory for %s; use smaller data, a smaller model, or fewer ranks per host",
		what);
}
