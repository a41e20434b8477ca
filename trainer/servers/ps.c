/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the synchronous parameter server (Li et al. 2014): the first --servers ranks compute nothing,
 * but keep a shard of the weights and its velocity each. In each step a worker sends each server its
 * gradients of the shard, as soon as the backward pass has them; the server adds them up in order
 * of rank, updates its shard, and sends it to all workers.
 *
 * Workers hold all weights, servers those of their shard; at the end of an epoch everybody holds
 * all. When ranks are lost, servers that have not got all of them receive the state of a worker. The
 * first ranks are servers again; replacements are the last. Who still has the velocity that its shard
 * had after the step that is gone on from keeps it; that of another shard begins anew. */
#include <stdlib.h>
#include <string.h>

#include "shard.h"
#include "sync.h"
#include "train.h"

struct ps {
	tutti_request_t *requests; /* owned: [2 × ranks + 2]; the first `pending` are in flight */
	size_t pending;
	unsigned sent;	    /* shards whose gradients a worker has sent in this step */
	size_t *counts;	    /* owned: [ranks], numbers of each rank's shard, 0 of a worker */
	void *incoming;	    /* owned: a server's, [workers][shard + sums] */
	struct slice shard; /* of a server, what it has velocity of; empty: nothing */
	size_t step;	    /* that this is of … */
	void *velocity[2];  /* owned: … and that of another: … */
	bool went;	    /* … the step before, if there was one */
	bool partial;	    /* a server has not got all weights since the last fetch() */
};

static struct ps *ps_of(const struct training *t)
{
	return t->way;
}

static int workers(const struct training *t)
{
	return t->team->size - (int)t->options->servers;
}

static int rank_of(const struct training *t, int worker)
{
	return (int)t->options->servers + worker;
}

/* Where the gradients of a worker's shard arrive, and the sums behind them. */
static void *incoming(const struct training *t, int worker)
{
	return (char *)ps_of(t)->incoming +
	       (size_t)worker * numbers_sums_end(t->model.numbers, ps_of(t)->shard.count);
}

static void *incoming_sums(const struct training *t, int worker)
{
	return (char *)incoming(t, worker) +
	       numbers_sums_offset(t->model.numbers, ps_of(t)->shard.count);
}

/* ---- its life */

static tutti_result_t create(struct training *t, struct why *why)
{
	t->way = calloc(1, sizeof(struct ps));
	return t->way ? TUTTI_OK : why_no_memory(why, "the parameter servers");
}

static void forget_velocity(struct ps *ps)
{
	for (int i = 0; i < 2; i++) {
		free(ps->velocity[i]);
		ps->velocity[i] = NULL;
	}
	ps->shard = (struct slice){ 0 };
}

static void swap_velocity(struct ps *ps, size_t step)
{
	void *was = ps->velocity[0];

	ps->velocity[0] = ps->velocity[1];
	ps->velocity[1] = was;
	ps->went = step > ps->step;
	ps->step = step;
}

/* Of the step that all go on from, if this rank had it. */
static bool keeps_velocity(const struct training *t, struct slice shard)
{
	struct ps *ps = t->way;

	if (ps->shard.first != shard.first || ps->shard.count != shard.count)
		return false;
	if (ps->went && ps->step == t->state.step + 1)
		swap_velocity(ps, t->state.step);
	return ps->step == t->state.step;
}

static tutti_result_t begin_server(struct training *t, struct why *why)
{
	const struct slice shard = shard_slice(t, (unsigned)t->team->rank);
	const size_t size = t->model.numbers->size;
	struct ps *ps = t->way;

	free(ps->incoming);
	ps->incoming = malloc((size_t)workers(t) * numbers_sums_end(t->model.numbers, shard.count));
	if (!ps->incoming)
		return why_no_memory(why, "gradients of workers");
	if (keeps_velocity(t, shard))
		return TUTTI_OK;
	forget_velocity(ps);
	if (!t->resumes)
		sync_tell_velocity_lost(t, "a parameter server's weights");
	for (int i = 0; i < 2; i++) {
		ps->velocity[i] = calloc(t->options->optimizer->velocities * shard.count + 1, size);
		if (!ps->velocity[i])
			return why_no_memory(why, "the velocity of a shard");
	}
	ps->step = t->state.step;
	ps->went = false;
	ps->shard = shard;
	t->velocity_since = t->resumes ? 0 : t->state.step;
	return TUTTI_OK;
}

