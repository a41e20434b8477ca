/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of what a recorder writes meanwhile, or has left in a report. Part of the
 * library and of the programs that read reports, which compile it for themselves. */
#include <string.h>

#include "flight.h"

static const _Atomic uint64_t *word_at(const struct tt_flight *flight, uint64_t place)
{
	return &flight->plans[place % TT_FLIGHT_PLANS / 8];
}

static void get_words(const struct tt_flight *flight, uint64_t place, void *to, size_t bytes)
{
	uint8_t *at = to;

	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t word =
			atomic_load_explicit(word_at(flight, place + i), memory_order_relaxed);

		memcpy(at + i, &word, 8);
	}
}

bool tt_flight_read_plan(const struct tt_flight *flight, uint64_t place, struct tt_flight_plan *out)
{
	if (place == 0 || place % TT_FLIGHT_PLACES != 0)
		return false;
	/* acquire: pairs with the release in tt_recorder_plan() */
	if (atomic_load_explicit(word_at(flight, place), memory_order_acquire) != place)
		return false;
	get_words(flight, place, out, sizeof(*out));
	/* acquire: pairs with the release fence in tt_recorder_plan(), should it have begun to
	 * write again */
	atomic_thread_fence(memory_order_acquire);
	const uint64_t end = atomic_load_explicit(&flight->plans_end, memory_order_relaxed);
	return place < end && end - place <= TT_FLIGHT_PLANS &&
	       out->npeers <= (TT_FLIGHT_PLAN_MAX - sizeof(*out)) / sizeof(struct tt_flight_peer);
}

struct tt_flight_peer tt_flight_read_peer(const struct tt_flight *flight, uint64_t place,
					  uint64_t i)
{
	struct tt_flight_peer peer;

	get_words(flight, place + sizeof(struct tt_flight_plan) + i * sizeof(peer), &peer,
		  sizeof(peer));
	return peer;
}

bool tt_flight_read_stream(const struct tt_flight *flight, uint64_t number,
			   struct tt_flight_stream *out)
{
	const struct tt_flight_stream *line = &flight->streams[number % TT_FLIGHT_STREAMS];

	/* acquire: pairs with the release in tt_recorder_stream() */
	if (atomic_load_explicit(&line->number, memory_order_acquire) != number)
		return false;
	atomic_init(&out->number, number);
	atomic_init(&out->posted, atomic_load_explicit(&line->posted, memory_order_relaxed));
	atomic_init(&out->count, atomic_load_explicit(&line->count, memory_order_relaxed));
	atomic_init(&out->sequence, atomic_load_explicit(&line->sequence, memory_order_relaxed));
	atomic_init(&out->waits, atomic_load_explicit(&line->waits, memory_order_relaxed));
	atomic_init(&out->op, atomic_load_explicit(&line->op, memory_order_relaxed));
	atomic_init(&out->root, atomic_load_explicit(&line->root, memory_order_relaxed));
	atomic_init(&out->device, atomic_load_explicit(&line->device, memory_order_relaxed));
	atomic_init(&out->kind, atomic_load_explicit(&line->kind, memory_order_relaxed));
	atomic_init(&out->collective,
		    atomic_load_explicit(&line->collective, memory_order_relaxed));
	atomic_init(&out->dtype, atomic_load_explicit(&line->dtype, memory_order_relaxed));
	atomic_init(&out->way, atomic_load_explicit(&line->way, memory_order_relaxed));
	atomic_init(&out->captured, atomic_load_explicit(&line->captured, memory_order_relaxed));
	/* acquire: pairs with the release fence in tt_recorder_stream(), should it have begun to
	 * write again */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&line->number, memory_order_relaxed) == number;
}

bool tt_flight_read_caller(const struct tt_flight *flight, uint64_t number,
			   struct tt_flight_caller *out)
{
	const struct tt_flight_caller *line = &flight->callers[number % TT_FLIGHT_CALLERS];

	/* acquire: pairs with the release in tt_recorder_caller() */
	if (number == 0 || atomic_load_explicit(&line->number, memory_order_acquire) != number)
		return false;
	atomic_init(&out->number, number);
	for (size_t i = 0; i < TT_FLIGHT_CALLER / 8; i++)
		atomic_init(&out->text[i],
			    atomic_load_explicit(&line->text[i], memory_order_relaxed));
	/* acquire: pairs with the release fence in tt_recorder_caller(), should it have begun to
	 * write again */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&line->number, memory_order_relaxed) == number;
}
