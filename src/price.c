/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sum of what an algorithm's longest path takes. */
#include "price.h"

/* A byte that leaves a host takes its rank's time or its network's, of which each rank that uses it has a share. */
static double byte_between(const struct tt_prices *price, const struct tt_cost *cost)
{
	const double network = price->network * (cost->crossing > 1 ? cost->crossing : 1);

	return network > price->byte[1] ? network : price->byte[1];
}

double tt_price(const struct tt_prices *price, const struct tt_cost *cost, bool shared)
{
	double seconds = cost->bytes[0] * (shared ? price->shared : price->byte[0]) +
			 cost->bytes[1] * byte_between(price, cost) + cost->reduced * price->reduced +
			 cost->syncs * price->sync;

	for (int far = 0; far < 2; far++)
		seconds += cost->messages[far] * price->message[far] + cost->calls[far] * price->call[far];
	return seconds;
}
