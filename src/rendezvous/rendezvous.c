/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the agreement on which rendezvous a rank is at, and what becomes of one to which not all
 * come. A store may outlive a rendezvous (the launcher's, a directory), so each rank counts its
 * own in the store: keys of an earlier rendezvous are never taken for this one's. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "log.h"
#include "meeting.h"
#include "store.h"
#include "rendezvous.h"
#include "transport.h"

#define KEY_MAX 160
#define POLL_NS 200000000ull /* at who has come, once the deadline has passed */
#define LATE_NS                                                                                    \
	1000000000ull /* for those to come who are to be told that the rendezvous has
		       * failed, or that another one has begun */
#define NAMED_MAX 16  /* ranks in an error message */

static tutti_result_t fail_foreign(const char *key, size_t length, size_t expected)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"key %s of the store has %zu bytes, expected %zu: the store is used by something "
		"else",
		key, length, expected);
}

static void begun_key(const char *group, int rank, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/begun/%d", group, rank);
}

/* How many rendezvous of its group the rank has begun. TUTTI_IN_PROGRESS: it has not come to any
 * within `timeout_ns`. */
static tutti_result_t get_begun(tutti_store_t store, const char *group, int rank,
				uint64_t timeout_ns, uint32_t *number)
{
	size_t length = sizeof(*number);
	char key[KEY_MAX];

	begun_key(group, rank, key);
	const tutti_result_t result = store->ops->get(store, key, number, &length, timeout_ns);
	if (result == TUTTI_OK && length != sizeof(*number))
		return fail_foreign(key, length, sizeof(*number));
	return result;
}

/* The same now; none is no failure. */
static tutti_result_t rendezvous_of(tutti_store_t store, const char *group, int rank,
				    uint32_t *number)
{
	const tutti_result_t result = get_begun(store, group, rank, 0, number);

	if (result == TUTTI_IN_PROGRESS)
		*number = 0;
	return result < 0 ? result : TUTTI_OK;
}

/* Which rendezvous comes next, unless it is known. */
static tutti_result_t find_rendezvous(tutti_store_t store, struct tt_rendezvous *rendezvous)
{
	uint32_t number;
	const tutti_result_t result = rendezvous->number ? TUTTI_OK
							 : rendezvous_of(store, rendezvous->group,
									 rendezvous->rank, &number);

	if (result != TUTTI_OK || rendezvous->number)
		return result;
	rendezvous->number = number + 1;
	snprintf(rendezvous->prefix, sizeof(rendezvous->prefix), "%s/%u", rendezvous->group,
		 (unsigned)rendezvous->number);
	return TUTTI_OK;
}

/* From here on the others learn at once if this process ends: the host of the store sees it. */
static void attend(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	char lost[TT_ERROR_MAX], who[100], name[65] = "?";

	gethostname(name, sizeof(name) - 1);
	snprintf(who, sizeof(who), "pid %d on %s", (int)getpid(), name);
	snprintf(
		lost, sizeof(lost),
		"rank %d (%s) died or lost its connection to the store while the %d ranks met; its own output may say why",
		rendezvous->rank, who, rendezvous->size);
	store->ops->attend(store, &(struct tt_attendance){ rendezvous->prefix, rendezvous->rank,
							   who, TUTTI_ERR_PEER_LOST, lost });
}

/* Set by who has begun another rendezvous after number `number` of the group, to which not all had
 * come. */
static void behind_key(const char *group, uint32_t number, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/behind/%u", group, (unsigned)number);
}

static bool has_key(tutti_store_t store, const char *key, uint64_t timeout_ns)
{
	size_t none = 0;

	return store->ops->get(store, key, NULL, &none, timeout_ns) == TUTTI_OK;
}

/* Starts that died may have left the rendezvous before this one, to which not all had come. Who is
 * there, or comes there, is to go on to this one. */
static tutti_result_t supersede(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	char key[KEY_MAX], prefix[sizeof(rendezvous->prefix)], error_text[128];
	tutti_result_t result = TUTTI_OK;

	for (uint32_t before = rendezvous->number - 1; before > 0 && !result; before--) {
		snprintf(prefix, sizeof(prefix), "%s/%u", rendezvous->group, (unsigned)before);
		snprintf(key, sizeof(key), "%s/" TT_STORE_MET, prefix);
		if (has_key(store, key, 0))
			break;
		behind_key(rendezvous->group, before, key);
		if (has_key(store, key, 0))
			break;
		result = tutti_store_set(store, key, NULL, 0);
		snprintf(error_text, sizeof(error_text),
			 "rank %d has left rendezvous %u of this store and begun another one",
			 rendezvous->rank, (unsigned)before);
		store->ops->end(store, prefix, TUTTI_ERR_PEER_LOST, error_text);
	}
	return result;
}

