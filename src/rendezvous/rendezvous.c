/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the agreement on which rendezvous a rank is at, and what becomes of one to which not all
 * come. A store may keep what earlier starts left there, so a rendezvous has a name by chance:
 *
 *   GROUP/current    terms of the last that rank 0 began; it says in them when all have come
 *   GROUP/next/ID    terms of the one that rank 0 began after ID; ID 0: of the first
 *   GROUP/come/RANK  the ID to which a process with that number came last
 *   GROUP/ID/RANK    records (gather.c); rank 0's, which has all, confirms the rendezvous
 *   GROUP/failed/ID  rank 0 was there when ID failed
 *
 * In a store that only one start uses (store->own) ranks attend GROUP/after-ID, and have their records
 * there, from before rank 0 begins what comes after ID: all learn of each other's death.
 *
 * Rank 0 goes along `next` to the last, ends that with TT_SUPERSEDED unless all had come, and sets
 * `next` and `current` to its own. Killed in between, it leaves a way to the last.
 * The others read `current`. Where all had come, or their number, they wait for `next`; otherwise
 * they come. If it is of a start that died, however old, nobody confirms it until rank 0 of this
 * start supersedes it, which ends their waits. If it is confirmed with another process's record in
 * place of their own, they wait for `next`. Who dies is missed at the deadline, or seen by the host
 * of the store, which ends the rendezvous.
 * One that had ended before a rank came is of an earlier start, or of this one: the rank waits
 * NEXT_NS for another. One that it does not fit is of an earlier start unless rank 0 says `failed`.
 * Two starts that live at once have each number twice, and all are told so. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "late.h"
#include "log.h"
#include "meeting.h"
#include "store.h"
#include "rendezvous.h"
#include "transport.h"

#define KEY_MAX 192
#define LATE_NS                                                                                    \
	1000000000ull /* for those to come who are to be told that the rendezvous has failed */
#define LOOK_NS 250000000ull   /* between two looks whether there is another one */
#define NEXT_NS 2000000000ull  /* for rank 0 to begin another one */
#define BUSY_NS 30000000000ull /* for the store's host to answer, at most, while ranks come */

/* What rank 0 says of a rendezvous. */
struct terms {
	uint64_t id; /* 0: there was none */
	uint64_t after;
	uint32_t size;
	uint32_t over; /* all had come: who comes from then on is at the next one */
};

static tutti_result_t fail_foreign(const char *key, size_t length, size_t expected)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"key %s of the store has %zu bytes, expected %zu: the store is used by something "
		"else",
		key, length, expected);
}

static uint64_t until(uint64_t deadline)
{
	const uint64_t left = tt_left(deadline), least = 1000000;

	return left > least ? left : least;
}

uint64_t tt_rendezvous_patience(const struct tt_rendezvous *rendezvous)
{
	const uint64_t left = until(rendezvous->deadline);

	if (left < TT_STORE_ANSWER_NS)
		return TT_STORE_ANSWER_NS;
	return left < BUSY_NS ? left : BUSY_NS;
}

/* Within what is left until the rendezvous' deadline and a little more. */
static tutti_result_t set(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			  const char *key, const void *value, size_t length)
{
	return store->ops->set(store, key, value, length, tt_rendezvous_patience(rendezvous));
}

/* `size` bytes, no more and no fewer. TUTTI_IN_PROGRESS: they have not come within `timeout_ns`. */
static tutti_result_t get_exactly(tutti_store_t store, const char *key, uint64_t timeout_ns,
				  uint64_t answer_ns, void *value, size_t size)
{
	size_t length = size;
	const tutti_result_t result =
		store->ops->get(store, key, value, &length, timeout_ns, answer_ns);

	return length != size && (result == TUTTI_OK || result == TUTTI_ERR_INVALID)
		       ? fail_foreign(key, length, size)
		       : result;
}

/* Of `out` nothing is changed unless they have come. */
static tutti_result_t get_terms(tutti_store_t store, const char *key, uint64_t timeout_ns,
				uint64_t answer_ns, struct terms *out)
{
	struct terms terms;
	const tutti_result_t result =
		get_exactly(store, key, timeout_ns, answer_ns, &terms, sizeof(terms));

	if (result == TUTTI_OK)
		*out = terms;
	return result;
}

