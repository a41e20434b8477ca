/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the micro-batches that are under way in a stage, and the messages between neighbours. Messages
 * between two ranks come in the order in which they were sent, which is that of the micro-batches, both
 * ways: so what is received next is known. */
#include "pipeline.h"

#include <stdlib.h>

#include "host.h"
#include "train.h"

/* A micro-batch between its forward pass and the end of its backward pass. */
struct flight {
	void *outputs;	   /* owned: of the layers */
	void *input;	   /* owned: of this stage, [rows][in]: samples, or what came */
	void *handed_back; /* owned: the loss's derivative by the input; of stage 0: NULL */
	void *delta;	   /* owned: by the output, as it comes; of the last stage: NULL */
	tutti_request_t came, went; /* input, and output to the next stage */
	tutti_request_t delta_came, delta_went;
};

struct pipeline {
	struct flight *flights; /* owned: [count]; micro-batch m is in m % count */
	size_t count;
};

static struct pipeline *pipeline_of(const struct training *t)
{
	return t->pipeline;
}

static bool begins(const struct training *t)
{
	return model_begins(&t->model);
}

static bool ends(const struct training *t)
{
	return model_ends(&t->model);
}

static const struct layer *last_layer(const struct training *t)
{
	return &t->model.layer[t->model.layers - 1];
}

static size_t input_width(const struct training *t)
{
	return t->model.layer[0].shape.in;
}

/* ---- its life */

/* How many micro-batches a stage has begun before it ends the first. */
static size_t most_flights(const struct training *t)
{
	const size_t micro = t->grid.micro, behind = (size_t)(t->grid.stages - t->grid.stage);

	/* one more: its input comes meanwhile */
	return t->options->order == ORDER_GPIPE || behind + 1 > micro ? micro : behind + 1;
}

static bool create_flight(const struct training *t, struct flight *f)
{
	const size_t rows = t->model.rows_max, size = t->model.numbers->size;

	f->outputs = calloc(1, model_output_bytes(&t->model));
	f->input = calloc(rows * input_width(t), size);
	if (!begins(t))
		f->handed_back = calloc(rows * input_width(t), size);
	if (!ends(t))
		f->delta = calloc(rows * last_layer(t)->shape.out, size);
	return f->outputs && f->input && (begins(t) || f->handed_back) && (ends(t) || f->delta);
}

tutti_result_t pipeline_create(struct training *t, struct why *why)
{
	struct pipeline *p = calloc(1, sizeof(*p));
	bool created = p != NULL;

	t->pipeline = p;
	if (p) {
		p->count = most_flights(t);
		p->flights = calloc(p->count, sizeof(*p->flights));
		created = p->flights != NULL;
	}
	for (size_t i = 0; created && i < p->count; i++)
		created = create_flight(t, &p->flights[i]);
	return created ? TUTTI_OK : why_no_memory(why, "the micro-batches of a stage");
}

void pipeline_drain(struct training *t)
{
	struct pipeline *p = t->pipeline;

	for (size_t i = 0; p && p->flights && i < p->count; i++) {
		tutti_wait(&p->flights[i].came);
		tutti_wait(&p->flights[i].went);
		tutti_wait(&p->flights[i].delta_came);
		tutti_wait(&p->flights[i].delta_went);
	}
}

void pipeline_finish(struct training *t)
{
	struct pipeline *p = t->pipeline;

	for (size_t i = 0; p && p->flights && i < p->count; i++) {
		free(p->flights[i].outputs);
		free(p->flights[i].input);
		free(p->flights[i].handed_back);
		free(p->flights[i].delta);
	}
	if (p)
		free(p->flights);
	free(p);
	t->pipeline = NULL;
}

/* ---- micro-batches */

/* Of a stage's share of a batch, or of a validation: cut in `of` parts. */
struct work {
	struct training *training;
	const uint32_t *rows; /* of all */
	size_t count;
	size_t of;
	bool trains; /* sync's weights may be on their way, or others than the state's */
	double scale;
	struct sums *sums;
	struct why *why;
};

static struct slice micro_of(const struct work *w, size_t m)
{
	return slice_of(w->count, (int)m, (int)w->of);
}

static struct flight *flight_of(const struct work *w, size_t m)
{
	const struct pipeline *p = pipeline_of(w->training);

	return &p->flights[m % p->count];
}

/* The last stage comes first in a line (grid.h). */
static int next_stage(const struct training *t)
{
	return t->grid.own_stages.rank - 1;
}

