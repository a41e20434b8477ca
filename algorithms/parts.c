/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the patterns that families share; see parts.h. */
#include "parts.h"

#include <string.h>

int tt_log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

int tt_power_of_two(int n)
{
	int power = 1;

	while (power <= n / 2)
		power *= 2;
	return power;
}

bool tt_fits_any(const struct tt_group *group, enum tt_collective collective)
{
	return true;
}

/* A step counts its sources in 16 bits. */
bool tt_fits_fold(const struct tt_group *group, enum tt_collective collective)
{
	return group->size <= UINT16_MAX;
}

bool tt_fits_fold_of_host(const struct tt_group *group, enum tt_collective collective)
{
	return group->hosts == 1 && tt_fits_fold(group, collective);
}

static int common_divisor(int a, int b)
{
	return b ? common_divisor(b, a % b) : a;
}

static void count_part(struct tt_extent *extent, int ranks)
{
	extent->most = ranks > extent->most ? ranks : extent->most;
	extent->fewest = tt_min(ranks, extent->fewest);
	extent->divisor = common_divisor(extent->divisor, ranks);
}

/* By one pass, where the ranks of each part follow each other. False: they do not. */
static bool count_runs(const int *part, int parts, int size, struct tt_extent *extent)
{
	int runs = 0;

	for (int r = 1, first = 0; r <= size; r++) {
		if (r < size && part[r] == part[first])
			continue;
		count_part(extent, r - first);
		first = r;
		runs++;
	}
	return runs == parts;
}

/* Parts are numbered from 0; a pass over the ranks counts as many of them as there are counters. */
static struct tt_extent extent_of(const int *part, int parts, int size)
{
	const struct tt_extent none = { .fewest = size };
	struct tt_extent extent = none;
	int ranks[1024];
	const int counters = sizeof(ranks) / sizeof(ranks[0]);

	if (count_runs(part, parts, size, &extent))
		return extent;
	extent = none;
	for (int first = 0; first < parts; first += counters) {
		const int n = tt_min(counters, parts - first);

		memset(ranks, 0, sizeof(ranks));
		for (int r = 0; r < size; r++)
			if (part[r] >= first && part[r] - first < n)
				ranks[part[r] - first]++;
		for (int i = 0; i < n; i++)
			count_part(&extent, ranks[i]);
	}
	return extent;
}

struct tt_extent tt_extent_of_hosts(const struct tt_group *group)
{
	return extent_of(group->host, group->hosts, group->size);
}

struct tt_extent tt_extent_of_domains(const struct tt_group *group)
{
	if (!group->domain || group->domains <= 1)
		return (struct tt_extent){ group->size, group->size, group->size };
	return extent_of(group->domain, group->domains, group->size);
}

void tt_cost_peers(struct tt_cost *cost, const struct tt_group *group, double times)
{
	const int near = tt_extent_of_domains(group).fewest;

	cost->peers[0] = times * (near - 1);
	cost->peers[1] = times * (group->size - near);
}

struct tt_cost tt_cost_links(const struct tt_group *group, double messages, double bytes,
			     double reduced)
{
	const int far = group->hosts > 1;
	struct tt_cost cost = { .reduced = reduced, .in_place = reduced };

	cost.messages[far] = messages;
	cost.bytes[far] = bytes;
	return cost;
}

struct tt_cost tt_cost_exchange(const struct tt_group *group, double messages, double bytes,
				double reduced)
{
	struct tt_cost cost = tt_cost_links(group, messages, bytes, reduced);

	if (group->hosts > 1)
		cost.crossing = tt_extent_of_hosts(group).most;
	return cost;
}

void tt_cost_pipeline(struct tt_cost *cost, double fill, double block)
{
	cost->fill = fill;
	cost->segmented = block;
}

void tt_cost_at_once(struct tt_cost *cost, double n, double gathered)
{
	for (int far = 0; far < 2; far++) {
		cost->calls[far] = cost->messages[far] * (n - 1);
		cost->gathered[far] = gathered * cost->calls[far];
	}
}

void tt_rounds(struct tt_sched *sched, int n)
{
	for (int k = 0; k < n; k++)
		tt_round(sched);
}

void tt_binomial_broadcast(struct tt_sched *sched, const struct tt_team *team, struct tt_ref have,
			   struct tt_ref into, int n, int rounds)
{
	const int me = team->me, levels = tt_log2_up(team->size);