static tutti_result_t set_current(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				  bool over)
{
	const struct terms terms = { rendezvous->id, rendezvous->after, (uint32_t)rendezvous->size,
				     over };
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%s/current", rendezvous->group);
	return set(store, rendezvous, key, &terms, sizeof(terms));
}

/* The last that rank 0 began, as far as is known there. */
static tutti_result_t get_current(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				  struct terms *out)
{
	char key[KEY_MAX];

	*out = (struct terms){ .over = true };
	snprintf(key, sizeof(key), "%s/current", rendezvous->group);
	const tutti_result_t result =
		get_terms(store, key, 0, tt_rendezvous_patience(rendezvous), out);
	return result == TUTTI_IN_PROGRESS ? TUTTI_OK : result;
}

/* GROUP/WHAT/ID */
static void id_key(const struct tt_rendezvous *rendezvous, const char *what, uint64_t id,
		   char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/%s/%016llx", rendezvous->group, what, (unsigned long long)id);
}

static void come_key(const struct tt_rendezvous *rendezvous, int rank, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/come/%d", rendezvous->group, rank);
}

tutti_result_t tt_rendezvous_get_come(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				      int rank, uint64_t timeout_ns, uint64_t answer_ns,
				      uint64_t *id)
{
	char key[KEY_MAX];

	come_key(rendezvous, rank, key);
	const tutti_result_t result =
		get_exactly(store, key, timeout_ns, answer_ns, id, sizeof(*id));
	if (result)
		*id = 0;
	return result == TUTTI_IN_PROGRESS ? TUTTI_OK : result;
}

static void after_prefix(const struct tt_rendezvous *rendezvous, uint64_t after, char *out,
			 size_t size)
{
	snprintf(out, size, "%s/after-%016llx", rendezvous->group, (unsigned long long)after);
}

static void set_name(tutti_store_t store, struct tt_rendezvous *rendezvous,
		     const struct terms *terms)
{
	rendezvous->id = terms->id;
	rendezvous->after = terms->after;
	if (store->own)
		after_prefix(rendezvous, terms->after, rendezvous->prefix,
			     sizeof(rendezvous->prefix));
	else
		snprintf(rendezvous->prefix, sizeof(rendezvous->prefix), "%s/%016llx",
			 rendezvous->group, (unsigned long long)terms->id);
}

/* From here on the others there learn at once if this process ends: the host sees it. */
static void attend(tutti_store_t store, const struct tt_rendezvous *rendezvous, const char *prefix)
{
	char lost[TT_ERROR_MAX], who[100], name[65] = "?";

	gethostname(name, sizeof(name) - 1);
	snprintf(who, sizeof(who), "pid %d on %s", (int)getpid(), name);
	snprintf(
		lost, sizeof(lost),
		"rank %d (%s) died or lost its connection to the store while the %d ranks met; its own output may say why",
		rendezvous->rank, who, rendezvous->size);
	store->ops->attend(store, &(struct tt_attendance){ prefix, rendezvous->rank, who,
							   TUTTI_ERR_PEER_LOST, lost,
							   tt_rendezvous_patience(rendezvous) });
}

/* Until rank 0 has begun what comes after `last`. What ends there would be told to later starts, too:
 * in a store that may see some a rank meets there only who has its number. */
static tutti_result_t attend_next(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				  const struct terms *last)
{
	char prefix[KEY_MAX];
	uint64_t id = last->id;

	if (!store->own && last->over)
		return TUTTI_OK; /* that process comes to the next one, too */
	const tutti_result_t result = store->own ? TUTTI_OK : tt_random(&id, sizeof(id));
	if (result)
		return result;
	after_prefix(rendezvous, id, prefix, sizeof(prefix));
	attend(store, rendezvous, prefix);
	return TUTTI_OK;
}

/* ---- rank 0 */

/* Gives what comes last, to its end, in `last`. */
static tutti_result_t find_last(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				struct terms *last)
{
	tutti_result_t result = TUTTI_OK;
	uint64_t before = last->id;
	size_t steps = 0, remembered = 1;
	char key[KEY_MAX];

	while (!result) {
		id_key(rendezvous, "next", last->id, key);
		result = get_terms(store, key, 0, tt_rendezvous_patience(rendezvous), last);
		if (!result && last->id == before)
			return tt_fail(
				TUTTI_ERR_INVALID, COMM,
				"key %s of the store leads back to itself: the store was changed by something else than tutti; remove "
				"it, or name another one",
				key);
		if (++steps == remembered) { /* which finds any circle within three rounds */
			before = last->id;
			remembered *= 2;
		}
	}
	return result == TUTTI_IN_PROGRESS ? TUTTI_OK : result;
}

