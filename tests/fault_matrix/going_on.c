/* SPDX-License-Identifier: BSD-3-Clause */
/* How those who are left go on. */
#include <stdio.h>

#include "harness.h"
#include "player.h"
#include "victim.h"

#define ATTEMPTS 5

static bool sums(tutti_comm_t comm)
{
	const struct work call = { ALL_REDUCE, MEDIUM_BYTES, TUTTI_SUM, 0 };

	return !work_start(comm, &call, NULL) && work_is_right();
}

/* NULL: the communicator is revoked. */
static atomic_int *begin_trial(struct player *p, tutti_comm_t comm)
{
	int32_t number = tutti_comm_rank(comm) == 0 ? atomic_fetch_add(&p->stage->trials, 1) : 0;

	if (tutti_broadcast(comm, &number, &number, 1, TUTTI_INT32, 0, NULL))
		return NULL;
	return &p->stage->trial[number];
}

/* False: one of the others has begun anew. */
static bool pass_trial(atomic_int *trial)
{
	int passed = atomic_load(trial);

	while (passed != TRIAL_FAILED && !atomic_compare_exchange_weak(trial, &passed, passed + 1))
		;
	return passed != TRIAL_FAILED;
}

/* True: all have passed it after all. */
static bool fail_trial(atomic_int *trial, int size)
{
	int passed = atomic_load(trial);

	while (passed != size && !atomic_compare_exchange_weak(trial, &passed, TRIAL_FAILED))
		;
	return passed == size;
}

/* An operation that fails on one rank may have succeeded on another: that one calls the next, as
 * every program does, and is told. Whether the last had its sum before the first began anew
 * cannot be settled by more such calls: the trial does. */
bool player_all_sum(struct player *p, tutti_comm_t comm)
{
	atomic_int *trial = begin_trial(p, comm);

	if (!trial || !sums(comm) || !pass_trial(trial))
		return false;
	return !tutti_barrier(comm, NULL) || fail_trial(trial, tutti_comm_size(comm));
}

void go_on_by_rendezvous(struct player *p)
{
	const uint32_t survivors = player_survivors(p);
	const int rank = __builtin_popcount(survivors & ((1u << p->rank) - 1)),
		  size = __builtin_popcount(survivors);
	tutti_store_t store = NULL;
	tutti_comm_t comm = NULL;

	meet_at(&p->stage->over, size);
	if (tutti_store_open(p->scene->again, rank == 0, 10, &store) ||
	    tutti_comm_create(store, rank, size, NULL, &comm))
		player_complain(p, "the survivors could not meet again: %s",
				tutti_last_error(NULL));
	else if (!sums(comm))
		player_complain(p, "the survivors' sum: %s", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	tutti_store_close(store);
}

void player_goes_on(struct player *p)
{
	p->report->place = tutti_comm_rank(p->comm);
	p->report->size = tutti_comm_size(p->comm);
	p->report->went_on_at = seconds_now();
}

/* One more attempt; TUTTI_OK when there is a communicator in which all is well,
 * TUTTI_IN_PROGRESS when there is another. */
static tutti_result_t shrink_once(struct player *p, char *why, size_t size)
{
	tutti_comm_t smaller = NULL;
	const tutti_result_t result = tutti_comm_shrink(p->comm, &smaller);

	player_end(p, STRETCH_SHRINK); /* a victim's fault is there now, if it has not been
					* before */
	if (result) {
		snprintf(why, size, "shrink returned %d (%.200s)", result, tutti_last_error(NULL));
		return result;
	}
	tutti_comm_destroy(p->comm);
	p->comm = smaller;
	if (player_all_sum(p, smaller))
		return TUTTI_OK;
	snprintf(why, size, "a sum of the %d left: %.200s", tutti_comm_size(smaller),
		 tutti_last_error(smaller));
	return TUTTI_IN_PROGRESS;
}

static bool is_at_stake(const struct player *p)
{
	return !p->scene->rehearsal && case_at_stake(&p->scene->c) >> p->rank & 1;
}

void go_on_by_shrinking(struct player *p, bool at_first)
{
	char why[256] = "";
	tutti_result_t result = TUTTI_IN_PROGRESS;

	for (int i = 0; i < (at_first ? 1 : ATTEMPTS) && result; i++) {
		result = shrink_once(p, why, sizeof(why));
		/* it has had its effect */
		if (!at_first)
			victim_relieve();
		if (is_at_stake(p) ? result == TUTTI_ERR_TIMEOUT
				   : player_is_lost(p) && !case_goes_on(&p->scene->c))
			return;
	}
	if (result)
		player_complain(p, "the survivors do not go on: %s", why);
	else
		player_goes_on(p);
}

void come_too_late(struct player *p)
{
	const double start = seconds_now();
	tutti_comm_t alone = NULL;
	const tutti_result_t result = tutti_comm_shrink(p->comm, &alone);

	if (result != TUTTI_ERR_TIMEOUT)
		player_complain(p, "a shrink that comes too late returned %d (%.200s)", result,
				tutti_last_error(NULL));
	if (seconds_now() - start > 1 + SLACK_S)
		player_complain(p, "a shrink that comes too late took %.2f s",
				seconds_now() - start);
	tutti_comm_destroy(alone);
}
