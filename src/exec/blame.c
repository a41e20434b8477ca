/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns whose fault it is that an operation has not ended, and the error message that says who has
 * called it and who has not.
 *
 * The control area, or else notes (notes.c), say which ranks have called. Of ranks whose processes this
 * one can see the kernel says whether they are stopped. */
#include "blame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control_area.h"
#include "inbox.h"
#include "names.h"
#include "notes.h"
#include "process.h"
#include "text_append.h"

/* ---- error messages */

/* What is known of the ranks of a communicator; in which group of them each is. */
enum group { CALLED, ALIVE, STOPPED, GROUPS };

static int count(const enum group *of, int size, enum group which)
{
	int n = 0;

	for (int rank = 0; rank < size; rank++)
		n += of[rank] == which;
	return n;
}

static int first(const enum group *of, int size, enum group which)
{
	int rank = 0;

	while (rank < size && of[rank] != which)
		rank++;
	return rank;
}

#define LIST_BYTES 72 /* of the error message, for one list of ranks */

/* "rank 3", "ranks 0-3, 5"; where the list gets too long, how many more there are. */
static void append_ranks(struct tt_text *text, const enum group *of, int size, enum group which)
{
	const char *begin = text->at;
	int left = count(of, size, which);
	const char *before = left == 1 ? "rank " : "ranks ";

	for (int rank = 0; rank < size && left > 0; rank++) {
		int last = rank;

		if (of[rank] != which)
			continue;
		if (text->at - begin > LIST_BYTES - 24) {
			tt_text_append(text, " and %d more", left);
			return;
		}
		while (last + 1 < size && of[last + 1] == which)
			last++;
		if (last == rank)
			tt_text_append(text, "%s%d", before, rank);
		else
			tt_text_append(text, last == rank + 1 ? "%s%d, %d" : "%s%d-%d", before,
				       rank, last);
		left -= last - rank + 1;
		before = ", ";
		rank = last;
	}
}

/* ---- who has called, and who runs */

/* The last collective that `rank` is known to have called; what the control area says is exact. */
static uint64_t last_called(const struct tutti_comm *comm, int rank)
{
	if (rank == comm->rank)
		return comm->next_seq - 1;
	return comm->control_area.base ? tt_area_last_called(&comm->control_area, rank)
				       : tt_notes_last_called(comm, rank);
}

/* Is the process stopped, by a signal or a debugger? False where it cannot be seen. */
static bool is_stopped(const struct tutti_comm *comm, int rank)
{
	/* who is alone has no peers */
	const int32_t pid = rank == comm->rank ? 0 : comm->routes.peers[0][rank].pid;

	return pid > 0 && tt_process_is_stopped(pid);
}

static enum group missing_state(const struct tutti_comm *comm, int rank)
{
	return is_stopped(comm, rank) ? STOPPED : ALIVE;
}

/* Does one of the operation's messages wait for `rank`? */
static bool waits_for_message(const struct tt_op *op, int rank)
{
	for (uint32_t i = 0; i < op->ncursors; i++)
		if (op->cursors[i].connection && op->cursors[i].connection->link->peer == rank)
			return true;
	return false;
}

/* Through shared memory a rank that has ended a step waits for those that have not. `even`: for
 * those that are as far as this rank, too, as where it waits for their staging areas. */
static bool waits_for(const struct tt_op *op, int rank, bool even)
{
	const struct tutti_comm *comm = op->comm;
	const uint64_t seq = op->header.seq;

	if (rank == comm->rank)
		return false;
	if (op->kind != TT_OP_SHARED)
		return waits_for_message(op, rank);
	return tt_area_progress(&comm->control_area, rank, seq) <
	       tt_area_progress(&comm->control_area, comm->rank, seq) + even;
}

/* Which are awaited, and which are stopped: all others count as CALLED. Is there any? */
static bool find_awaited(const struct tt_op *op, enum group *of, bool even)
{
	const struct tutti_comm *comm = op->comm;
	const int *host = comm->topology.host;
	bool found = false;

	for (int rank = 0; rank < comm->size; rank++) {
		if (waits_for(op, rank, even))
			of[rank] = missing_state(comm, rank);
		else /* the process ids of other hosts mean others here */
			of[rank] = host[rank] == host[comm->rank] && is_stopped(comm, rank)
					   ? STOPPED
					   : CALLED;
		found = found || of[rank] != CALLED;
	}
	return found;
}

