/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the watch over the processes of a host's ranks.
 *
 * Each process has a lock on the arena's file, which the kernel frees when the process ends
 * (arena_file.c). No event tells of that: ranks look. The members share the looks, so that many
 * that wait at once do not look more often than one, and who waits alone still sees the death of
 * any. */
#include <stdio.h>

#include "arena_file.h"
#include "endpoint.h"
#include "log.h"

#define LOOK_NS 62500 /* from one look to the next: sixteen in a millisecond */

static const struct tt_peer *peer_at(const struct shm_endpoint *ep, int place)
{
	return &ep->peers[ep->local_peers[place].rank];
}

bool shm_died(struct shm_endpoint *ep, int place)
{
	struct shm_local_peer *local_peer = &ep->local_peers[place];

	if (!local_peer->died && !shm_is_here(ep, place))
		local_peer->died = !shm_file_is_held(ep->arena.fd, peer_at(ep, place)->pid);
	return local_peer->died;
}

/* acquire: pairs with the release in shm_destroy(); what the rank did before it left is visible */
bool shm_left(const struct shm_endpoint *ep, int place)
{
	return atomic_load_explicit(&shm_member(&ep->arena, place)->state, memory_order_acquire) ==
	       SHM_LEFT;
}

bool shm_report_death(struct shm_endpoint *ep, int place)
{
	struct tt_fault fault = { .result = TUTTI_ERR_PEER_LOST,
				  .rank = ep->local_peers[place].rank };

	if (shm_left(ep, place))
		return false;
	snprintf(fault.text, sizeof(fault.text),
		 "rank %d (pid %d) died; see its own output for the cause", fault.rank,
		 peer_at(ep, place)->pid);
	shm_revoke(&ep->base, &fault);
	return true;
}

/* How many looks are due, and at which place to begin. Whoever takes them makes them. */
static int take_looks(const struct shm_endpoint *ep, int *place)
{
	struct shm_header *header = shm_header(&ep->arena);
	const uint32_t members = (uint32_t)ep->arena.members;
	uint64_t before = atomic_load_explicit(&header->looked_at, memory_order_relaxed);
	const uint64_t now = tt_now(); /* another rank's may be later */
	const uint64_t due = now > before ? (now - before) / LOOK_NS : 0;

	if (due == 0 ||
	    !atomic_compare_exchange_strong_explicit(&header->looked_at, &before, now,
						     memory_order_relaxed, memory_order_relaxed))
		return 0;
	const uint32_t count = due < members ? (uint32_t)due : members;

	*place = (int)(atomic_fetch_add_explicit(&header->looks, count, memory_order_relaxed) %
		       members);
	return (int)count;
}

void shm_check_deaths(struct shm_endpoint *ep)
{
	int place = 0;

	for (int left = take_looks(ep, &place); left > 0; left--) {
		/* also one that is known already: whoever found it may have had no need to tell */
		if (shm_died(ep, place) && shm_report_death(ep, place))
			return;
		place = (place + 1) % ep->arena.members;
	}
}
