/* SPDX-License-Identifier: BSD-3-Clause */
#include "communicators.h"

#include <string.h>

/* What ranks pass to a split, by their ranks in the parent. */
struct split {
	int color[RANKS_MAX], key[RANKS_MAX];
};

void communicators_init(struct communicators *all, tutti_comm_t comm)
{
	struct communicator *first = &all->at[0];

	memset(all, 0, sizeof(*all));
	*first = (struct communicator){ .comm = comm,
					.size = tutti_comm_size(comm),
					.rank = tutti_comm_rank(comm) };
	for (int rank = 0; rank < first->size; rank++)
		first->members[rank] = rank;
}

static void draw_split(struct random *random, struct split *split)
{
	const uint64_t way = random_below(random, 4), order = random_below(random, 3);
	const int ways = (int)random_between(random, 1, 3),
		  half = (int)random_between(random, 1, RANKS_MAX / 2);

	for (int rank = 0; rank < RANKS_MAX; rank++) {
		const int any = (int)random_below(random, 4) - 1,
			  place = (int)random_below(random, 5);

		split->color[rank] = way == 0	? rank % ways
				     : way == 1 ? rank / half
				     : way == 2 ? (rank + 1) / 2
						: any;
		split->key[rank] = order == 0 ? 0 : order == 1 ? -rank : place;
	}
}

/* Who of the parent has the color of its rank `rank`, in the order of keys. */
static void find_members(const struct communicator *parent, int rank, const struct split *split,
			 struct communicator *out)
{
	int in_parent[RANKS_MAX];

	for (int i = 0; i < parent->size; i++) {
		int at = out->size;

		if (split->color[i] != split->color[rank])
			continue;
		for (; at > 0 && split->key[in_parent[at - 1]] > split->key[i]; at--)
			in_parent[at] = in_parent[at - 1];
		in_parent[at] = i;
		out->size++;
	}
	for (int i = 0; i < out->size; i++) {
		out->members[i] = parent->members[in_parent[i]];
		if (in_parent[i] == rank)
			out->rank = i;
	}
}

static tutti_result_t make_part(const struct communicator *parent, const struct split *split,
				struct communicator *out, const char **what)
{
	const int rank = parent->rank;
	const tutti_result_t result =
		tutti_comm_split(parent->comm, split->color[rank], split->key[rank], &out->comm);

	*what = "tutti_comm_split";
	if (result)
		return result;
	if (split->color[rank] >= 0)
		find_members(parent, rank, split, out);
	if (!out->comm != (out->size == 0) ||
	    (out->comm && (tutti_comm_size(out->comm) != out->size ||
			   tutti_comm_rank(out->comm) != out->rank))) {
		*what = "tutti_comm_split made a communicator of another size or order, or for "
			"another rank, than the colors and keys say";
		return TUTTI_ERR_INVALID;
	}
	return TUTTI_OK;
}

tutti_result_t communicators_change(struct communicators *all, struct random *random,
				    const char **what)
{
	const uint64_t place = random_between(random, 1, COMMUNICATORS - 1);
	const uint64_t from = random_one_in(random, 4) ? random_below(random, COMMUNICATORS) : 0;
	struct communicator *out = &all->at[place];
	struct split split;

	draw_split(random, &split);
	tutti_comm_destroy(out->comm);
	memset(out, 0, sizeof(*out));
	return from != place && all->at[from].comm ? make_part(&all->at[from], &split, out, what)
						   : TUTTI_OK;
}

void communicators_drop(struct communicators *all)
{
	for (int i = 1; i < COMMUNICATORS; i++) {
		tutti_comm_destroy(all->at[i].comm);
		memset(&all->at[i], 0, sizeof(all->at[i]));
	}
}

void communicators_abort(struct communicators *all)
{
	for (int i = 0; i < COMMUNICATORS; i++)
		if (all->at[i].comm)
			tutti_comm_abort(all->at[i].comm, "a result of the random tester is wrong");
}
