/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds the cost functions to the schedules: no rank moves or combines more bytes, or talks in more
 * rounds, than the algorithm says its longest path does; and what it says is not idle talk: some
 * rank comes near. */
#include <string.h>

#include "tutti_asserts.h"
#include "calls/rules.h"
#include "schedule.h"

enum { MOST_RANKS = 33, MANY_RANKS = 64 };

static const double vector = 1e6; /* bytes */

/* What one rank does. */
struct work {
	double sent, received, reduced, in_place, rounds;
	double sends, receives; /* messages */
	double staged;		/* copied first where peers cannot map the buffer */
};

/* Bytes of a block. */
static double block_of(const struct tt_sched *s, const struct tt_group *group,
		       enum tt_collective collective)
{
	const struct rule *rule = &rules[collective];

	return vector /
	       (rule->send == EACH || rule->recv == EACH ? (double)group->size : s->blocks);
}

static void add_step(struct work *work, const struct tt_step *step, double block, int rank)
{
	const double bytes = step->n * block;

	switch (step->kind) {
	case TT_STEP_SEND:
		work->sends++;
		work->sent += bytes;
		break;
	case TT_STEP_RECV:
		work->receives++;
		work->received += bytes;
		break;
	case TT_STEP_RECV_REDUCE:
		work->receives++;
		work->received += bytes;
		work->reduced += bytes;
		work->in_place += bytes;
		break;
	case TT_STEP_REDUCE: work->reduced += (step->sources - 1) * bytes; break;
	case TT_STEP_SOURCE: work->received += step->peer == rank ? 0 : bytes; break;
	case TT_STEP_EXPOSE: /* what was put into scratch for others */
		work->received += step->a.buffer == TT_BUF_SCRATCH ? bytes : 0;
		work->staged += step->a.buffer == TT_BUF_SEND ? bytes : 0;
		break;
	default: break;
	}
}

static struct work work_of(const struct tt_algorithm *algorithm, const struct tt_group *group,
			   enum tt_collective collective)
{
	struct work work = { 0 };
	struct tt_sched s;
	double block;

	assert_ok(tt_sched_build(&s, algorithm, group, collective));
	block = collective == TT_BARRIER ? 0 : block_of(&s, group, collective);
	for (uint32_t k = 0; k < s.nrounds; k++) {
		bool talks = false;

		for (uint32_t i = s.round[k]; i < s.round[k + 1]; i++) {
			add_step(&work, &s.steps[i], block, group->rank);
			talks |= s.steps[i].kind <= TT_STEP_RECV_REDUCE;
		}
		work.rounds += talks;
	}
	tt_sched_fini(&s);
	return work;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

typedef void case_fn(const struct tt_algorithm *algorithm, struct tt_group group,
		     enum tt_collective collective);

/* Every collective and number of ranks, with so many on a host, or in shared memory, of a domain. */
static void for_each_case(const struct tt_algorithm *algorithm, int each, case_fn *check)
{
	const int one_host[MOST_RANKS + 1] = { 0 };
	int place[MOST_RANKS + 1];

	for (int r = 0; r <= MOST_RANKS; r++)
		place[r] = r / each;
	for (int size = 2; size <= MOST_RANKS; size++)
		for (int c = 0; c < TT_SEND_RECV; c++) {
			const enum tt_collective collective = (enum tt_collective)c;
			const int places = (size + each - 1) / each;
			const struct tt_group group = { .size = size,
							.host = algorithm->shared ? one_host
										  : place,
							.hosts = algorithm->shared ? 1 : places,
							.domain = place,
							.domains = places };

			if (tt_algorithm_can(algorithm, collective) &&
			    algorithm->fits(&group, collective))
				check(algorithm, group, collective);
		}
}

static bool is_cost(double number)
{
	return number >= 0 && number < 1e12;
}

static void check_growth(const struct tt_algorithm *algorithm, struct tt_group group,
			 enum tt_collective collective)
{
	const struct tt_cost less = algorithm->cost(&group, collective, 1000);

	group.rank = group.size - 1;
	const struct tt_cost more = algorithm->cost(&group, collective, 3000);

