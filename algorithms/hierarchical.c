/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the compositions that cross between hosts as little as possible: inside hosts, between them,
 * inside again. Hosts may have unequal numbers of ranks, and those of a host need not follow each
 * other. `hierarchical` lets one rank of each host, its leader, speak for it: few messages, any
 * layout. `hierarchical_split` has every rank carry a share of the vector between the hosts, for
 * long vectors and equal hosts, round rings. `hierarchical_shots` does so at once. */
#include "algorithms.h"
#include "parts.h"

/* The ranks by host. */
struct layout {
	int *first;  /* [hosts + 1]: where a host's ranks begin in `member` */
	int *member; /* [size]: ascending within a host, but for the root, which leads its own */
	int *across; /* [hosts]: the team that crosses, one of each host */
	int host, local; /* this rank's host and place in it */
	int tallest;	 /* ranks on the host with the most */
};

static void sort_by_host(struct layout *layout, const struct tt_group *group)
{
	int *first = layout->first;

	for (int r = 0; r < group->size; r++)
		first[group->host[r] + 1]++;
	for (int host = 0; host < group->hosts; host++) {
		layout->tallest =
			first[host + 1] > layout->tallest ? first[host + 1] : layout->tallest;
		first[host + 1] += first[host];
		layout->across[host] = first[host]; /* while filling: the next place */
	}
	for (int r = 0; r < group->size; r++) {
		int *const place = &layout->across[group->host[r]];

		layout->member[*place] = r;
		if (r == group->root) { /* to the front */
			layout->member[*place] = layout->member[first[group->host[r]]];
			layout->member[first[group->host[r]]] = r;
		}
		(*place)++;
	}
}

/* The team that crosses: of each host its `nth` rank. */
static struct tt_team across(const struct layout *layout, const struct tt_group *group, int nth)
{
	const int shift = group->root >= 0 ? group->host[group->root] : 0;

	for (int host = 0; host < group->hosts; host++)
		layout->across[host] = layout->member[layout->first[host] + nth];
	return (struct tt_team){ .members = layout->across,
				 .before = layout->first,
				 .size = group->hosts,
				 .me = tt_mod(layout->host - shift, group->hosts),
				 .shift = shift };
}

static struct tt_team inside(const struct layout *layout)
{
	const int first = layout->first[layout->host];

	return (struct tt_team){ .members = layout->member + first,
				 .size = layout->first[layout->host + 1] - first,
				 .me = layout->local };
}

/* NULL: no memory. */
static const struct layout *lay_out(struct tt_sched *sched, const struct tt_group *group)
{
	const size_t n = (size_t)group->size + 2 * (size_t)group->hosts + 1;
	struct layout *layout = tt_sched_memory(sched, sizeof(*layout) + n * sizeof(int));

	if (!layout)
		return NULL;
	layout->host = group->host[group->rank];
	layout->first = (int *)(layout + 1);
	layout->across = layout->first + group->hosts + 1;
	layout->member = layout->across + group->hosts;
	sort_by_host(layout, group);
	while (layout->member[layout->first[layout->host] + layout->local] != group->rank)
		layout->local++;
	return layout;
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const struct tt_ref have = group->rank == group->root ? tt_in(0) : tt_out(0);

	if (host.me == 0)
		tt_binomial_broadcast(sched, &leaders, have, tt_out(0), 1,
				      tt_log2_up(leaders.size));
	else
		tt_rounds(sched, tt_log2_up(leaders.size));
	tt_binomial_broadcast(sched, &host, have, tt_out(0), 1, tt_log2_up(layout->tallest));
	if (group->rank == group->root)
		tt_copy(sched, tt_out(0), tt_in(0), 1);
}

static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const struct tt_ref into = group->rank == group->root ? tt_out(0) : tt_tmp(0, 0);
	const struct tt_ref have = tt_binomial_reduce(sched, &host, tt_in(0), into, 1, false,
						      tt_log2_up(layout->tallest));

	if (host.me == 0)
		tt_binomial_reduce(sched, &leaders, have, into, 1, true, tt_log2_up(leaders.size));
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const int rounds = tt_log2_up(layout->tallest);
	const struct tt_ref have =
		tt_binomial_reduce(sched, &host, tt_in(0), tt_out(0), 1, false, rounds);

	if (host.me == 0)
		tt_doubling_all_reduce(sched, &leaders, have, tt_out(0));
	else
		tt_rounds(sched, tt_doubling_rounds(leaders.size));
	tt_binomial_broadcast(sched, &host, tt_out(0), tt_out(0), 1, rounds);
}

static void barrier(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const int rounds = tt_log2_up(layout->tallest);

	tt_binomial_signal(sched, &host, rounds);
	if (host.me == 0)
		tt_doubling_signal(sched, &leaders);
	else
		tt_rounds(sched, tt_doubling_rounds(leaders.size));
	tt_binomial_broadcast(sched, &host, tt_in(0), tt_out(0), 1, rounds);
}

