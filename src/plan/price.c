/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the sum of what an algorithm's longest path takes. */
#include "price.h"

/* A byte that leaves a host takes its rank's time or its network's, of which each of those that
 * cross at once has a share. */
static double byte_between(const struct tt_prices *price, double crossing)
{
	const double network = price->network * (crossing > 1 ? crossing : 1);

	return network > price->byte[1] ? network : price->byte[1];
}

/* How many times as long the bytes of a pipeline take as if all its ranks were at work from the
 * beginning. */
static double filling(const struct tt_prices *price, const struct tt_cost *cost)
{
	const double segments = cost->segmented / price->segment;

	return cost->fill > 0 ? 1 + cost->fill / (segments > 1 ? segments : 1) : 1;
}

/* Where blocks take turns, the way of one through all links hides behind the bytes of all
 * through one link, or those behind it. */
static double seconds_between(const struct tt_prices *price, const struct tt_cost *cost)
{
	const double messages = cost->messages[1] * price->message[1];
	const double bytes =
		filling(price, cost) * cost->bytes[1] * byte_between(price, cost->crossing);

	if (cost->far_way == 0)
		return messages + bytes;
	const double way = messages + cost->far_way * cost->bytes[1] * byte_between(price, 1);
	const double link = price->message[1] + bytes;
	return way > link ? way : link;
}

static double bytes_within(const struct tt_prices *price, const struct tt_cost *cost, bool shared)
{
	/* of what crosses hosts, too, only a part arrives from this one; a segment of a pipeline
	 * has to wait for its turn */
	const double within = cost->in_place < cost->bytes[0] ? cost->in_place : cost->bytes[0];
	const double in_place = cost->fill > 0 ? 0 : within;

	return cost->bytes[0] * (shared ? price->shared : price->byte[0]) -
	       in_place * price->in_place - cost->again * price->again +
	       cost->awaited * price->awaited + cost->reduced * price->reduced;
}

double tt_price(const struct tt_prices *price, const struct tt_cost *cost, bool shared)
{
	double seconds = filling(price, cost) * bytes_within(price, cost, shared) +
			 cost->messages[0] * price->message[0] + seconds_between(price, cost) +
			 cost->syncs * price->sync;

	for (int far = 0; far < 2; far++)
		seconds += (cost->calls[far] - cost->gathered[far]) * price->call[far] +
			   cost->gathered[far] * price->gathered[far] +
			   cost->peers[far] * price->peer[far];
	return seconds;
}
