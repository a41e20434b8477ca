/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the count of communicators made through a store handle, by rank. */
#include <pthread.h>
#include <stdlib.h>

#include "store.h"

struct tt_store_use {
	struct tt_store_use *next;
	int rank;
	unsigned uses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* handles may be shared by threads */

unsigned tt_store_next_use(tutti_store_t store, int rank)
{
	struct tt_store_use *use;
	unsigned number = 0;

	pthread_mutex_lock(&lock);
	for (use = store->uses; use && use->rank != rank;)
		use = use->next;
	if (!use) {
		use = calloc(1, sizeof(*use));
		if (use) {
			use->rank = rank;
			use->next = store->uses;
			store->uses = use;
		}
	}
	if (use)
		number = use->uses++;
	pthread_mutex_unlock(&lock);
	return number;
}

void tt_store_uses_free(tutti_store_t store)
{
	while (store->uses) {
		struct tt_store_use *use = store->uses;

		store->uses = use->next;
		free(use);
	}
}
