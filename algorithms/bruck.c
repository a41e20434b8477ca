/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the algorithms of Bruck et al. (Efficient algorithms for all-to-all communications in
 * multiport message-passing systems, 1997): log P rounds for any P, in round k with the ranks 2^k
 * away. */
#include "algorithms.h"
#include "parts.h"

/* After round k rank r holds the 2^(k+1) blocks from its own on, as a run that may wrap round. */
static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const int size = group->size, rank = group->rank;

	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	for (int have = 1; have < size; have *= 2) {
		const int n = tt_min(have, size - have), from = tt_mod(rank + have, size);

		tt_send_wrapped(sched, tt_mod(rank - have, size), tt_out(rank), n);
		tt_recv_wrapped(sched, from, tt_out(from), n);
		tt_round(sched);
	}
}

/* How many j < n have bit `bit` set. */
static int with_bit(int n, int bit)
{
	return n / (2 * bit) * bit + (n % (2 * bit) > bit ? n % (2 * bit) - bit : 0);
}

/* All-to-all in scratch. The block that has j ranks to go moves in the rounds of the bits of j. A
 * round packs those that move into the first slots, to be one message, and receives into an area of
 * its own; within it they are in the order of j. Slots stand for blocks that all have one length.
 *
 * Where the block of distance j is that has made the moves of its bits below `bit`; `capacity` is how
 * many slots an area has. */
static struct tt_ref place(const struct tt_group *group, int capacity, int j, int bit)
{
	const int done = j & (bit - 1);
	int area = 0;

	if (!done)
		return tt_in(tt_mod(group->rank + j, group->size));
	while (done >> (area + 1))
		area++;
	return tt_tmp((area + 1) * capacity + with_bit(j, 1 << area), 0);
}

static void all_to_all(struct tt_sched *sched, const struct tt_group *group)
{
	const int size = group->size, rank = group->rank;
	int capacity = 0, area = 1;

	for (int bit = 1; bit < size; bit *= 2)
		if (with_bit(size, bit) > capacity)
			capacity = with_bit(size, bit);
	for (int bit = 1; bit < size; bit *= 2, area++) {
		const int n = with_bit(size, bit);

		for (int j = bit; j < size; j++)
			if (j & bit)
				tt_copy(sched, tt_tmp(with_bit(j, bit), 0),
					place(group, capacity, j, bit), 1);
		tt_send(sched, tt_mod(rank + bit, size), tt_tmp(0, 0), n);
		tt_recv(sched, tt_mod(rank - bit, size), tt_tmp(area * capacity, 0), n);
		tt_round(sched);
	}
	tt_copy(sched, tt_out(rank), tt_in(rank), 1);
	for (int j = 1; j < size; j++)
		tt_copy(sched, tt_out(tt_mod(rank - j, size)),
			place(group, capacity, j, 1 << tt_log2_up(size)), 1);
}

/* The dissemination barrier of Hensgen, Finkel and Manber. */
static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	for (int reach = 1; reach < group->size; reach *= 2) {
		tt_send(sched, tt_mod(group->rank + reach, group->size), tt_in(0), 1);
		tt_recv(sched, tt_mod(group->rank - reach, group->size), tt_out(0), 1);
		tt_round(sched);
	}
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double rounds = tt_log2_up(group->size);
	double blocks = 0;

	if (collective == TT_BARRIER)
		return tt_cost_exchange(group, rounds, 0, 0);
	if (collective != TT_ALL_TO_ALL)
		return tt_cost_exchange(group, rounds, bytes * (group->size - 1) / group->size, 0);
	for (int bit = 1; bit < group->size; bit *= 2)
		blocks += with_bit(group->size, bit);
	return tt_cost_exchange(group, rounds, bytes * blocks / group->size, 0);
}

const struct tt_algorithm tt_algorithm_bruck = {
	.name = "bruck",
	.fits = tt_fits_any,
	.build = {
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_ALL_TO_ALL] = all_to_all,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};
