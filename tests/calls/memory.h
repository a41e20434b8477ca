/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the tables and buffers of calls come from: malloc(), or what the program sets before it makes
 * the first call. */
#ifndef TT_CALL_MEMORY_H
#define TT_CALL_MEMORY_H

#include <stddef.h>

struct call_memory {
	void *(*take)(size_t bytes); /* never of 0 bytes */
	void (*give)(void *memory);
};

extern struct call_memory call_memory;

#endif
