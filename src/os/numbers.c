/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the locale "C" while a thread reads or writes a number in it. */
#include "numbers.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

struct locales {
	locale_t plain, before;
};

/* The C library has "C" ready, so this takes no memory; should it fail, the thread's stays. */
static struct locales enter(void)
{
	const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);

	return (struct locales){ plain, uselocale(plain) };
}

static void leave(const struct locales *locales)
{
	uselocale(locales->before);
	if (locales->plain)
		freelocale(locales->plain);
}

bool tt_decimal_read(const char *text, double *out)
{
	const struct locales locales = enter();
	char *end;

	*out = strtod(text, &end);
	leave(&locales);
	return end != text && !*end;
}

int tt_print_list(char *out, size_t capacity, const char *format, va_list args)
{
	const struct locales locales = enter();
	const int length = vsnprintf(out, capacity, format, args);

	leave(&locales);
	return length;
}

int tt_print(char *out, size_t capacity, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	const int length = tt_print_list(out, capacity, format, args);
	va_end(args);
	return length;
}