	assert_true(less.syncs == more.syncs && is_cost(less.reduced));
	assert_true(more.reduced >= less.reduced);
	for (int far = 0; far < 2; far++) {
		assert_true(is_cost(less.messages[far]) && is_cost(less.bytes[far]));
		assert_true(less.messages[far] == more.messages[far]);
		assert_true(more.bytes[far] >= less.bytes[far]);
	}
	assert_true(group.hosts > 1 || less.messages[1] + less.bytes[1] == 0);
}

TEST(costs_grow_with_bytes_and_are_alike_on_all_ranks)
{
	for (int per_host = 1; per_host <= MOST_RANKS; per_host++)
		for_each_case(*state, per_host, check_growth);
}

static void check_work(const struct tt_algorithm *algorithm, struct tt_group group,
		       enum tt_collective collective)
{
	const struct tt_cost cost = algorithm->cost(&group, collective, vector);
	const double bytes = cost.bytes[0] + cost.bytes[1] + 1e-3;
	const double messages = cost.messages[0] + cost.messages[1] + 1e-9;
	struct work most = { 0 };

	for (group.rank = 0; group.rank < group.size; group.rank++) {
		const struct work work = work_of(algorithm, &group, collective);

		most.sent = larger(most.sent, larger(work.sent, work.received));
		most.staged = larger(most.staged, work.staged);
		most.reduced = larger(most.reduced, work.reduced);
		most.in_place = larger(most.in_place, work.in_place);
		most.rounds = larger(most.rounds, work.rounds);
		most.sends = larger(most.sends, larger(work.sends, work.receives));
	}
	if (most.sent > bytes || most.reduced > cost.reduced + 1e-3 || most.rounds > messages)
		fail_msg("%s, collective %d, %d ranks: moves %g of %g bytes, reduces %g of %g, "
			 "talks in %g of %g rounds",
			 algorithm->name, collective, group.size, most.sent, bytes, most.reduced,
			 cost.reduced, most.rounds, messages);
	if (cost.in_place > 2.5 * most.in_place + 1)
		fail_msg("%s, collective %d, %d ranks: combines %g of %g bytes where they arrive",
			 algorithm->name, collective, group.size, most.in_place, cost.in_place);
	const double calls = cost.calls[0] + cost.calls[1];
	if (calls > 0 && (most.sends > messages + calls || 2.1 * most.sends < messages + calls))
		fail_msg(
			"%s, collective %d, %d ranks: one rank has %g messages, of which %g wait and %g do not",
			algorithm->name, collective, group.size, most.sends, messages, calls);
	if (bytes > 2.5 * most.sent + most.staged + 1 || cost.reduced > 2.5 * most.reduced + 1)
		fail_msg("%s, collective %d, %d ranks: moves only %g of %g bytes, reduces %g of %g",
			 algorithm->name, collective, group.size, most.sent, bytes, most.reduced,
			 cost.reduced);
}

TEST(cost_is_that_of_the_busiest_of_all_ranks)
{
	for_each_case(*state, 4, check_work);
	for_each_case(*state, MOST_RANKS, check_work);
}

/* ---- whose memory is read */

/* Of one rank: others that it reads in a round, and that read of it, added over rounds; those of
 * other domains once more. */
struct reads {
	int by, of, far_by, far_of;
};

static void add_reads(const struct tt_algorithm *algorithm, const struct tt_group *group,
		      enum tt_collective collective, struct reads *reads)
{
	struct tt_sched s;

	assert_ok(tt_sched_build(&s, algorithm, group, collective));
	for (uint32_t k = 0; k < s.nrounds; k++) {
		bool read[MANY_RANKS] = { false };

		for (uint32_t i = s.round[k]; i < s.round[k + 1]; i++) {
			const int peer = s.steps[i].peer, me = group->rank;
			const bool far = group->domain[peer] != group->domain[me];

			if (s.steps[i].kind < TT_STEP_SOURCE || peer == me || read[peer])
				continue;
			read[peer] = true;
			reads[me].by++;
			reads[peer].of++;
			reads[me].far_by += far;
			reads[peer].far_of += far;
		}
	}
	tt_sched_fini(&s);
}

static void check_reads(const struct tt_algorithm *algorithm, struct tt_group group,
			enum tt_collective collective)
{
	const struct tt_cost cost = algorithm->cost(&group, collective, vector);
	struct reads reads[MANY_RANKS] = { 0 };
	double most = 0, far = 0;

	for (group.rank = 0; group.rank < group.size; group.rank++)
		add_reads(algorithm, &group, collective, reads);
	for (int r = 0; r < group.size; r++) {
		most = larger(most, larger(reads[r].by, reads[r].of));
		far = larger(far, larger(reads[r].far_by, reads[r].far_of));
	}
	/* the root of the others is in the first domain, which has most ranks */
	const bool right =
		collective == TT_ALL_REDUCE ? far == cost.peers[1] : far <= cost.peers[1];

