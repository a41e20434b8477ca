/* SPDX-License-Identifier: BSD-3-Clause */
/* What the requests of a store's clients do: to its keys, to those who wait for them, and to
 * those who attend what is ended. */
#ifndef TT_STORE_REQUESTS_H
#define TT_STORE_REQUESTS_H

#include "store_clients.h"

/* The client's request has come in whole. */
void tt_store_client_request(struct tt_store_clients *clients, struct tt_store_client *client);
/* It attends nothing any more. */
void tt_store_client_leave(struct tt_store_client *client);
/* A pending client is turned away, as it `why`: the error message of those who wait for others
 * in vain says so. If it is `believed` to be the rank that it says it is, those who attend what
 * it does not attend are told at once, and those who come to it. */
void tt_store_client_unfit(struct tt_store_clients *clients, const struct tt_store_client *client,
			   const char *why, bool believed);
/* It is lost: the others are told with its word what it attended. */
void tt_store_client_mourn(struct tt_store_clients *clients, struct tt_store_client *client);

#endif
