/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what may be said of a run by comparing what its ranks were told. */
#include <stdlib.h>
#include <string.h>

#include "registry.h"
#include "told.h"

/* What the rank was told of a communicator it has made; NULL: it has not. */
static const struct told *life_of(const struct participant *rank, uint64_t id)
{
	for (int i = 0; i < rank->ntold; i++)
		if (rank->told[i].made && rank->told[i].id == id)
			return &rank->told[i];
	return NULL;
}

/* Of its end; NULL: nothing. */
static const struct told *told_of(const struct participant *rank, uint64_t id)
{
	const struct told *told = life_of(rank, id);

	return told && told->result ? told : NULL;
}

/* Where nothing may have failed, nothing has. */
static void judge_gentle(const struct plan *plan, struct outcome *out)
{
	for (int rank = 0; rank < plan_processes(plan); rank++)
		for (int i = 0; i < out->ranks[rank].ntold; i++)
			if (out->ranks[rank].told[i].result)
				blame("rank %d was told without cause: %s", rank,
				      out->ranks[rank].told[i].error_text);
}

/* All who were told of an end of a communicator were told the same. What the dead heard last
 * does not matter. */
static void judge_agreement(const struct plan *plan, struct outcome *out, int one,
			    const struct told *told)
{
	for (int rank = one + 1; rank < plan_processes(plan); rank++) {
		const struct told *other = told_of(&out->ranks[rank], told->id);

		if (other && !out->ranks[rank].died &&
		    (told->result != other->result || told->culprit != other->culprit ||
		     strcmp(told->error_text, other->error_text) != 0))
			blame("ranks disagree: rank %d was told \"%s\", rank %d \"%s\"", one,
			      told->error_text, rank, other->error_text);
	}
}

/* Does the list, like "0, 2-4", have the rank in it? */
static bool lists(const char *list, int rank)
{
	char *end = (char *)list;

	do {
		const long first = strtol(list, &end, 10);
		const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		if (rank >= first && rank <= last)
			return true;
		list = end + 2;
	} while (end[0] == ',' && end[1] == ' ' && end[2] >= '0' && end[2] <= '9');
	return false;
}

static bool names(const struct told *told, int rank)
{
	for (const char *at = told->error_text; (at = strstr(at, "rank"));) {
		at += at[4] == 's' ? 5 : 4;
		if (at[0] == ' ' && at[1] >= '0' && at[1] <= '9' && lists(at + 1, rank))
			return true;
	}
	return false;
}

static bool has_message(const struct step *step)
{
	for (int i = 0; i < step->nparts; i++)
		if (step->parts[i].what == MESSAGE)
			return true;
	return false;
}

static bool splits(const struct plan *plan)
{
	for (int step = 0; step < plan->nsteps; step++)
		if (plan->steps[step].kind == STEP_SPLIT)
			return true;
	return false;
}

static bool sends(const struct plan *plan)
{
	for (int step = 0; step < plan->nsteps; step++)
		if (has_message(&plan->steps[step]))
			return true;
	return false;
}

/* Through shared memory each rank sees how far all are. */
static bool passes_messages(const struct plan *plan)
{
	if (plan->algorithm && !tt_algorithm_by_name(plan->algorithm)->shared)
		return true;
	for (int rank = 1; rank < plan->ranks; rank++)
		if (plan->host[rank] != plan->host[0])
			return true;
	return false;
}

/* Who waits for a message, also in a collective, knows its sender alone, which may wait for the
 * stopped rank itself; and of several that have not called, any may be the last of a chain. Where
 * news travel, who is blamed says for whom it waits before the ranks agree. Otherwise the first fault
 * counts at once: the ranks of one host do so, which see that a process is stopped, but no rank of
 * this machine sees that. Who waits for it in a communicator that was split off says so nowhere else. */
static bool may_blame_another(const struct plan *plan, const struct fault *stop,
			      const struct told *told)
{
	if (splits(plan) && names(told, stop->rank))
		return true;
	return !strstr(plan->links, ",news=") &&
	       (strstr(told->error_text, "'s message ") ||
		(passes_messages(plan) && strstr(told->error_text, "all ranks have called it")) ||
		((passes_messages(plan) || sends(plan)) && names(told, stop->rank)));
}

