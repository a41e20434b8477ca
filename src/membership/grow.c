/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns tutti_comm_grow and tutti_comm_join.
 *
 * Members go step by step together, each step a collective of the old communicator: all call with
 * the same number; all have opened their endpoints; rank 0, the coordinator, has found the newcomers
 * in the store (join_slots.c), while the others hear from it now and then, lest their wait for it
 * misses a deadline; all have joined, the newcomers too. Where a step fails the old communicator is
 * as before.
 *
 * A collective that fails on one rank may succeed on another. So at last all ranks of the new
 * communicator agree, over its control channel, that all are there. Nobody has it before that, and
 * whoever failed has left it and is missing: all have it, or none. */
#include "grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "consensus.h"
#include "failure.h"
#include "fault.h"
#include "group.h"
#include "launch.h"
#include "log.h"
#include "narrow.h"
#include "next_call.h"
#include "parts.h"
#include "report.h"
#include "join_slots.h"
#include "key_read.h"

#define TURN_NS 250000000 /* of the coordinator, between words to the members */
#define PATIENCE_NS                                                                                \
	3000000000 /* with a newcomer that was invited: it may have died since it came */

struct growing {
	struct tutti_comm *old, *new;
	struct tt_join_hooks hooks; /* of the new one, while it is made */
	int newcomers;
	uint64_t id;
	uint64_t timeout_ns, deadline; /* rank 0's count: it waits for the newcomers */
	struct tt_records records;     /* of all ranks of the new one */
};

/* ---- members among themselves */

tutti_result_t tt_grow_read_questions(const struct tt_grow_question *all, int size, int rank,
				      int newcomers)
{
	if (all[rank].newcomers != newcomers)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, COMM,
			"tutti_comm_grow: the %d newcomers of rank %d came back as %lld: another rank does not do what this "
			"version of tutti does: all ranks must use the same one",
			newcomers, rank, (long long)all[rank].newcomers);
	for (int other = 1; other < size; other++)
		if (all[other].newcomers != all[0].newcomers)
			return tt_fail(
				TUTTI_ERR_INVALID, COMM,
				"tutti_comm_grow: rank 0 asks for %lld newcomers, rank %d for %lld: all must ask for as many",
				(long long)all[0].newcomers, other,
				(long long)all[other].newcomers);
	return TUTTI_OK;
}

/* Do all call for as many? */
static tutti_result_t ask_members(struct growing *g)
{
	struct tt_grow_question mine = { .newcomers = g->newcomers };
	struct tt_grow_question *all = calloc((size_t)g->old->size, sizeof(*all));
	tutti_result_t result;

	if (!all)
		return tt_comm_fail(g->old, tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
						    "no memory for %d ranks", g->old->size));
	result = tt_random(&mine.id, sizeof(mine.id));
	if (result)
		result = tt_comm_fail(g->old, result);
	else
		result = tt_part_all_gather(g->old, TT_PART_GROW, &mine, all, sizeof(mine));
	g->id = all[0].id;
	if (!result) {
		result = tt_grow_read_questions(all, g->old->size, g->old->rank, g->newcomers);
		if (result == TUTTI_ERR_UNSUPPORTED) /* the others may have seen something else */
			result = tt_comm_fail(g->old, result);
	}
	free(all);
	return result;
}

static tutti_result_t open_new(struct growing *g, struct tt_report *mine)
{
	const struct tutti_comm *old = g->old;
	size_t length = 0;
	tutti_result_t result =
		tt_comm_new(&old->settings, old->rank, old->size + g->newcomers, g->id, &g->new);

	if (!result) {
		g->hooks = (struct tt_join_hooks){ .should_abort = tt_exchange_is_hopeless,
						   .context = g->old };
		g->new->joining.hooks = &g->hooks;
		result = tt_bootstrap_open(g->new, NULL, mine->bytes, &length);
	}
	mine->length = (uint32_t)length;
	return result;
}

