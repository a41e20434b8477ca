/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries that are opened at run time, as they need not be there: which one, and the functions
 * that are wanted of it. Part of the library, its plug-ins and the programs beside it, which
 * compile it for themselves; it knows nothing of any of them. */
#ifndef TT_LIBRARY_H
#define TT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#define TT_LIBRARY_NAMES 2
#define TT_LIBRARY_WHY	 512 /* bytes, enough for all that is said of why one cannot be used */

struct tt_function {
	const char *name; /* in the library */
	size_t at;	  /* where in a struct its address belongs */
	bool optional;	  /* NULL where the library, being older, lacks it */
};

struct tt_library {
	const char *variable; /* of the environment; set and not empty, it has the only name.
			       * NULL: none */
	const char *names[TT_LIBRARY_NAMES]; /* otherwise: as the dynamic linker finds them, the
					      * first that it does; the second may be NULL */
	const char *before, *after; /* NULL or words around the dynamic linker's own where none
				     * can be opened: what it is, and what brings it */
	bool global;		    /* what it opens in turn finds functions of it by name */
	const char *expected; /* NULL or what stands behind "LIBRARY has no FUNCTION: expected " */
	const struct tt_function *functions;
	size_t count;
};

/* The name by which it is first looked for. */
const char *tt_library_name(const struct tt_library *library);
/* Open it, and put its functions into the struct `into`. It stays open for whoever keeps what
 * this gives, for dlclose(). NULL, with an error message in `why` that has no full stop: it is
 * closed, and `into` may have some of its functions. */
void *tt_library_open(const struct tt_library *library, void *into, char why[TT_LIBRARY_WHY]);
/* The same only if the process has it open already; also NULL otherwise. */
void *tt_library_find(const struct tt_library *library, void *into);

#endif
