/* SPDX-License-Identifier: BSD-3-Clause */
#include "news.h"

#include <stdio.h>
#include <string.h>

enum kind { FAULT, DEATH, NOTE };

static uint64_t mix(const struct loop_fabric *fabric, enum kind kind, uint64_t number, int hearer)
{
	uint64_t x = fabric->faults.seed * 0x9e3779b97f4a7c15u +
		     (uint64_t)kind * 0xbf58476d1ce4e5b9u + number * 0x94d049bb133111ebu +
		     (uint64_t)hearer;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t lag(const struct loop_fabric *fabric, enum kind kind, uint64_t number, int hearer)
{
	const uint64_t longest = fabric->faults.news_ns;

	return longest ? (mix(fabric, kind, number, hearer) >> 8) % longest : 0;
}

/* When a rank hears what another has told; 0: never. What was still on its way when the teller
 * died may be lost. */
static uint64_t fault_comes(const struct loop_fabric *fabric, int from, int hearer)
{
	const struct loop_rank *teller = &fabric->ranks[from];
	const uint64_t at = teller->told.at + lag(fabric, FAULT, teller->told.number, hearer);

	if (from == hearer || !teller->told.fault.result)
		return 0;
	if (teller->state == LOOP_DEAD && teller->gone_at < at &&
	    mix(fabric, FAULT, teller->told.number, hearer) % 2)
		return 0;
	return at;
}

static uint64_t death_comes(const struct loop_fabric *fabric, int rank, int hearer)
{
	const struct loop_rank *gone = &fabric->ranks[rank];

	if (rank == hearer || (gone->state != LOOP_DEAD && gone->state != LOOP_LEFT))
		return 0;
	return gone->gone_at + lag(fabric, DEATH, (uint64_t)rank, hearer);
}

static uint64_t note_comes(const struct loop_fabric *fabric, uint64_t note, int hearer)
{
	return fabric->noted_at[note % (4 * TT_NOTES_KEPT)] + lag(fabric, NOTE, note, hearer);
}

static void earlier(uint64_t *next, uint64_t at, uint64_t now)
{
	if (at > now && (*next == 0 || at < *next))
		*next = at;
}

uint64_t tt_loop_news_next(const struct loop_fabric *fabric, int rank, uint64_t now)
{
	const uint64_t kept = 4 * TT_NOTES_KEPT;
	uint64_t next = 0;

	if (!fabric->faults.news_ns)
		return 0;
	for (int other = 0; other < fabric->size; other++) {
		earlier(&next, fault_comes(fabric, other, rank), now);
		earlier(&next, death_comes(fabric, other, rank), now);
	}
	for (uint64_t note = fabric->told; note > 0 && note + kept > fabric->told; note--) {
		if (fabric->noted_at[(note - 1) % kept] + fabric->faults.news_ns <= now)
			break; /* that one and all before it have come */
		earlier(&next, note_comes(fabric, note - 1, rank), now);
	}
	return next;
}

void tt_loop_news_spread(struct loop_fabric *fabric, uint64_t at)
{
	for (int rank = 0; rank < fabric->size && fabric->faults.news_ns; rank++) {
		/* it may come at once, and by now have come */
		const uint64_t next = tt_loop_news_next(fabric, rank, at - 1),
			       alarm = fabric->ranks[rank].alarm.at;

		if (next > 0)
			tt_loop_fabric_ring(fabric, rank, next);
		if (next > 0 && (alarm == 0 || next < alarm))
			tt_loop_fabric_set_alarm(fabric, rank, next);
	}
}

static void adopt(struct loop_endpoint *self, const struct tt_fault *fault)
{
	struct loop_rank *place = &self->fabric->ranks[self->rank];

	self->base.fault = *fault;
	if (place->state != LOOP_HERE)
		return;
	place->told = (struct loop_told){ *fault, tt_now(), ++self->fabric->numbers };
	tt_loop_news_spread(self->fabric, place->told.at);
}

void tt_loop_news_send(struct loop_endpoint *self, const struct tt_fault *fault)
{
	if (!self->base.fault.result || tt_fault_before(fault, &self->base.fault))
		adopt(self, fault);
}

static void receive_faults(struct loop_endpoint *self, uint64_t now)
{
	for (int other = 0; other < self->fabric->size; other++) {
		const uint64_t at = fault_comes(self->fabric, other, self->rank);

		if (at > 0 && at <= now)
			tt_loop_news_send(self, &self->fabric->ranks[other].told.fault);
	}
}

/* A rank that knows of a fault looks for no other. */
static void receive_deaths(struct loop_endpoint *self, uint64_t now)
{
	for (int other = 0; self->peers && other < self->fabric->size && !self->base.fault.result;
	     other++) {
		struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST, .rank = other };
		const uint64_t at = death_comes(self->fabric, other, self->rank);

		if (!self->peers[other].use || self->fabric->ranks[other].state != LOOP_DEAD ||
		    at > now)
			continue;
		snprintf(fault.text, sizeof(fault.text), "rank %d died", other);
		adopt(self, &fault);
	}
}

void tt_loop_news_receive(struct loop_endpoint *self, bool thorough)
{
	const uint64_t now = tt_now();

	receive_faults(self, now);
	if (!thorough)
		return;
	receive_deaths(self, now);
	tt_loop_fabric_set_alarm(self->fabric, self->rank,
				 tt_loop_news_next(self->fabric, self->rank, now));
}

bool tt_loop_news_has_come(const struct loop_endpoint *self, uint64_t note)
{
	return note_comes(self->fabric, note, self->rank) <= tt_now();
}

bool tt_loop_news_knows_gone(const struct loop_endpoint *self, int peer)
{
	const uint64_t at = death_comes(self->fabric, peer, self->rank);

	return at > 0 && at <= tt_now();
}