static int stage_before(const struct training *t)
{
	return t->grid.own_stages.rank + 1;
}

static tutti_result_t send(struct training *t, const void *values, size_t count, int peer,
			   tutti_request_t *request, struct why *why)
{
	return count == 0 ? TUTTI_OK
			  : team_start_send(&t->grid.own_stages, t->model.numbers->dtype, values,
					    count, peer, request, why);
}

static tutti_result_t receive(struct training *t, void *values, size_t count, int peer,
			      tutti_request_t *request, struct why *why)
{
	return count == 0 ? TUTTI_OK
			  : team_start_receive(&t->grid.own_stages, t->model.numbers->dtype, values,
					       count, peer, request, why);
}

static tutti_result_t wait(struct training *t, tutti_request_t *request, struct why *why)
{
	return *request ? team_wait(&t->grid.own_stages, request, why) : TUTTI_OK;
}

/* The micro-batch that was in its place is done with: the input of `m` may come. */
static tutti_result_t expect_input(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct flight *f = flight_of(w, m);

	return m >= w->of || begins(t) ? TUTTI_OK
				       : receive(t, f->input, micro_of(w, m).count * input_width(t),
						 stage_before(t), &f->came, w->why);
}

/* With what its mates have of the layer. */
static tutti_result_t forward_layer(const struct work *w, unsigned l, const void *x, size_t rows)
{
	struct training *t = w->training;
	const struct layer *layer = &t->model.layer[l];
	tutti_result_t result;

	model_forward_layer(&t->model, x, l, rows);
	if (!model_by_rows(&t->model, l))
		return TUTTI_OK;
	result = grid_sum_parts(&t->grid, t->model.numbers, layer->output, rows * layer->shape.out,
				w->why);
	model_open_layer(&t->model, l, rows);
	return result;
}

static tutti_result_t forward(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const struct slice micro = micro_of(w, m);
	const struct slice features = model_features(&t->model);
	struct flight *f = flight_of(w, m);
	tutti_result_t result;

	if (begins(t))
		t->model.numbers->gather(f->input, t->data.x + features.first, t->data.features,
					 features.count, w->rows + micro.first, micro.count);
	result = wait(t, &f->came, w->why);
	if (result == TUTTI_OK)
		result = wait(t, &f->went, w->why);
	model_use_outputs(&t->model, f->outputs, f->input);
	for (unsigned l = 0; l < t->model.layers && result == TUTTI_OK; l++) {
		if (w->trains)
			result = t->sync->weights(t, l, w->why);
		if (result == TUTTI_OK)
			result = forward_layer(w, l, f->input, micro.count);
	}
	if (result != TUTTI_OK || ends(t))
		return result;
	return send(t, last_layer(t)->output, micro.count * last_layer(t)->shape.out, next_stage(t),
		    &f->went, w->why);
}

static void add_loss(const struct work *w, struct slice micro)
{
	struct training *t = w->training;
	struct sums others = { 0 }; /* all mates have the same logits, and the first counts them */

	for (size_t i = 0; i < micro.count; i++)
		t->y[i] = t->data.y[w->rows[micro.first + i]];
	model_loss(&t->model, t->y, micro.count, w->scale, t->grid.way == 0 ? w->sums : &others);
}

/* ---- steps */

/* The derivative by the output of micro-batch `m`: on the last stage that of the loss. */
static tutti_result_t take_delta(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct layer *last = &t->model.layer[t->model.layers - 1];
	struct flight *f = flight_of(w, m);

	if (ends(t)) {
		add_loss(w, micro_of(w, m));
		return TUTTI_OK;
	}
	last->delta = f->delta;
	return wait(t, &f->delta_came, w->why);
}

static tutti_result_t expect_delta(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct flight *f = flight_of(w, m);

	return ends(t) ? TUTTI_OK
		       : receive(t, f->delta, micro_of(w, m).count * last_layer(t)->shape.out,
				 next_stage(t), &f->delta_came, w->why);
}

/* The derivative by the input, to the stage that it came from, which waits for it. */
static tutti_result_t hand_back(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const size_t count = micro_of(w, m).count;
	struct flight *f = flight_of(w, m);
	tutti_result_t result = wait(t, &f->delta_went, w->why);

	if (result != TUTTI_OK)
		return result;
	model_backward_input(&t->model, count, f->handed_back);
	result = grid_sum_parts(&t->grid, t->model.numbers, f->handed_back, count * input_width(t),
				w->why);
	if (result != TUTTI_OK)
		return result;
	return send(t, f->handed_back, count * input_width(t), stage_before(t), &f->delta_went,
		    w->why);
}

