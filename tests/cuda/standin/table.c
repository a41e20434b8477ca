/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the tables of all that the driver makes. */
#include "standin.h"

#include <stdlib.h>

static struct made *tables[KINDS];

void *make(enum kind kind, size_t bytes, struct CUctx_st *context)
{
	struct made *const made = calloc(1, bytes);

	if (!made)
		abort();
	*made = (struct made){ tables[kind], kind, context };
	tables[kind] = made;
	return made;
}

bool is_made(enum kind kind, const void *handle)
{
	const struct made *made = tables[kind];

	while (made && made != handle)
		made = made->next;
	return made;
}

void *next_made(enum kind kind, const void *after)
{
	return after ? ((const struct made *)after)->next : tables[kind];
}

void unmake(void *handle)
{
	struct made **at = &tables[((const struct made *)handle)->kind];

	while (*at != handle)
		at = &(*at)->next;
	*at = (*at)->next;
	free(handle);
}

void unmake_all_of(const struct CUctx_st *context, enum kind kind, void (*forget)(void *made))
{
	for (struct made *made = tables[kind], *next; made; made = next) {
		next = made->next;
		if (made->context == context)
			forget(made);
	}
}