	for (int mask = (1 << levels) / 2; mask > 0; mask /= 2) {
		if (me % (2 * mask) == 0 && me + mask < team->size)
			tt_send(sched, tt_at(team, me + mask), me ? into : have, n);
		else if (me % (2 * mask) == mask)
			tt_recv(sched, tt_at(team, me - mask), into, n);
		tt_round(sched);
	}
	tt_rounds(sched, rounds - levels);
}

struct tt_ref tt_binomial_reduce(struct tt_sched *sched, const struct tt_team *team,
				 struct tt_ref have, struct tt_ref into, int n, bool final,
				 int rounds)
{
	const int me = team->me;

	for (int mask = 1; mask < team->size; mask *= 2) {
		if (me % (2 * mask) == mask) {
			tt_send(sched, tt_at(team, me - mask), have, n);
		} else if (me % (2 * mask) == 0 && me + mask < team->size) {
			tt_recv_reduce(sched, tt_at(team, me + mask), into, have, n);
			tt_weigh(sched, tt_weight(team, me, mask),
				 tt_weight(team, me + mask, tt_min(mask, team->size - me - mask)));
			have = into;
			if (final && 2 * mask >= team->size)
				tt_final(sched);
		}
		tt_round(sched);
	}
	tt_rounds(sched, rounds - tt_log2_up(team->size));
	return have;
}

void tt_binomial_signal(struct tt_sched *sched, const struct tt_team *team, int rounds)
{
	const int me = team->me;

	for (int mask = 1; mask < team->size; mask *= 2) {
		if (me % (2 * mask) == mask)
			tt_send(sched, tt_at(team, me - mask), tt_in(0), 1);
		else if (me % (2 * mask) == 0 && me + mask < team->size)
			tt_recv(sched, tt_at(team, me + mask), tt_out(0), 1);
		tt_round(sched);
	}
	tt_rounds(sched, rounds - tt_log2_up(team->size));
}

struct tt_fold tt_fold_of(const struct tt_team *team)
{
	struct tt_fold fold = { .size = tt_power_of_two(team->size) };

	fold.extra = team->size - fold.size;
	if (team->me >= 2 * fold.extra)
		fold.me = team->me - fold.extra;
	else
		fold.me = team->me % 2 ? -1 : team->me / 2;
	return fold;
}

int tt_doubling_rounds(int size)
{
	const int power = tt_power_of_two(size);

	return tt_log2_up(power) + (power < size ? 2 : 0);
}

/* How many ranks the `mask` that act around number `me` of them contribute for. */
static int weight_around(const struct tt_team *team, const struct tt_fold *fold, int me, int mask)
{
	const int first = me & ~(mask - 1), begin = tt_unfolded(fold, first);

	return tt_weight(team, begin, tt_unfolded(fold, first + mask) - begin);
}

/* The exchanges among those that act. A round sends one place and writes another: scratch, until
 * the last round writes `into`. A single round cannot send `have` itself, which in place is `into`.
 */
static void exchange(struct tt_sched *sched, const struct tt_team *team, const struct tt_fold *fold,
		     struct tt_ref have, struct tt_ref into)
{
	int slot = 0;

	for (int mask = 1; mask < fold->size; mask *= 2) {
		const int other = fold->me ^ mask;
		const int peer = tt_at(team, tt_unfolded(fold, other));
		const bool last = 2 * mask == fold->size;
		const struct tt_ref next = last ? into : tt_tmp(slot, 0);

		tt_send(sched, peer, have, 1);
		if (other < fold->me)
			tt_recv_reduce_left(sched, peer, next, have, 1);
		else
			tt_recv_reduce(sched, peer, next, have, 1);
		tt_weigh(sched, weight_around(team, fold, fold->me, mask),
			 weight_around(team, fold, other, mask));
		if (last)
			tt_final(sched);
		tt_round(sched);
		have = next;
		slot = !slot;
	}
}

void tt_doubling_all_reduce(struct tt_sched *sched, const struct tt_team *team, struct tt_ref have,
			    struct tt_ref into)
{
	const struct tt_fold fold = tt_fold_of(team);
	const bool paired = team->me < 2 * fold.extra;
	const int twin = paired ? tt_at(team, team->me ^ 1) : -1;

	if (fold.me < 0) {
		tt_send(sched, twin, have, 1);
	} else if (paired) {
		tt_recv_reduce(sched, twin, tt_tmp(1, 0), have, 1);
		tt_weigh(sched, tt_weight(team, team->me, 1), tt_weight(team, team->me + 1, 1));
		have = tt_tmp(1, 0);
	} else if (fold.size == 2) {
		tt_copy(sched, tt_tmp(1, 0), have, 1);
		have = tt_tmp(1, 0);
	}
	if (fold.extra)
		tt_round(sched);
	if (fold.me < 0)
		tt_rounds(sched, tt_log2_up(fold.size));
	else
		exchange(sched, team, &fold, have, into);
	if (fold.me < 0)
		tt_recv(sched, twin, into, 1);
	else if (paired)
		tt_send(sched, twin, into, 1);
	if (fold.extra)
		tt_round(sched);
}

