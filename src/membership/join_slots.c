/* SPDX-License-Identifier: BSD-3-Clause */
#include "join_slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "launch.h"
#include "record.h"
#include "store.h"
#include "transport.h"

#define KEY_MAX	   192
#define POLL_NS	   1000000000ull /* between looks at whether the coordinator is still there */
#define SILENCE_NS 5000000000ull /* of a coordinator that is not any more */
#define RANKS_MAX  (1 << 18)	 /* of more an invitation is none */

struct news {
	int32_t result;
	char text[TT_ERROR_MAX];
};

tutti_result_t tt_join_slots_open(tutti_store_t store, const struct tt_key *key, uint64_t deadline,
				  const char *call, struct tt_join_slots *out)
{
	struct tt_launch launch;

	*out = (struct tt_join_slots){ .prefix = "grow" };
	if (store && !tt_owned_here(&store->owner)) /* nothing is to be told by it either */
		return tt_fail_inherited(&store->owner, call, "store");
	out->store = store;
	if (store)
		return TUTTI_OK;
	tutti_result_t result = tt_launch_meets(call, &launch);
	if (result)
		return result;
	snprintf(out->prefix, sizeof(out->prefix), "grow-%s", launch.job);
	result = tt_store_open(launch.store, key, -1, false, tt_left(deadline), &out->store);
	out->opened = result == TUTTI_OK;
	return result;
}

void tt_join_slots_close(struct tt_join_slots *slots)
{
	if (slots->opened)
		tutti_store_close(slots->store);
	slots->opened = false;
}

/* ---- keys */

static const char *slot_key(const struct tt_join_slots *slots, const char *what, uint64_t number,
			    char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/%s/%llx", slots->prefix, what, (unsigned long long)number);
	return key;
}

static const char *rendezvous_key(const struct tt_join_slots *slots, uint64_t id, const char *what,
				  char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, "%s/%016llx/%s", slots->prefix, (unsigned long long)id, what);
	return key;
}

/* A value of exactly `length` bytes; TUTTI_IN_PROGRESS: it has not come within `wait_ns`. */
static tutti_result_t get(const struct tt_join_slots *slots, const char *key, void *value,
			  size_t length, uint64_t wait_ns)
{
	size_t found = length;
	const tutti_result_t result = slots->store->ops->get(slots->store, key, value, &found,
							     wait_ns, TT_STORE_ANSWER_NS);

	if (result == TUTTI_OK && found != length)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"key %s of the store has %zu bytes, expected %zu: the store is used by something else",
			key, found, length);
	return result;
}

static tutti_result_t set(const struct tt_join_slots *slots, const char *key, const void *value,
			  size_t length)
{
	return slots->store->ops->set(slots->store, key, value, length, TT_STORE_ANSWER_NS);
}

/* Move on to the first slot that nobody was invited to. */
static tutti_result_t find_free(struct tt_join_slots *slots)
{
	struct tt_invitation taken;
	tutti_result_t result;
	char key[KEY_MAX];

	while ((result = get(slots, slot_key(slots, "taken", slots->next, key), &taken,
			     sizeof(taken), 0)) == TUTTI_OK)
		slots->next++;
	return result == TUTTI_IN_PROGRESS ? TUTTI_OK : result;
}

/* ---- a newcomer */

tutti_result_t tt_join_slots_apply(struct tt_join_slots *slots, uint64_t deadline,
				   struct tt_invitation *out)
{
	uint64_t token;
	char key[KEY_MAX];

	tutti_result_t result = tt_random(&token, sizeof(token));
	if (result)
		return result;
	do {
		result = find_free(slots);
		if (!result)
			result = set(slots, slot_key(slots, "seat", slots->next, key), &token,
				     sizeof(token));
		if (!result)
			result = get(slots, slot_key(slots, "taken", slots->next, key), out,
				     sizeof(*out), tt_left(deadline));
		if (result == TUTTI_IN_PROGRESS)
			return tt_fail(
				TUTTI_ERR_TIMEOUT, COMM,
				"no communicator took this newcomer in by the deadline: do its ranks call "
				"tutti_comm_grow, with the same store, for as many as have come?");
		if (result)
			return result;
	} while (out->token != token);
	if (out->rank < 0 || out->rank >= out->size || out->size > RANKS_MAX)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "invited as rank %d of %d: the store is used by something else",
			       (int)out->rank, (int)out->size);
	return TUTTI_OK;
}

tutti_result_t tt_join_slots_answer(struct tt_join_slots *slots,
				    const struct tt_invitation *invitation,
				    const struct tt_report *report)
{
	char key[KEY_MAX];

	return set(slots, slot_key(slots, "answer", invitation->token, key), report,
		   tt_report_size(report));
}

