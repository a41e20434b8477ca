/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the agreement on which meeting a rank is at, and what becomes of one to which not all come.
 * A store may outlive a meeting (the launcher's, a directory), so each rank counts its own in the
 * store: keys of an earlier meeting are never taken for this one's. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/random.h>

#include "log.h"
#include "store.h"
#include "rendezvous.h"
#include "transport.h"

#define KEY_MAX	  160
#define LOOK_NS	  200000000ull /* at who has come, once the deadline has passed */
#define NAMED_MAX 16	       /* ranks in a sentence */

static tutti_result_t fail_foreign(const char *key, size_t length, size_t expected)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"key %s of the store has %zu bytes, expected %zu: the store is used by something "
		"else",
		key, length, expected);
}

/* How many meetings of its group the rank has begun. */
static tutti_result_t meetings_of(tutti_store_t store, const char *group, int rank,
				  uint32_t *number)
{
	size_t length = sizeof(*number);
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%s/begun/%d", group, rank);
	const tutti_result_t result = store->ops->get(store, key, number, &length, 0);
	/* not there: none, and no failure */
	if (result == TUTTI_IN_PROGRESS)
		*number = 0;
	else if (result == TUTTI_OK && length != sizeof(*number))
		return fail_foreign(key, length, sizeof(*number));
	return result < 0 ? result : TUTTI_OK;
}

/* Which meeting comes next, unless it is known. */
static tutti_result_t find_meeting(tutti_store_t store, struct tt_rendezvous *meeting)
{
	uint32_t number;
	const tutti_result_t result =
		meeting->number ? TUTTI_OK
				: meetings_of(store, meeting->group, meeting->rank, &number);

	if (result != TUTTI_OK || meeting->number)
		return result;
	meeting->number = number + 1;
	snprintf(meeting->prefix, sizeof(meeting->prefix), "%s/%u", meeting->group,
		 (unsigned)meeting->number);
	return TUTTI_OK;
}

static tutti_result_t count_meeting(tutti_store_t store, struct tt_rendezvous *meeting)
{
	char key[KEY_MAX];
	const tutti_result_t result = find_meeting(store, meeting);

	if (result != TUTTI_OK)
		return result;
	snprintf(key, sizeof(key), "%s/begun/%d", meeting->group, meeting->rank);
	return tutti_store_set(store, key, &meeting->number, sizeof(meeting->number));
}

static bool has_come(tutti_store_t store, const struct tt_rendezvous *meeting, int rank)
{
	uint32_t number;

	/* what cannot be known is not claimed */
	return rank == meeting->rank ||
	       meetings_of(store, meeting->group, rank, &number) != TUTTI_OK ||
	       number >= meeting->number;
}

/* The ranks that have not come, as text; gives how many. `all`: there are no others. */
static int find_absent(tutti_store_t store, const struct tt_rendezvous *meeting, char *out,
		       size_t size, bool *all)
{
	const uint64_t enough = tt_now() + LOOK_NS;
	size_t used = 0;
	int rank, absent = 0;

	for (rank = 0; rank < meeting->size && absent < NAMED_MAX && tt_now() < enough; rank++)
		if (!has_come(store, meeting, rank))
			used += (size_t)snprintf(out + used, size - used, "%s%d",
						 absent++ ? ", " : "", rank);
	*all = rank == meeting->size;
	return absent;
}

/* The deadline has passed while this rank waited for rank `from`. */
static tutti_result_t fail_late(tutti_store_t store, const struct tt_rendezvous *meeting, int from)
{
	char absent[12 * NAMED_MAX];
	bool all;
	const int count = find_absent(store, meeting, absent, sizeof(absent), &all);

	if (count == 0)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, COMM,
			"the meeting of %d ranks was not over at rank %d's deadline: rank %d, "
			"or one that it waits for itself, has not got as far",
			meeting->size, meeting->rank, from);
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"rank%s %s%s %s not come to the meeting of %d ranks by rank %d's deadline: was "
		"every rank started, with the same store?",
		count > 1 ? "s" : "", absent, all ? "" : " (at least)", count > 1 ? "have" : "has",
		meeting->size, meeting->rank);
}

