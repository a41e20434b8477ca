/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that is put together piece by piece in memory of a fixed size. */
#ifndef TT_TEXT_APPEND_H
#define TT_TEXT_APPEND_H

#include <stddef.h>

struct tt_text {
	char *at;	 /* where the next piece begins */
	size_t capacity; /* bytes from there, with the final 0: 1 or more */
};

/* What does not fit is cut off. */
void tt_text_append(struct tt_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