/* Open endpoints, and tell the other members of them. */
static tutti_result_t open_all(struct growing *g, struct tt_records *members)
{
	struct tt_report mine = { 0 };

	tt_report_fill(&mine, open_new(g, &mine));
	const tutti_result_t result = tt_exchange_reports(g->old, TT_PART_GROW, &mine, members);
	for (int rank = 0; rank < g->old->size && !result; rank++) {
		members->offset[rank] += TT_REPORT_HEAD;
		members->length[rank] -= TT_REPORT_HEAD;
	}
	return result;
}

/* ---- the coordinator's decision to the members */

static tutti_result_t say(struct growing *g, tutti_result_t result, const void *records,
			  size_t length)
{
	struct tt_grow_decision word = { .result = result, .length = (uint32_t)length };

	if (result < 0)
		snprintf(word.text, sizeof(word.text), "%s", tt_thread_error());
	tutti_result_t said =
		tt_part_broadcast(g->old, TT_PART_GROW, &word, &word, sizeof(word), 0);
	if (!said && !result)
		said = tt_part_broadcast(g->old, TT_PART_GROW, records, (void *)records, length, 0);
	return said;
}

tutti_result_t tt_grow_read_decision(const struct tt_grow_decision *word, size_t most)
{
	if (word->result == TUTTI_IN_PROGRESS)
		return TUTTI_IN_PROGRESS;
	if (word->result != TUTTI_OK)
		return tt_fail_reported(COMM, "", word->result, word->text, sizeof(word->text));
	if (word->length == 0 || word->length > most)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, COMM,
			"tutti_comm_grow: rank 0 announces %u bytes of records, expected 1 to %zu: it runs another version of "
			"tutti: all ranks must use the same one",
			(unsigned)word->length, most);
	return TUTTI_OK;
}

static tutti_result_t receive_from_coordinator(struct growing *g)
{
	const struct tt_record_from maker = { &g->old->settings.key, g->id, 0 };
	struct tt_grow_decision word;
	uint8_t *bytes;
	tutti_result_t result;

	do {
		result = tt_part_broadcast(g->old, TT_PART_GROW, NULL, &word, sizeof(word), 0);
		if (result)
			return result;
		result = tt_grow_read_decision(&word, tt_bundle_capacity(g->new->size));
	} while (result == TUTTI_IN_PROGRESS);
	if (result) /* records that were announced are not read: the others are not to wait for
		     * this rank */
		return word.result == TUTTI_OK ? tt_comm_fail(g->old, result) : result;
	bytes = malloc((size_t)word.length + 1);
	if (!bytes)
		return tt_comm_fail(g->old, tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
						    "no memory for %u bytes of records",
						    (unsigned)word.length));
	result = tt_part_broadcast(g->old, TT_PART_GROW, NULL, bytes, word.length, 0);
	if (!result) {
		result = tt_bundle_unpack(&maker, g->new->size, bytes, word.length, g->old->rank,
					  &g->records);
		if (result) /* the others are not to wait for it */
			tt_comm_fail(g->old, result);
	}
	free(bytes);
	return result;
}

/* ---- the coordinator */

struct coordinator {
	struct growing *g;
	struct tt_join_slots slots;
	uint64_t turns;
	struct tt_records records; /* of members, then of newcomers */
	bool parted;		   /* the members hear nothing any more */
};

static tutti_result_t fail_late(const struct coordinator *coordinator, int come)
{
	return tt_fail(
		TUTTI_ERR_TIMEOUT, COMM,
		"tutti_comm_grow: %d of %d newcomers came by the deadline of %g s: were they started, with the same store?",
		come, coordinator->g->newcomers, (double)coordinator->g->timeout_ns / 1e9);
}

/* After each wait of a turn: both sides know that the coordinator is there. */
static tutti_result_t end_turn(struct coordinator *coordinator, int come)
{
	tutti_result_t result =
		tt_join_slots_beat(&coordinator->slots, coordinator->g->id, ++coordinator->turns);

	if (result)
		return result;
	if (tt_now() > coordinator->g->deadline)
		return fail_late(coordinator, come);
	result = say(coordinator->g, TUTTI_IN_PROGRESS, NULL, 0);
	coordinator->parted = result != TUTTI_OK;
	return result;
}