/* May this fault, if it is the only one, have ended the job's communicator so? */
static bool explains(const struct plan *plan, const struct outcome *out, const struct fault *fault,
		     const struct told *told)
{
	switch (fault->kind) {
	case FAULT_DEATH:
	case FAULT_MEMBER:
	case FAULT_LEAVE:
		return told->result == TUTTI_ERR_PEER_LOST && told->culprit == fault->rank;
	case FAULT_ABORT: return told->result == TUTTI_ERR_ABORTED && told->culprit == fault->rank;
	case FAULT_SKIP:
	case FAULT_OTHER:
		/* it may also want something of a rank that has all it needs, and has left; or a
		 * rank waits for its message, and the others for that rank */
		return names(told, fault->rank) ||
		       (told->result == TUTTI_ERR_PEER_LOST && told->culprit >= 0 &&
			!out->ranks[told->culprit].told[0].result) ||
		       (told->result == TUTTI_ERR_TIMEOUT &&
			has_message(&plan->steps[fault->step]));
	case FAULT_CUT:
	case FAULT_REFUSE:
		return told->result == TUTTI_ERR_PEER_LOST &&
		       (names(told, fault->rank) || names(told, fault->other));
	case FAULT_HURRY: return told->result == TUTTI_ERR_TIMEOUT;
	case FAULT_STOP: /* only a long one is told; what else goes on meanwhile takes time, too */
		return told->result == TUTTI_ERR_TIMEOUT &&
		       /* who waits for a newcomer knows only the rank that invites it */
		       (told->culprit == fault->rank || fault->rank >= plan->ranks ||
			may_blame_another(plan, fault, told)) &&
		       (double)fault->ns / 1e9 + plan->needs_s >= plan_shortest_s(plan);
	case FAULT_JUMP: /* time in which no rank runs does not count */
	case FAULT_PAUSE: return told->result == TUTTI_ERR_TIMEOUT && out->while_joining;
	case FAULT_MEMORY: /* or a rank has left as it had none for what it needed to call */
		return told->result == TUTTI_ERR_NO_MEMORY ||
		       (told->result == TUTTI_ERR_PEER_LOST && told->culprit >= 0 &&
			out->ranks[told->culprit].told[0].left);
	default: return false;
	}
}

static void judge_cause(const struct plan *plan, struct outcome *out)
{
	for (int rank = 0; rank < plan->ranks; rank++)
		if (!out->ranks[rank].told[0].made)
			return;
	for (int rank = 0; rank < plan->ranks && plan->nfaults == 1; rank++) {
		const struct told *told = &out->ranks[rank].told[0];

		if (told->result && !out->ranks[rank].died &&
		    !explains(plan, out, &plan->faults[0], told))
			blame("rank %d was told, about rank %d: \"%s\" (%s), which is not what happened",
			      rank, told->culprit, told->error_text, tutti_strerror(told->result));
	}
}

/* ---- going on */

/* Two whose link is cut may each take the other for dead. */
static bool links_are_lost(const struct plan *plan)
{
	return plan_has(plan, FAULT_CUT) || plan_has(plan, FAULT_REFUSE);
}

/* Nobody waits for one that came too late, and nobody for one that has no memory to agree with
 * the others. */
static bool fell_out(const struct told *told)
{
	return told->shrink_result == TUTTI_ERR_TIMEOUT ||
	       told->shrink_result == TUTTI_ERR_NO_MEMORY;
}

/* Those who wait for one that is stopped go on without it when their deadlines have passed. */
static void judge_stop(const struct plan *plan, struct outcome *out, int one,
		       const struct told *told)
{
	if (plan->nfaults == 1 && plan->faults[0].kind == FAULT_STOP && told->shrunk &&
	    told->shrink_result && one != plan->faults[0].rank)
		blame("rank %d does not go on without rank %d, which was stopped: %s", one,
		      plan->faults[0].rank, tutti_strerror(told->shrink_result));
}

/* All survivors of a communicator went on together: with the same new one, or with none. */
static void judge_survivors(const struct plan *plan, struct outcome *out, int one,
			    const struct told *told)
{
	for (int rank = 0; rank < plan_processes(plan) && !links_are_lost(plan); rank++) {
		const struct told *other = told_of(&out->ranks[rank], told->id);

		if (other && !out->ranks[rank].died && other->shrunk && !fell_out(other) &&
		    (other->shrink_result != told->shrink_result ||
		     other->shrunk_to != told->shrunk_to))
			blame("survivors part: comm_shrink gave \"%s\" on rank %d, \"%s\" on rank %d",
			      tutti_strerror(told->shrink_result), one,
			      tutti_strerror(other->shrink_result), rank);
	}
}

