/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the synchronous parameter server (Li et al. 2014): the first --servers ranks compute
 * nothing, but keep a shard of the weights and its velocity each. In each step a worker sends each
 * server its gradients of the shard, as soon as the backward pass has them; the server adds them
 * up in order of rank, updates its shard, and sends it to all workers.
 *
 * Workers hold all weights, servers those of their shard; at the end of an epoch everybody holds
 * all. When ranks are lost, servers that have not got all of them receive the state of a worker.
 * The first ranks are servers again; replacements are the last. Who still has the velocity that
 * its shard had after the step that is gone on from keeps it; that of another shard begins anew. */
#include <stdlib.h>

#include "train.h"

struct ps {
	tutti_request_t *requests; /* owned: [2 × ranks + 2]; the first `pending` are in flight */
	size_t pending;
	unsigned sent;	/* shards whose gradients a worker has sent in this step */
	void *incoming; /* owned: a server's, [workers - 1][shard + sums] */
};

static struct ps *ps_of(const struct training *t)
{
	return t->way;
}

static struct slice own_shard(const struct training *t)
{
	return t->buckets.bucket[0].mine;
}

/* ---- its life */

static bool begin(struct training *t)
{
	const size_t ranks = (size_t)t->team->size;
	struct ps *ps = t->way;

	if (!kept_lay_out(t))
		return false;
	free(ps->requests);
	free(ps->incoming);
	ps->requests = calloc(2 * ranks + 2, sizeof(*ps->requests));
	ps->incoming = malloc(ranks * numbers_sums_end(t->model.numbers, own_shard(t).count));
	if (!ps->requests || !ps->incoming)
		return why_no_memory("the parameter servers");
	ps->sent = 0;
	return (!t->resumes && kept_is_current(t)) ||
	       kept_renew(t, kept_serves(t) ? "a parameter server's weights" : NULL);
}

static void finish(struct training *t)
{
	free(ps_of(t)->incoming);
	free(ps_of(t)->requests);
}

/* ---- messages */

static tutti_request_t *next_request(const struct training *t)
{
	return &ps_of(t)->requests[ps_of(t)->pending++];
}

static bool send(struct training *t, const struct numbers *numbers, const void *values,
		 size_t count, int peer)
{
	return team_start_send(t->team, numbers->dtype, values, count, peer, next_request(t));
}

static bool receive(struct training *t, const struct numbers *numbers, void *values, size_t count,
		    int peer)
{
	return team_start_receive(t->team, numbers->dtype, values, count, peer, next_request(t));
}

static bool wait_all(struct training *t)
{
	return sync_wait_all(t, ps_of(t)->requests, &ps_of(t)->pending);
}

/* ---- a worker */

/* The first server adds up loss and hits, too. Gradients become ready from the front. */
static bool gradients(struct training *t, unsigned l)
{
	const size_t ready = t->model.layer[l].offset + t->model.layer[l].count;
	const struct numbers *numbers = t->model.numbers->gradients;
	struct ps *ps = t->way;

	if (l == t->model.layers - 1 &&
	    !send(t, t->model.numbers->sums, model_sums(&t->model), SUMS_NUMBERS, 0))
		return false;
	for (; ps->sent < t->options->servers; ps->sent++) {
		const struct slice shard = kept_shard(t, ps->sent);

		if (shard.first + shard.count > ready)
			break;
		if (!send(t, numbers, numbers_at(numbers, t->model.gradients, shard.first),
			  shard.count, (int)ps->sent))
			return false;
	}
	return true;
}

static bool update_worker(struct training *t)
{
	/* the sums come where these were sent from */
	if (!wait_all(t) ||
	    !receive(t, t->model.numbers->sums, model_sums(&t->model), SUMS_NUMBERS, 0))
		return false;
	for (unsigned s = 0; s < t->options->servers; s++) {
		const struct slice shard = kept_shard(t, s);

		if (!receive(t, t->model.numbers, state_next(&t->state, shard.first).weights,
			     shard.count, (int)s))
			return false;
	}
	ps_of(t)->sent = 0;
	return wait_all(t);
}

