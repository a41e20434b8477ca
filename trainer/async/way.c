/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the asynchronous parameter server as a way to train: Downpour SGD (Dean et al. 2012, section
 * 4.1; algorithms 7.1 and 7.2 of the supplement).
 *
 * The first ranks are servers, each with a shard of the weights. They alone go through epochs: from
 * begin() on the training's team is theirs, and what is collective is so among them. A worker takes a
 * task from server 0, computes, pushes the gradients of each shard to its server, and goes on from
 * the weights that it gets back. So a worker waits for no other, and the loss of one concerns nobody
 * else. The loss of a server ends the training. */
#include <stdlib.h>

#include "server.h"
#include "shard.h"
#include "sync.h"
#include "train.h"
#include "worker.h"

struct async {
	struct server *server; /* owned; NULL: this rank is a worker */
	size_t *counts;	       /* owned: [servers]: numbers of each shard */
};

static struct async *async_of(const struct training *t)
{
	return t->way;
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct async *a = calloc(1, sizeof(*a));

	t->way = a;
	if (a)
		a->counts = calloc(t->options->servers, sizeof(*a->counts));
	if (!a || !a->counts)
		return why_no_memory(why, "the parameter servers");
	for (unsigned s = 0; s < t->options->servers; s++)
		a->counts[s] = shard_slice(t, s).count;
	return TUTTI_OK;
}

/* ---- the start: everybody is there */

/* The servers with worker `w`; nothing to the other workers. */
static tutti_result_t part_with(struct training *t, int servers, int w, tutti_comm_t *out,
				struct why *why)
{
	const int rank = t->team->rank;

	return team_part(t->team, rank < servers || rank == servers + w, out, why);
}

/* The rank of worker `w` is `servers` + w, and so the launcher calls it: all are there. */
static tutti_result_t part_workers(struct training *t, int servers, tutti_comm_t *own,
				   struct why *why)
{
	struct server *server = async_of(t)->server;
	tutti_result_t result = TUTTI_OK;

	for (int w = 0; w < (int)t->workers && result == TUTTI_OK; w++) {
		tutti_comm_t part = NULL;

		result = part_with(t, servers, w, &part, why);
		if (result == TUTTI_OK && server)
			result = server_add_worker(server, part, servers + w, why);
		else if (part)
			*own = part;
	}
	return result;
}

/* What rank 0 has read from a checkpoint. */
static tutti_result_t share_out(struct training *t, struct why *why)
{
	const struct async *a = async_of(t);
	tutti_result_t result = TUTTI_OK;

	if (t->options->optimizer->velocities > 0)
		result = team_share_out(t->team, t->model.numbers, t->velocity, a->counts,
					server_velocity(a->server), why);
	if (result == TUTTI_OK)
		sync_velocity_shared(t);
	return result;
}

static tutti_result_t begin_server(struct training *t, tutti_comm_t servers, struct why *why)
{
	team_become(t->team, servers);
	return t->resumes ? share_out(t, why) : TUTTI_OK;
}

/* A newcomer is in a team of its own already. */
static tutti_result_t begin(struct training *t, struct why *why)
{
	const int servers = (int)t->options->servers;
	const bool serves = t->team->rank < servers;
	struct async *a = async_of(t);
	tutti_comm_t own = NULL;
	tutti_result_t result;

	t->model.weights = state_now(&t->state, 0).weights;
	if (t->team->newcomer)
		return TUTTI_OK;
	result = serves ? server_create(t, &a->server, why) : TUTTI_OK;
	if (result == TUTTI_OK)
		result = part_workers(t, servers, &own, why);
	if (result != TUTTI_OK) {
		tutti_comm_destroy(own);
		return result;
	}
	if (!serves) {
		result = team_part(t->team, false, &(tutti_comm_t){ NULL }, why);
		team_become(t->team, own);
		return result;
	}
	result = team_part(t->team, true, &own, why);
	return result == TUTTI_OK ? begin_server(t, own, why) : result;
}

static tutti_result_t work(struct training *t, bool *worked, struct why *why)
{
	*worked = async_of(t)->server == NULL;
	return *worked ? worker_run(t, why) : TUTTI_OK;
}

/* ---- a server */

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	struct server *server = async_of(t)->server;
	const tutti_result_t result =
		server_serve(server, t->state.step % t->steps_per_epoch + 1, why);

	if (result == TUTTI_OK)
		t->state.step++;
	return result;
}

/* Each server has its shard, and server 0 the sums. */
static tutti_result_t fetch(struct training *t, struct why *why)
{
	const struct async *a = async_of(t);
	struct sums sums = server_sums(a->server);
	tutti_result_t result = team_start_gather(
		t->team, t->model.numbers, state_now(&t->state, 0).weights, a->counts, NULL, why);

	if (result == TUTTI_OK)
		result = team_broadcast(t->team, &sums, &sums, sizeof(sums), 0, why);
	if (result == TUTTI_OK)
		state_set_sums(&t->state, &sums);
	t->model.weights = state_now(&t->state, 0).weights;
	return result;
}

static tutti_result_t collect(struct training *t, void *velocity, struct why *why)
{
	const struct async *a = async_of(t);

	if (t->options->optimizer->velocities == 0)
		return TUTTI_OK;
	return team_collect(t->team, t->model.numbers, server_velocity(a->server), a->counts,
			    velocity, why);
}

static tutti_result_t end(struct training *t, struct why *why)
{
	struct server *server = async_of(t)->server;
	const tutti_result_t result = server_end(server, why);

	if (result == TUTTI_OK)
		server_sum_up(server, &t->summary);
	return result;
}

static size_t others(const struct training *t, struct rank_account *out)
{
	return server_accounts(async_of(t)->server, out);
}

static void give_up(struct training *t, const struct why *why)
{
	server_abort(async_of(t)->server, why);
}

static void finish(struct training *t)
{
	struct async *a = async_of(t);

	if (!a)
		return;
	server_destroy(a->server);
	free(a->counts);
	free(a);
}

const struct sync sync_async = {
	.name = "async",
	.what = "gradients to parameter servers, without waiting",
	.shares_velocity = true,
	.alone = true,
	.create = create,
	.begin = begin,
	.work = work,
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = sync_no_layer,
	.update = update,
	.fetch = fetch,
	.collect = collect,
	.end = end,
	.others = others,
	.drain = sync_drains_nothing,
	.give_up = give_up,
	.finish = finish,
};
