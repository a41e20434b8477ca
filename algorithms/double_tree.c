/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the two-tree of Sanders, Speck and Träff (Two-tree algorithms for full bandwidth broadcast,
 * reduction and scan, Parallel Computing 35, 2009): each half of the vector has a binary tree of
 * its own, and who is inside one tree is a leaf of the other (but for one member of an odd number),
 * so that every rank sends and receives each byte about once.
 *
 * A tree is in order over labels 1 … n: x with lowest bit b > 1 has its children about b / 2 to
 * either side. The second tree is the first with everyone moved on by one label. In broadcast and
 * reduce the labels are the ranks but the root, which feeds both trees; in all-reduce they are all
 * ranks.
 *
 * Rounds are those of the whole tree: depth d receives in round d - 1 on the way down. On the way
 * up the left child sends in round 2(H - d), the right one in the round after, H being the height,
 * since a block is combined with one message at a time. */
#include "algorithms.h"
#include "parts.h"

enum { TREES = 2, NOBODY = -1 };

/* Where this rank sits in one tree; neighbours are ranks. The feeder has depth 0 and a left child.
 */
struct seat {
	int up, left, right, depth;
	bool right_child;
	int below_left, below_right; /* ranks in the subtrees of the children */
};

/* Members 0 … n of the trees: 0 is the feeder, who may be missing; the others have labels. */
struct grove {
	int n, shift, size;
};

static int rank_of(const struct grove *grove, int tree, int label)
{
	const int member = tree == 0 ? label : tt_mod(label - 2, grove->n) + 1;

	return tt_mod(member + grove->shift, grove->size);
}

/* 0 for the tree's root. */
static int parent(const struct grove *grove, int x)
{
	const int bit = x & -x, up = (x ^ bit) | (bit << 1);

	return up <= grove->n ? up : x ^ bit;
}

static int right_child(const struct grove *grove, int x)
{
	int step = (x & -x) / 2;

	while (step > 0 && x + step > grove->n)
		step /= 2;
	return step > 0 ? x + step : 0;
}

static struct seat seat_of(const struct grove *grove, int tree, int member, bool feeder)
{
	const int x = tree == 0 ? member : member % grove->n + 1;
	const int up = parent(grove, x), left = (x & -x) / 2, right = right_child(grove, x);
	const int below = (x & -x) - 1; /* on either side, as far as there are labels */
	struct seat seat = {
		NOBODY, NOBODY, NOBODY, 1, up > 0 && x > up, below, tt_min(below, grove->n - x)
	};

	if (up > 0)
		seat.up = rank_of(grove, tree, up);
	else if (feeder)
		seat.up = tt_mod(grove->shift, grove->size);
	if (left > 0)
		seat.left = rank_of(grove, tree, x - left);
	if (right > 0)
		seat.right = rank_of(grove, tree, right);
	for (int above = up; above > 0; above = parent(grove, above))
		seat.depth++;
	return seat;
}

static struct seat feeder_seat(const struct grove *grove, int tree)
{
	return (struct seat){ .up = NOBODY,
			      .left = rank_of(grove, tree, tt_power_of_two(grove->n)),
			      .right = NOBODY,
			      .below_left = grove->n };
}

static int height(const struct grove *grove)
{
	return tt_log2_up(grove->n + 1);
}

/* Down: block `tree` comes from above into recv and goes on. `have` is what the topmost one sends.
 */
static void down(struct tt_sched *sched, const struct seat *seat, int tree, struct tt_ref have,
		 int round)
{
	if (round == seat->depth - 1 && seat->up != NOBODY)
		tt_recv(sched, seat->up, tt_out(tree), 1);
	if (round != seat->depth)
		return;
	if (seat->left != NOBODY)
		tt_send(sched, seat->left, have, 1);
	if (seat->right != NOBODY)
		tt_send(sched, seat->right, have, 1);
}

