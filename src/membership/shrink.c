/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns tutti_comm_shrink. The survivors agree three times over the control channel of the old
 * communicator (consensus.c): on who is there, on what bootstrapping must know of
 * each, and on whether all have joined. Each agreement gives the same members on all; where one
 * of them went missing since the one before, they begin again with those who are left. */
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "consensus.h"
#include "fault.h"
#include "group.h"
#include "launch.h"
#include "log.h"
#include "report.h"

/* Of two ranks that fail to join, one may know at once and the other when half the deadline has
 * passed and it has told the rest: that must not make it late for the next agreement. */
#define DECLINE_NS 3000000000
/* A rank that says that it has joined, and dies before the others have, is a member of the last
 * agreement: they begin again, all as often. Not for ever: a network may lose the same
 * connection each time. */
#define LOSSES_MAX 4

static_assert(sizeof(struct tt_report) <= TT_AGREE_SAID_MAX, "a report can be said");

struct shrinking {
	struct tutti_comm *old, *new;
	struct tt_join_hooks hooks; /* of the new one, while it is made */
	bool *among;		    /* [old size]: who is left, as far as agreed … */
	int count;		    /* … and how many */
	uint64_t id;		    /* for the new one, if this rank turns out to be the lowest */
	int losses;		    /* attempts that failed as a rank was lost */
	bool agreed; /* once: a rank that now fails by itself has left the others in the middle */
};

/* ---- agreements */

/* Agree, and give the members; TUTTI_IN_PROGRESS: fewer than before, begin again. */
static tutti_result_t agree(struct shrinking *s, uint64_t coming_ns, const void *said,
			    size_t length, struct tt_agree **out)
{
	const int before = s->count;
	const tutti_result_t result =
		tt_consensus_agree(s->old, s->among, coming_ns, said, length, out);

	if (result && s->agreed)
		tt_consensus_quit(s->old);
	if (result)
		return result;
	s->agreed = true;
	memset(s->among, 0, (size_t)s->old->size * sizeof(*s->among));
	s->count = tt_agree_count(*out);
	for (int i = 0; i < s->count; i++)
		s->among[tt_agree_member(*out, i).rank] = true;
	return s->count < before ? TUTTI_IN_PROGRESS : TUTTI_OK;
}

/* What the reports say, of those alone that explain, or of all. */
static tutti_result_t judge(const struct shrinking *s, const struct tt_agree *agreed,
			    bool explaining)
{
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < s->count && !result; i++) {
		const struct tt_agreed member = tt_agree_member(agreed, i);

		if (!explaining || tt_report_explains(member.said, member.length))
			result = tt_report_judge(member.said, member.length, member.rank,
						 "tutti_comm_shrink");
	}
	return result;
}

/* Agree on reports; if one of them is of a failure, that is the result on all. */
static tutti_result_t compare(struct shrinking *s, uint64_t coming_ns, const struct tt_report *mine,
			      struct tt_agree **out)
{
	tutti_result_t result = agree(s, coming_ns, mine, tt_report_size(mine), out);

	if (!result)
		result = judge(s, *out, true);
	return result ? result : judge(s, *out, false);
}

/* Of those who have told each other that they could not join: may the same ranks try again? At last the
 * result says that someone is lost: TUTTI_ERR_TIMEOUT is that of a rank without which the others
 * have gone on. */
static tutti_result_t try_again(struct shrinking *s, tutti_result_t result)
{
	if (result != TUTTI_ERR_PEER_LOST && result != TUTTI_ERR_TIMEOUT)
		return result;
	return s->losses++ < LOSSES_MAX ? TUTTI_IN_PROGRESS : TUTTI_ERR_PEER_LOST;
}

/* ---- steps */

static tutti_result_t aborts(void *context)
{
	const struct shrinking *s = context;

	return tt_consensus_misses(s->old, s->among)
		       ? tt_fail(TUTTI_ERR_PEER_LOST, COMM,
				 "one of the ranks that are to join is gone")
		       : TUTTI_OK;
}

/* Who is there? The lowest gives the new communicator its number. */
static tutti_result_t gather(struct shrinking *s)
{
	struct tt_agree *agreed = NULL;
	uint64_t id = ++s->id; /* another for each attempt */

	tutti_result_t result = agree(s, s->old->settings.timeout_ns, &id, sizeof(id), &agreed);
	if (result < 0)
		return result;
	const struct tt_agreed lowest = tt_agree_member(agreed, 0);
	int rank = 0;

	if (lowest.length != sizeof(id)) /* all have agreed on it, and fail likewise */
		result = tt_fail(
			TUTTI_ERR_UNSUPPORTED, COMM,
			"rank %d runs another version of tutti: all ranks must use the same one",
			lowest.rank);
	else
		memcpy(&id, lowest.said, sizeof(id));
	tt_agree_close(agreed);
	if (result < 0)
		return result;
	for (int before = 0; before < s->old->rank; before++)
		rank += s->among[before];
	if (tt_comm_new(&s->old->settings, rank, s->count, id, &s->new) ==
	    TUTTI_OK) { /* else meet() tells the others */
		s->hooks = (struct tt_join_hooks){ .should_abort = aborts, .context = s };
		s->new->joining.hooks = &s->hooks;
	}
	return TUTTI_OK;
}