static void supersede(tutti_store_t store, const struct tt_rendezvous *rendezvous,
		      const struct terms *last)
{
	struct tt_rendezvous before = *rendezvous;

	if (last->over)
		return;
	set_name(store, &before, last);
	store->ops->end(store, before.prefix, TT_SUPERSEDED, "rank 0 has begun another rendezvous");
}

static tutti_result_t lead(tutti_store_t store, struct tt_rendezvous *rendezvous,
			   struct terms *last)
{
	struct terms terms = { .size = (uint32_t)rendezvous->size };
	char key[KEY_MAX];
	tutti_result_t result = find_last(store, rendezvous, last);

	if (!result)
		result = tt_random(&terms.id, sizeof(terms.id));
	if (result)
		return result;
	terms.after = last->id;
	set_name(store, rendezvous, &terms);
	attend(store, rendezvous, rendezvous->prefix);
	supersede(store, rendezvous, last);
	id_key(rendezvous, "next", last->id, key);
	result = set(store, rendezvous, key, &terms, sizeof(terms));
	return result ? result : set_current(store, rendezvous, false);
}

tutti_result_t tt_rendezvous_met(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	return set_current(store, rendezvous, true);
}

/* ---- the others */

static tutti_result_t come(tutti_store_t store, struct tt_rendezvous *rendezvous,
			   const struct terms *terms)
{
	char key[KEY_MAX];

	set_name(store, rendezvous, terms);
	attend(store, rendezvous, rendezvous->prefix);
	come_key(rendezvous, rendezvous->rank, key);
	return set(store, rendezvous, key, &terms->id, sizeof(terms->id));
}

/* TUTTI_IN_PROGRESS: rank 0 has not begun what comes after `last` within `timeout_ns`. */
static tutti_result_t come_next(tutti_store_t store, struct tt_rendezvous *rendezvous,
				struct terms *last, uint64_t timeout_ns, uint64_t answer_ns)
{
	char key[KEY_MAX];
	tutti_result_t result = attend_next(store, rendezvous, last);

	id_key(rendezvous, "next", last->id, key);
	if (!result)
		result = get_terms(store, key, timeout_ns, answer_ns, last);
	return result ? result : come(store, rendezvous, last);
}

/* What the rank has come to had ended before, for `told`. */
static tutti_result_t come_late(tutti_store_t store, struct tt_rendezvous *rendezvous,
				struct terms *last, tutti_result_t told)
{
	const uint64_t left = until(rendezvous->deadline);
	char why[TT_ERROR_MAX];

	snprintf(why, sizeof(why), "%s", tt_thread_error());
	const tutti_result_t result =
		come_next(store, rendezvous, last, left < NEXT_NS ? left : NEXT_NS,
			  tt_rendezvous_patience(rendezvous));
	if (result != TUTTI_IN_PROGRESS)
		return result;
	tt_thread_error_set(why);
	return told;
}

static tutti_result_t follow(tutti_store_t store, struct tt_rendezvous *rendezvous,
			     struct terms *last)
{
	uint64_t before = 0;
	tutti_result_t result =
		last->over ? TUTTI_OK
			   : tt_rendezvous_get_come(store, rendezvous, rendezvous->rank, 0,
						    tt_rendezvous_patience(rendezvous), &before);

	if (result)
		return result;
	if (last->over || before == last->id) {
		result = come_next(store, rendezvous, last, until(rendezvous->deadline),
				   TT_STORE_ANSWER_NS);
		return result == TUTTI_IN_PROGRESS ? tt_rendezvous_fail_late(store, rendezvous, 0)
						   : result;
	}
	result = come(store, rendezvous, last);
	if (result)
		return result;
	result = store->ops->poll(store);
	return result && !store->own && !rendezvous->moved
		       ? come_late(store, rendezvous, last, result)
		       : result;
}

