/* SPDX-License-Identifier: BSD-3-Clause */
#include "text_append.h"

#include <stdarg.h>

#include "numbers.h"

void tt_text_append(struct tt_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	const int length = tt_print_list(text->at, text->capacity, format, args);
	va_end(args);
	const size_t used = (size_t)length < text->capacity ? (size_t)length : text->capacity - 1;
	text->at += used;
	text->capacity -= used;
}
