/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of what a recorder writes meanwhile, or has left in a report. Part of the
 * library and of the programs that read reports, which compile it for themselves. */
#include <string.h>

#include "flight.h"

static void get_words(const _Atomic uint64_t *from, void *to, size_t bytes)
{
	uint8_t *at = to;

	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t word = atomic_load_explicit(&from[i / 8], memory_order_relaxed);

		memcpy(at + i, &word, 8);
	}
}

bool tt_flight_read_line(const void *line, uint64_t number, void *out, size_t bytes)
{
	const _Atomic uint64_t *words = line;

	/* acquire: pairs with the release in put_line() */
	if (number == 0 || atomic_load_explicit(words, memory_order_acquire) != number)
		return false;
	get_words(words, out, bytes);
	/* acquire: pairs with the release fence in put_line(), should it have begun to write
	 * again */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(words, memory_order_relaxed) == number;
}

static const _Atomic uint64_t *word_at(const struct tt_flight *flight, uint64_t place)
{
	return &flight->plans[place % TT_FLIGHT_PLANS / 8];
}

bool tt_flight_read_plan(const struct tt_flight *flight, uint64_t place, struct tt_flight_plan *out)
{
	/* it is in one piece */
	const uint64_t left = TT_FLIGHT_PLANS - place % TT_FLIGHT_PLANS,
		       most = left < TT_FLIGHT_PLAN_MAX ? left : TT_FLIGHT_PLAN_MAX;

	if (place == 0 || place % TT_FLIGHT_PLACES != 0 || most < sizeof(*out))
		return false;
	/* acquire: pairs with the release in tt_recorder_plan() */
	if (atomic_load_explicit(word_at(flight, place), memory_order_acquire) != place)
		return false;
	get_words(word_at(flight, place), out, sizeof(*out));
	/* acquire: pairs with the release fence in tt_recorder_plan(), should it have begun to
	 * write again */
	atomic_thread_fence(memory_order_acquire);
	const uint64_t end = atomic_load_explicit(&flight->plans_end, memory_order_relaxed);
	return place < end && end - place <= TT_FLIGHT_PLANS &&
	       out->npeers <= (most - sizeof(*out)) / sizeof(struct tt_flight_peer);
}

struct tt_flight_peer tt_flight_read_peer(const struct tt_flight *flight, uint64_t place,
					  uint64_t i)
{
	struct tt_flight_peer peer;

	get_words(word_at(flight, place + sizeof(struct tt_flight_plan) + i * sizeof(peer)), &peer,
		  sizeof(peer));
	return peer;
}