static tutti_result_t find_rendezvous(tutti_store_t store, struct tt_rendezvous *rendezvous)
{
	struct terms terms;
	tutti_result_t result = get_current(store, rendezvous, &terms);

	if (result)
		return result;
	if (rendezvous->rank == 0)
		return lead(store, rendezvous, &terms);
	result = follow(store, rendezvous, &terms);
	if (result || terms.size == (uint32_t)rendezvous->size)
		return result;
	rendezvous->unfit = true;
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"rank %d was told that there are %d ranks, and rank 0 that there are %u: give all ranks the same number "
		"(TUTTI_SIZE, the launcher's, or the size of tutti_comm_create)",
		rendezvous->rank, rendezvous->size, (unsigned)terms.size);
}

tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, int size,
			     uint64_t deadline, struct tt_rendezvous *out)
{
	*out = (struct tt_rendezvous){
		.rank = rank, .size = size, .deadline = deadline, .moved = out->moved
	};
	snprintf(out->group, sizeof(out->group), "%s", group);
	return find_rendezvous(store, out);
}

/* Until rank 0 of this start has said that it was there, or begun another one. */
static bool is_of_earlier_start(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	char failed[KEY_MAX], next[KEY_MAX];
	tutti_result_t result;

	id_key(rendezvous, "failed", rendezvous->id, failed);
	id_key(rendezvous, "next", rendezvous->id, next);
	do {
		result = store->ops->get(store, failed, NULL, &(size_t){ 0 }, LOOK_NS,
					 TT_STORE_ANSWER_NS);
	} while (result == TUTTI_IN_PROGRESS && tt_now() < rendezvous->deadline &&
		 store->ops->get(store, next, NULL, &(size_t){ 0 }, 0, TT_STORE_ANSWER_NS) ==
			 TUTTI_IN_PROGRESS);
	return result == TUTTI_IN_PROGRESS;
}

bool tt_rendezvous_goes_on(tutti_store_t store, struct tt_rendezvous *rendezvous,
			   tutti_result_t result)
{
	char own[TT_ERROR_MAX];

	rendezvous->moved = result == TT_SUPERSEDED;
	if (rendezvous->rank == 0 || !rendezvous->unfit || store->own)
		return rendezvous->moved;
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	rendezvous->moved = is_of_earlier_start(store, rendezvous);
	tt_thread_error_set(own);
	return rendezvous->moved;
}

/* Who failed before it was at a rendezvous comes to it all the same: nobody waits for it there. */
static void tell(tutti_store_t store, struct tt_rendezvous *rendezvous, tutti_result_t result,
		 const char *error_text)
{
	const uint64_t deadline = rendezvous->deadline;
	char key[KEY_MAX];

	rendezvous->deadline = tt_now(); /* nobody waits for rank 0 once more */
	if (!rendezvous->id && !store->ops->poll(store))
		(void)find_rendezvous(store, rendezvous);
	if (rendezvous->id)
		store->ops->end(store, rendezvous->prefix, result, error_text);
	id_key(rendezvous, "failed", rendezvous->id, key);
	if (rendezvous->id && rendezvous->rank == 0 && !store->own)
		(void)set(store, rendezvous, key, "", 0);
	rendezvous->deadline = deadline;
}

tutti_result_t tt_rendezvous_give_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
				     tutti_result_t result)
{
	const bool about_others =
		result == TUTTI_ERR_TIMEOUT || result == TUTTI_ERR_PEER_LOST || rendezvous->unfit;
	char own[TT_ERROR_MAX], told[TT_ERROR_MAX + 40];
	tutti_result_t first;

	if (result == TT_SUPERSEDED)
		return result;
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	if (about_others) {
		tell(store, rendezvous, result, own);
		first = store->ops->poll(store);
		if (first)
			return first;
	} else {
		snprintf(told, sizeof(told), "rank %d could not join: %s", rendezvous->rank, own);
		tell(store, rendezvous, TUTTI_ERR_PEER_LOST, told);
	}
	tt_thread_error_set(own);
	return result;
}