static uint64_t turn_of(const struct coordinator *coordinator)
{
	const uint64_t quarter = coordinator->g->old->settings.timeout_ns / 4;

	return quarter < TURN_NS ? quarter : TURN_NS;
}

static tutti_result_t invite(struct coordinator *coordinator, int come, struct tt_invitation *out)
{
	*out = (struct tt_invitation){ .id = coordinator->g->id,
				       .rank = coordinator->g->old->size + come,
				       .size = coordinator->g->new->size };
	for (;;) {
		tutti_result_t result =
			tt_join_slots_invite(&coordinator->slots, out, turn_of(coordinator));

		if (result != TUTTI_IN_PROGRESS)
			return result;
		result = end_turn(coordinator, come);
		if (result)
			return result;
	}
}

/* TUTTI_IN_PROGRESS: it has nothing to say, and another may have the place. */
static tutti_result_t hear(struct coordinator *coordinator, int come,
			   const struct tt_invitation *invitation, struct tt_report *out)
{
	const uint64_t enough = tt_now() + PATIENCE_NS;

	do {
		tutti_result_t result = tt_join_slots_receive(&coordinator->slots, invitation,
							      turn_of(coordinator), out);

		if (result != TUTTI_IN_PROGRESS)
			return result;
		result = end_turn(coordinator, come);
		if (result)
			return result;
	} while (tt_now() < enough);
	tt_log(WARN, COMM,
	       "a newcomer was invited and has not answered within %g s: another may come in its place",
	       PATIENCE_NS / 1e9);
	const tutti_result_t result = tt_join_slots_pass_over(&coordinator->slots, invitation);
	return result ? result : TUTTI_IN_PROGRESS;
}

/* The bundle is to prove it to all. */
static tutti_result_t check_record(const struct growing *g, int rank, const uint8_t *record,
				   size_t length)
{
	const struct tt_record_from from = { &g->old->settings.key, g->id, rank };

	return tt_record_read(&from, record, length, false, 0, &(struct tt_record){ 0 });
}

static tutti_result_t take_in(struct coordinator *coordinator, int come,
			      const struct tt_report *report)
{
	const int rank = coordinator->g->old->size + come;
	tutti_result_t result =
		tt_report_judge(report, tt_report_size(report), rank, "tutti_comm_grow");

	if (!result)
		result = check_record(coordinator->g, rank, report->bytes, report->length);
	if (!result)
		tt_records_add(&coordinator->records, report->bytes, report->length);
	return result;
}

static tutti_result_t find_newcomers(struct coordinator *coordinator)
{
	tutti_result_t result = TUTTI_OK;
	int come = 0;

	while (come < coordinator->g->newcomers && !result) {
		struct tt_invitation invitation;
		struct tt_report report;

		result = invite(coordinator, come, &invitation);
		if (!result)
			result = hear(coordinator, come, &invitation, &report);
		if (result == TUTTI_IN_PROGRESS) {
			result = TUTTI_OK;
			continue;
		}
		if (!result)
			result = take_in(coordinator, come++, &report);
	}
	return result;
}

/* Room for the records of all, with those of the members in it. */
static tutti_result_t begin_records(struct coordinator *coordinator,
				    const struct tt_records *members)
{
	const size_t size = (size_t)coordinator->g->new->size;
	struct tt_records *records = &coordinator->records;

	tutti_result_t result =
		tt_records_make(coordinator->g->new->size, size * TT_RECORD_MAX, records);

	for (int rank = 0; rank < coordinator->g->old->size && !result; rank++) {
		const uint8_t *record = members->bytes + members->offset[rank];

		result = check_record(coordinator->g, rank, record, members->length[rank]);
		tt_records_add(records, record, members->length[rank]);
	}
	records->proven = true;
	return result;
}

