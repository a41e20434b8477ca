/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns how a communicator ends: by a fault, which is told to all peers and returned by every
 * operation.
 *
 * Ranks may find different faults at the same time. Where all read one record, the first in it
 * counts. Otherwise they settle: from the first that it finds or hears of a rank looks for no
 * other, but goes on to listen for a while, takes over what is better by an order that is the
 * same everywhere (tt_fault_before()), and passes that on; only then does it return the fault to
 * anybody. A fault that is told takes some tens of milliseconds to reach all; two are found at
 * the same time if neither finder had heard of the other's; so twice that time is enough for all
 * to know the best.
 *
 * A process that ends loses its connections and locks before its parent can know. So the loss of
 * one that can be seen to end is told to the peers at once, and to the callers when it has ended: a
 * launcher then sees its end before the ends of ranks that give up because of it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

#include "agreement.h"
#include "failure.h"
#include "log.h"
#include "process.h"
#include "recorder.h"

#define AGREE_NS 200000000 /* for faults that ranks found at the same time to reach everybody */
#define ENDING_NS                                                                                  \
	1000000000 /* that callers wait for a process to end: longer where a driver has much to give \
		    * back */
#define POLL_MS 5

bool tt_comm_fault_open(struct tutti_comm *comm)
{
	comm->agreement = calloc(1, sizeof(*comm->agreement));
	return comm->agreement != NULL;
}

void tt_comm_fault_free(struct tutti_comm *comm)
{
	free(comm->agreement);
	comm->agreement = NULL;
}

uint64_t tt_comm_settles_at(const struct tutti_comm *comm)
{
	return comm->agreement->at;
}

/* ---- settling */

/* Of a fault that this rank found, too: calls of others may be part of its text, or words of the
 * user's, and what all ranks tell is to be the same. */
static void keep(struct tutti_comm *comm, const struct tt_fault *fault)
{
	comm->fault = *fault;
	atomic_store_explicit(&comm->failed, true, memory_order_relaxed);
	if (tt_fault_check(&comm->fault, comm->size))
		return;
	comm->fault.rank = -1; /* as of a header that came with a rank that there is not */
	if (!tt_failure_is_known(comm->fault.result))
		comm->fault.result = TUTTI_ERR_SYSTEM;
}

/* A better fault than the one that is known. Whoever it is about may know the next of a chain of ranks
 * that wait: that one has the time of a first fault to reach everybody. */
static bool adopt(struct tutti_comm *comm, const struct tt_fault *fault)
{
	if (comm->agreement->done || (comm->fault.result && !tt_fault_before(fault, &comm->fault)))
		return false;
	if (fault->chain > comm->fault.chain)
		comm->agreement->at = tt_now() + comm->agreement->ns;
	keep(comm, fault);
	return true;
}

/* Tell the communicator's fault by all transports; whoever knows a better one says so. */
static void tell(struct tutti_comm *comm)
{
	bool news = true;

	while (news) {
		news = false;
		for (int i = 0; i < comm->nendpoints; i++) {
			struct tt_endpoint *endpoint = comm->endpoints[i];

			endpoint->ops->control->revoke(endpoint, &comm->fault);
			if (comm->agreement->ns)
				news |= endpoint->fault.result && adopt(comm, &endpoint->fault);
			else if (endpoint->fault.result) /* a peer was first */
				keep(comm, &endpoint->fault);
		}
	}
}

void tt_comm_choose_settling(struct tutti_comm *comm)
{
	for (int i = 0; i < comm->nendpoints; i++)
		if (comm->endpoints[i]->ops->control->fd(comm->endpoints[i]) >= 0)
			comm->agreement->ns = AGREE_NS;
}

static void settle(struct tutti_comm *comm)
{
	comm->agreement->done = true;
	tt_log(INFO, COMM, "rank %d: communicator revoked: %s", comm->rank, comm->fault.text);
	tt_recorder_report(comm);
}

static void begin_agreement(struct tutti_comm *comm, const struct tt_fault *fault)
{
	keep(comm, fault);
	comm->agreement->looked = tt_now();
	comm->agreement->at = comm->agreement->looked + comm->agreement->ns;
	tell(comm);
	if (!comm->agreement->ns)
		settle(comm);
	tt_comm_interrupt(comm); /* who sleeps is to be up by then */
}

