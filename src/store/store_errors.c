/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the error messages that all kinds of store share. */
#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "log.h"
#include "store.h"

tutti_result_t tt_store_fail_capacity(tutti_store_t store, const char *key, size_t capacity,
				      size_t length)
{
	return tt_fail(
		TUTTI_ERR_INVALID, STORE,
		"key \"%s\" of the store %s has %zu bytes, and the buffer has space for %zu: pass a "
		"larger one",
		key, store->address, length, capacity);
}

tutti_result_t tt_store_fail_ended(tutti_result_t result, const char *error_text)
{
	return result == TT_SUPERSEDED
		       ? tt_fail(result, STORE, "%s", error_text)
		       : tt_fail_reported(STORE, "", result, error_text, strlen(error_text));
}

/* In the same words whoever came first: it may be found out at two prefixes. */
void tt_store_report_twice(int member, const char *one, const char *other, char *out, size_t size)
{
	const int order = strcmp(one, other);

	snprintf(
		out, size,
		"two processes are rank %d: %.100s and %.100s; start every rank once, each with a number of its own (TUTTI_RANK, or "
		"the launcher's), by one launcher (mpirun inside tutti-run starts each rank again)",
		member, order < 0 ? one : other, order < 0 ? other : one);
}
