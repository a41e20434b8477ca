/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the locale "C", in which a thread reads or writes a number. It is made once and never freed: the
 * C libraries of GNU and musl hand out an object of their own, which outlives this library. */
#include "numbers.h"

#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(locale_t) plain;

/* No lock, which a fork() in another thread could leave held in the child: threads that come first together
 * each make one, and one stays. Where none can be made the thread's locale stays. */
static locale_t enter(void)
{
	locale_t known = atomic_load(&plain); /* as whoever stored it made it */

	if (!known) {
		const locale_t made = newlocale(LC_ALL_MASK, "C", (locale_t)0);

		if (atomic_compare_exchange_strong(&plain, &known, made))
			known = made;
		else if (made)
			freelocale(made);
	}
	return uselocale(known);
}

bool tt_decimal_read(const char *text, double *out)
{
	const locale_t before = enter();
	char *end;

	*out = strtod(text, &end);
	uselocale(before);
	return end != text && !*end;
}

int tt_print_list(char *out, size_t capacity, const char *format, va_list args)
{
	const locale_t before = enter();
	const int length = vsnprintf(out, capacity, format, args);

	uselocale(before);
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