void tt_doubling_signal(struct tt_sched *sched, const struct tt_team *team)
{
	const struct tt_fold fold = tt_fold_of(team);
	const bool paired = team->me < 2 * fold.extra;
	const int twin = paired ? tt_at(team, team->me ^ 1) : -1;

	if (fold.me < 0)
		tt_send(sched, twin, tt_in(0), 1);
	else if (paired)
		tt_recv(sched, twin, tt_out(0), 1);
	if (fold.extra)
		tt_round(sched);
	for (int mask = 1; mask < fold.size; mask *= 2) {
		if (fold.me >= 0) {
			const int peer = tt_at(team, tt_unfolded(&fold, fold.me ^ mask));

			tt_send(sched, peer, tt_in(0), 1);
			tt_recv(sched, peer, tt_out(0), 1);
		}
		tt_round(sched);
	}
	if (fold.me < 0)
		tt_recv(sched, twin, tt_out(0), 1);
	else if (paired)
		tt_send(sched, twin, tt_in(0), 1);
	if (fold.extra)
		tt_round(sched);
}

static int part(const struct tt_team *team, struct tt_parts parts, int i)
{
	return parts.base + tt_mod(i, team->size) * parts.n;
}

void tt_ring_reduce_scatter(struct tt_sched *sched, const struct tt_team *team,
			    struct tt_parts parts, enum tt_buffer from, bool final)
{
	const int me = team->me, next = tt_at(team, me + 1), prev = tt_at(team, me - 1);

	for (int k = 0; k < team->size - 1; k++) { /* the part received now sums k + 2 of the
						    * team */
		const int going = part(team, parts, me - k), coming = part(team, parts, me - k - 1);
		const bool fresh = from == TT_BUF_SEND && k == 0;

		tt_send(sched, next, fresh ? tt_in(going) : tt_out(going), parts.n);
		tt_recv_reduce_left(sched, prev, tt_out(coming),
				    from == TT_BUF_SEND ? tt_in(coming) : tt_out(coming), parts.n);
		tt_weigh(sched, tt_weight(team, me, 1), tt_weight(team, me - 1 - k, k + 1));
		if (final && k == team->size - 2)
			tt_final(sched);
		tt_round(sched);
	}
}

void tt_ring_all_gather(struct tt_sched *sched, const struct tt_team *team, struct tt_parts parts,
			int lead)
{
	const int me = team->me, next = tt_at(team, me + 1), prev = tt_at(team, me - 1);

	for (int k = 0; k < team->size - 1; k++) {
		tt_send(sched, next, tt_out(part(team, parts, me + lead - k)), parts.n);
		tt_recv(sched, prev, tt_out(part(team, parts, me + lead - k - 1)), parts.n);
		tt_round(sched);
	}
}

void tt_shot_reduce_scatter(struct tt_sched *sched, const struct tt_team *team,
			    struct tt_parts parts, enum tt_buffer from, struct tt_ref into,
			    bool final)
{
	const int me = team->me, rank = tt_at(team, me), own = part(team, parts, me);

	for (int k = 1; k < team->size; k++) {
		const int to = tt_mod(me + k, team->size), of = tt_mod(me - k, team->size);
		const int going = part(team, parts, to);

		tt_send(sched, tt_at(team, to), from == TT_BUF_SEND ? tt_in(going) : tt_out(going),
			parts.n);
		tt_recv(sched, tt_at(team, of), tt_tmp(of * parts.n, own), parts.n);
	}
	tt_round(sched);
	tt_reduce(sched, into, parts.n);
	for (int i = 0; i < team->size; i++)
		tt_source(sched, rank,
			  i != me		? tt_tmp(i * parts.n, own)
			  : from == TT_BUF_SEND ? tt_in(own)
						: tt_out(own));
	if (final)
		tt_final(sched);
}

void tt_shot_all_gather(struct tt_sched *sched, const struct tt_team *team, struct tt_parts parts)
{
	const int me = team->me;

	for (int k = 1; k < team->size; k++) {
		tt_send(sched, tt_at(team, me + k), tt_out(part(team, parts, me)), parts.n);
		tt_recv(sched, tt_at(team, me - k), tt_out(part(team, parts, me - k)), parts.n);
	}
	tt_round(sched);
}