bool tt_join_slots_is_passed_over(struct tt_join_slots *slots,
				  const struct tt_invitation *invitation)
{
	char key[KEY_MAX], byte;

	return get(slots, slot_key(slots, "late", invitation->token, key), &byte, 1, 0) !=
	       TUTTI_IN_PROGRESS;
}

/* The coordinator is there as long as its count grows. */
static tutti_result_t await_news(struct tt_join_slots *slots, uint64_t id, struct news *out)
{
	uint64_t beat = 0, heard_at = tt_now();
	tutti_result_t result;
	char key[KEY_MAX];

	for (;;) {
		uint64_t now_beat = beat;

		result = get(slots, rendezvous_key(slots, id, "news", key), out, sizeof(*out),
			     POLL_NS);
		if (result != TUTTI_IN_PROGRESS)
			return result;
		result = get(slots, rendezvous_key(slots, id, "beat", key), &now_beat,
			     sizeof(now_beat), 0);
		if (result < 0)
			return result;
		if (now_beat != beat)
			heard_at = tt_now();
		beat = now_beat;
		if (tt_now() - heard_at > SILENCE_NS)
			return TUTTI_IN_PROGRESS;
	}
}

tutti_result_t tt_join_slots_await(struct tt_join_slots *slots,
				   const struct tt_invitation *invitation, const struct tt_key *key,
				   struct tt_records *out)
{
	const struct tt_record_from maker = { key, invitation->id, 0 };
	struct tt_bundle bundle;
	struct news news;
	char name[KEY_MAX];
	tutti_result_t result = await_news(slots, invitation->id, &news);

	if (result)
		return result;
	if (news.result) {
		tt_fail_reported(COMM, "not taken in this time: ", news.result, news.text,
				 sizeof(news.text));
		return TUTTI_IN_PROGRESS;
	}
	result = tt_bundle_get(slots->store, rendezvous_key(slots, invitation->id, "records", name),
			       0, invitation->size, POLL_NS, &bundle);
	if (!result)
		result = tt_bundle_unpack(&maker, invitation->size, bundle.bytes, bundle.length,
					  invitation->rank, out);
	free(bundle.bytes);
	return result;
}

/* ---- the coordinator */

tutti_result_t tt_join_slots_invite(struct tt_join_slots *slots, struct tt_invitation *invitation,
				    uint64_t wait_ns)
{
	char key[KEY_MAX];
	tutti_result_t result = find_free(slots);

	if (!result)
		result = get(slots, slot_key(slots, "seat", slots->next, key), &invitation->token,
			     sizeof(invitation->token), wait_ns);
	if (result)
		return result;
	return set(slots, slot_key(slots, "taken", slots->next, key), invitation,
		   sizeof(*invitation));
}

tutti_result_t tt_join_slots_receive(struct tt_join_slots *slots,
				     const struct tt_invitation *invitation, uint64_t wait_ns,
				     struct tt_report *out)
{
	size_t length = sizeof(*out);
	char key[KEY_MAX];
	struct tt_report answer;
	const tutti_result_t result = slots->store->ops->get(
		slots->store, slot_key(slots, "answer", invitation->token, key), &answer, &length,
		wait_ns, TT_STORE_ANSWER_NS);

	if (result)
		return result;
	if (tt_report_read(&answer, length, out))
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
		       "a newcomer runs another version of tutti: all ranks must use the same one");
}

tutti_result_t tt_join_slots_pass_over(struct tt_join_slots *slots,
				       const struct tt_invitation *invitation)
{
	char key[KEY_MAX];

	return set(slots, slot_key(slots, "late", invitation->token, key), "", 1);
}

tutti_result_t tt_join_slots_beat(struct tt_join_slots *slots, uint64_t id, uint64_t count)
{
	char key[KEY_MAX];

	return set(slots, rendezvous_key(slots, id, "beat", key), &count, sizeof(count));
}

tutti_result_t tt_join_slots_settle(struct tt_join_slots *slots, uint64_t id,
				    const struct tt_bundle *bundle)
{
	const struct news news = { .result = TUTTI_OK };
	char key[KEY_MAX];
	const tutti_result_t result =
		tt_bundle_set(slots->store, rendezvous_key(slots, id, "records", key), bundle,
			      TT_STORE_ANSWER_NS);

	return result ? result
		      : set(slots, rendezvous_key(slots, id, "news", key), &news, sizeof(news));
}

void tt_join_slots_dissolve(struct tt_join_slots *slots, uint64_t id)
{
	struct news news = { .result = TUTTI_ERR_PEER_LOST };
	char key[KEY_MAX];

	snprintf(news.text, sizeof(news.text), "%s", tt_thread_error());
	set(slots, rendezvous_key(slots, id, "news", key), &news, sizeof(news));
	tt_thread_error_set(news.text);
}