/* Is the lost rank's process still about to end? */
static bool awaits_end(const struct tutti_comm *comm)
{
	const int rank = comm->fault.rank;

	if (comm->fault.result != TUTTI_ERR_PEER_LOST || rank < 0 || comm->nendpoints == 0 ||
	    tt_now() >= comm->agreement->at + ENDING_NS)
		return false;
	const int32_t pid = comm->routes.peers[0][rank].pid;

	return pid > 0 && tt_process_is_ending(pid);
}

/* This process, or the machine, may have been stopped while ranks were to agree: then what others have
 * told has the same time once more. */
static bool is_time(struct tt_agreement *agreement)
{
	const uint64_t now = tt_now();
	const bool stopped = tt_uncounted(agreement->looked, now, agreement->ns / 2) > 0;

	agreement->looked = now;
	if (now < agreement->at)
		return false;
	if (!stopped || agreement->again)
		return true;
	agreement->again = true;
	agreement->at = now + agreement->ns;
	return false;
}

bool tt_comm_is_settled(struct tutti_comm *comm)
{
	struct tt_agreement *agreement = comm->agreement;

	if (!agreement->done && comm->fault.result && is_time(agreement)) {
		tt_comm_check(comm, true);
		if (is_time(agreement)) /* no longer chain has come */
			settle(comm);
	}
	if (comm->agreement->done && !comm->agreement->told)
		comm->agreement->told = !awaits_end(comm);
	return comm->agreement->told;
}

void tt_comm_agree_now(struct tutti_comm *comm)
{
	if (comm->fault.result && !comm->agreement->done)
		settle(comm);
}

tutti_result_t tt_comm_agreed_error(struct tutti_comm *comm)
{
	while (!tt_comm_is_settled(comm)) {
		const uint64_t now = tt_now();
		const uint64_t at = tt_comm_settles_at(comm);
		const int left_ms = now < at ? (int)((at - now) / 1000000) + 1 : 1;

		pthread_mutex_unlock(&comm->lock);
		poll(NULL, 0, left_ms < POLL_MS ? left_ms : POLL_MS);
		tt_comm_lock(comm);
		tt_comm_check(comm, true);
	}
	return (tutti_result_t)comm->fault.result;
}

/* ---- finding and learning */

void tt_comm_revoke(struct tutti_comm *comm, const struct tt_fault *fault)
{
	/* a peer that is gone may have said why, and more is known of one that died; and what others
	 * told while this process was stopped is what they have returned by now */
	tt_comm_check(comm, true);
	if (!comm->fault.result)
		begin_agreement(comm, fault);
}

void tt_comm_improve(struct tutti_comm *comm, const struct tt_fault *fault)
{
	if (comm->fault.result && adopt(comm, fault))
		tell(comm);
}

void tt_comm_revoke_for(struct tutti_comm *comm, tutti_result_t result)
{
	const bool own = result == TUTTI_ERR_NO_MEMORY || result == TUTTI_ERR_SYSTEM;
	const char *text = *tt_thread_error() ? tt_thread_error() : tutti_strerror(result);
	struct tt_fault fault = { .result = result,
				  .rank = result == TUTTI_ERR_PEER_LOST ? comm->routes.failed_peer
									: comm->rank };

	if (own) /* the error message travels to ranks that must be told where it happened */
		snprintf(fault.text, sizeof(fault.text), "rank %d: %s", comm->rank, text);
	else
		snprintf(fault.text, sizeof(fault.text), "%s", text);
	tt_comm_revoke(comm, &fault);
}

static void learn(struct tutti_comm *comm, const struct tt_fault *fault)
{
	if (!comm->fault.result)
		begin_agreement(comm, fault);
	else
		tt_comm_improve(comm, fault);
}

void tt_comm_check(struct tutti_comm *comm, bool thorough)
{
	for (int i = 0; i < comm->nendpoints; i++) {
		struct tt_endpoint *endpoint = comm->endpoints[i];

		endpoint->ops->progress(endpoint, thorough);
		if (__builtin_expect(endpoint->fault.result != 0, 0))
			learn(comm, &endpoint->fault);
	}
}