static tutti_result_t begin(struct training *t, struct why *why)
{
	const size_t ranks = (size_t)t->team->size;
	struct ps *ps = t->way;
	tutti_result_t result = TUTTI_OK;

	free(ps->requests);
	free(ps->counts);
	ps->requests = calloc(2 * ranks + 2, sizeof(*ps->requests));
	ps->counts = shard_counts(t);
	if (!ps->requests || !ps->counts)
		return why_no_memory(why, "the parameter servers");
	ps->sent = 0;
	ps->partial = false;
	t->model.weights = state_now(&t->state, 0).weights;
	if (shard_serves(t))
		result = begin_server(t, why);
	else
		forget_velocity(ps);
	if (result == TUTTI_OK && t->resumes)
		result = shard_share_out(t, ps->counts, ps->velocity[0], why);
	return result;
}

static void finish(struct training *t)
{
	struct ps *ps = t->way;

	if (!ps)
		return;
	forget_velocity(ps);
	free(ps->incoming);
	free(ps->requests);
	free(ps->counts);
	free(ps);
}

/* ---- messages */

static tutti_request_t *next_request(const struct training *t)
{
	return &ps_of(t)->requests[ps_of(t)->pending++];
}

static tutti_result_t wait_all(struct training *t, struct why *why)
{
	struct ps *ps = t->way;
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < ps->pending && result == TUTTI_OK; i++)
		result = team_wait(t->team, &ps->requests[i], why);
	if (result == TUTTI_OK)
		ps->pending = 0;
	return result;
}

/* ---- a worker */

/* The first server adds up loss and hits, too. Gradients become ready from the front. */
static tutti_result_t gradients(struct training *t, unsigned l, struct why *why)
{
	const size_t ready = t->model.layer[l].offset + t->model.layer[l].count;
	const struct numbers *numbers = t->model.numbers;
	struct ps *ps = t->way;
	tutti_result_t result = TUTTI_OK;

	if (l == t->model.layers - 1)
		result = team_start_send(t->team, numbers->sums->dtype, sync_sums(t), SUMS_NUMBERS,
					 0, next_request(t), why);
	for (; ps->sent < t->options->servers && result == TUTTI_OK; ps->sent++) {
		const struct slice shard = shard_slice(t, ps->sent);

		if (shard.first + shard.count > ready)
			break;
		result = team_start_send(t->team, numbers->gradients->dtype,
					 numbers_at(numbers->gradients, t->gradients, shard.first),
					 shard.count, (int)ps->sent, next_request(t), why);
	}
	return result;
}

static tutti_result_t receive_weights(struct training *t, struct why *why)
{
	tutti_result_t result = TUTTI_OK;

	for (unsigned s = 0; s < t->options->servers && result == TUTTI_OK; s++) {
		const struct slice shard = shard_slice(t, s);

		result = team_start_receive(t->team, t->model.numbers->dtype,
					    state_next(&t->state, shard.first).weights, shard.count,
					    (int)s, next_request(t), why);
	}
	ps_of(t)->sent = 0;
	return result == TUTTI_OK ? wait_all(t, why) : result;
}

static tutti_result_t update_worker(struct training *t, struct why *why)
{
	tutti_result_t result = wait_all(t, why); /* the sums come where these were sent from */

	if (result == TUTTI_OK)
		result = team_start_receive(t->team, t->model.numbers->sums->dtype, sync_sums(t),
					    SUMS_NUMBERS, 0, next_request(t), why);
	if (result == TUTTI_OK)
		result = receive_weights(t, why);
	return result;
}

/* ---- a server */

static tutti_result_t receive_gradients(struct training *t, struct why *why)
{
	const struct numbers *numbers = t->model.numbers;
	tutti_result_t result = TUTTI_OK;

	for (int w = 0; w < workers(t) && result == TUTTI_OK; w++) {
		if (t->team->rank == 0)
			result = team_start_receive(t->team, numbers->sums->dtype,
						    incoming_sums(t, w), SUMS_NUMBERS,
						    rank_of(t, w), next_request(t), why);
		if (result == TUTTI_OK)
			result = team_start_receive(t->team, numbers->gradients->dtype,
						    incoming(t, w), ps_of(t)->shard.count,
						    rank_of(t, w), next_request(t), why);
	}
	return result == TUTTI_OK ? wait_all(t, why) : result;
}