static tutti_result_t count_rendezvous(tutti_store_t store, struct tt_rendezvous *rendezvous)
{
	char key[KEY_MAX];
	tutti_result_t result = find_rendezvous(store, rendezvous);

	if (result != TUTTI_OK)
		return result;
	attend(store, rendezvous);
	begun_key(rendezvous->group, rendezvous->rank, key);
	result = tutti_store_set(store, key, &rendezvous->number, sizeof(rendezvous->number));
	if (result != TUTTI_OK)
		return result;
	result = store->ops->poll(store);
	rendezvous->late = result != TUTTI_OK;
	return result ? result : supersede(store, rendezvous);
}

/* Two processes with one rank number (TUTTI_ERR_INVALID) would drive each other on for ever. What was
 * said before this rank came may be of an earlier start: the others of this one are waited for. */
bool tt_rendezvous_goes_on(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			   tutti_result_t result)
{
	char key[KEY_MAX], own[TT_ERROR_MAX];

	if (!rendezvous->number || (result == TUTTI_ERR_INVALID && !rendezvous->late))
		return false;
	snprintf(own, sizeof(own), "%s", tt_thread_error());
	behind_key(rendezvous->group, rendezvous->number, key);
	const bool goes_on = has_key(store, key, rendezvous->late ? LATE_NS : 0);
	if (!goes_on && rendezvous->late)
		tt_log(INFO, COMM,
		       "rendezvous %u in %s had failed before rank %d came: if an earlier start left it there, use an empty store",
		       (unsigned)rendezvous->number, store->address, rendezvous->rank);
	tt_thread_error_set(own);
	return goes_on;
}

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
	snprintf(key, TT_RANK_KEY_MAX, "%s/%016llx/%d", rendezvous->prefix,
		 (unsigned long long)rendezvous->id, rank);
}

/* What cannot be known is not claimed. */
static bool has_come(tutti_store_t store, const struct tt_rendezvous *rendezvous, int rank)
{
	uint32_t number;

	return rank == rendezvous->rank ||
	       rendezvous_of(store, rendezvous->group, rank, &number) != TUTTI_OK ||
	       number >= rendezvous->number;
}

static bool has_told(tutti_store_t store, const struct tt_rendezvous *rendezvous, int rank)
{
	char key[TT_RANK_KEY_MAX], byte;
	size_t length = sizeof(byte);

	if (rank == rendezvous->rank)
		return true;
	tt_rendezvous_rank_key(rendezvous, rank, key);
	return store->ops->get(store, key, &byte, &length, 0) != TUTTI_IN_PROGRESS;
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

static void find_absent(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			uint64_t enough, struct named *out)
{
	int rank;

	*out = (struct named){ .count = 0 };
	for (rank = 0; rank < rendezvous->size && out->count < NAMED_MAX && tt_now() < enough;
	     rank++)
		if (!has_come(store, rendezvous, rank))
			name_rank(out, rank);
	out->all = rank == rendezvous->size;
}

/* Of the ranks at a level of the tree. */
static void find_silent(tutti_store_t store, const struct tt_rendezvous *rendezvous, int level,
			uint64_t enough, struct named *out)
{
	int64_t span;
	int rank;

	*out = (struct named){ .count = 0 };
	for (rank = 0; rank < rendezvous->size && out->count < NAMED_MAX && tt_now() < enough;
	     rank++)
		if (find_level(rendezvous, rank, &span) == level &&
		    !has_told(store, rendezvous, rank))
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

	find_absent(store, rendezvous, enough, out);
	if (out->count || !rendezvous->id) /* without an id nobody can tell anything yet */
		return true;
	for (int level = 0; !out->count && level <= top; level++)
		find_silent(store, rendezvous, level, enough, out);
	return false;
}

/* Why one of those that did not come may not have; "" where nobody knows. */
static void find_turned_away(tutti_store_t store, char *out, size_t size)
{
	char text[TT_ERROR_MAX];
	size_t length = sizeof(text) - 1;

	out[0] = 0;
	if (store->ops->get(store, TT_STORE_TURNED_AWAY, text, &length, 0) != TUTTI_OK)
		return;
	text[length] = 0;
	snprintf(out, size, "; %.300s", text);
}

/* The deadline has passed while this rank waited for rank `from`. */
static tutti_result_t fail_late(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				int from)
{
	struct named late;
	const bool absent = find_late(store, rendezvous, &late);
	const char *s = late.count > 1 ? "s" : "", *have = late.count > 1 ? "have" : "has";
	const char *least = late.all ? "" : " (at least)";
	char why[320];

	if (late.count == 0)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, COMM,
			"the rendezvous of %d ranks was not over at rank %d's deadline: rank %d, "
			"or one that it waits for itself, has not got as far",
			rendezvous->size, rendezvous->rank, from);
	if (absent) {
		find_turned_away(store, why, sizeof(why));
		return tt_fail(TUTTI_ERR_TIMEOUT, COMM,
			       "rank%s %s%s %s not come to the rendezvous of %d ranks by rank %d's "
			       "deadline: was every rank started, with the same store?%s",
			       s, late.text, least, have, rendezvous->size, rendezvous->rank, why);
	}
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"rank%s %s%s came to the rendezvous of %d ranks, but %s not gone on with it by rank "
		"%d's deadline: died or stopped?",
		s, late.text, least, rendezvous->size, have, rendezvous->rank);
}

