/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns who speaks for whom in a rendezvous, and which ranks hold it up. */
#include "late.h"

#include <stdio.h>
#include <string.h>

#include "log.h"
#include "store.h"
#include "transport.h"

#define POLL_NS	  200000000ull /* at who has come, once the deadline has passed */
#define NAMED_MAX 16	       /* ranks in an error message */

/* Of the tree: 0 for ranks that wait for nobody; rank 0 is alone at the top. `*span` gets
 * TT_TREE to the power of it. */
static int find_level(const struct tt_rendezvous *rendezvous, int rank, int64_t *span)
{
	int level = 0;

	for (*span = 1; rank ? rank % (*span * TT_TREE) == 0 : *span < rendezvous->size;
	     *span *= TT_TREE)
		level++;
	return level;
}

int tt_rendezvous_span(const struct tt_rendezvous *rendezvous, int rank)
{
	const int left = rendezvous->size - rank;
	int64_t span;

	find_level(rendezvous, rank, &span);
	return span < left ? (int)span : left;
}

void tt_rendezvous_rank_key(const struct tt_rendezvous *rendezvous, int rank,
			    char key[TT_RANK_KEY_MAX])
{
	snprintf(key, TT_RANK_KEY_MAX, "%s/%s%d", rendezvous->prefix,
		 rendezvous->again ? "again/" : "", rank);
}

/* What cannot be known is not claimed. */
static bool has_come(tutti_store_t store, const struct tt_rendezvous *rendezvous, int rank)
{
	uint64_t id;

	return rank == rendezvous->rank || rank == 0 ||
	       tt_rendezvous_get_come(store, rendezvous, rank, 0, TT_STORE_ANSWER_NS, &id) !=
		       TUTTI_OK ||
	       id == rendezvous->id;
}

static bool has_told(tutti_store_t store, const struct tt_rendezvous *rendezvous, int rank)
{
	char key[TT_RANK_KEY_MAX], byte;
	size_t length = sizeof(byte);

	if (rank == rendezvous->rank)
		return true;
	tt_rendezvous_rank_key(rendezvous, rank, key);
	return store->ops->get(store, key, &byte, &length, 0, TT_STORE_ANSWER_NS) !=
	       TUTTI_IN_PROGRESS;
}

/* Ranks, as text. */
struct named {
	char text[12 * NAMED_MAX];
	size_t used;
	int count;
	bool all; /* there are no others */
};

static void name_rank(struct named *named, int rank)
{
	named->used +=
		(size_t)snprintf(named->text + named->used, sizeof(named->text) - named->used,
				 "%s%d", named->count++ ? ", " : "", rank);
}

/* Those that have not, of the ranks at a level of the tree; -1: of all. */
static void find_ranks(tutti_store_t store, const struct tt_rendezvous *rendezvous, int level,
		       bool (*has)(tutti_store_t, const struct tt_rendezvous *, int),
		       uint64_t enough, struct named *out)
{
	int64_t span;
	int rank;

	*out = (struct named){ .count = 0 };
	for (rank = 0; rank < rendezvous->size && out->count < NAMED_MAX && tt_now() < enough;
	     rank++)
		if ((level < 0 || find_level(rendezvous, rank, &span) == level) &&
		    !has(store, rendezvous, rank))
			name_rank(out, rank);
	out->all = rank == rendezvous->size;
}

/* Which ranks hold all others up: those that have not come; or else those that have not told what
 * others wait for, and have had all they need for it. `out` is empty if none of that can be seen.
 * False: all have come. */
static bool find_late(tutti_store_t store, const struct tt_rendezvous *rendezvous,
		      struct named *out)
{
	const uint64_t enough = tt_now() + POLL_NS;
	int64_t span;
	const int top = find_level(rendezvous, 0, &span);

	*out = (struct named){ .count = 0 };
	if (!rendezvous->id) /* to which the others might have come */
		name_rank(out, 0);
	else
		find_ranks(store, rendezvous, -1, has_come, enough, out);
	if (out->count)
		return true;
	for (int level = 0; !out->count && level <= top; level++)
		find_ranks(store, rendezvous, level, has_told, enough, out);
	return false;
}

/* Why one of those that did not come may not have; "" where nobody knows. */
static void find_turned_away(tutti_store_t store, char *out, size_t size)
{
	char text[TT_ERROR_MAX];
	size_t length = sizeof(text) - 1;

	out[0] = 0;
	if (store->ops->get(store, TT_STORE_TURNED_AWAY, text, &length, 0, TT_STORE_ANSWER_NS) !=
	    TUTTI_OK)
		return;
	text[length] = 0;
	snprintf(out, size, "; %.300s", text);
}

/* Nobody sees who tries to come in vain. */
static void name_port(tutti_store_t store, char out[64])
{
	*out = 0;
	if (strncmp(store->address, "tcp://", strlen("tcp://")) == 0)
		snprintf(out, 64, ", and does a firewall let it through to port %.5s",
			 strrchr(store->address, ':') + 1);
}

tutti_result_t tt_rendezvous_fail_late(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				       int from)
{
	struct named late;
	const bool absent = find_late(store, rendezvous, &late);
	const char *s = late.count > 1 ? "s" : "", *have = late.count > 1 ? "have" : "has";
	const char *least = late.all ? "" : " (at least)";
	char why[320], port[64];

	if (late.count == 0)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, COMM,
			"the rendezvous of %d ranks was not over at rank %d's deadline: rank %d, "
			"or one that it waits for itself, has not got as far",
			rendezvous->size, rendezvous->rank, from);
	if (absent) {
		find_turned_away(store, why, sizeof(why));
		name_port(store, port);
		return tt_fail(TUTTI_ERR_TIMEOUT, COMM,
			       "rank%s %s%s %s not come to the rendezvous of %d ranks by rank %d's "
			       "deadline: was every rank started, with the same store%s?%s",
			       s, late.text, least, have, rendezvous->size, rendezvous->rank, port,
			       why);
	}
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"rank%s %s%s came to the rendezvous of %d ranks, but %s not gone on with it by rank "
		"%d's deadline: died or stopped?",
		s, late.text, least, rendezvous->size, have, rendezvous->rank);
}
