/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator takes the last rank in, and the fault comes meanwhile: to a member, or to the
 * newcomer. Afterwards the members have one communicator, with the newcomer or without. */
#include "harness.h"
#include "player.h"
#include "victim.h"

#define SERVER 1 /* never a victim */

/* Nobody goes on before all have: the fault of one may end the store. */
static tutti_store_t open_store(struct player *p)
{
	tutti_store_t store = NULL;

	if (p->rank != SERVER)
		await_count(&p->stage->served, 1);
	if (tutti_store_open(p->scene->again, p->rank == SERVER, 10, &store))
		player_complain(p, "the store of newcomers: %s", tutti_last_error(NULL));
	if (p->rank == SERVER)
		atomic_store(&p->stage->served, 1);
	meet_at(&p->stage->opened, p->ranks);
	return store;
}

static tutti_result_t grow(struct player *p, tutti_store_t store, tutti_comm_t *grown)
{
	tutti_result_t result;

	player_begin(p, STRETCH_GROW);
	if (p->rank < case_members(&p->scene->c))
		result = tutti_comm_grow(p->comm, store, 1, grown);
	else
		result = tutti_comm_join(store, NULL, grown);
	player_end(p, STRETCH_GROW);
	return result;
}

void play_grow(struct player *p)
{
	tutti_store_t store = open_store(p);
	tutti_comm_t grown = NULL;

	if (!store)
		return;
	const tutti_result_t result = grow(p, store, &grown);

	if (result && p->scene->rehearsal)
		player_complain(p, "grow or join: %s", tutti_last_error(NULL));
	victim_relieve();
	if (grown) {
		tutti_comm_destroy(p->comm);
		p->comm = grown;
	}
	/* a newcomer that was not taken in has nothing to go on with */
	if (p->comm && (!player_is_lost(p) || case_goes_on(&p->scene->c))) {
		if (player_all_sum(p, p->comm))
			player_goes_on(p);
		else
			go_on_by_shrinking(p, false);
	}
	tutti_store_close(store);
}
