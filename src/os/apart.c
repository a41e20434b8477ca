/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the operations of transports between ranks that share no memory. */
#include "transport.h"

void *tt_share_nothing(struct tt_endpoint *endpoint, size_t bytes, uint64_t deadline)
{
	return NULL;
}

void tt_wake_nobody(struct tt_endpoint *endpoint)
{
}

bool tt_export_nothing(struct tt_endpoint *endpoint, const void *pointer, size_t bytes,
		       uint64_t *token)
{
	return false;
}

void *tt_import_nothing(struct tt_endpoint *endpoint, int peer, uint64_t token, size_t bytes)
{
	return NULL;
}

bool tt_grant_nothing(struct tt_endpoint *endpoint, const void *pointer, size_t bytes)
{
	return false;
}

bool tt_lack_nothing(const struct tt_endpoint *endpoint, char *text, size_t size)
{
	*text = 0;
	return false;
}

void tt_await_nothing(struct tt_endpoint *endpoint, uint64_t deadline)
{
}