/* ---- the error message about a collective */

static void append_last(struct tt_text *text, const struct tutti_comm *comm, int rank)
{
	const uint64_t last = last_called(comm, rank);
	const bool exact = comm->control_area.base != NULL;

	if (last > 0)
		tt_text_append(text,
			       exact ? " (its last was operation %" PRIu64 ")"
				     : " (last heard of in operation %" PRIu64 ")",
			       last);
	else if (exact)
		tt_text_append(text, " (nor any before)");
}

static void append_missing(struct tt_text *text, const struct tt_op *op, const enum group *of,
			   enum group which, const char *state)
{
	const int size = op->comm->size, n = count(of, size, which);

	if (n == 0)
		return;
	tt_text_append(text, ", ");
	append_ranks(text, of, size, which);
	tt_text_append(text, " %s %s %s not called operation %" PRIu64, n == 1 ? "is" : "are",
		       state, n == 1 ? "has" : "have", op->header.seq);
	if (n == 1)
		append_last(text, op->comm, first(of, size, which));
}

/* Of two that have not called, is `a` rather to blame? A stopped one is; else the one that is
 * further behind, also within an operation, as the other may wait for it. */
static bool is_worse(const struct tutti_comm *comm, const enum group *of, int a, int b)
{
	const uint64_t last_a = last_called(comm, a), last_b = last_called(comm, b);
	const struct tt_area *control_area = &comm->control_area;

	if (of[a] != of[b])
		return of[a] == STOPPED;
	if (last_a != last_b || !control_area->base)
		return last_a < last_b;
	return tt_area_progress(control_area, a, last_a) <
	       tt_area_progress(control_area, b, last_a);
}

/* Gives who is to blame of those that have not called, -1 if all have. */
static int append_who_called(struct tt_text *text, const struct tt_op *op, enum group *of)
{
	const struct tutti_comm *comm = op->comm;
	int missing = -1;

	for (int rank = 0; rank < comm->size; rank++) {
		const bool called = last_called(comm, rank) >= op->header.seq;

		of[rank] = called ? CALLED : missing_state(comm, rank);
		if (!called && (missing < 0 || is_worse(comm, of, rank, missing)))
			missing = rank;
	}
	if (missing < 0)
		return -1;
	append_ranks(text, of, comm->size, CALLED);
	tt_text_append(text, " %s called it", count(of, comm->size, CALLED) == 1 ? "has" : "have");
	append_missing(text, op, of, STOPPED, "stopped (state T) and");
	append_missing(text, op, of, ALIVE, "alive but");
	return missing;
}

static void append_awaited(struct tt_text *text, const struct tt_op *op, const enum group *of,
			   enum group which, const char *state, const char *before)
{
	const int size = op->comm->size;

	if (count(of, size, which) == 0)
		return;
	tt_text_append(text, "%s", before);
	append_ranks(text, of, size, which);
	tt_text_append(text, "%s", state);
}

/* Of those that this rank waits for, the one that has ended the fewest steps, or whose message is the
 * earliest in the wavefront (links.c): all that this depends on is earlier, so the others may wait for
 * that rank, too. */
static int first_awaited(const struct tt_op *op, const enum group *of)
{
	const struct tutti_comm *comm = op->comm;
	int found = first(of, comm->size, ALIVE);
	uint64_t earliest = UINT64_MAX;

	for (int rank = 0; rank < comm->size && op->kind == TT_OP_SHARED; rank++) {
		const uint64_t progress =
			tt_area_progress(&comm->control_area, rank, op->header.seq);

		if (of[rank] == ALIVE && progress < earliest) {
			earliest = progress;
			found = rank;
		}
	}
	for (uint32_t i = 0; i < op->ncursors && op->kind != TT_OP_SHARED; i++) {
		const struct tt_cursor *cursor = &op->cursors[i];
		const uint64_t place = (uint64_t)cursor->time << 32 | cursor->segment;

		if (cursor->connection && of[cursor->connection->link->peer] == ALIVE &&
		    place < earliest) {
			earliest = place;
			found = cursor->connection->link->peer;
		}
	}
	return found;
}

