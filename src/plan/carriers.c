/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the answer to which transports carry a rank's messages: those to one peer, and those of a
 * plan. */
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "planning.h"

TUTTI_API const char *tutti_comm_transport(tutti_comm_t comm, int peer)
{
	if (!comm || peer < 0 || peer >= comm->size)
		return NULL;
	return peer == comm->rank ? "none" : comm->endpoints[comm->routes.via[peer]]->ops->name;
}

/* Bit i: endpoint i carries something of the plan. */
static unsigned endpoints_of(const struct tutti_comm *comm, const struct tt_plan *plan)
{
	unsigned used = plan->algorithm->shared && comm->size > 1
				? 1
				: 0; /* the control area is of the only endpoint */

	for (uint32_t i = 0; i < plan->nroutes; i++)
		used |= 1u << comm->routes.via[plan->routes[i].peer];
	return used;
}

const char *tt_carriers(struct tutti_comm *comm, const struct tt_plan *plan)
{
	const unsigned used = endpoints_of(comm, plan);
	struct tt_planning *planning = tt_planning_of(comm);
	size_t length = 0;

	if (plan->call.on_gpu && comm->size > 1)
		return "cuda";
	if (used == 0)
		return "none";
	if (!planning)
		return "no memory for their names";
	char *names = planning->carriers[used];
	for (int i = 0; i < comm->nendpoints && names[length] == '\0'; i++)
		if (used & 1u << i)
			length += (size_t)snprintf(
				names + length, sizeof(planning->carriers[0]) - length, "%s%s",
				length ? "+" : "", comm->endpoints[i]->ops->name);
	return names;
}