static tutti_result_t backward_layer(const struct work *w, unsigned l, size_t rows, bool add)
{
	struct training *t = w->training;

	model_backward(&t->model, l, rows, add);
	return l > 0 && model_by_columns(&t->model, l)
		       ? grid_sum_parts(&t->grid, t->model.numbers, t->model.layer[l - 1].delta,
					rows * t->model.layer[l].shape.in, w->why)
		       : TUTTI_OK;
}

/* The gradients of all but the last are only added up. */
static tutti_result_t backward(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const size_t count = micro_of(w, m).count;
	struct flight *f = flight_of(w, m);
	tutti_result_t result;

	model_use_outputs(&t->model, f->outputs, f->input);
	result = take_delta(w, m);
	if (m == w->of - 1)
		sync_store_sums(t, w->sums);
	for (unsigned l = t->model.layers; l-- > 0 && result == TUTTI_OK;) {
		if (l == 0 && !begins(t))
			result = hand_back(w, m);
		if (result == TUTTI_OK)
			result = backward_layer(w, l, count, m > 0);
		if (result == TUTTI_OK && m == w->of - 1)
			result = t->sync->gradients(t, l, w->why);
	}
	return result;
}

/* How many forward passes come before the first backward pass. */
static size_t count_ahead(const struct training *t)
{
	const size_t micro = t->grid.micro, behind = (size_t)(t->grid.stages - 1 - t->grid.stage);

	return t->options->order == ORDER_GPIPE || behind > micro ? micro : behind;
}

static tutti_result_t forward_step(const struct work *w, size_t m)
{
	const tutti_result_t result = forward(w, m);

	return result == TUTTI_OK ? expect_delta(w, m) : result;
}

static tutti_result_t backward_step(const struct work *w, size_t m)
{
	const tutti_result_t result = backward(w, m);

	return result == TUTTI_OK ? expect_input(w, m + pipeline_of(w->training)->count) : result;
}

static tutti_result_t expect_first(const struct work *w)
{
	tutti_result_t result = TUTTI_OK;

	for (size_t m = 0; m < pipeline_of(w->training)->count && result == TUTTI_OK; m++)
		result = expect_input(w, m);
	return result;
}

tutti_result_t pipeline_gradients(struct training *t, struct slice samples, double scale,
				  struct sums *sums, struct why *why)
{
	const struct work w = { .training = t,
				.rows = t->order + samples.first,
				.count = samples.count,
				.of = t->grid.micro,
				.trains = true,
				.scale = scale,
				.sums = sums,
				.why = why };
	const size_t ahead = count_ahead(t);
	tutti_result_t result = expect_first(&w);
	size_t f = 0;

	for (; f < ahead && result == TUTTI_OK; f++)
		result = forward_step(&w, f);
	for (size_t b = 0; b < w.of && result == TUTTI_OK; b++) {
		if (f < w.of)
			result = forward_step(&w, f++);
		if (result == TUTTI_OK)
			result = backward_step(&w, b);
	}
	return result;
}

/* ---- validation */

static tutti_result_t validate_micro(const struct work *w, size_t m)
{
	tutti_result_t result = forward(w, m);

	if (result == TUTTI_OK && ends(w->training))
		add_loss(w, micro_of(w, m));
	return result == TUTTI_OK ? expect_input(w, m + pipeline_of(w->training)->count) : result;
}

/* Outputs that are sent have to have gone before the next step writes others there. */
static tutti_result_t end_messages(const struct work *w)
{
	const struct pipeline *p = pipeline_of(w->training);
	tutti_result_t result = TUTTI_OK;

	for (size_t i = 0; i < p->count && result == TUTTI_OK; i++)
		result = wait(w->training, &p->flights[i].went, w->why);
	return result;
}

tutti_result_t pipeline_validate(struct training *t, const uint32_t *rows, size_t count,
				 struct sums *sums, struct why *why)
{
	const struct work w = { .training = t,
				.rows = rows,
				.count = count,
				.of = (count + t->model.rows_max - 1) / t->model.rows_max,
				.sums = sums,
				.why = why };
	tutti_result_t result = expect_first(&w);

	for (size_t m = 0; m < w.of && result == TUTTI_OK; m++)
		result = validate_micro(&w, m);
	return result == TUTTI_OK ? end_messages(&w) : result;
}