/* Into the first worker's place. */
static void add_up(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;

	for (int w = 1; w < workers(t); w++) {
		numbers->gradients->add(incoming(t, 0), incoming(t, w), ps_of(t)->shard.count);
		if (t->team->rank == 0)
			numbers->sums->add(incoming_sums(t, 0), incoming_sums(t, w), SUMS_NUMBERS);
	}
}

static tutti_result_t update_shard(struct training *t, struct why *why)
{
	const struct slice shard = ps_of(t)->shard;
	void *const *velocity = ps_of(t)->velocity;
	const struct numbers *numbers = t->model.numbers;
	const tutti_result_t result =
		sync_update(t, shard,
			    trained_at(numbers, state_now(&t->state, shard.first).weights,
				       velocity[0], shard.count, 0),
			    incoming(t, 0),
			    trained_at(numbers, state_next(&t->state, shard.first).weights,
				       velocity[1], shard.count, 0),
			    why);

	swap_velocity(t->way, t->state.step + 1);
	return result;
}

static tutti_result_t send_weights(struct training *t, struct why *why)
{
	const struct slice shard = ps_of(t)->shard;
	tutti_result_t result = TUTTI_OK;

	for (int w = 0; w < workers(t) && result == TUTTI_OK; w++) {
		if (t->team->rank == 0)
			result = team_start_send(t->team, t->model.numbers->sums->dtype,
						 sync_sums(t), SUMS_NUMBERS, rank_of(t, w),
						 next_request(t), why);
		if (result == TUTTI_OK)
			result = team_start_send(t->team, t->model.numbers->dtype,
						 state_next(&t->state, shard.first).weights,
						 shard.count, rank_of(t, w), next_request(t), why);
	}
	return result == TUTTI_OK ? wait_all(t, why) : result;
}

static tutti_result_t update_server(struct training *t, struct why *why)
{
	tutti_result_t result = receive_gradients(t, why);

	if (result != TUTTI_OK)
		return result;
	ps_of(t)->partial = t->options->servers > 1;
	add_up(t);
	if (t->team->rank == 0)
		memcpy(sync_sums(t), incoming_sums(t, 0),
		       SUMS_NUMBERS * t->model.numbers->sums->size);
	result = update_shard(t, why);
	return result == TUTTI_OK ? send_weights(t, why) : result;
}

/* ---- both */

static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	const tutti_result_t result =
		shard_serves(t) ? update_server(t, why) : update_worker(t, why);

	if (result == TUTTI_OK)
		sync_advance(t, step);
	return result;
}

/* Servers get what they have not; workers have the same already. */
static tutti_result_t fetch(struct training *t, struct why *why)
{
	const bool gives = t->team->rank == rank_of(t, 0);
	struct state *state = &t->state;
	const tutti_result_t result =
		team_broadcast(t->team, state->now, gives ? state->now : state->next,
			       state_bytes(state), rank_of(t, 0), why);

	if (result != TUTTI_OK)
		return result;
	if (!gives)
		state_adopt(state, state->step);
	ps_of(t)->partial = false;
	t->model.weights = state_now(state, 0).weights;
	return TUTTI_OK;
}

static tutti_result_t collect(struct training *t, void *velocity, struct why *why)
{
	return shard_collect(t, ps_of(t)->counts, ps_of(t)->velocity[0], velocity, why);
}

static void drain(struct training *t)
{
	struct ps *ps = t->way;

	for (size_t i = 0; i < ps->pending; i++)
		tutti_wait(&ps->requests[i]);
	ps->pending = 0;
	t->survival.lacks_state |= ps->partial;
	ps->partial = false;
}

const struct sync sync_ps = {
	.name = "ps",
	.what = "gradients to parameter servers",
	.each_step = true,
	.shares_velocity = true,
	.create = create,
	.begin = begin,
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = gradients,
	.update = update,
	.fetch = fetch,
	.collect = collect,
	.end = sync_nothing,
	.drain = drain,
	.finish = finish,
};
