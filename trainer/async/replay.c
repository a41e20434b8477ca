/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the proof of an asynchronous training: one rank does again what the journals say, and has the
 * same bits. It plays all servers and workers. A server's next update is made when the gradients for
 * it are there; a worker's gradients are computed when the weights that it had are there, which are
 * taken over from each shard in the moment that it has the version. */
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "journal.h"
#include "shard.h"
#include "sync.h"
#include "train.h"

/* A server's part of the play. */
struct player {
	struct shard shard;
	struct journal journal;
	size_t next;	 /* entry */
	size_t *all;	 /* owned: [workers]: entries of each … */
	size_t *counted; /* owned: [workers]: … and those that are behind */
};

/* A worker's. */
struct played {
	const struct journal_entry **pushes; /* owned: [count]: all that it has sent */
	size_t count, next;		     /* whose gradients are computed next */
	struct workplace place;		     /* owned */
	bool has[SERVERS_MAX];		     /* the weights of each shard for that */
	struct sums sums;		     /* of the gradients at hand */
};

struct replay {
	struct player *servers; /* owned: [server_count] */
	struct played *workers; /* owned: [worker_count] */
	unsigned server_count;
	size_t worker_count;
	struct sums sums; /* of the epoch */
	void **gradients; /* owned: [worker_count], of one update */
	uint64_t *tasks;
};

static struct replay *replay_of(const struct training *t)
{
	return t->way;
}

/* ---- before the play */

static tutti_result_t check_head(const struct training *t, const struct journal *j, struct why *why)
{
	const struct journal_head *h = &j->head;
	const char *differs = NULL;

	if (h->options != options_curve_hash(t->options, t->batch, (int)t->workers))
		differs = "options that shape the curve";
	else if (h->data != t->data_hash)
		differs = "data";
	else if (h->workers != t->workers)
		differs = "numbers of workers";
	if (differs)
		return why_set(why, TUTTI_ERR_INVALID,
			       "--replay: %s is of a training with other %s; give the same as then",
			       t->options->replay, differs);
	if (j->epochs < t->options->epochs - h->step / t->steps_per_epoch)
		return why_set(
			why, TUTTI_ERR_INVALID,
			"--replay: %s has %u complete epochs from step %zu on, expected those "
			"to the end of --epochs %u; it is of a training that did not end",
			t->options->replay, j->epochs, (size_t)h->step, t->options->epochs);
	return TUTTI_OK;
}

static tutti_result_t check_entries(const struct training *t, const struct journal *j,
				    struct why *why)
{
	const uint64_t tasks = (uint64_t)compute_tasks_of_epoch(t) * t->options->epochs;

	for (size_t i = 0; i < j->count; i++)
		if (j->entries[i].task >= tasks)
			return why_set(
				why, TUTTI_ERR_INVALID,
				"--replay: %s has a task %llu, expected less than %llu; it is "
				"damaged",
				t->options->replay, (unsigned long long)j->entries[i].task,
				(unsigned long long)tasks);
	return TUTTI_OK;
}

static tutti_result_t create_server(struct training *t, unsigned s, struct why *why)
{
	struct player *p = &replay_of(t)->servers[s];
	tutti_result_t result =
		journal_read(t->options->replay, s, t->options->servers, &p->journal, why);

	if (result == TUTTI_OK)
		result = check_head(t, &p->journal, why);
	if (result == TUTTI_OK)
		result = check_entries(t, &p->journal, why);
	return result == TUTTI_OK ? shard_create(t, s, &p->shard, why) : result;
}

static size_t count_workers(const struct replay *r)
{
	size_t count = 0;

	for (unsigned s = 0; s < r->server_count; s++)
		for (size_t i = 0; i < r->servers[s].journal.count; i++)
			if (r->servers[s].journal.entries[i].worker >= count)
				count = (size_t)r->servers[s].journal.entries[i].worker + 1;
	return count;
}