/* The blocks of a host's ranks in as few runs as there are; `i` goes from one to the next. */
struct run {
	int block, n;
};

static struct run run_of(const struct layout *layout, int host, int *i)
{
	const int *member = layout->member + layout->first[host];
	const int count = layout->first[host + 1] - layout->first[host];
	struct run run = { member[*i], 0 };

	while (*i < count && member[*i] == run.block + run.n) {
		run.n++;
		(*i)++;
	}
	return run;
}

static int count_on(const struct layout *layout, int host)
{
	return layout->first[host + 1] - layout->first[host];
}

static void send_host(struct tt_sched *sched, const struct layout *layout, int peer, int host,
		      enum tt_buffer from)
{
	for (int i = 0; i < count_on(layout, host);) {
		const struct run run = run_of(layout, host, &i);

		tt_send(sched, peer, (struct tt_ref){ from, run.block, run.block }, run.n);
	}
}

/* Leaders collect their host's blocks, hand them round a ring, and broadcast the whole. */
static void all_gather(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const int next = tt_at(&leaders, leaders.me + 1), prev = tt_at(&leaders, leaders.me - 1);

	if (host.me > 0)
		tt_send(sched, tt_at(&host, 0), tt_in(group->rank), 1);
	else
		tt_copy(sched, tt_out(group->rank), tt_in(group->rank), 1);
	for (int i = 1; host.me == 0 && i < host.size; i++)
		tt_recv(sched, tt_at(&host, i), tt_out(tt_at(&host, i)), 1);
	tt_round(sched);
	for (int k = 0; k < leaders.size - 1; k++) {
		const int coming = tt_mod(leaders.me - k - 1, leaders.size);

		if (host.me == 0)
			send_host(sched, layout, next, tt_mod(leaders.me - k, leaders.size),
				  TT_BUF_RECV);
		for (int i = 0; host.me == 0 && i < count_on(layout, coming);) {
			const struct run run = run_of(layout, coming, &i);

			tt_recv(sched, prev, tt_out(run.block), run.n);
		}
		tt_round(sched);
	}
	tt_binomial_broadcast(sched, &host, tt_out(0), tt_out(0), group->size,
			      tt_log2_up(layout->tallest));
}

/* The ring of leaders: the sum for a host's ranks begins at the host after it and ends there. Slot
 * b of scratch holds block b. */
static void leaders_reduce_scatter(struct tt_sched *sched, const struct layout *layout,
				   const struct tt_team *leaders, enum tt_buffer have)
{
	const int next = tt_at(leaders, leaders->me + 1), prev = tt_at(leaders, leaders->me - 1);

	for (int k = 0; k < leaders->size - 1; k++) {
		const int coming = tt_mod(leaders->me - k - 2, leaders->size);

		send_host(sched, layout, next, tt_mod(leaders->me - k - 1, leaders->size),
			  k ? TT_BUF_SCRATCH : have);
		for (int i = 0; i < count_on(layout, coming);) {
			const struct run run = run_of(layout, coming, &i);
			const struct tt_ref with = { have, run.block, run.block };

			tt_recv_reduce(sched, prev, tt_tmp(run.block, run.block), with, run.n);
			tt_weigh(sched, tt_weight(leaders, leaders->me, 1),
				 tt_weight(leaders, leaders->me - 1 - k, k + 1));
			if (k == leaders->size - 2)
				tt_final(sched);
		}
		tt_round(sched);
	}
}

static void reduce_scatter(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team leaders = across(layout, group, 0), host = inside(layout);
	const int rank = group->rank;
	const struct tt_ref have =
		tt_binomial_reduce(sched, &host, tt_in(0), tt_tmp(0, 0), group->size, false,
				   tt_log2_up(layout->tallest));

	if (host.me > 0) {
		tt_rounds(sched, leaders.size - 1);
		tt_recv(sched, tt_at(&host, 0), tt_out(rank), 1);
		return;
	}
	leaders_reduce_scatter(sched, layout, &leaders, have.buffer);
	tt_copy(sched, tt_out(rank), tt_tmp(rank, rank), 1);
	for (int i = 1; i < host.size; i++)
		tt_send(sched, tt_at(&host, i), tt_tmp(tt_at(&host, i), tt_at(&host, i)), 1);
}

/* Ring reduce-scatter inside hosts, ring all-reduce of the own part between hosts, ring all-gather
 * inside. Part i is a run of as many blocks as there are hosts. */
static void split_all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team host = inside(layout), peers = across(layout, group, layout->local);
	const int mine = tt_mod(host.me + 1, host.size); /* the part that reduce-scatter leaves */
	const struct tt_parts parts = { .base = 0, .n = group->hosts };
	const struct tt_parts blocks = { .base = mine * group->hosts, .n = 1 };

	tt_sched_blocks(sched, group->size);
	tt_ring_reduce_scatter(sched, &host, parts, TT_BUF_SEND, false);
	tt_ring_reduce_scatter(sched, &peers, blocks, TT_BUF_RECV, true);
	tt_ring_all_gather(sched, &peers, blocks, 1);
	tt_ring_all_gather(sched, &host, parts, 1);
}

