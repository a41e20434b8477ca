/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the agreement on which meeting a rank is at. A store may outlive a meeting (the launcher's,
 * a directory), so each rank counts its own in the store: keys of an earlier meeting are never
 * taken for this one's. */
#include <stdio.h>
#include <sys/random.h>

#include "log.h"
#include "store.h"
#include "rendezvous.h"
#include "transport.h"

static double seconds_left(uint64_t deadline)
{
	const uint64_t now = tt_now();

	return now < deadline ? (double)(deadline - now) / 1e9 : 0.001;
}

static tutti_result_t fail_foreign(const char *key, size_t length, size_t expected)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"key %s of the store has %zu bytes, expected %zu: the store is used by something "
		"else",
		key, length, expected);
}

/* Which of this rank's meetings in the store this is, from 1. */
static tutti_result_t count_meeting(tutti_store_t store, const char *group, int rank,
				    uint32_t *number)
{
	size_t length = sizeof(*number);
	char key[160];

	snprintf(key, sizeof(key), "%s/begun/%d", group, rank);
	/* not there: this is the rank's first meeting, and no failure */
	const tutti_result_t result = store->ops->get(store, key, number, &length, 0);
	if (result == TUTTI_IN_PROGRESS)
		*number = 0;
	else if (result != TUTTI_OK)
		return result;
	else if (length != sizeof(*number))
		return fail_foreign(key, length, sizeof(*number));
	++*number;
	return tutti_store_set(store, key, number, sizeof(*number));
}

tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, uint64_t deadline,
			     struct tt_rendezvous *out)
{
	size_t length = sizeof(out->id);
	uint32_t number;
	char key[192];
	tutti_result_t result = count_meeting(store, group, rank, &number);

	if (result != TUTTI_OK)
		return result;
	snprintf(out->prefix, sizeof(out->prefix), "%s/%u", group, (unsigned)number);
	snprintf(key, sizeof(key), "%s/id", out->prefix);
	if (rank == 0) {
		if (getrandom(&out->id, sizeof(out->id), 0) != sizeof(out->id))
			return tt_fail_errno(COMM, "read random bytes");
		return tutti_store_set(store, key, &out->id, sizeof(out->id));
	}
	result = tutti_store_get(store, key, &out->id, &length, seconds_left(deadline));
	if (result == TUTTI_OK && length != sizeof(out->id))
		return fail_foreign(key, length, sizeof(out->id));
	return result;
}

/* A rank may be here while rank 0 has yet to close its store of the meeting before, which has the
 * same address: the rank then loses that store's host before it learns the id, and must look for
 * the new one. */
tutti_result_t tt_rendezvous_launched(const struct tt_launch *launch, uint64_t deadline,
				      tutti_store_t *store, struct tt_rendezvous *out)
{
	char group[sizeof(launch->job) + 8];
	tutti_result_t result;

	snprintf(group, sizeof(group), "job-%s", launch->job);
	do {
		result = tutti_store_open(launch->store, launch->serve, seconds_left(deadline),
					  store);
		if (result != TUTTI_OK)
			return result;
		result = tt_rendezvous(*store, group, launch->rank, deadline, out);
		if (result == TUTTI_OK)
			return TUTTI_OK;
		tutti_store_close(*store);
		*store = NULL;
	} while (result == TUTTI_ERR_PEER_LOST && !launch->serve && tt_now() < deadline);
	return result;
}