/* ---- a server */

/* Where a worker's gradients of the shard arrive, and its sums: the first one's where all are added
 * up. */
static void *incoming(const struct training *t, int worker)
{
	const struct numbers *numbers = t->model.numbers;

	if (worker == 0)
		return numbers_at(numbers->gradients, t->model.gradients, own_shard(t).first);
	return (char *)ps_of(t)->incoming +
	       (size_t)(worker - 1) * numbers_sums_end(numbers, own_shard(t).count);
}

static void *incoming_sums(const struct training *t, int worker)
{
	if (worker == 0)
		return model_sums(&t->model);
	return (char *)incoming(t, worker) +
	       numbers_sums_offset(t->model.numbers, own_shard(t).count);
}

static bool receive_gradients(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;
	const int servers = (int)t->options->servers;

	for (int w = 0; w < sync_worker(t).count; w++)
		if ((t->team->rank == 0 &&
		     !receive(t, numbers->sums, incoming_sums(t, w), SUMS_NUMBERS, servers + w)) ||
		    !receive(t, numbers->gradients, incoming(t, w), own_shard(t).count,
			     servers + w))
			return false;
	return wait_all(t);
}

static void add_up(struct training *t)
{
	const struct numbers *numbers = t->model.numbers;

	for (int w = 1; w < sync_worker(t).count; w++) {
		numbers->gradients->add(incoming(t, 0), incoming(t, w), own_shard(t).count);
		if (t->team->rank == 0)
			numbers->sums->add(model_sums(&t->model), incoming_sums(t, w),
					   SUMS_NUMBERS);
	}
}

static bool send_weights(struct training *t)
{
	const struct slice shard = own_shard(t);
	const int servers = (int)t->options->servers;

	for (int w = 0; w < sync_worker(t).count; w++)
		if ((t->team->rank == 0 && !send(t, t->model.numbers->sums, model_sums(&t->model),
						 SUMS_NUMBERS, servers + w)) ||
		    !send(t, t->model.numbers, state_next(&t->state, shard.first).weights,
			  shard.count, servers + w))
			return false;
	return wait_all(t);
}

/* An optimiser that goes by layers has one server, who has all of them (options_check.c). */
static bool update_server(struct training *t)
{
	const struct stretch shard = kept_stretch(t, 0);
	struct squares squares[MODEL_LAYERS_MAX];

	if (!receive_gradients(t))
		return false;
	t->survival.lacks_state = t->options->servers > 1; /* until fetch() */
	add_up(t);
	if (!sync_survey(t, &shard, 1, false, squares))
		return false;
	sync_update(t, &shard, squares);
	kept_advance(t);
	return send_weights(t);
}

/* ---- both */

static bool update(struct training *t)
{
	if (!(kept_serves(t) ? update_server(t) : update_worker(t)))
		return false;
	sync_advance(t);
	return true;
}

/* Servers get what they have not; workers have the same already. */
static bool fetch(struct training *t)
{
	if (!state_broadcast(&t->state, t->team, t->state.step, (int)t->options->servers))
		return false;
	t->survival.lacks_state = false;
	t->model.weights = state_now(&t->state, 0).weights;
	return true;
}

static void drain(struct training *t)
{
	struct ps *ps = t->way;

	tutti_wait_all(ps->requests, ps->pending);
	ps->pending = 0;
}

const struct sync sync_ps = {
	.name = "ps",
	.what = "gradients to parameter servers",
	.each_step = true,
	.shares_velocity = true,
	.bytes = sizeof(struct ps),
	.begin = begin,
	.gradients = gradients,
	.update = update,
	.fetch = fetch,
	.drain = drain,
	.finish = finish,
};
