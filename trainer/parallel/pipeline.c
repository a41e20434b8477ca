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

bool pipeline_create(struct training *t)
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
	return created || why_no_memory("the micro-batches of a stage");
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

static bool send(struct training *t, const void *values, size_t count, int peer,
		 tutti_request_t *request)
{
	return count == 0 || team_start_send(&t->grid.own_stages, t->model.numbers->dtype, values,
					     count, peer, request);
}

static bool receive(struct training *t, void *values, size_t count, int peer,
		    tutti_request_t *request)
{
	return count == 0 || team_start_receive(&t->grid.own_stages, t->model.numbers->dtype,
						values, count, peer, request);
}

static bool wait(struct training *t, tutti_request_t *request)
{
	return !*request || team_wait(&t->grid.own_stages, request);
}

/* The micro-batch that was in its place is done with: the input of `m` may come. */
static bool expect_input(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct flight *f = flight_of(w, m);

	return m >= w->of || begins(t) ||
	       receive(t, f->input, micro_of(w, m).count * input_width(t), stage_before(t),
		       &f->came);
}

/* With what its mates have of the layer. */
static bool forward_layer(const struct work *w, unsigned l, const void *x, size_t rows)
{
	struct training *t = w->training;
	const struct layer *layer = &t->model.layer[l];
	bool ok;

	model_forward_layer(&t->model, x, l, rows);
	if (!model_by_rows(&t->model, l))
		return true;
	ok = grid_sum_parts(&t->grid, t->model.numbers, layer->output, rows * layer->shape.out);
	model_open_layer(&t->model, l, rows);
	return ok;
}

static bool forward(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const struct slice micro = micro_of(w, m);
	const struct slice features = model_features(&t->model);
	struct flight *f = flight_of(w, m);
	bool ok;

	if (begins(t))
		t->model.numbers->gather(f->input, t->data.x + features.first, t->data.features,
					 features.count, w->rows + micro.first, micro.count);
	ok = wait(t, &f->came) && wait(t, &f->went);
	model_use_outputs(&t->model, f->outputs, f->input);
	for (unsigned l = 0; l < t->model.layers && ok; l++) {
		if (w->trains)
			ok = t->sync->weights(t, l);
		ok = ok && forward_layer(w, l, f->input, micro.count);
	}
	if (!ok || ends(t))
		return ok;
	return send(t, last_layer(t)->output, micro.count * last_layer(t)->shape.out, next_stage(t),
		    &f->went);
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
static bool take_delta(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct layer *last = &t->model.layer[t->model.layers - 1];
	struct flight *f = flight_of(w, m);

	if (ends(t)) {
		add_loss(w, micro_of(w, m));
		return true;
	}
	last->delta = f->delta;
	return wait(t, &f->delta_came);
}

static bool expect_delta(const struct work *w, size_t m)
{
	struct training *t = w->training;
	struct flight *f = flight_of(w, m);

	return ends(t) || receive(t, f->delta, micro_of(w, m).count * last_layer(t)->shape.out,
				  next_stage(t), &f->delta_came);
}

/* The derivative by the input, to the stage that it came from, which waits for it. */
static bool hand_back(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const size_t count = micro_of(w, m).count;
	struct flight *f = flight_of(w, m);

	if (!wait(t, &f->delta_went))
		return false;
	model_backward_input(&t->model, count, f->handed_back);
	return grid_sum_parts(&t->grid, t->model.numbers, f->handed_back, count * input_width(t)) &&
	       send(t, f->handed_back, count * input_width(t), stage_before(t), &f->delta_went);
}

static bool backward_layer(const struct work *w, unsigned l, size_t rows, bool add)
{
	struct training *t = w->training;

	model_backward(&t->model, l, rows, add);
	return l <= 0 || !model_by_columns(&t->model, l) ||
	       grid_sum_parts(&t->grid, t->model.numbers, t->model.layer[l - 1].delta,
			      rows * t->model.layer[l].shape.in);
}

/* The gradients of all but the last are only added up. */
static bool backward(const struct work *w, size_t m)
{
	struct training *t = w->training;
	const size_t count = micro_of(w, m).count;
	struct flight *f = flight_of(w, m);
	bool ok;

	model_use_outputs(&t->model, f->outputs, f->input);
	ok = take_delta(w, m);
	if (m == w->of - 1)
		sync_store_sums(t, w->sums);
	for (unsigned l = t->model.layers; l-- > 0 && ok;) {
		if (l == 0 && !begins(t))
			ok = hand_back(w, m);
		ok = ok && backward_layer(w, l, count, m > 0);
		if (ok && m == w->of - 1)
			ok = t->sync->gradients(t, l);
	}
	return ok;
}

/* How many forward passes come before the first backward pass. */
static size_t count_ahead(const struct training *t)
{
	const size_t micro = t->grid.micro, behind = (size_t)(t->grid.stages - 1 - t->grid.stage);

	return t->options->order == ORDER_GPIPE || behind > micro ? micro : behind;
}

static bool forward_step(const struct work *w, size_t m)
{
	return forward(w, m) && expect_delta(w, m);
}

static bool backward_step(const struct work *w, size_t m)
{
	return backward(w, m) && expect_input(w, m + pipeline_of(w->training)->count);
}

static bool expect_first(const struct work *w)
{
	bool ok = true;

	for (size_t m = 0; m < pipeline_of(w->training)->count && ok; m++)
		ok = expect_input(w, m);
	return ok;
}

bool pipeline_gradients(struct training *t, struct slice samples, double scale, struct sums *sums)
{
	const struct work w = {
		.training = t,
		.rows = t->order + samples.first,
		.count = samples.count,
		.of = t->grid.micro,
		.trains = true,
		.scale = scale,
		.sums = sums,
	};
	const size_t ahead = count_ahead(t);
	bool ok = expect_first(&w);
	size_t f = 0;

	for (; f < ahead && ok; f++)
		ok = forward_step(&w, f);
	for (size_t b = 0; b < w.of && ok; b++) {
		if (f < w.of)
			ok = forward_step(&w, f++);
		ok = ok && backward_step(&w, b);
	}
	return ok;
}

/* ---- validation */

static bool validate_micro(const struct work *w, size_t m)
{
	bool ok = forward(w, m);

	if (ok && ends(w->training))
		add_loss(w, micro_of(w, m));
	return ok && expect_input(w, m + pipeline_of(w->training)->count);
}

/* Outputs that are sent have to have gone before the next step writes others there. */
static bool end_messages(const struct work *w)
{
	const struct pipeline *p = pipeline_of(w->training);
	bool ok = true;

	for (size_t i = 0; i < p->count && ok; i++)
		ok = wait(w->training, &p->flights[i].went);
	return ok;
}

bool pipeline_validate(struct training *t, const uint32_t *rows, size_t count, struct sums *sums)
{
	const struct work w = {
		.training = t,
		.rows = rows,
		.count = count,
		.of = (count + t->model.rows_max - 1) / t->model.rows_max,
		.sums = sums,
	};
	bool ok = expect_first(&w);

	for (size_t m = 0; m < w.of && ok; m++)
		ok = validate_micro(&w, m);
	return ok && end_messages(&w);
}