/* All have called. Gives whom this rank waits for, a stopped one before others; -1: nobody. A
 * stopped one is waited for in any case, if not by this rank, then by those that it waits for. */
static int append_who_is_awaited(struct tt_text *text, const struct tt_op *op, enum group *of)
{
	const struct tutti_comm *comm = op->comm;

	if (!find_awaited(op, of, false))
		find_awaited(op, of, true);
	const int stopped = count(of, comm->size, STOPPED), alive = count(of, comm->size, ALIVE);

	tt_text_append(text, "all ranks have called it, and rank %d waits for ", comm->rank);
	append_awaited(text, op, of, STOPPED,
		       stopped == 1 ? ", which is stopped (state T)"
				    : ", which are stopped (state T)",
		       "");
	append_awaited(text, op, of, ALIVE, "", stopped ? ", and for " : "");
	if (stopped + alive == 0)
		tt_text_append(text, "only for its peers to acknowledge completion");
	if (stopped)
		return first(of, comm->size, STOPPED);
	return alive ? first_awaited(op, of) : -1;
}

/* ---- the error message about a message */

/* What the peer of a send sends here itself, where no receive takes it. Bytes, 0: nothing. */
static size_t sent_by_peer(const struct tt_cursor *cursor)
{
	struct tt_op_header theirs;
	const void *data;
	size_t bytes;

	if (cursor->connection->head[0] || cursor->connection->aside ||
	    tt_link_peek_header(cursor->connection->link, 0, &theirs, &data) <= 0)
		return 0;
	if (theirs.magic != TT_OP_HEADER_MAGIC || theirs.collective != TT_SEND_RECV ||
	    __builtin_mul_overflow(theirs.count, tutti_dtype_size((tutti_dtype_t)theirs.dtype),
				   &bytes))
		return 0;
	return bytes;
}

/* A link holds as much in one direction as in the other: what is longer than all that it took here
 * cannot have been sent completely, and its sender waits, too. */
static void append_send_of_peer(struct tt_text *text, const struct tt_op *op, int peer,
				size_t theirs)
{
	const int rank = op->comm->rank;

	if (theirs > op->cursors[0].at)
		tt_text_append(
			text,
			", and sends %zu bytes to rank %d itself: both ranks wait in sends; one must "
			"receive first, or each must call "
			"both in a group (tutti_group_begin)",
			theirs, rank);
	else
		tt_text_append(
			text,
			", and has sent %zu bytes to rank %d, which has not called the receive: has "
			"rank %d called its receive?",
			theirs, rank, peer);
}

static void append_message(struct tt_text *text, const struct tt_op *op, int peer)
{
	const struct tt_cursor *cursor = &op->cursors[0];
	const char *state = is_stopped(op->comm, peer) ? "stopped (state T)" : "alive";
	const size_t theirs = cursor->sending ? sent_by_peer(cursor) : 0;

	if (theirs) {
		tt_text_append(text, "rank %d is %s, took %zu of %zu bytes", peer, state,
			       cursor->at, op->length);
		append_send_of_peer(text, op, peer, theirs);
	} else if (cursor->sending)
		tt_text_append(
			text, "rank %d is %s but took %zu of %zu bytes: has it called the receive?",
			peer, state, cursor->at, op->length);
	else if (tt_cursor_has_header(cursor))
		tt_text_append(
			text,
			"rank %d is %s and has called the send, but %zu of %zu bytes have come",
			peer, state, cursor->at, op->length);
	else if (tt_inbox_is_behind(cursor))
		tt_text_append(
			text,
			"it comes after an earlier message of rank %d, which is %s but has not sent that",
			peer, state);
	else
		tt_text_append(text, "rank %d is %s but has not called the send", peer, state);
}

/* ---- an operation */

/* What it says of a receive from any peer that has no message. */
static void append_any(struct tt_text *text, const struct tt_op *op)
{
	tt_text_append(text, "no rank has called a send to rank %d with tag %llu", op->comm->rank,
		       (unsigned long long)op->header.detail);
}

