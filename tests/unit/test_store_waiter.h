/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that waits for a key of a store. */
#ifndef TEST_STORE_WAITER_H
#define TEST_STORE_WAITER_H

#include <stddef.h>
#include <stdio.h>

#include "log.h"
#include "store.h"

struct waiter {
	tutti_store_t store;
	const char *key;
	tutti_result_t result;
	int value;
	char error[TT_ERROR_MAX];
};

static inline void *waiter_thread(void *argument)
{
	struct waiter *w = argument;
	size_t length = sizeof(w->value);

	w->result = tutti_store_get(w->store, w->key, &w->value, &length, 20);
	snprintf(w->error, sizeof(w->error), "%s", tt_thread_error());
	return NULL;
}

#endif
