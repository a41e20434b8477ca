/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks meet in the store of their launcher: each leaves its number there and waits for the numbers of all. */
#ifndef MEET_H
#define MEET_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../patience.h"
#include "tutti/tutti.h"

static inline bool meet_in(tutti_store_t store, const char *rank, int size)
{
	char key[32];

	snprintf(key, sizeof(key), "rank %s", rank);
	if (tutti_store_set(store, key, rank, strlen(rank) + 1) != TUTTI_OK)
		return false;
	for (int i = 0; i < size; i++) {
		char value[32];
		size_t length = sizeof(value);

		snprintf(key, sizeof(key), "rank %d", i);
		if (tutti_store_get(store, key, value, &length, bound_s(10)) != TUTTI_OK ||
		    atoi(value) != i)
			return false;
	}
	return true;
}

/* 0, or the exit status of a rank that could not. */
static inline int meet(void)
{
	const char *address = getenv("TUTTI_STORE"), *rank = getenv("TUTTI_RANK");
	const char *size = getenv("TUTTI_SIZE");
	tutti_store_t store;

	if (!address || !rank || !size)
		return 2;
	if (tutti_store_open(address, 0, bound_s(10), &store) != TUTTI_OK) {
		fprintf(stderr, "%s\n", tutti_last_error(NULL));
		return 3;
	}
	const bool met = meet_in(store, rank, atoi(size));
	tutti_store_close(store);
	return met ? 0 : 1;
}

#endif
