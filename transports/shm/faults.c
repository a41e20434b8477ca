/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns faults in the arena: each rank writes its own, all others read them.
 *
 * Where the host's ranks are the whole communicator, the first fault is that of all: whoever
 * exchanges `decided` for its number has decided. Where there are ranks elsewhere, too, the best
 * of all counts, and a better one may come from there later; then the ranks of the host also have
 * an alarm, so that they learn of faults while they are in no call. Nobody ever reads it: each ring
 * is an edge. */
#include <string.h>

#include "endpoint.h"
#include "log.h"

int shm_control_fd(const struct tt_endpoint *endpoint)
{
	return ((const struct shm_endpoint *)endpoint)->alarm;
}

/* A copy, as another process may write there. */
static bool read_fault(const struct shm_endpoint *ep, const struct tt_fault *from,
		       struct tt_fault *out)
{
	*out = *from;
	return tt_fault_check(out, ep->config.size);
}

static void take_best(struct shm_endpoint *ep)
{
	struct tt_fault *best = &ep->base.fault;

	for (int i = 0; i < ep->arena.members; i++) {
		/* acquire: pairs with the release in report_fault() */
		const uint32_t told = atomic_load_explicit(&shm_member(&ep->arena, i)->faults,
							   memory_order_acquire);

		for (uint32_t k = 0; k < told && k < SHM_FAULTS; k++) {
			struct tt_fault fault;

			if (read_fault(ep, &shm_told(&ep->arena, i)->faults[k], &fault) &&
			    (!best->result || tt_fault_before(&fault, best)))
				*best = fault;
		}
	}
}

/* Of the member that has decided. */
static void take_first(struct shm_endpoint *ep)
{
	/* acquire: pairs with the release in shm_revoke() */
	const uint32_t decided =
		atomic_load_explicit(&shm_header(&ep->arena)->decided, memory_order_acquire);
	struct tt_fault fault;

	if (decided >= 1 && decided <= (uint32_t)ep->arena.members &&
	    read_fault(ep, &shm_told(&ep->arena, (int)decided - 1)->faults[0], &fault))
		ep->base.fault = fault;
}

void shm_take_faults(struct shm_endpoint *ep)
{
	struct shm_header *header = shm_header(&ep->arena);

	if (!atomic_load_explicit(&header->faults, memory_order_relaxed))
		return;
	/* acquire: pairs with the release in shm_revoke() */
	ep->base.faults_seen = atomic_load_explicit(&header->faults, memory_order_acquire);
	if (!ep->whole)
		take_best(ep);
	else if (!ep->base.fault.result)
		take_first(ep);
}

/* False: so many have been told that nobody needs one more. */
static bool report_fault(const struct shm_endpoint *ep, const struct tt_fault *fault)
{
	struct shm_member *me = shm_member(&ep->arena, ep->me);
	const uint32_t told = atomic_load_explicit(&me->faults, memory_order_relaxed);

	if (told == SHM_FAULTS)
		return false;
	shm_told(&ep->arena, ep->me)->faults[told] = *fault;
	/* release: pairs with the acquire in take_best() */
	atomic_store_explicit(&me->faults, told + 1, memory_order_release);
	return true;
}

void shm_revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	struct shm_endpoint *ep = shm_endpoint_of(endpoint);
	uint32_t nobody = 0;

	if (!ep->arena.base)
		return;
	shm_take_faults(ep);
	if (ep->base.fault.result && (ep->whole || !tt_fault_before(fault, &ep->base.fault)))
		return;
	struct shm_header *header = shm_header(&ep->arena);

	if (!report_fault(ep, fault)) {
		tt_log(WARN, SHM, "rank %d: %d faults were reported already, this one is not: %s",
		       ep->config.rank, SHM_FAULTS, fault->text);
		return;
	}
	if (ep->whole) /* release: who reads this member's number finds its fault written */
		atomic_compare_exchange_strong_explicit(&header->decided, &nobody,
							(uint32_t)ep->me + 1, memory_order_acq_rel,
							memory_order_acquire);
	/* release: pairs with the acquires in shm_progress() and shm_take_faults() */
	atomic_fetch_add_explicit(&header->faults, 1, memory_order_release);
	shm_take_faults(ep);
	shm_interrupt(endpoint);
	shm_ring(ep->alarm);
}