/* Up: combine the children's sums into `into` and hand them on. Who has no parent has the total. */
static void up(struct tt_sched *sched, const struct seat *seat, int tree, struct tt_ref into,
	       int round, int tall)
{
	const int children = 2 * (tall - seat->depth - 1), own = 2 * (tall - seat->depth);
	const bool top = seat->up == NOBODY, both = seat->right != NOBODY;

	if (round == children && seat->left != NOBODY) {
		tt_recv_reduce_left(sched, seat->left, into, tt_in(tree), 1);
		tt_weigh(sched, 1, seat->below_left);
		if (top && !both)
			tt_final(sched);
	}
	if (round == children + 1 && both) {
		tt_recv_reduce(sched, seat->right, into, into, 1);
		tt_weigh(sched, 1 + seat->below_left, seat->below_right);
		if (top)
			tt_final(sched);
	}
	if (round == own + seat->right_child && !top)
		tt_send(sched, seat->up, seat->left != NOBODY ? into : tt_in(tree), 1);
}

static void seats_of(struct seat seats[TREES], const struct grove *grove, int member, bool feeder)
{
	for (int tree = 0; tree < TREES; tree++)
		seats[tree] =
			member ? seat_of(grove, tree, member, feeder) : feeder_seat(grove, tree);
}

static void broadcast(struct tt_sched *sched, const struct tt_group *group)
{
	const struct grove grove = { group->size - 1, group->root, group->size };
	const struct tt_team team = tt_from_root(group);
	struct seat seats[TREES];

	tt_sched_blocks(sched, TREES);
	seats_of(seats, &grove, team.me, true);
	for (int round = 0; round < height(&grove); round++) {
		for (int tree = 0; tree < TREES; tree++)
			down(sched, &seats[tree], tree, team.me ? tt_out(tree) : tt_in(tree),
			     round);
		tt_round(sched);
	}
	if (team.me == 0)
		tt_copy(sched, tt_out(0), tt_in(0), TREES);
}

static void reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct grove grove = { group->size - 1, group->root, group->size };
	const struct tt_team team = tt_from_root(group);
	struct seat seats[TREES];

	tt_sched_blocks(sched, TREES);
	seats_of(seats, &grove, team.me, true);
	for (int round = 0; round < 2 * height(&grove) - 1; round++) {
		for (int tree = 0; tree < TREES; tree++)
			up(sched, &seats[tree], tree, team.me ? tt_tmp(tree, tree) : tt_out(tree),
			   round, height(&grove));
		tt_round(sched);
	}
}

static void all_reduce(struct tt_sched *sched, const struct tt_group *group)
{
	const struct grove grove = { group->size, -1, group->size };
	struct seat seats[TREES];

	tt_sched_blocks(sched, TREES);
	seats_of(seats, &grove, group->rank + 1, false);
	for (int round = 0; round < 2 * height(&grove) - 2; round++) {
		for (int tree = 0; tree < TREES; tree++)
			up(sched, &seats[tree], tree, tt_out(tree), round, height(&grove));
		tt_round(sched);
	}
	for (int round = 1; round < height(&grove); round++) {
		for (int tree = 0; tree < TREES; tree++)
			down(sched, &seats[tree], tree, tt_out(tree), round);
		tt_round(sched);
	}
}

/* A host whose ranks follow each other hands on both halves to two other hosts each, about. */
static struct tt_cost cost(const struct tt_group *group, enum tt_collective collective,
			   double bytes)
{
	const double tall = tt_log2_up(group->size), taller = tt_log2_up(group->size + 1);
	struct tt_cost cost;

	if (collective == TT_BROADCAST)
		cost = tt_cost_links(group, tall, bytes, 0);
	else if (collective == TT_REDUCE)
		cost = tt_cost_links(group, 2 * tall - 1, bytes, bytes);
	else
		cost = tt_cost_links(group, 3 * (taller - 1), 2 * bytes, bytes);
	/* a rank that passes a half on to two others has both in `bytes` */
	if (collective != TT_ALL_REDUCE)
		tt_cost_pipeline(&cost, (collective == TT_REDUCE ? 2 * tall - 2 : tall - 1) / TREES,
				 bytes / TREES);
	if (group->hosts > 1)
		cost.crossing = 2;
	return cost;
}

const struct tt_algorithm tt_algorithm_double_tree = {
	.name = "double_tree",
	.pipelined = true,
	.fits = tt_fits_any,
	.build = {
		[TT_BROADCAST] = broadcast,
		[TT_REDUCE] = reduce,
		[TT_ALL_REDUCE] = all_reduce,
	},
	.cost = cost,
};
