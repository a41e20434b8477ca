/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers with a fraction in text that is not the program's: its environment, files, messages to
 * other ranks. They have a point, as in the locale "C", whatever locale the program has set. Programs
 * of this project set none, and so use the C library's functions. */
#ifndef TT_SPI_NUMBERS_H
#define TT_SPI_NUMBERS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Is all of `text` one number? */
bool tt_decimal_read(const char *text, double *out);

/* snprintf() and vsnprintf(). */
int tt_print(char *out, size_t capacity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int tt_print_list(char *out, size_t capacity, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

#endif
