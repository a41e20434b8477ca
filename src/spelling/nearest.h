/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the name that a misspelt one most likely means. Part of the library and of the programs,
 * which compile it for themselves; it knows nothing of either. */
#ifndef TT_NEAREST_H
#define TT_NEAREST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TT_NEAREST_HINT 96 /* bytes */

/* The name nearest to `given` of those offered so far. */
struct tt_nearest {
	const char *given;
	size_t length;	   /* of `given`, which need not end there */
	const char *name;  /* NULL: none is near enough to be meant */
	unsigned distance; /* of `name` */
};

struct tt_nearest tt_nearest_to(const char *given, size_t length);

/* `name` must outlive `nearest`. Of equally near names the first counts. */
void tt_nearest_offer(struct tt_nearest *nearest, const char *name);

/* " (did you mean NAME?)", or "" where none is near, or `given` is that name. */
const char *tt_nearest_hint(const struct tt_nearest *nearest, char text[TT_NEAREST_HINT]);

/* The three steps at once, for names that end with NULL. */
const char *tt_did_you_mean(const char *given, const char *const *names,
			    char text[TT_NEAREST_HINT]);

#ifdef __cplusplus
}
#endif

#endif
