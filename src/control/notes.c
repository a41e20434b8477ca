/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what ranks tell each other when a wait gets long and no control area shows everybody's
 * calls: each sends its header to its control neighbours, who compare it with their own of the same
 * number and pass it on once.
 *
 * Ranks that differ may wait for each other without a message between them. But the control
 * graph is connected, so between a rank that made one call and a rank that made another lie two
 * neighbours that differ, and these find out. At a deadline, who has not been heard of has not
 * called. Who has left can tell nothing any more: it tells its neighbours when it leaves, and they
 * say it for it when a wait gets long. */
#include <stdlib.h>

#include "consensus.h"
#include "fault.h"
#include "mismatch.h"
#include "names.h"
#include "notes.h"

#define REPEAT_NS                                                                                  \
	100000000      /* a note may be lost, and a neighbour reach the operation only later; … */
#define DOUBLED_MOST 6 /* … but a peer that is stopped takes none in, and must not get too many */

#define HEADERS_KEPT 64

/* In `part` of a note that has no number of an operation. It is not passed on if its rank leaves: no
 * other waits yet, for all that is known. */
enum note { LEAVES, ASKS };

struct tt_gossip {
	struct tt_op_header headers[HEADERS_KEPT]; /* of this rank's last collectives */
	uint64_t told_seq;			   /* what the neighbours were told last … */
	uint32_t told_times;			   /* … how often before … */
	uint64_t tell_at;			   /* … and when to tell it again */
	uint64_t answered_seq; /* the last of its own operations that this rank told those who
				 * are ahead */
	uint64_t asked_seq;    /* the last of which somebody has asked who has ended it */
	uint64_t heard[];      /* [size]: the last collective that each rank is known to have
				 * called */
};

bool tt_notes_open(struct tutti_comm *comm)
{
	const size_t heard = (size_t)comm->size * sizeof(comm->gossip->heard[0]);

	comm->gossip = calloc(1, sizeof(*comm->gossip) + heard);
	return comm->gossip != NULL;
}

void tt_notes_free(struct tutti_comm *comm)
{
	free(comm->gossip);
	comm->gossip = NULL;
}

uint64_t tt_notes_last_called(const struct tutti_comm *comm, int rank)
{
	return comm->gossip->heard[rank];
}

void tt_notes_remember(struct tutti_comm *comm, const struct tt_op_header *header)
{
	comm->gossip->headers[header->seq % HEADERS_KEPT] = *header;
}

void tt_notes_heard(struct tutti_comm *comm, int rank, uint64_t seq)
{
	if (comm->gossip->heard[rank] < seq)
		comm->gossip->heard[rank] = seq;
}

const struct tt_op_header *tt_notes_counterpart(const struct tutti_comm *comm,
						const struct tt_op_header *mine,
						const struct tt_op_header *theirs)
{
	const struct tt_op_header *kept = &comm->gossip->headers[theirs->seq % HEADERS_KEPT];
	struct tt_op_header told = *theirs;

	if (theirs->seq == mine->seq)
		return mine;
	/* on a link it has the pair's count, which no other rank's header has */
	if (told.collective < TT_COLLECTIVE_COUNT &&
	    tt_collective_knows_own_counts((enum tt_collective)told.collective))
		told.count = 0;
	return kept->seq == told.seq && !tt_op_header_equal(kept, &told) ? kept : mine;
}

static void inform_all(struct tutti_comm *comm, const struct tt_op_header *header)
{
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->control->send(comm->endpoints[i], header);
}

/* Of a rank that has called `called`, and nothing else. */
static struct tt_op_header numberless(const struct tutti_comm *comm, enum note kind,
				      uint64_t called)
{
	return (struct tt_op_header){ .magic = TT_OP_HEADER_MAGIC,
				      .rank = comm->rank,
				      .part = (uint8_t)kind,
				      .called = called };
}

void tt_notes_leave(struct tutti_comm *comm)
{
	const struct tt_op_header note = numberless(comm, LEAVES, comm->next_seq - 1);

	if (comm->gossip && !comm->control_area.base && note.called > 0)
		inform_all(comm, &note);
}