tutti_result_t tt_rendezvous_get(tutti_store_t store, const struct tt_rendezvous *rendezvous,
				 int from, const char *key, void *value, size_t *length,
				 uint64_t deadline)
{
	const uint64_t now = tt_now(), least = 1000000;
	const uint64_t left = deadline > now + least ? deadline - now : least;
	const tutti_result_t result = store->ops->get(store, key, value, length, left);

	return result == TUTTI_IN_PROGRESS ? fail_late(store, rendezvous, from) : result;
}

tutti_result_t tt_rendezvous_met(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%s/" TT_STORE_MET, rendezvous->prefix);
	return tutti_store_set(store, key, NULL, 0);
}

tutti_result_t tt_rendezvous_poll(tutti_store_t store)
{
	return store->ops->poll(store);
}

static void tell(tutti_store_t store, struct tt_rendezvous *rendezvous, tutti_result_t result,
		 const char *error_text)
{
	if (find_rendezvous(store, rendezvous) == TUTTI_OK)
		store->ops->end(store, rendezvous->prefix, result, error_text);
}

tutti_result_t tt_rendezvous_give_up(tutti_store_t store, struct tt_rendezvous *rendezvous,
				     tutti_result_t result)
{
	const bool about_others =
		result == TUTTI_ERR_TIMEOUT || result == TUTTI_ERR_PEER_LOST || rendezvous->unfit;
	char own[TT_ERROR_MAX], told[TT_ERROR_MAX + 40];
	tutti_result_t first;

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	if (about_others) {
		tell(store, rendezvous, result, own);
		first = tt_rendezvous_poll(store);
		if (first)
			return first;
	} else {
		snprintf(told, sizeof(told), "rank %d could not join: %s", rendezvous->rank, own);
		tell(store, rendezvous, TUTTI_ERR_PEER_LOST, told);
	}
	tt_thread_error_set(own);
	return result;
}

void tt_rendezvous_leave(tutti_store_t store)
{
	store->ops->leave(store);
}

/* Until all have come to the rendezvous, or long enough. */
static void await_late(tutti_store_t store, const struct tt_rendezvous *rendezvous)
{
	const uint64_t enough = tt_now() + LATE_NS;
	tutti_result_t result = TUTTI_OK;
	char own[TT_ERROR_MAX];
	uint64_t now;

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	for (int rank = 0; rank < rendezvous->size && !result && (now = tt_now()) < enough; rank++)
		result = get_begun(store, rendezvous->group, rank, enough - now, &(uint32_t){ 0 });
	tt_thread_error_set(own);
}

void tt_rendezvous_close(tutti_store_t store, const struct tt_rendezvous *rendezvous,
			 tutti_result_t result)
{
	if (result && store && store->hosts)
		await_late(store, rendezvous);
	tutti_store_close(store);
}