/* The members of the new communicator are in their old order, and all of them have it. */
static void judge_members(const struct plan *plan, struct outcome *out, int one,
			  const struct told *told)
{
	const struct told *mine = life_of(&out->ranks[one], told->shrunk_to);
	int members = 0;

	for (int rank = 0; rank < plan_processes(plan); rank++) {
		const struct told *other = life_of(&out->ranks[rank], told->shrunk_to);
		const struct told *before = life_of(&out->ranks[rank], told->id);

		members += other || out->ranks[rank].died;
		if (other && (!before || mine->size != other->size ||
			      (mine->place < other->place) != (told->place < before->place) ||
			      (mine->place == other->place) != (one == rank)))
			blame("rank %d is %d of %d, rank %d is %d of %d", one, mine->place,
			      mine->size, rank, other->place, other->size);
	}
	/* two whose link is cut take each other for dead, and one without memory is as good as
	 * dead: one of them may have heard the decision before */
	if (members < mine->size && !links_are_lost(plan) && !plan_has(plan, FAULT_MEMORY))
		blame("rank %d is one of %d, but only %d know of it", one, mine->size, members);
}

/* Who has no memory to agree with the others goes on with neither communicator. Where the old one has
 * failed before, that is what it is told. */
static bool lacks_memory(const struct told *told)
{
	return told->lacked_memory && !told->shrunk_to &&
	       (told->grow_result == TUTTI_ERR_NO_MEMORY || (told->grow_result && told->result));
}

/* What they are told may differ where the old one has failed, too, and where links are lost: to one
 * rank another is gone, to the next it is late. */
static bool grew_apart(const struct plan *plan, const struct told *one, const struct told *other)
{
	const bool same = !one->result && !other->result && !links_are_lost(plan);

	if (lacks_memory(one) || lacks_memory(other))
		return false;
	return one->grown_to != other->grown_to || (same && one->grow_result != other->grow_result);
}

/* Members of a communicator that grows all have the larger one, or none has. */
static void judge_growth(const struct plan *plan, struct outcome *out, int one,
			 const struct told *told)
{
	for (int rank = 0; rank < plan_processes(plan); rank++) {
		const struct told *other = life_of(&out->ranks[rank], told->id);

		if (other && other->grown && !out->ranks[rank].died &&
		    grew_apart(plan, told, other))
			blame("members part: comm_grow gave \"%s\" on rank %d, \"%s\" on rank %d",
			      tutti_strerror(told->grow_result), one,
			      tutti_strerror(other->grow_result), rank);
		const struct told *larger = life_of(&out->ranks[rank], told->grown_to);
		if (told->grow_result == TUTTI_OK && larger &&
		    (larger->size != told->size + plan->newcomers ||
		     (rank == one && larger->place != told->place)))
			blame("rank %d was %d of %d, and rank %d is %d of %d with %d newcomers",
			      one, told->place, told->size, rank, larger->place, larger->size,
			      plan->newcomers);
	}
	if (plan->gentle && told->grow_result)
		blame("comm_grow failed without cause on rank %d: %s", one,
		      tutti_strerror(told->grow_result));
}

static void judge_told(const struct plan *plan, struct outcome *out, int rank,
		       const struct told *told)
{
	if (told->made && told->result)
		judge_agreement(plan, out, rank, told);
	judge_stop(plan, out, rank, told);
	if (told->shrunk && !fell_out(told))
		judge_survivors(plan, out, rank, told);
	if (told->shrunk && told->shrink_result == TUTTI_OK)
		judge_members(plan, out, rank, told);
	if (told->grown)
		judge_growth(plan, out, rank, told);
}

void world_judge(const struct plan *plan, struct outcome *out)
{
	if (plan->gentle)
		judge_gentle(plan, out);
	judge_cause(plan, out);
	for (int rank = 0; rank < plan_processes(plan); rank++)
		for (int i = 0; !out->ranks[rank].died && i < out->ranks[rank].ntold; i++)
			judge_told(plan, out, rank, &out->ranks[rank].told[i]);
}