/* Neighbours that have left were as far as `stalled`, for all that is known here. */
static void speak_for_those_who_left(struct tutti_comm *comm, const struct tt_op_header *stalled)
{
	struct tt_op_header note = *stalled;

	for (int rank = 0; rank < comm->size; rank++) {
		note.rank = rank;
		note.called = comm->gossip->heard[rank];
		if (rank != comm->rank && note.called >= stalled->seq &&
		    tt_comm_has_lost(comm, rank))
			inform_all(comm, &note);
	}
}

/* A peer waits in an operation that this rank has not called, or asks who has ended it: say which
 * one it called last. */
static void answer(struct tutti_comm *comm)
{
	const uint64_t last = comm->next_seq - 1;
	struct tt_op_header note = comm->gossip->headers[last % HEADERS_KEPT];

	if (comm->gossip->answered_seq == last)
		return;
	comm->gossip->answered_seq = note.called = last;
	inform_all(comm, &note);
}

/* Whoever waits for long asks once for each operation, and is answered by those that have nothing in
 * flight, of which they would tell by themselves. */
static void hear_question(struct tutti_comm *comm, const struct tt_op_header *note)
{
	if (comm->gossip->asked_seq >= note->called)
		return;
	comm->gossip->asked_seq = note->called;
	inform_all(comm, note);
	if (note->called < comm->next_seq && !comm->first)
		answer(comm);
}

static void ask(struct tutti_comm *comm, uint64_t seq)
{
	const struct tt_op_header question = numberless(comm, ASKS, seq);

	if (comm->gossip->asked_seq >= seq)
		return;
	comm->gossip->asked_seq = seq;
	inform_all(comm, &question);
}

static void consider(struct tutti_comm *comm, const struct tt_op_header *theirs)
{
	const struct tt_op_header *mine = &comm->gossip->headers[theirs->seq % HEADERS_KEPT];

	if (theirs->magic != TT_OP_HEADER_MAGIC)
		tt_consensus_note(comm, theirs);
	if (theirs->magic != TT_OP_HEADER_MAGIC || theirs->rank < 0 || theirs->rank >= comm->size ||
	    theirs->rank == comm->rank)
		return;
	const uint64_t called = theirs->called > theirs->seq ? theirs->called : theirs->seq;

	if (comm->gossip->heard[theirs->rank] < called) {
		comm->gossip->heard[theirs->rank] = called;
		if (theirs->seq > 0)
			inform_all(comm, theirs);
	}
	if (theirs->seq >= comm->next_seq)
		answer(comm);
	if (theirs->seq == 0 && theirs->part == ASKS)
		hear_question(comm, theirs);
	if (mine->magic == TT_OP_HEADER_MAGIC && mine->seq == theirs->seq &&
	    !tt_op_header_equal(mine, theirs)) {
		const struct tt_fault fault = tt_mismatch(comm, mine, theirs);

		tt_comm_revoke(comm, &fault);
	}
}

void tt_notes_exchange(struct tutti_comm *comm, const struct tt_op_header *stalled, bool long_since,
		       uint64_t now)
{
	struct tt_op_header theirs, note;

	for (int i = 0; i < comm->nendpoints; i++)
		while (!comm->fault.result &&
		       comm->endpoints[i]->ops->control->receive(comm->endpoints[i], &theirs))
			consider(comm, &theirs);
	if (stalled && long_since)
		ask(comm, stalled->seq);
	if (!stalled || (comm->gossip->told_seq == stalled->seq && now < comm->gossip->tell_at))
		return;
	comm->gossip->told_times =
		comm->gossip->told_seq == stalled->seq ? comm->gossip->told_times + 1 : 0;
	comm->gossip->told_seq = stalled->seq;
	comm->gossip->tell_at =
		now + ((uint64_t)REPEAT_NS
		       << (comm->gossip->told_times < DOUBLED_MOST ? comm->gossip->told_times
								   : DOUBLED_MOST));
	note = *stalled;
	note.called = comm->next_seq - 1;
	inform_all(comm, &note);
	speak_for_those_who_left(comm, stalled);
}