/* What a worker sent right before it died may not have come everywhere: the longest list is right. */
static tutti_result_t create_worker(struct training *t, size_t number, struct why *why)
{
	const struct replay *r = replay_of(t);
	struct played *w = &r->workers[number];
	const size_t parameters = t->model.parameters, size = t->model.numbers->size;
	const struct player *longest = &r->servers[0];

	for (unsigned s = 1; s < r->server_count; s++)
		longest =
			r->servers[s].all[number] > longest->all[number] ? &r->servers[s] : longest;
	w->pushes = calloc(longest->all[number] + 1, sizeof(struct journal_entry *));
	w->place = (struct workplace){ .weights = calloc(parameters, size),
				       .gradients = calloc(parameters, size) };
	if (!w->pushes || !w->place.weights || !w->place.gradients)
		return why_no_memory(why, "the workers of a journal");
	for (size_t i = 0; i < longest->journal.count; i++)
		if (longest->journal.entries[i].worker == number)
			w->pushes[w->count++] = &longest->journal.entries[i];
	return TUTTI_OK;
}

static tutti_result_t create_workers(struct training *t, struct why *why)
{
	struct replay *r = replay_of(t);
	tutti_result_t result = TUTTI_OK;

	r->worker_count = count_workers(r);
	r->workers = calloc(r->worker_count + 1, sizeof(*r->workers));
	r->gradients = calloc(r->worker_count + 1, sizeof(*r->gradients));
	r->tasks = calloc(r->worker_count + 1, sizeof(*r->tasks));
	if (!r->workers || !r->gradients || !r->tasks)
		return why_no_memory(why, "the workers of a journal");
	for (unsigned s = 0; s < r->server_count; s++) {
		struct player *p = &r->servers[s];

		p->all = calloc(r->worker_count + 1, sizeof(*p->all));
		p->counted = calloc(r->worker_count + 1, sizeof(*p->counted));
		if (!p->all || !p->counted)
			return why_no_memory(why, "the workers of a journal");
		for (size_t i = 0; i < p->journal.count; i++)
			p->all[p->journal.entries[i].worker]++;
	}
	for (size_t w = 0; w < r->worker_count && result == TUTTI_OK; w++)
		result = create_worker(t, w, why);
	return result;
}

static tutti_result_t create(struct training *t, struct why *why)
{
	struct replay *r = calloc(1, sizeof(*r));
	tutti_result_t result = TUTTI_OK;

	t->way = r;
	if (r)
		r->servers = calloc(t->options->servers, sizeof(*r->servers));
	if (!r || !r->servers)
		return why_no_memory(why, "a journal");
	r->server_count = t->options->servers;
	if (t->team->started > 1)
		return why_set(why, TUTTI_ERR_INVALID,
			       "--replay: found %d ranks, expected one, which plays all of them",
			       t->team->started);
	for (unsigned s = 0; s < r->server_count && result == TUTTI_OK; s++)
		result = create_server(t, s, why);
	return result == TUTTI_OK ? create_workers(t, why) : result;
}

static void finish(struct training *t)
{
	struct replay *r = replay_of(t);

	if (!r)
		return;
	for (unsigned s = 0; r->servers && s < r->server_count; s++) {
		shard_finish(&r->servers[s].shard);
		journal_finish(&r->servers[s].journal);
		free(r->servers[s].all);
		free(r->servers[s].counted);
	}
	for (size_t w = 0; r->workers && w < r->worker_count; w++) {
		free(r->workers[w].pushes);
		free(r->workers[w].place.weights);
		free(r->workers[w].place.gradients);
	}
	free(r->servers);
	free(r->workers);
	free(r->gradients);
	free(r->tasks);
	free(r);
}

/* ---- a worker's play */