/* Until all have come to the rendezvous, or long enough. */
static void await_late(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	const uint64_t enough = tt_now() + LATE_NS;
	tutti_result_t result = TUTTI_OK;
	char own[TT_ERROR_MAX];
	uint64_t now;

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	for (int rank = 1; rank < rendezvous->size && !result && (now = tt_now()) < enough; rank++)
		result = tt_rendezvous_get_come(store, rendezvous, rank, enough - now,
						TT_STORE_ANSWER_NS, &(uint64_t){ 0 });
	tt_thread_error_set(own);
}

void tt_rendezvous_close(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			 tutti_result_t result)
{
	if (result && store && store->hosts)
		await_late(store, rendezvous);
	tutti_store_close(store);
}

/* A rank may be here while rank 0 has yet to close its store of the rendezvous before, which has
 * the same address: the rank then loses that store's host before it learns the id, and must look
 * for the new one. A host that had answered and did not say that it closes has died. */
static bool may_come_again(const struct tt_launch *launch, tutti_store_t store,
			   tutti_result_t result)
{
	return !launch->serve && (!launch->kvs || launch->kvs->may_be_old) &&
	       result == TUTTI_ERR_PEER_LOST && (store->closed || !store->answered);
}

/* The store's address is taken. If it is another process's that is rank 0 of this job, too, its
 * store finds that out when this one attends as well, and tells all; the error message is then
 * that, and otherwise stays. */
static tutti_result_t fail_to_serve(const struct tt_launch *launch, const struct tt_key *job_key,
				    const char *group, tutti_result_t result)
{
	struct tt_rendezvous rendezvous = { .rank = launch->rank, .size = launch->size };
	const struct terms none = { .id = 0 };
	struct terms first;
	char own[TT_ERROR_MAX], key[KEY_MAX];
	tutti_result_t told = TUTTI_OK;
	tutti_store_t store;

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	snprintf(rendezvous.group, sizeof(rendezvous.group), "%s", group);
	if (!tt_store_open(launch->store, job_key, launch->rank, false, LATE_NS, &store)) {
		id_key(&rendezvous, "next", none.id, key);
		if (!attend_next(store, &rendezvous, &none)) { /* rank 0 sets it when it attends */
			(void)get_terms(store, key, LATE_NS, TT_STORE_ANSWER_NS, &first);
			told = store->ops->poll(store);
			store->ops->leave(store);
		}
		tutti_store_close(store);
	}
	if (told == TUTTI_ERR_INVALID)
		return told;
	tt_thread_error_set(own);
	return result;
}

/* `given`: the user's key, or none. */
static tutti_result_t meet_launched(const struct tt_launch *launch, const struct tt_key *given,
				    struct tt_key *key, uint64_t deadline, tutti_store_t *store,
				    struct tt_rendezvous *out)
{
	const unsigned number = launch->kvs ? tt_kvs_number() : 0;
	char group[sizeof(launch->job) + 8];
	tutti_result_t result;
	bool again, goes_on;

	snprintf(group, sizeof(group), "job-%s", launch->job);
	do {
		*key = *given;
		result = launch->kvs ? tt_meeting_open(launch, number, key, deadline, store)
				     : tt_store_open(launch->store, key, launch->rank,
						     launch->serve, until(deadline), store);
		if (launch->kvs && result)
			return result;
		if (result == TUTTI_ERR_SYSTEM && launch->serve)
			return fail_to_serve(launch, key, group, result);
		if (result != TUTTI_OK)
			return result;
		(*store)->own = !launch->lasting;
		(*store)->close_by = deadline;
		(*store)->host = launch->host;
		result = tt_rendezvous(*store, group, launch->rank, launch->size, deadline, out);
		if (result == TUTTI_OK)
			return TUTTI_OK;
		again = may_come_again(launch, *store, result);
		if (!again)
			result = tt_rendezvous_give_up(*store, out, result);
		(*store)->ops->leave(*store);
		goes_on = tt_rendezvous_goes_on(*store, out, result);
		tt_rendezvous_close(*store, out, result);
		*store = NULL;
	} while (goes_on || (again && tt_now() < deadline));
	return result;
}

tutti_result_t tt_rendezvous_launched(const struct tt_launch *launch, struct tt_key *key,
				      uint64_t deadline, tutti_store_t *store,
				      struct tt_rendezvous *out)
{
	struct tt_key given = *key;
	const tutti_result_t result = meet_launched(launch, &given, key, deadline, store, out);

	tt_key_wipe(&given);
	return result;
}