/* Has missed its deadline, or, as somebody blames this rank, has not yet. */
static void append_wait(struct tt_text *text, const struct tt_op *op, uint64_t now)
{
	const uint64_t timeout = tt_op_timeout_ns(op);

	if (now >= op->started + timeout)
		tt_text_append(text, " missed its deadline of %g s: ", (double)timeout / 1e9);
	else
		tt_text_append(text, " has waited %.3g s, and others for rank %d: ",
			       (double)(now - op->started) / 1e9, op->comm->rank);
}

static void append_operation(struct tt_text *text, const struct tt_op *op, int peer)
{
	char call[TT_CALL_BYTES];

	tt_op_header_describe(&op->header, call, sizeof(call));
	if (op->kind == TT_OP_MESSAGE && peer < 0)
		tt_text_append(text, "rank %d's receive from any rank, %s", op->comm->rank, call);
	else if (peer < 0)
		tt_text_append(text, "operation %" PRIu64 ", %s", op->header.seq, call);
	else if (op->cursors[0].sending)
		tt_text_append(text, "rank %d's message %" PRIu64 " to rank %d, %s", op->comm->rank,
			       op->header.seq, peer, call);
	else
		tt_text_append(text, "rank %d's message %" PRIu64 " from rank %d, %s",
			       op->comm->rank, op->header.seq, peer, call);
	tt_text_append(text, ",");
}

/* These give whom the operation waits for, -1: for nobody that is known. */

static int append_one_sided(struct tt_text *text, const struct tt_op *op, uint64_t now)
{
	const struct tutti_comm *comm = op->comm;

	comm->one_sided->describe(text, op);
	append_wait(text, op, now);
	const int peer = comm->one_sided->explain(text, op);

	if (peer >= 0 && peer != comm->rank)
		tt_text_append(text, "; rank %d is %s", peer,
			       is_stopped(comm, peer) ? "stopped (state T)" : "alive");
	return peer;
}

static int append_one_message(struct tt_text *text, const struct tt_op *op, uint64_t now)
{
	const int peer = tt_message_peer(op);

	append_operation(text, op, peer);
	append_wait(text, op, now);
	if (peer >= 0)
		append_message(text, op, peer);
	else
		append_any(text, op);
	return peer;
}

static int append_collective(struct tt_text *text, const struct tt_op *op, uint64_t now)
{
	enum group *of = malloc((size_t)op->comm->size * sizeof(*of));
	int missing = -1;

	append_operation(text, op, -1);
	append_wait(text, op, now);
	if (of)
		missing = append_who_called(text, op, of);
	else
		tt_text_append(text, "no memory for the list of ranks that have called it");
	if (of && missing < 0)
		missing = append_who_is_awaited(text, op, of);
	free(of);
	return missing;
}

/* Whoever waits for a peer that runs may wait for a stopped rank by way of that peer. */
static int append_stopped(struct tt_text *text, const struct tutti_comm *comm, int peer)
{
	if (peer >= 0 && is_stopped(comm, peer))
		return peer;
	for (int rank = 0; rank < comm->size; rank++)
		if (is_stopped(comm, rank)) {
			tt_text_append(text, "; rank %d is stopped (state T)", rank);
			return rank;
		}
	return peer;
}

struct tt_fault tt_blame(const struct tt_op *op, uint64_t now)
{
	struct tt_fault fault = { .result = TUTTI_ERR_TIMEOUT };
	struct tt_text text = { fault.text, sizeof(fault.text) };

	if (tt_op_is_collective(op)) {
		fault.seq = op->header.seq;
		fault.rank = append_collective(&text, op, now);
	} else {
		fault.rank = op->kind == TT_OP_MESSAGE ? append_one_message(&text, op, now)
						       : append_one_sided(&text, op, now);
		fault.rank = append_stopped(&text, op->comm, fault.rank);
	}
	if (!op->timeout_ns)
		tt_text_append(&text, "; TUTTI_TIMEOUT sets the deadline");
	fault.chain = fault.rank >= 0 && is_stopped(op->comm, fault.rank) ? TT_CHAIN_STOPPED : 1;
	return fault;
}