/* What rank 0 says of the rendezvous. */
struct terms {
	uint64_t id;
	uint64_t size;
};

static tutti_result_t make_id(tutti_store_t store, struct tt_rendezvous *rendezvous,
			      const char *key)
{
	struct terms terms = { .size = (uint64_t)rendezvous->size };

	if (getrandom(&terms.id, sizeof(terms.id), 0) != sizeof(terms.id))
		return tt_fail_errno(COMM, "read random bytes");
	rendezvous->id = terms.id;
	return tutti_store_set(store, key, &terms, sizeof(terms));
}

static tutti_result_t get_id(tutti_store_t store, struct tt_rendezvous *rendezvous, const char *key,
			     uint64_t deadline)
{
	struct terms terms;
	size_t length = sizeof(terms);
	const tutti_result_t result =
		tt_rendezvous_get(store, rendezvous, 0, key, &terms, &length, deadline);

	if (result)
		return result;
	if (length != sizeof(terms))
		return fail_foreign(key, length, sizeof(terms));
	rendezvous->id = terms.id;
	if (terms.size == (uint64_t)rendezvous->size)
		return TUTTI_OK;
	rendezvous->unfit = true;
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"rank %d was told that there are %d ranks, and rank 0 that there are %llu: give all ranks the same number "
		"(TUTTI_SIZE, the launcher's, or the size of tutti_comm_create)",
		rendezvous->rank, rendezvous->size, (unsigned long long)terms.size);
}

tutti_result_t tt_rendezvous(tutti_store_t store, const char *group, int rank, int size,
			     uint64_t deadline, struct tt_rendezvous *out)
{
	char key[KEY_MAX];

	*out = (struct tt_rendezvous){ .rank = rank, .size = size };
	snprintf(out->group, sizeof(out->group), "%s", group);
	const tutti_result_t result = count_rendezvous(store, out);
	if (result != TUTTI_OK)
		return result;
	snprintf(key, sizeof(key), "%s/id", out->prefix);
	return rank == 0 ? make_id(store, out, key) : get_id(store, out, key, deadline);
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
static tutti_result_t fail_to_serve(const struct tt_launch *launch, const struct tt_key *key,
				    const char *group, tutti_result_t result)
{
	struct tt_rendezvous rendezvous = { .rank = launch->rank, .size = launch->size };
	char own[TT_ERROR_MAX], id[KEY_MAX];
	size_t none = 0;
	tutti_store_t store;

	snprintf(own, sizeof(own), "%s", tt_thread_error());
	snprintf(rendezvous.group, sizeof(rendezvous.group), "%s", group);
	tutti_result_t told =
		tt_store_open(launch->store, key, launch->rank, false, LATE_NS, &store);
	if (!told) {
		told = find_rendezvous(store, &rendezvous);
		if (!told) {
			attend(store, &rendezvous);
			snprintf(id, sizeof(id), "%s/id", rendezvous.prefix);
			store->ops->get(store, id, NULL, &none,
					LATE_NS); /* rank 0 sets it when it attends */
			told = store->ops->poll(store);
			tt_rendezvous_leave(store);
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
	bool again;

	snprintf(group, sizeof(group), "job-%s", launch->job);
	do {
		const uint64_t now = tt_now();

		*key = *given;
		result = launch->kvs
				 ? tt_meeting_open(launch, number, key, deadline, store)
				 : tt_store_open(launch->store, key, launch->rank, launch->serve,
						 now < deadline ? deadline - now : 1000000, store);
		if (launch->kvs && result)
			return result;
		if (result == TUTTI_ERR_SYSTEM && launch->serve)
			return fail_to_serve(launch, key, group, result);
		if (result != TUTTI_OK)
			return result;
		(*store)->close_by = deadline;
		(*store)->host = launch->host;
		result = tt_rendezvous(*store, group, launch->rank, launch->size, deadline, out);
		if (result == TUTTI_OK)
			return TUTTI_OK;
		again = may_come_again(launch, *store, result);
		if (!again)
			result = tt_rendezvous_give_up(*store, out, result);
		again = again || (launch->lasting && tt_rendezvous_goes_on(*store, out, result));
		tt_rendezvous_leave(*store);
		tt_rendezvous_close(*store, out, result);
		*store = NULL;
	} while (again && tt_now() < deadline);
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
