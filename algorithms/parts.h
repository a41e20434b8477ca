/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns that several families are composed of. They are written for a team, a numbering of some
 * of the ranks, so that the same pattern serves all ranks, the ranks of a host, and one rank of
 * each host. */
#ifndef TT_PARTS_H
#define TT_PARTS_H

#include "schedule.h"

#define TT_GATHERS    (TT_BIT(TT_ALL_GATHER) | TT_BIT(TT_ALL_GATHER_V))
#define TT_REDUCTIONS (TT_BIT(TT_REDUCE_SCATTER) | TT_BIT(TT_REDUCE_SCATTER_V))

/* `size` ranks numbered from `shift` round: number i is members[(i + shift) mod size], or that
 * place itself where there is no list. `me` is this rank's number. Each member contributes for
 * itself, or, if there is `before`, what it has combined for several ranks: the members of the
 * first k places for before[k]. */
struct tt_team {
	const int *members;
	const int *before; /* [size + 1] or NULL */
	int size, me, shift;
};

static inline int tt_at(const struct tt_team *team, int i)
{
	const int place = tt_mod(i + team->shift, team->size);

	return team->members ? team->members[place] : place;
}

/* How many ranks the n members from number `first` on contribute for. */
static inline int tt_weight(const struct tt_team *team, int first, int n)
{
	const int place = tt_mod(first + team->shift, team->size), end = place + n;

	if (!team->before)
		return n;
	if (end <= team->size)
		return team->before[end] - team->before[place];
	return team->before[team->size] - team->before[place] + team->before[end - team->size];
}

static inline struct tt_team tt_everyone(const struct tt_group *group)
{
	return (struct tt_team){ .size = group->size, .me = group->rank };
}

/* Everyone, the root being number 0. */
static inline struct tt_team tt_from_root(const struct tt_group *group)
{
	return (struct tt_team){ .size = group->size,
				 .me = tt_mod(group->rank - group->root, group->size),
				 .shift = group->root };
}

static inline int tt_min(int a, int b)
{
	return a < b ? a : b;
}

/* Rounds that a pattern which doubles needs: the least k with 2^k >= n. */
int tt_log2_up(int n);
/* The largest power of two that n holds. */
int tt_power_of_two(int n);

/* An algorithm's `fits` that has no condition, that of a fold of all ranks in one step, and that of
 * one among ranks of one host. */
bool tt_fits_any(const struct tt_group *group, enum tt_collective collective);
bool tt_fits_fold(const struct tt_group *group, enum tt_collective collective);
bool tt_fits_fold_of_host(const struct tt_group *group, enum tt_collective collective);

/* How many ranks the hosts, or domains, with the most and the fewest have. */
struct tt_extent {
	int most, fewest;
	int divisor; /* the greatest that all their numbers have in common */
};

struct tt_extent tt_extent_of_hosts(const struct tt_group *group);
/* Of a group of one host: all of it where there are no domains. */
struct tt_extent tt_extent_of_domains(const struct tt_group *group);

/* Messages, bytes and reduced bytes of a pattern whose every round may leave the host. */
struct tt_cost tt_cost_links(const struct tt_group *group, double messages, double bytes,
			     double reduced);
/* The same, and all ranks of a host may leave it at the same time. */
struct tt_cost tt_cost_exchange(const struct tt_group *group, double messages, double bytes,
				double reduced);
/* Some rank reads of all others, or all others read of it, `times` times. */
void tt_cost_peers(struct tt_cost *cost, const struct tt_group *group, double times);
/* Blocks of so many bytes are cut into segments, and the first one is passed on `fill` times, of
 * a rank's bytes, before all are at work. */
void tt_cost_pipeline(struct tt_cost *cost, double fill, double block);
/* Count each message of the cost as `n` that one rank sends or receives at once; `gathered` of them,
 * a share from 0 to 1, it only receives. */
void tt_cost_at_once(struct tt_cost *cost, double n, double gathered);

/* Write `n` empty rounds: this rank waits while others talk. */
void tt_rounds(struct tt_sched *sched, int n);

/* In the following, `rounds` is how many are written, at least what the team needs; teams that run
 * side by side thus stay in step. */

/* Number 0 hands the run `have` to the others' `into`. Needs tt_log2_up(size) rounds. */
void tt_binomial_broadcast(struct tt_sched *sched, const struct tt_team *team, struct tt_ref have,
			   struct tt_ref into, int n, int rounds);
/* Combine everyone's `have` at number 0, accumulating in `into`. Needs tt_log2_up(size) rounds.
 * Returns where this rank's result is: `have` still, if nobody handed it anything. */
struct tt_ref tt_binomial_reduce(struct tt_sched *sched, const struct tt_team *team,
				 struct tt_ref have, struct tt_ref into, int n, bool final,
				 int rounds);
/* Number 0 ends when everyone has begun. Needs tt_log2_up(size) rounds. */
void tt_binomial_signal(struct tt_sched *sched, const struct tt_team *team, int rounds);

/* How a team of any size is folded into a power of two: the first 2 * extra members are pairs, of
 * which the even one acts for both. */
struct tt_fold {
	int size, extra; /* of the power of two; pairs */
	int me;		 /* this rank's number among those that act, or -1 */
};

struct tt_fold tt_fold_of(const struct tt_team *team);

/* The team's number of the one that acts as `i`; of `size` it is the team's size. */
static inline int tt_unfolded(const struct tt_fold *fold, int i)
{
	return i < fold->extra ? 2 * i : i + fold->extra;
}

/* The rounds that the following two write. */
int tt_doubling_rounds(int size);

/* Recursive doubling of the vector block `have` into `into`, both ends of an exchange combining in
 * the order of their numbers. Uses scratch slots 0 and 1; the team has at least two. */
void tt_doubling_all_reduce(struct tt_sched *sched, const struct tt_team *team, struct tt_ref have,
			    struct tt_ref into);
/* The same without a payload. */
void tt_doubling_signal(struct tt_sched *sched, const struct tt_team *team);

/* The parts of a vector that a ring turns: part i is the run of n blocks from base + i * n. */
struct tt_parts {
	int base, n;
};

/* size - 1 rounds, after which the recv buffer holds part me + 1 combined. The team's contributions
 * are in `from`, send or recv. */
void tt_ring_reduce_scatter(struct tt_sched *sched, const struct tt_team *team,
			    struct tt_parts parts, enum tt_buffer from, bool final);
/* size - 1 rounds, which begin with part me + lead in the recv buffer and end with all of them. */
void tt_ring_all_gather(struct tt_sched *sched, const struct tt_team *team, struct tt_parts parts,
			int lead);

/* The same at once instead of in a ring: one round in which part i goes to number i, and the fold
 * of the own part `into` at the beginning of the next. Uses size * parts.n slots of scratch, in
 * which those of the own number stay empty. */
void tt_shot_reduce_scatter(struct tt_sched *sched, const struct tt_team *team,
			    struct tt_parts parts, enum tt_buffer from, struct tt_ref into,
			    bool final);
/* One round, which begins with part me in the recv buffer and ends with all of them. */
void tt_shot_all_gather(struct tt_sched *sched, const struct tt_team *team, struct tt_parts parts);

#endif