/* Newcomers first: members hear of nothing that they do not. */
static tutti_result_t settle(struct coordinator *coordinator)
{
	struct growing *g = coordinator->g;
	const struct tt_record_from maker = { &g->old->settings.key, g->id, 0 };
	struct tt_bundle bundle;
	tutti_result_t result =
		tt_bundle_pack(&maker, g->new->size, &coordinator->records, &bundle);

	if (!result)
		result = tt_join_slots_settle(&coordinator->slots, g->id, &bundle);
	if (!result) {
		result = say(g, TUTTI_OK, bundle.bytes, bundle.length);
		coordinator->parted = true;
	}
	free(bundle.bytes);
	return result;
}

/* The store's host may come late. */
static tutti_result_t open_slots(struct coordinator *coordinator, tutti_store_t store)
{
	tutti_result_t result;

	while ((result = tt_join_slots_open(store, &coordinator->g->old->settings.key,
					    tt_now() + turn_of(coordinator), "tutti_comm_grow",
					    &coordinator->slots)) == TUTTI_ERR_TIMEOUT &&
	       tt_now() < coordinator->g->deadline) {
		result = say(coordinator->g, TUTTI_IN_PROGRESS, NULL, 0);
		coordinator->parted = result != TUTTI_OK;
		if (result)
			return result;
	}
	return result;
}

static tutti_result_t be_coordinator(struct growing *g, tutti_store_t store,
				     const struct tt_records *members)
{
	struct coordinator coordinator = { .g = g };
	tutti_result_t result = open_slots(&coordinator, store);

	if (!result)
		result = begin_records(&coordinator, members);
	if (!result)
		result = find_newcomers(&coordinator);
	if (!result)
		result = settle(&coordinator);
	if (result && coordinator.slots.store)
		tt_join_slots_dissolve(&coordinator.slots, g->id);
	if (result && !coordinator.parted) {
		const tutti_result_t said = say(g, result, NULL, 0);

		result = said ? said : result;
	}
	tt_join_slots_close(&coordinator.slots);
	g->records = coordinator.records;
	return result;
}

/* ---- joining */

/* A rank that leaves the barrier knows that all have joined. */
static tutti_result_t join_new(struct tutti_comm *new, const struct tt_records *records)
{
	const uint64_t deadline = tt_now() + new->settings.timeout_ns;
	const tutti_result_t result = tt_bootstrap_join(new, records, deadline);

	return result ? result : tt_part_barrier(new, TT_PART_GROW);
}

/* A rank that is missing in what all agreed on. */
struct missing {
	int rank; /* the first; -1: none is */
	bool late;
};

static struct missing find_missing(const struct tt_agree *agreed)
{
	const int count = tt_agree_count(agreed);
	int rank = 0;

	while (rank < count && tt_agree_member(agreed, rank).rank == rank)
		rank++;
	return (struct missing){ rank, tt_agree_was_late(agreed, rank) };
}

static tutti_result_t fail_missing(const struct tutti_comm *new, const struct missing *missing)
{
	if (missing->late)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, COMM,
			"rank %d of the %d did not answer when all had to say that they have joined: no rank has the larger "
			"communicator; was its process stopped for %g s, or does the network keep it from another?",
			missing->rank, new->size, (double)new->settings.timeout_ns / 1e9);
	return tt_fail(
		TUTTI_ERR_PEER_LOST, COMM,
		"rank %d of the %d was lost, or gave up, before all had said that they have joined: no rank has the "
		"larger communicator; see that rank's own output for the cause",
		missing->rank, new->size);
}

/* All have joined, and agree that they have, or none has the new communicator. */
static tutti_result_t agree_on(struct tutti_comm *new, struct tutti_comm *old,
			       struct missing *missing)
{
	struct tt_agree *agreed = NULL;
	tutti_result_t result = tt_consensus_complete(new, old, &agreed);

