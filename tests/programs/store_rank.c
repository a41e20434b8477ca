/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that meets the others in the store of its launcher: each leaves its number there and waits
 * for the numbers of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

static int meet(tutti_store_t store, const char *rank, int size)
{
	char key[32];

	snprintf(key, sizeof(key), "rank %s", rank);
	if (tutti_store_set(store, key, rank, strlen(rank) + 1) != TUTTI_OK)
		return 1;
	for (int i = 0; i < size; i++) {
		char value[32];
		size_t length = sizeof(value);

		snprintf(key, sizeof(key), "rank %d", i);
		if (tutti_store_get(store, key, value, &length, 10) != TUTTI_OK || atoi(value) != i)
			return 1;
	}
	printf("met %d\n", size);
	return 0;
}

int main(void)
{
	const char *address = getenv("TUTTI_STORE"), *rank = getenv("TUTTI_RANK");
	const char *size = getenv("TUTTI_SIZE");
	tutti_store_t store;
	int status;

	if (!address || !rank || !size)
		return 2;
	if (tutti_store_open(address, 0, 10, &store) != TUTTI_OK) {
		fprintf(stderr, "%s\n", tutti_last_error(NULL));
		return 3;
	}
	status = meet(store, rank, atoi(size));
	tutti_store_close(store);
	return status;
}