/* The weights of `s` for its next task, if the shard has that version now. */
static void take_over(const struct training *t, struct played *w, unsigned s)
{
	const struct shard *shard = &replay_of(t)->servers[s].shard;
	const struct numbers *numbers = t->model.numbers;

	if (w->next == w->count || w->has[s] || w->pushes[w->next]->age > 0 ||
	    w->pushes[w->next]->versions[s] != shard->version)
		return;
	memcpy(numbers_at(numbers, w->place.weights, shard->slice.first), shard->weights,
	       shard->slice.count * numbers->size);
	w->has[s] = true;
}

static void take_over_all(struct training *t)
{
	struct replay *r = replay_of(t);

	for (size_t w = 0; w < r->worker_count; w++)
		for (unsigned s = 0; s < r->server_count; s++)
			take_over(t, &r->workers[w], s);
}

/* Are the weights there, and have all servers used the gradients before? */
static bool can_compute(const struct replay *r, size_t worker)
{
	const struct played *w = &r->workers[worker];
	bool can = w->next < w->count;

	for (unsigned s = 0; s < r->server_count && can; s++) {
		const struct player *p = &r->servers[s];
		const size_t behind = w->next < p->all[worker] ? w->next : p->all[worker];

		can = (w->has[s] || w->pushes[w->next]->age > 0) && p->counted[worker] == behind;
	}
	return can;
}

static tutti_result_t compute(struct training *t, struct played *w, struct why *why)
{
	const struct journal_entry *e = w->pushes[w->next++];
	const bool goes_on = (e->age + 1) * t->options->push_every < t->options->fetch_every;

	memset(w->has, 0, sizeof(w->has));
	return compute_task(t, &w->place, e->task, goes_on, &w->sums, why);
}

/* Whatever can be; false: nothing. */
static tutti_result_t compute_all(struct training *t, bool *some, struct why *why)
{
	struct replay *r = replay_of(t);
	tutti_result_t result = TUTTI_OK;

	for (size_t w = 0; w < r->worker_count && result == TUTTI_OK; w++) {
		if (!can_compute(r, w))
			continue;
		*some = true;
		result = compute(t, &r->workers[w], why);
		take_over_all(t);
	}
	return result;
}

/* ---- a server's play */

/* The entries of the next update, or one that came too late. */
static size_t next_update(const struct player *p)
{
	const struct journal_entry *e = &p->journal.entries[p->next];
	size_t count = 1;

	while (e->update > 0 && p->next + count < p->journal.count && e[count].update == e->update)
		count++;
	return count;
}

static bool is_computed(const struct replay *r, const struct player *p, size_t count)
{
	bool is = true;

	for (size_t i = 0; i < count; i++) {
		const uint64_t worker = p->journal.entries[p->next + i].worker;

		is = is && r->workers[worker].next == p->counted[worker] + 1;
	}
	return is;
}

static void add_sums(struct replay *r, const struct sums *sums)
{
	r->sums.loss += sums->loss;
	r->sums.correct += sums->correct;
	r->sums.samples += sums->samples;
}

static void play_update(struct training *t, struct player *p, size_t count)
{
	struct replay *r = replay_of(t);
	const struct journal_entry *e = &p->journal.entries[p->next];

	for (size_t i = 0; i < count; i++) {
		struct played *w = &r->workers[e[i].worker];

		r->gradients[i] = numbers_at(t->model.numbers->gradients, w->place.gradients,
					     p->shard.slice.first);
		r->tasks[i] = e[i].task;
		p->counted[e[i].worker]++;
		if (p == r->servers && e->update > 0)
			add_sums(r, &w->sums);
	}
	if (e->update > 0)
		shard_update(t, &p->shard, r->gradients, r->tasks, count);
	p->next += count;
}

/* Up to entry `end`. */
static void play_server(struct training *t, struct player *p, size_t end, bool *some)
{
	while (p->next < end) {
		const size_t count = next_update(p);

		if (count > replay_of(t)->worker_count || !is_computed(replay_of(t), p, count))
			return;
		play_update(t, p, count);
		take_over_all(t);
		*some = true;
	}
}

