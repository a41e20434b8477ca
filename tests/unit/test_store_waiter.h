/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that waits for a key of a store, "late", which comes later. */
#ifndef TEST_STORE_WAITER_H
#define TEST_STORE_WAITER_H

#include <stddef.h>

#include "store.h"

struct waiter {
	tutti_store_t store;
	tutti_result_t result;
	int value;
};

static inline void *waiter_thread(void *argument)
{
	struct waiter *w = argument;
	size_t length = sizeof(w->value);

	w->result = tutti_store_get(w->store, "late", &w->value, &length, 20);
	return NULL;
}

#endif
