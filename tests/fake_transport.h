/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what transports have in common that tests make up, of one rank alone: links are there at once, nothing
 * happens by itself, and who sleeps wakes at once. */
#ifndef TT_TESTS_FAKE_TRANSPORT_H
#define TT_TESTS_FAKE_TRANSPORT_H

#include "transport.h"

enum { FAKE_PEERS_MAX = 4 };

static inline tutti_result_t fake_connect(struct tt_endpoint *endpoint, int peer,
					  enum tt_channel channel, struct tt_link **out)
{
	static struct tt_link links[FAKE_PEERS_MAX];

	links[peer] = (struct tt_link){ endpoint->ops, endpoint, peer };
	*out = &links[peer];
	return TUTTI_OK;
}

static inline void fake_progress(struct tt_endpoint *endpoint, bool thorough)
{
}

static inline void fake_arm(struct tt_endpoint *endpoint)
{
}

static inline void fake_sleep(struct tt_endpoint *endpoint, int timeout_ms)
{
}

static const struct tt_transport_doorbell fake_doorbell = { .arm = fake_arm,
							    .disarm = fake_arm,
							    .sleep = fake_sleep };

#define FAKE_TRANSPORT                                                                             \
	.name = "fake", .connect = fake_connect, .progress = fake_progress,                        \
	.doorbell = &fake_doorbell

#endif