static bool is_over(const struct replay *r, size_t epoch)
{
	bool over = true;

	for (unsigned s = 0; s < r->server_count; s++)
		over = over && r->servers[s].next == r->servers[s].journal.ends[epoch];
	return over;
}

/* Epoch `epoch` of the journals. */
static tutti_result_t play(struct training *t, size_t epoch, struct why *why)
{
	struct replay *r = replay_of(t);
	tutti_result_t result = TUTTI_OK;
	bool some = true;

	r->sums = (struct sums){ 0 };
	take_over_all(t);
	while (result == TUTTI_OK && !is_over(r, epoch)) {
		if (!some)
			return why_set(
				why, TUTTI_ERR_INVALID,
				"--replay: %s: the journals of servers do not fit together, or "
				"one is damaged; give those of one training",
				t->options->replay);
		some = false;
		result = compute_all(t, &some, why);
		for (unsigned s = 0; s < r->server_count && result == TUTTI_OK; s++)
			play_server(t, &r->servers[s], r->servers[s].journal.ends[epoch], &some);
	}
	return result;
}

/* ---- the table */

/* What a checkpoint brought has to be what the training went on from. */
static tutti_result_t begin(struct training *t, struct why *why)
{
	const bool keeps = t->options->optimizer->velocities > 0;
	struct replay *r = replay_of(t);

	t->model.weights = state_now(&t->state, 0).weights;
	for (unsigned s = 0; s < r->server_count; s++) {
		const struct journal_head *h = &r->servers[s].journal.head;

		if (h->step != t->state.step)
			return why_set(
				why, TUTTI_ERR_INVALID,
				"--replay: %s of server %u begins after step %zu of the training, "
				"and this one after step %zu; --save and --resume have to be as "
				"then, and all journals of one training",
				t->options->replay, s, (size_t)h->step, t->state.step);
	}
	for (unsigned s = 0; s < r->server_count && t->velocity && keeps; s++) {
		struct shard *shard = &r->servers[s].shard;

		memcpy(shard->velocity,
		       numbers_at(t->model.numbers, t->velocity, shard->slice.first),
		       shard->slice.count * t->model.numbers->size);
	}
	sync_velocity_shared(t);
	return TUTTI_OK;
}

/* An epoch at once, with its last step. */
static tutti_result_t update(struct training *t, const struct step *step, struct why *why)
{
	const struct replay *r = replay_of(t);
	const size_t steps = t->steps_per_epoch,
		     epoch = (t->state.step - r->servers[0].journal.head.step) / steps;
	tutti_result_t result = TUTTI_OK;

	if (t->state.step % steps == steps - 1)
		result = play(t, epoch, why);
	if (result == TUTTI_OK)
		t->state.step++;
	return result;
}

static tutti_result_t fetch(struct training *t, struct why *why)
{
	state_set_sums(&t->state, &replay_of(t)->sums);
	t->model.weights = state_now(&t->state, 0).weights;
	return TUTTI_OK;
}

static tutti_result_t collect(struct training *t, void *velocity, struct why *why)
{
	const struct replay *r = replay_of(t);

	for (unsigned s = 0; s < r->server_count && t->options->optimizer->velocities > 0; s++) {
		const struct shard *shard = &r->servers[s].shard;

		memcpy(numbers_at(t->model.numbers, velocity, shard->slice.first), shard->velocity,
		       shard->slice.count * t->model.numbers->size);
	}
	return TUTTI_OK;
}

const struct sync sync_replay = {
	.name = "async",
	.what = "updates as the journals of parameter servers have them",
	.shares_velocity = true,
	.create = create,
	.begin = begin,
	.work = sync_has_epochs,
	.weights = sync_no_layer,
	.divisor = sync_all_samples,
	.gradients = sync_no_layer,
	.update = update,
	.fetch = fetch,
	.collect = collect,
	.end = sync_nothing,
	.others = sync_no_others,
	.drain = sync_drains_nothing,
	.give_up = sync_tells_nobody,
	.finish = finish,
};
