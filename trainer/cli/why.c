/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns nothing: writes the error messages of failures. */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

#include "printable.h"

tutti_result_t why_set(struct why *why, tutti_result_t result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	tt_printable(why->text); /* it may tell what a file holds */
	return result;
}

tutti_result_t why_no_memory(struct why *why, const char *what)
{
	return why_set(
		why, TUTTI_ERR_NO_MEMORY,
		"no memory for %s; use smaller data, a smaller model, or fewer ranks per host",
		what);
}