	if (most != cost.peers[0] + cost.peers[1] || !right)
		fail_msg("%s, collective %d, %d ranks in %d domains: one rank reads %g others, "
			 "or they it, %g of them far; the cost says %g and %g",
			 algorithm->name, collective, group.size, group.domains, most, far,
			 cost.peers[0] + cost.peers[1], cost.peers[1]);
}

TEST(ranks_read_of_as_many_others_as_the_cost_says_of_all_ranks)
{
	const struct tt_algorithm *algorithm = *state;

	if (!algorithm->shared)
		return;
	for (int each = 1; each <= MOST_RANKS; each *= 2)
		for_each_case(algorithm, each, check_reads);
	for_each_case(algorithm, MOST_RANKS, check_reads);
}

/* In 8 caches of 8 ranks. */
TEST(all_reduce_of_64_ranks)
{
	const struct tt_algorithm *algorithm = *state;
	const bool all_by_all = strcmp(algorithm->name, "board") == 0;
	struct reads reads[MANY_RANKS] = { 0 };
	int host[MANY_RANKS] = { 0 }, cache[MANY_RANKS], by = 0, far = 0;
	struct tt_group group = {
		.size = 64, .root = -1, .host = host, .hosts = 1, .domain = cache, .domains = 8
	};

	if (!all_by_all && strcmp(algorithm->name, "two_level") != 0)
		return;
	for (int r = 0; r < group.size; r++)
		cache[r] = r / 8;
	for (group.rank = 0; group.rank < group.size; group.rank++)
		add_reads(algorithm, &group, TT_ALL_REDUCE, reads);
	for (int r = 0; r < group.size; r++) {
		by += reads[r].by;
		far += reads[r].far_by;
	}
	assert_int_equal(by, all_by_all ? 64 * 63 : 64 * (7 + 7));
	assert_int_equal(far, all_by_all ? 64 * 56 : 64 * 7);
}

/* ---- what goes through the network of a host */

/* Bytes that one rank sends to other hosts, added to `out` and `in` of the hosts. */
static void add_crossing(const struct tt_algorithm *algorithm, const struct tt_group *group,
			 enum tt_collective collective, double *out, double *in)
{
	struct tt_sched s;

	assert_ok(tt_sched_build(&s, algorithm, group, collective));
	const double block = block_of(&s, group, collective);
	for (uint32_t i = 0; i < s.nsteps; i++) {
		const struct tt_step *step = &s.steps[i];
		const int from = group->host[group->rank], to = group->host[step->peer];

		if (step->kind == TT_STEP_SEND && from != to) {
			out[from] += step->n * block;
			in[to] += step->n * block;
		}
	}
	tt_sched_fini(&s);
}

/* The busiest network's bytes, in the direction with more, as a share of what the cost says. */
static double crossing_share(const struct tt_algorithm *algorithm, struct tt_group group,
			     enum tt_collective collective)
{
	const struct tt_cost cost = algorithm->cost(&group, collective, vector);
	double out[MOST_RANKS] = { 0 }, in[MOST_RANKS] = { 0 }, most = 0;

	for (group.rank = 0; group.rank < group.size; group.rank++)
		add_crossing(algorithm, &group, collective, out, in);
	for (int host = 0; host < group.hosts; host++)
		most = larger(most, larger(out[host], in[host]));
	return most / (cost.bytes[1] * larger(cost.crossing, 1));
}

/* A double tree's inner ranks may lie so that one host passes on more than the others. A tree's
 * bytes are those of all its rounds, of which those inside hosts do not use the network. */
static void check_crossing(const struct tt_algorithm *algorithm, struct tt_group group,
			   enum tt_collective collective)
{
	if (group.hosts == 1 || collective == TT_BARRIER)
		return;
	const double share = crossing_share(algorithm, group, collective);
	const bool full = group.host[group.size - 1] != group.host[group.size] && group.hosts >= 4;

	if (share > (strcmp(algorithm->name, "double_tree") == 0 ? 1.8 : 1 + 1e-9) ||
	    (full && share < 0.15))
		fail_msg(
			"%s, collective %d, %d ranks on %d hosts: a network carries %.2f of what the cost says",
			algorithm->name, collective, group.size, group.hosts, share);
}

TEST(network_carries_what_the_cost_says_of_all_ranks)
{
	for (int per_host = 1; per_host <= 8; per_host++)
		for_each_case(*state, per_host, check_crossing);
}