	*missing = (struct missing){ .rank = -1 };
	if (!result && tt_agree_count(agreed) < new->size) {
		*missing = find_missing(agreed);
		result = fail_missing(new, missing);
	} else if (result == TUTTI_ERR_TIMEOUT) /* of the others, who miss it */
		result = fail_missing(new, &(struct missing){ new->rank, true });
	tt_agree_close(agreed);
	return result;
}

/* A member that was silent for too long would be missed by the next call, too. */
static void revoke_late(struct tutti_comm *old, int rank)
{
	struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT, .rank = rank };

	snprintf(fault.text, sizeof(fault.text), "%s", tt_thread_error());
	tt_comm_lock(old);
	tt_comm_revoke(old, &fault);
	pthread_mutex_unlock(&old->lock);
}

static tutti_result_t join_all(struct growing *g)
{
	struct tt_report mine = { 0 };
	struct tt_records reports = { 0 };
	struct missing missing = { .rank = -1 };

	tt_report_fill(&mine, join_new(g->new, &g->records));
	tutti_result_t result = tt_exchange_reports(g->old, TT_PART_GROW, &mine, &reports);
	tt_records_free(&reports);
	if (result)
		return result;
	result = agree_on(g->new, g->old, &missing);
	if (missing.late && missing.rank < g->old->size)
		revoke_late(g->old, missing.rank);
	return result;
}

static tutti_result_t grow(struct growing *g, tutti_store_t store)
{
	struct tt_records members = { 0 };
	tutti_result_t result = ask_members(g);

	if (!result)
		result = open_all(g, &members);
	if (!result)
		result = g->old->rank == 0 ? be_coordinator(g, store, &members)
					   : receive_from_coordinator(g);
	tt_records_free(&members);
	if (!result)
		result = join_all(g);
	tt_records_free(&g->records);
	return result;
}

/* The coordinator's decision, or the last member's, may have left it before `comm` failed: an
 * error of growing says that it has not. */
static tutti_result_t result_of(struct tutti_comm *comm, tutti_result_t result)
{
	tt_comm_lock(comm);
	tt_comm_check(comm, true);
	const tutti_result_t state = tt_comm_state(comm);
	pthread_mutex_unlock(&comm->lock);
	return state ? state : result;
}

/* What was said of this call. */
static tutti_result_t take_said(struct tutti_comm *comm, uint64_t *timeout_ns)
{
	struct tt_next_call *said = NULL;
	tutti_result_t result = TUTTI_OK;

	tt_comm_lock(comm);
	if (comm->next_calls)
		said = tt_next_call_take(comm);
	pthread_mutex_unlock(&comm->lock);
	*timeout_ns = said && said->timeout_ns ? said->timeout_ns : comm->settings.timeout_ns;
	if (said && tt_narrow_is(said->wire))
		result = tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"tutti_comm_grow: tutti_next_call() said that its elements travel as %s: "
			"expected TUTTI_WIRE_DEFAULT, as nothing is added up",
			tutti_wire_name(said->wire));
	tt_next_call_free(said);
	return result;
}

TUTTI_API tutti_result_t tutti_comm_grow(tutti_comm_t comm, tutti_store_t store, int newcomers,
					 tutti_comm_t *out)
{
	if (out)
		*out = NULL;
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_comm_grow");
	if (refused)
		return refused;
	uint64_t timeout_ns;
	const tutti_result_t said = take_said(comm, &timeout_ns);
	if (said)
		return said;
	if (!out)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_grow: out is NULL");
	if (newcomers < 1 || newcomers > INT32_MAX - comm->size)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_comm_grow: %d newcomers, expected 1 to %d", newcomers,
			       INT32_MAX - comm->size);
	struct growing g = { .old = comm,
			     .newcomers = newcomers,
			     .timeout_ns = timeout_ns,
			     .deadline = tt_now() + timeout_ns };
	const tutti_result_t result = grow(&g, store);
	if (result) {
		tutti_comm_destroy(g.new);
		return result_of(comm, result);
	}
	g.new->joining.hooks = NULL;
	tt_log(INFO, COMM, "rank %d of %d has %d ranks more", comm->rank, comm->size, newcomers);
	*out = g.new;
	return TUTTI_OK;
}