static tutti_result_t take_records(const struct shrinking *s, const struct tt_agree *agreed,
				   struct tt_records *out)
{
	const tutti_result_t result =
		tt_records_make(s->count, (size_t)s->count * TT_RECORD_MAX, out);

	for (int i = 0; i < s->count && !result; i++) {
		const struct tt_agreed member = tt_agree_member(agreed, i);

		tt_records_add(out, member.said + TT_REPORT_HEAD, member.length - TT_REPORT_HEAD);
	}
	return result;
}

static tutti_result_t join(struct shrinking *s, const struct tt_agree *agreed)
{
	const uint64_t deadline = tt_now() + s->old->settings.timeout_ns / 2;
	struct tt_records records = { 0 };
	tutti_result_t result = take_records(s, agreed, &records);

	if (!result)
		result = tt_bootstrap_join(s->new, &records, deadline);
	tt_records_free(&records);
	return result;
}

/* Open, tell the others, join with them, and hear whether all have. A rank that failed takes
 * part all the same, so that nobody waits for it. */
static tutti_result_t meet(struct shrinking *s)
{
	const uint64_t timeout_ns = s->old->settings.timeout_ns;
	struct tt_report mine = { 0 };
	struct tt_agree *agreed = NULL;
	size_t length = 0;

	const tutti_result_t opened =
		s->new ? tt_bootstrap_open(s->new, s->old, mine.bytes, &length)
		       : TUTTI_ERR_NO_MEMORY;
	mine.length = (uint32_t)length;
	tt_report_fill(&mine, opened);
	tutti_result_t result = compare(s, timeout_ns, &mine, &agreed);
	if (!result) {
		const tutti_result_t joined = join(s, agreed);

		mine.length = 0;
		tt_report_fill(&mine, joined);
		tt_agree_close(agreed);
		agreed = NULL;
		result = compare(s, timeout_ns + DECLINE_NS, &mine, &agreed);
		if (agreed)
			result = try_again(s, result);
	}
	tt_agree_close(agreed);
	return result;
}

static tutti_result_t shrink(struct shrinking *s)
{
	tutti_result_t result = tt_random(&s->id, sizeof(s->id));

	if (result)
		return result;
	tt_consensus_begin(s->old);
	do {
		tutti_comm_destroy(s->new);
		s->new = NULL;
		result = gather(s);
		if (!result)
			result = meet(s);
	} while (result == TUTTI_IN_PROGRESS);
	return result;
}

/* Whoever is left out may be stopped or hang, and never end: its launcher must not wait for it. The
 * lowest of those who are left tells, while the launcher still waits for it. */
static void tell_launcher(const struct shrinking *s)
{
	const struct tutti_comm *old = s->old;
	int *pids, count = 0;

	if (s->new->rank != 0 || s->count == old->size || old->nendpoints == 0)
		return;
	pids = calloc((size_t)old->size, sizeof(*pids));
	for (int rank = 0; rank < old->size && pids; rank++) {
		const int pid = old->routes.peers[0][rank].pid;

		if (!s->among[rank] && pid > 0)
			pids[count++] = pid;
	}
	tt_launch_report_left_out(pids, count, &old->settings.key);
	free(pids);
}

TUTTI_API tutti_result_t tutti_comm_shrink(tutti_comm_t comm, tutti_comm_t *out)
{
	if (out)
		*out = NULL;
	const tutti_result_t refused = tt_group_refuse(comm, "tutti_comm_shrink");
	if (refused)
		return refused;
	if (!out)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_comm_shrink: out is NULL");
	struct shrinking s = { .old = comm, .count = comm->size };
	tutti_result_t result;

	s.among = malloc((size_t)comm->size * sizeof(*s.among));
	if (s.among) {
		memset(s.among, true, (size_t)comm->size * sizeof(*s.among));
		result = shrink(&s);
	} else {
		result = tt_fail(TUTTI_ERR_NO_MEMORY, COMM,
				 "tutti_comm_shrink: no memory for %d ranks", comm->size);
	}
	if (result) {
		tutti_comm_destroy(s.new);
	} else {
		s.new->joining.hooks = NULL;
		tell_launcher(&s);
		*out = s.new;
		tt_log(INFO, COMM, "rank %d of %d is rank %d of the %d that are left", comm->rank,
		       comm->size, s.new->rank, s.count);
	}
	free(s.among);
	return result;
}
