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

static bool create(struct training *t)
{
	t->way = calloc(1, sizeof(struct ps));
	return t->way || why_no_memory("the parameter servers");
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

static bool begin_server(struct training *t)
{
	const struct slice shard = shard_slice(t, (unsigned)t->team->rank);
	const size_t size = t->model.numbers->size;
	struct ps *ps = t->way;

	free(ps->incoming);
	ps->incoming = malloc((size_t)workers(t) * numbers_sums_end(t->model.numbers, shard.count));
	if (!ps->incoming)
		return why_no_memory("gradients of workers");
	if (keeps_velocity(t, shard))
		return true;
	forget_velocity(ps);
	if (!t->resumes)
		sync_tell_velocity_lost(t, "a parameter server's weights");
	for (int i = 0; i < 2; i++) {
		ps->velocity[i] = calloc(t->options->optimizer->velocities * shard.count + 1, size);
		if (!ps->velocity[i])
			return why_no_memory("the velocity of a shard");
	}
	ps->step = t->state.step;
	ps->went = false;
	ps->shard = shard;
	t->velocity_since = t->resumes ? 0 : t->state.step;
	return true;
}

static bool begin(struct training *t)
{
	const size_t ranks = (size_t)t->team->size;
	struct ps *ps = t->way;
	bool ok = true;

	free(ps->requests);
	free(ps->counts);
	ps->requests = calloc(2 * ranks + 2, sizeof(*ps->requests));
	ps->counts = shard_counts(t);
	if (!ps->requests || !ps->counts)
		return why_no_memory("the parameter servers");
	ps->sent = 0;
	ps->partial = false;
	t->model.weights = state_now(&t->state, 0).weights;
	if (shard_serves(t))
		ok = begin_server(t);
	else
		forget_velocity(ps);
	if (ok && t->resumes)
		ok = shard_share_out(t, ps->counts, ps->velocity[0]);
	return ok;
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

static bool wait_all(struct training *t)
{
	struct ps *ps = t->way;
	bool ok = true;

	for (size_t i = 0; i < ps->pending && ok; i++)
		ok = team_wait(t->team, &ps->requests[i]);
	if (ok)
		ps->pending = 0;
	return ok;
}

/* ---- a worker */

/* The first server adds up loss and hits, too. Gradients become ready from the front. */
static bool gradients(struct training *t, unsigned l)
{
	const size_t ready = t->model.layer[l].offset + t->model.layer[l].count;
	const struct numbers *numbers = t->model.numbers;
	struct ps *ps = t->way;
	bool ok = true;

	if (l == t->model.layers - 1)
		ok = team_start_send(t->team, numbers->sums->dtype, sync_sums(t), SUMS_NUMBERS, 0,
				     next_request(t));
	for (; ps->sent < t->options->servers && ok; ps->sent++) {
		const struct slice shard = shard_slice(t, ps->sent);

		if (shard.first + shard.count > ready)
			break;
		ok = team_start_send(t->team, numbers->gradients->dtype,
				     numbers_at(numbers->gradients, t->gradients, shard.first),
				     shard.count, (int)ps->sent, next_request(t));
	}
	return ok;
}

static bool receive_weights(struct training *t)
{
	bool ok = true;

	for (unsigned s = 0; s < t->options->servers && ok; s++) {
		const struct slice shard = shard_slice(t, s);

		ok = team_start_receive(t->team, t->model.numbers->dtype,
					state_next(&t->state, shard.first).weights, shard.count,
					(int)s, next_request(t));
	}
	ps_of(t)->sent = 0;
	return ok && wait_all(t);
}

static bool update_worker(struct training *t)
{
	bool ok = wait_all(t); /* the sums come where these were sent from */

	ok = ok &&
	     team_start_receive(t->team, t->model.numbers->sums->dtype, sync_sums(t), SUMS_NUMBERS,
				0, next_request(t)) &&
	     receive_weights(t);
	return ok;
}

/* ---- a server */

static bool receive_gradients(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	bool ok = true;

	for (int w = 0; w < workers(t) && ok; w++) {
		if (t->team->rank == 0)
			ok = team_start_receive(t->team, numbers->sums->dtype, incoming_sums(t, w),
						SUMS_NUMBERS, rank_of(t, w), next_request(t));
		ok = ok &&
		     team_start_receive(t->team, numbers->gradients->dtype, incoming(t, w),
					ps_of(t)->shard.count, rank_of(t, w), next_request(t));
	}
	return ok && wait_all(t);
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

static bool update_shard(struct training *t)
{
	const struct slice shard = ps_of(t)->shard;
	void *const *velocity = ps_of(t)->velocity;
	const struct numbers *numbers = t->model.numbers;
	const bool ok = sync_update(t, shard,
				    trained_at(numbers, state_now(&t->state, shard.first).weights,
					       velocity[0], shard.count, 0),
				    incoming(t, 0),
				    trained_at(numbers, state_next(&t->state, shard.first).weights,
					       velocity[1], shard.count, 0));

	swap_velocity(t->way, t->state.step + 1);
	return ok;
}

static bool send_weights(struct training *t)
{
	const struct slice shard = ps_of(t)->shard;
	bool ok = true;

	for (int w = 0; w < workers(t) && ok; w++) {
		if (t->team->rank == 0)
			ok = team_start_send(t->team, t->model.numbers->sums->dtype, sync_sums(t),
					     SUMS_NUMBERS, rank_of(t, w), next_request(t));
		ok = ok && team_start_send(t->team, t->model.numbers->dtype,
					   state_next(&t->state, shard.first).weights, shard.count,
					   rank_of(t, w), next_request(t));
	}
	return ok && wait_all(t);
}

static bool update_server(struct training *t)
{
	bool ok = receive_gradients(t);

	if (!ok)
		return false;
	ps_of(t)->partial = t->options->servers > 1;
	add_up(t);
	if (t->team->rank == 0)
		memcpy(sync_sums(t), incoming_sums(t, 0),
		       SUMS_NUMBERS * t->model.numbers->sums->size);
	ok = update_shard(t);
	return ok && send_weights(t);
}

/* ---- both */

static bool update(struct training *t, const struct step *step)
{
	const bool ok = shard_serves(t) ? update_server(t) : update_worker(t);

	if (ok)
		sync_advance(t, step);
	return ok;
}

/* Servers get what they have not; workers have the same already. */
static bool fetch(struct training *t)
{
	const bool gives = t->team->rank == rank_of(t, 0);
	struct state *state = &t->state;

	if (!team_broadcast(t->team, state->now, gives ? state->now : state->next,
			    state_bytes(state), rank_of(t, 0)))
		return false;
	if (!gives)
		state_adopt(state, state->step);
	ps_of(t)->partial = false;
	t->model.weights = state_now(state, 0).weights;
	return true;
}

static bool collect(struct training *t, void *velocity)
{
	return shard_collect(t, ps_of(t)->counts, ps_of(t)->velocity[0], velocity);
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