/* ---- a newcomer */

static tutti_result_t join_with_members(struct tutti_comm *new, const struct tt_records *records)
{
	const tutti_result_t result = join_new(new, records);
	struct missing missing;

	return result ? result : agree_on(new, NULL, &missing);
}

/* Go where it is invited. TUTTI_IN_PROGRESS: nothing came of it; `*late`: as it did not answer
 * in time. */
static tutti_result_t follow(struct tt_join_slots *slots, const struct tt_invitation *invitation,
			     const struct tt_settings *settings, struct tutti_comm **out,
			     bool *late)
{
	struct tt_report mine = { 0 };
	struct tt_records records = { 0 };
	size_t length = 0;
	tutti_result_t opened =
		tt_comm_new(settings, invitation->rank, invitation->size, invitation->id, out);

	if (!opened)
		opened = tt_bootstrap_open(*out, NULL, mine.bytes, &length);
	mine.length = (uint32_t)length;
	tt_report_fill(&mine, opened);
	tutti_result_t result = tt_join_slots_answer(slots, invitation, &mine);
	if (!result)
		result = opened ? opened
				: tt_join_slots_await(slots, invitation, &settings->key, &records);
	/* what follows is for whoever is there in its place */
	if ((opened || !result) && tt_join_slots_is_passed_over(slots, invitation)) {
		tt_log(INFO, COMM, "not taken in this time: the answer came too late");
		*late = true;
		result = TUTTI_IN_PROGRESS;
	}
	if (!result &&
	    slots->opened) /* the members go on only when this rank, too, has joined: they cannot
			    * end before it told */
		tt_launch_report(slots->store, "joined");
	if (!result && join_with_members(*out, &records)) {
		tt_log(INFO, COMM, "not taken in this time: %s", tt_thread_error());
		result = TUTTI_IN_PROGRESS;
	}
	tt_records_free(&records);
	return result;
}

static tutti_result_t join_some(struct tt_join_slots *slots, const struct tt_settings *settings,
				uint64_t deadline, struct tutti_comm **out)
{
	tutti_result_t result;
	bool late = false;

	do {
		struct tt_invitation invitation;

		tutti_comm_destroy(*out);
		*out = NULL;
		result = tt_join_slots_apply(slots, deadline, &invitation);
		if (!result)
			result = follow(slots, &invitation, settings, out, &late);
	} while (result == TUTTI_IN_PROGRESS);
	if (result == TUTTI_ERR_TIMEOUT && late)
		return tt_fail(
			TUTTI_ERR_TIMEOUT, COMM,
			"this newcomer was invited and did not answer within %g s, so another may have its place; none "
			"was free after that by the deadline of %g s: was the process stopped?",
			PATIENCE_NS / 1e9, (double)settings->timeout_ns / 1e9);
	return result;
}

TUTTI_API tutti_result_t tutti_comm_join(tutti_store_t store, const tutti_config_t *config,
					 tutti_comm_t *comm)
{
	struct tt_settings settings;
	struct tt_join_slots slots;

	if (!comm)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_join: comm is NULL");
	*comm = NULL;
	tutti_result_t result = tt_settings_read(config, &settings);
	if (!result)
		result = tt_key_check(&settings.key);
	if (result) {
		tt_key_wipe(&settings.key);
		return result;
	}
	const uint64_t deadline = tt_now() + settings.timeout_ns;
	result = tt_join_slots_open(store, &settings.key, deadline, "tutti_comm_join", &slots);
	if (!result && slots.opened)
		tt_launch_report(slots.store, "waits");
	if (!result)
		result = join_some(&slots, &settings, deadline, comm);
	if (result) {
		tutti_comm_destroy(*comm);
		*comm = NULL;
	} else {
		tt_log(INFO, COMM, "joined as rank %d of %d", (*comm)->rank, (*comm)->size);
	}
	tt_join_slots_close(&slots);
	tt_key_wipe(&settings.key);
	return result;
}
