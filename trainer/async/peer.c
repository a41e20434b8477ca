/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the messages with a worker. */
#include "peer.h"

#include <stdlib.h>
#include <string.h>

static int rank_of(const struct peer *p)
{
	return p->servers;
}

tutti_result_t peer_create(tutti_comm_t comm, int origin, int servers, const struct numbers *type,
			   size_t count, struct peer **out, struct why *why)
{
	struct peer *p = calloc(1, sizeof(*p));
	void *numbers = calloc(count + 1, type->size);

	if (!p || !numbers) {
		free(p);
		free(numbers);
		tutti_comm_destroy(comm);
		return why_no_memory(why, "a worker");
	}
	*p = (struct peer){
		.team = { .comm = comm, .origin = origin },
		.servers = servers,
		.numbers = numbers,
		.count = count,
		.type = type,
	};
	*out = p;
	return TUTTI_OK;
}

void peer_destroy(struct peer *p)
{
	team_leave(&p->team);
	free(p->numbers);
	free(p);
}

tutti_result_t peer_listen(struct peer *p, struct why *why)
{
	p->state = LISTENING;
	team_be_patient(&p->team, p->patience);
	return team_start_receive(&p->team, TUTTI_UINT8, &p->ask, sizeof(p->ask), rank_of(p),
				  &p->request[0], why);
}

tutti_result_t peer_take(struct peer *p, struct why *why)
{
	p->state = TAKING;
	team_be_patient(&p->team, p->patience);
	return team_start_receive(&p->team, p->type->gradients->dtype, p->numbers, p->count,
				  rank_of(p), &p->request[0], why);
}

tutti_result_t peer_take_account(struct peer *p, struct why *why)
{
	p->state = LEAVING;
	team_be_patient(&p->team, p->patience);
	return team_start_receive(&p->team, TUTTI_UINT8, &p->account, sizeof(p->account),
				  rank_of(p), &p->request[0], why);
}

tutti_result_t peer_answer(struct peer *p, const void *weights, struct why *why)
{
	tutti_result_t result;

	p->state = ANSWERING;
	team_be_patient(&p->team, p->patience);
	result = team_start_send(&p->team, TUTTI_UINT8, &p->answer, sizeof(p->answer), rank_of(p),
				 &p->request[0], why);
	if (result != TUTTI_OK || !weights)
		return result;
	memcpy(p->numbers, weights, p->count * p->type->size);
	team_be_patient(&p->team, p->patience);
	return team_start_send(&p->team, p->type->dtype, p->numbers, p->count, rank_of(p),
			       &p->request[1], why);
}

int peer_give_up(struct peer *p)
{
	int rank = -1;

	p->state = GONE;
	for (int i = 0; i < 2; i++)
		tutti_wait(&p->request[i]);
	tutti_comm_error(p->team.comm, &rank);
	return rank;
}
