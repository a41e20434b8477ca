/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns deadlines: when an operation's has passed, and what becomes of it then. All ranks that wait
 * reach theirs, and whom each would blame (blame.c) may differ by what it has heard; fault.c says
 * which of the faults counts for all.
 *
 * Ranks may wait in a chain, each for the next, and the last for none: that one is to blame. Who
 * finds a deadline missed knows one link alone. So a rank that is blamed while it waits itself, or
 * its collective does, says for whom, and so on to the end, before the ranks agree. Where all share
 * one arena the first fault is agreed at once; there a stopped process can be seen by all, and is
 * blamed whoever waits for it. */
#include "deadline.h"

#include "blame.h"
#include "progress_state.h"

#define CHAIN_MOST                                                                                 \
	8 /* who is blamed is asked so often: each time takes a while to reach all ranks */

static void miss(const struct tt_op *op, uint64_t now)
{
	const struct tt_fault fault = tt_blame(op, now);

	tt_comm_revoke(op->comm, &fault);
}

/* ---- chains */

/* Is it said that others wait for this rank? */
static bool is_blamed(const struct tutti_comm *comm)
{
	const struct tt_fault *fault = &comm->fault;

	return fault->result == TUTTI_ERR_TIMEOUT && fault->rank == comm->rank &&
	       fault->chain > 0 && fault->chain < CHAIN_MOST && !comm->progress->objected;
}

/* Has it waited for half of its deadline, and this process not been stopped meanwhile? Otherwise this
 * rank may well be the late one. */
static bool waits_for_long(const struct tt_op *op, uint64_t now)
{
	const uint64_t resumed = op->comm->progress->resumed_at,
		       since = resumed > op->started ? resumed : op->started;

	return op->started && now - since >= tt_op_timeout_ns(op) / 2;
}

/* The operation that would miss its deadline next, if it waits for long. While no thread waits, a
 * message may rightly take long, and a collective counts that comes before the one which others miss. */
static const struct tt_op *longest_wait(const struct tutti_comm *comm, uint64_t now)
{
	const struct tt_op *found = NULL;

	for (const struct tt_op *op = comm->first; op; op = op->next)
		if (waits_for_long(op, now) &&
		    (comm->waiters > 0 ||
		     (tt_op_is_collective(op) && op->header.seq <= comm->fault.seq)) &&
		    (!found ||
		     op->started + tt_op_timeout_ns(op) < found->started + tt_op_timeout_ns(found)))
			found = op;
	return found;
}

static void object(struct tutti_comm *comm, uint64_t now)
{
	const struct tt_op *op = longest_wait(comm, now);
	struct tt_fault fault;

	if (!op)
		return;
	fault = tt_blame(op, now);
	if (fault.rank < 0 || fault.rank == comm->rank)
		return;
	if (fault.chain != TT_CHAIN_STOPPED)
		fault.chain = comm->fault.chain + 1;
	comm->progress->objected = true;
	tt_comm_improve(comm, &fault);
}

/* ---- */

void tt_deadlines_check(struct tutti_comm *comm, uint64_t now)
{
	const uint64_t uncounted = tt_uncounted(comm->progress->checked_at, now, TT_LOOK_NS);

	comm->progress->checked_at = now;
	if (uncounted)
		comm->progress->resumed_at = now;
	comm->progress->next_deadline = UINT64_MAX;
	for (struct tt_op *op = comm->first; op && !comm->fault.result; op = op->next) {
		op->started = op->started ? op->started + uncounted : now;
		const uint64_t deadline = op->started + tt_op_timeout_ns(op);

		if (now >= deadline)
			miss(op, now);
		else if (deadline < comm->progress->next_deadline)
			comm->progress->next_deadline = deadline;
	}
	if (is_blamed(comm))
		object(comm, now);
}

int tt_deadlines_sleep_ms(const struct tutti_comm *comm, uint64_t now, int most_ms)
{
	const uint64_t next = comm->fault.result ? tt_comm_settles_at(comm)
						 : comm->progress->next_deadline,
		       left = next > now ? next - now : 0;

	return left / 1000000 < (uint64_t)most_ms ? (int)(left / 1000000) + 1 : most_ms;
}