/* The same parts and blocks, each step at once: a contribution is rounded on its host and between
 * hosts, however many they are. */
static void shots_all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct layout *layout = lay_out(sched, group);

	if (!layout)
		return;
	const struct tt_team host = inside(layout), peers = across(layout, group, layout->local);
	const struct tt_parts parts = { .base = 0, .n = group->hosts };
	const struct tt_parts blocks = { .base = host.me * group->hosts, .n = 1 };

	tt_sched_blocks(sched, group->size);
	tt_shot_reduce_scatter(sched, &host, parts, TT_BUF_SEND, tt_out(blocks.base), false);
	tt_shot_reduce_scatter(sched, &peers, blocks, TT_BUF_RECV, tt_out(blocks.base + peers.me),
			       true);
	tt_shot_all_gather(sched, &peers, blocks);
	tt_shot_all_gather(sched, &host, parts);
}

static bool fits(const struct tt_group *group, enum tt_collective collective)
{
	return group->hosts > 1 && group->hosts < group->size;
}

static bool fits_split(const struct tt_group *group, enum tt_collective collective)
{
	return fits(group, collective) && group->size % group->hosts == 0 &&
	       tt_extent_of_hosts(group).most == group->size / group->hosts;
}

static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const struct tt_extent extent = tt_extent_of_hosts(group);
	const double near = tt_log2_up(extent.most), far = tt_log2_up(group->hosts);
	const double doubling = tt_doubling_rounds(group->hosts), hops = group->hosts - 1;
	const double share = 1 - (double)extent.fewest / group->size; /* through a leader */

	switch (collective) {
	case TT_BROADCAST:
		return (struct tt_cost){ { near, far }, { near * bytes, far * bytes }, 0, 0 };
	case TT_REDUCE:
		return (struct tt_cost){
			{ near, far }, { near * bytes, far * bytes }, (near + far) * bytes, 0
		};
	case TT_ALL_REDUCE:
		return (struct tt_cost){ { 2 * near, doubling },
					 { 2 * near * bytes, doubling * bytes },
					 (near + doubling) * bytes,
					 0 };
	case TT_BARRIER: return (struct tt_cost){ { 2 * near, doubling }, { 0, 0 }, 0, 0 };
	case TT_REDUCE_SCATTER:
		return (struct tt_cost){ { near + 1, hops },
					 { near * bytes + bytes * extent.most / group->size,
					   share * bytes },
					 (near + share) * bytes,
					 0 };
	default:
		return (struct tt_cost){ { near + 1, hops },
					 { near * bytes + bytes * extent.most / group->size,
					   share * bytes },
					 0,
					 0 };
	}
}

static struct tt_cost cost_split(const struct tt_group *group, enum tt_collective collective,
				 double bytes)
{
	const double near = (double)group->size / group->hosts - 1, far = group->hosts - 1;
	const double inside_bytes = bytes * near / (near + 1);
	const double across_bytes = bytes / (near + 1) * far / group->hosts;

	return (struct tt_cost){ { 2 * near, 2 * far },
				 { 2 * inside_bytes, 2 * across_bytes },
				 inside_bytes + across_bytes,
				 .crossing = near + 1,
				 .far_way = 1 };
}

/* A rank sends on only when all of its host have come; round a ring, segment after segment. Between
 * emulated hosts (bench/compare-hosts) long vectors take so much longer. */
#define SHOTS_BYTE 1.06

static struct tt_cost cost_shots(const struct tt_group *group, enum tt_collective collective,
				 double bytes)
{
	struct tt_cost cost = cost_split(group, collective, bytes);

	for (int far = 0; far < 2; far++) { /* one of those that leave at once counts in full */
		cost.calls[far] = cost.messages[far] - 2;
		cost.messages[far] = 2;
	}
	cost.far_way = 0;
	cost.bytes[1] *= SHOTS_BYTE;
	return cost;
}

const struct tt_algorithm tt_algorithm_hierarchical = {
	.name = "hierarchical",
	.fits = fits,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
		[TT_REDUCE_SCATTER] = reduce_scatter,
		[TT_ALL_GATHER] = all_gather,
		[TT_ALL_GATHER_V] = all_gather,
		[TT_BARRIER] = barrier,
	},
	.cost = cost,
};

const struct tt_algorithm tt_algorithm_hierarchical_split = {
	.name = "hierarchical_split",
	.pipelined = true,
	.fits = fits_split,
	.build = { [TT_ALL_REDUCE] = split_all_reduce },
	.cost = cost_split,
};

const struct tt_algorithm tt_algorithm_hierarchical_shots = {
	.name = "hierarchical_shots",
	.two_folds = true,
	.fits = fits_split,
	.build = { [TT_ALL_REDUCE] = shots_all_reduce },
	.cost = cost_shots,
};
