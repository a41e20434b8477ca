/* SPDX-License-Identifier: BSD-3-Clause */
/* How those who are left go on. */
#include <stdio.h>

#include "harness.h"
#include "player.h"
#include "victim.h"

#define ATTEMPTS 5

static int ones(uint32_t mask)
{
	return __builtin_popcount(mask);
}

bool player_sums(struct player *p, tutti_comm_t comm)
{
	const struct work_call call = { WORK_ALL_REDUCE, MEDIUM_BYTES, TUTTI_SUM, 0 };

	return !work_start(comm, &call, &p->buffers, NULL) && work_is_right(comm, &call, &p->buffers);
}

void go_on_by_meeting(struct player *p)
{
	const uint32_t survivors = player_survivors(p);
	const int rank = ones(survivors & ((1u << p->rank) - 1)), size = ones(survivors);
	tutti_store_t store = NULL;
	tutti_comm_t comm = NULL;

	meet_at(&p->stage->over, size);
	if (tutti_store_open(p->scene->again, rank == 0, 10, &store) ||
	    tutti_comm_create(store, rank, size, NULL, &comm))
		player_complain(p, "the survivors could not meet again: %s", tutti_last_error(NULL));
	else if (!player_sums(p, comm))
		player_complain(p, "the survivors' sum: %s", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	tutti_store_close(store);
}

/* One more attempt; true when there is a communicator in which all is well. */
static bool shrink_once(struct player *p, char *why, size_t size)
{
	tutti_comm_t smaller = NULL;
	const tutti_result_t result = tutti_comm_shrink(p->comm, &smaller);

	player_end(p, STRETCH_SHRINK); /* a victim's fault is there now, if it has not been before */
	if (result) {
		snprintf(why, size, "shrink returned %d (%.200s)", result, tutti_last_error(NULL));
		return false;
	}
	tutti_comm_destroy(p->comm);
	p->comm = smaller;
	if (player_sums(p, smaller))
		return true;
	snprintf(why, size, "a sum of the %d left: %.200s", tutti_comm_size(smaller), tutti_last_error(smaller));
	return false;
}

void go_on_by_shrinking(struct player *p, bool at_first)
{
	const uint32_t survivors = player_survivors(p);
	char why[256] = "";
	bool well = false;

	for (int i = 0; i < (at_first ? 1 : ATTEMPTS) && !well; i++) {
		well = shrink_once(p, why, sizeof(why));
		/* it has had its effect */
		if (!at_first)
			victim_relieve();
		if (player_is_lost(p) && !case_goes_on(&p->scene->c))
			return;
	}
	p->report->went_on_at = seconds_now();
	if (!well)
		player_complain(p, "the survivors do not go on: %s", why);
	else if (tutti_comm_size(p->comm) != ones(survivors) ||
		 tutti_comm_rank(p->comm) != ones(survivors & ((1u << p->rank) - 1)))
		player_complain(p, "goes on as rank %d of %d, expected rank %d of %d", tutti_comm_rank(p->comm),
				tutti_comm_size(p->comm), ones(survivors & ((1u << p->rank) - 1)), ones(survivors));
}

void come_too_late(struct player *p)
{
	const double start = seconds_now();
	tutti_comm_t alone = NULL;
	const tutti_result_t result = tutti_comm_shrink(p->comm, &alone);

	if (result != TUTTI_ERR_TIMEOUT)
		player_complain(p, "a shrink that comes too late returned %d (%.200s)", result, tutti_last_error(NULL));
	if (seconds_now() - start > 1 + p->scene->slack_s)
		player_complain(p, "a shrink that comes too late took %.2f s", seconds_now() - start);
	tutti_comm_destroy(alone);
}