tutti_result_t tt_rendezvous_get(tutti_store_t store, const struct tt_rendezvous *meeting, int from,
				 const char *key, void *value, size_t *length, uint64_t deadline)
{
	const uint64_t now = tt_now(), least = 1000000;
	const uint64_t left = deadline > now + least ? deadline - now : least;
	const tutti_result_t result = store->ops->get(store, key, value, length, left);

	return result == TUTTI_IN_PROGRESS ? fail_late(store, meeting, from) : result;
}

/* Who lost the host of the store can tell nobody, and the others lost it, too. */
void tt_rendezvous_give_up(tutti_store_t store, struct tt_rendezvous *meeting,
			   tutti_result_t result)
{
	char own[TT_ERROR_MAX], told[TT_ERROR_MAX + 40];

	if (result == TUTTI_ERR_PEER_LOST)
		return;
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	snprintf(told, sizeof(told), "rank %d gave up the meeting: %s", meeting->rank, own);
	if (find_meeting(store, meeting) == TUTTI_OK)
		store->ops->end(store, meeting->prefix,
				result == TUTTI_ERR_TIMEOUT ? TUTTI_ERR_TIMEOUT
							    : TUTTI_ERR_PEER_LOST,
				told);
	tt_thread_error_set(own);
}

static tutti_result_t make_id(tutti_store_t store, struct tt_rendezvous *meeting, const char *key)
{
	if (getrandom(&meeting->id, sizeof(meeting->id), 0) != sizeof(meeting->id))
		return tt_fail_errno(COMM, "read random bytes");
	return tutti_store_set(store, key, &meeting->id, sizeof(meeting->id));
}

static tutti_result_t get_id(tutti_store_t store, struct tt_rendezvous *meeting, const char *key,
			     uint64_t deadline)
{
	size_t length = sizeof(meeting->id);
	const tutti_result_t result =
		tt_rendezvous_get(store, meeting, 0, key, &meeting->id, &length, deadline);

	if (result == TUTTI_OK && length != sizeof(meeting->id))
		return fail_foreign(key, length, sizeof(meeting->id));
	return result;
}

tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, int size,
			     uint64_t deadline, struct tt_rendezvous *out)
{
	char key[KEY_MAX];

	*out = (struct tt_rendezvous){ .rank = rank, .size = size };
	snprintf(out->group, sizeof(out->group), "%s", group);
	const tutti_result_t result = count_meeting(store, out);
	if (result != TUTTI_OK)
		return result;
	snprintf(key, sizeof(key), "%s/id", out->prefix);
	return rank == 0 ? make_id(store, out, key) : get_id(store, out, key, deadline);
}

/* A rank may be here while rank 0 has yet to close its store of the meeting before, which has the
 * same address: the rank then loses that store's host before it learns the id, and must look for
 * the new one. */
tutti_result_t tt_rendezvous_launched(const struct tt_launch *launch, const struct tt_key *key,
				      uint64_t deadline, tutti_store_t *store,
				      struct tt_rendezvous *out)
{
	char group[sizeof(launch->job) + 8];
	tutti_result_t result;

	snprintf(group, sizeof(group), "job-%s", launch->job);
	do {
		const uint64_t now = tt_now();

		result = tt_store_open(launch->store, key, launch->serve,
				       now < deadline ? deadline - now : 1000000, store);
		if (result != TUTTI_OK)
			return result;
		result = tt_rendezvous(*store, group, launch->rank, launch->size, deadline, out);
		if (result == TUTTI_OK)
			return TUTTI_OK;
		/* of no other failure: who is told of a lost peer here takes the host for lost, and
		 * tries again */
		if (result == TUTTI_ERR_TIMEOUT)
			tt_rendezvous_give_up(*store, out, result);
		tutti_store_close(*store);
		*store = NULL;
	} while (result == TUTTI_ERR_PEER_LOST && !launch->serve && tt_now() < deadline);
	return result;
}
