/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how text and numbers are fitted to the width of a table. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lines.h"
#include "output.h"
#include "printable.h"

void bench_complain(const char *format, ...)
{
	const int error = errno;
	char text[1024];
	va_list args;

	va_start(args, format);
	errno = error;
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, tt_printable(text));
}

/* Bytes of the word at `at`, as long as fits one line, and the columns it takes: UTF-8 has several
 * bytes for some. */
static size_t measure_word(const char *at, int most, int *columns)
{
	size_t bytes = 0;

	*columns = 0;
	while (at[bytes] && at[bytes] != ' ') {
		const bool begins = ((unsigned char)at[bytes] & 0xc0) != 0x80;

		if (begins && *columns == most)
			break;
		*columns += begins;
		bytes++;
	}
	return bytes;
}

void bench_remark(const char *format, ...)
{
	char text[4096], *at = text;
	int used = 1;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	putchar('#');
	while (*(at += strspn(at, " "))) {
		int columns;
		const size_t bytes = measure_word(at, BENCH_WIDTH - 2, &columns);

		if (used + 1 + columns > BENCH_WIDTH) {
			fputs("\n#", stdout);
			used = 1;
		}
		printf(" %.*s", (int)bytes, at);
		used += 1 + columns;
		at += bytes;
	}
	putchar('\n');
	output_flush(stdout);
}

void bench_figure(int width, int decimals, double value)
{
	char text[64];

	if (!(value >= 0)) {
		printf(" %*s", width, "-");
		return;
	}
	while (snprintf(text, sizeof(text), "%.*f", decimals, value) > width && decimals > 0)
		decimals--;
	if ((int)strlen(text) > width)
		snprintf(text, sizeof(text), "%.*e", width > 6 ? width - 6 : 0, value);
	printf(" %*s", width, text);
}

void bench_append(char *out, size_t size, const char *format, ...)
{
	const size_t length = strlen(out);
	va_list args;

	va_start(args, format);
	vsnprintf(out + length, size - length, format, args);
	va_end(args);
}
