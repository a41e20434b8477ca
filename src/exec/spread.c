/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns that ranks which wait for each other do not stay on one processor.
 *
 * Where something else keeps a processor busy, the kernel's scheduler puts two ranks on another
 * one and leaves them there: as each yields while it waits, neither looks as if it needed a
 * processor of its own. Every message then costs two switches, and with more neighbours some of
 * their time slices: 100 µs and more where 0.3 would do. So who waits looks where the others are
 * (as they last said, or as the network saw them); where more of them than its share are on its
 * own processor, the highest ranks go. The kernel moves a thread to where it may be: its
 * affinity is narrowed to the processors that have room, and set back at once. */
#include "spread.h"

#include <sched.h>

#include "log.h"
#include "progress_state.h"

#define POLL_NS                                                                                    \
	100000 /* between looks at where the others are; more where ranks share cores: so often
		* for each core */
#define REST_NS 1000000 /* after a move: where it leads shows when all have run */

/* Rank's processor by rank of this host, -1 where nobody knows. */
static void locate(struct tutti_comm *comm, int cpu)
{
	for (int rank = 0; rank < comm->size; rank++)
		comm->progress->cpus[rank] = -1;
	for (int i = 0; i < comm->nendpoints; i++)
		comm->endpoints[i]->ops->locate(comm->endpoints[i], cpu, comm->progress->cpus);
}

static int ranks_before_on(const struct tutti_comm *comm, int end, int cpu)
{
	int ranks = 0;

	for (int rank = 0; rank < end; rank++)
		ranks += rank != comm->rank && comm->progress->cpus[rank] == cpu;
	return ranks;
}

/* Of those that this thread may use, the processors with fewer ranks than their share. */
static bool find_room(const struct tutti_comm *comm, int cpu, int share, const cpu_set_t *allowed,
		      cpu_set_t *capacity)
{
	CPU_ZERO(capacity);
	for (int other = 0; other < CPU_SETSIZE; other++)
		if (other != cpu && CPU_ISSET(other, allowed) &&
		    ranks_before_on(comm, comm->size, other) < share)
			CPU_SET(other, capacity);
	return CPU_COUNT(capacity) > 0;
}

void tt_spread(struct tutti_comm *comm, uint64_t now)
{
	const int cpu = sched_getcpu(), share = (int)(comm->topology.oversubscription + 0.999);
	cpu_set_t allowed, capacity;

	if (now < comm->progress->spread_at || cpu < 0)
		return;
	comm->progress->spread_at = now + tt_comm_stretch(comm, POLL_NS);
	locate(comm, cpu);
	if (ranks_before_on(comm, comm->rank, cpu) < share ||
	    sched_getaffinity(0, sizeof(allowed), &allowed) < 0 ||
	    !find_room(comm, cpu, share, &allowed, &capacity))
		return;
	comm->progress->spread_at = now + REST_NS;
	if (sched_setaffinity(0, sizeof(capacity), &capacity) == 0) {
		sched_setaffinity(0, sizeof(allowed), &allowed);
		tt_log(DEBUG, EXEC,
		       "rank %d leaves processor %d, where lower ranks wait, for processor %d",
		       comm->rank, cpu, sched_getcpu());
	}
}
