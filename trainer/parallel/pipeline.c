/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the micro-batches that are under way in a stage, and the messages between neighbours. These
 * come in the order in which they were sent, which is that of the micro-batches, both ways: so what
 * is received next is known. A model in one piece is a stage without neighbours. */
#include "pipeline.h"

#include <stdlib.h>

#include "train.h"

/* Messages of a micro-batch: its input came from the stage before, its output went to the next one;
 * then the loss's derivative by the output came from there, and that by the input went back. */
enum { CAME, WENT, DELTA_CAME, DELTA_WENT, MESSAGES };

/* A micro-batch between its forward pass and the end of its backward pass. */
struct flight {
	const uint32_t *rows; /* its samples … */
	size_t count;	      /* … so many */
	void *outputs;	   /* owned: of the layers; of the first flight NULL: those of the model */
	void *input;	   /* owned: of this stage, [rows][in]: samples, or what came */
	void *delta;	   /* owned: by the output, as it comes; of the last stage: NULL */
	void *handed_back; /* owned: by the input; of stage 0: NULL */
	tutti_request_t request[MESSAGES];
};

/* This rank's part of a batch, or of a validation, in `of` micro-batches. */
struct work {
	struct samples from;
	const uint32_t *rows; /* of all */
	size_t count, of;
	bool trains;
	double scale;
	struct sums *sums;
};

struct pipeline {
	struct flight *flights; /* owned: [count]; micro-batch m is in m % count */
	size_t count;
	size_t ahead; /* forward passes before the first one that is followed by a backward pass */
	uint32_t *y;  /* owned, [rows_max]: labels of the samples at hand */
	struct work work;
};

static struct layer *last_layer(struct training *t)
{
	return &t->model.layer[t->model.layers - 1];
}

/* ---- its life */

static bool create_flight(struct training *t, struct flight *f, bool first)
{
	const size_t size = t->model.rows_max * t->model.numbers->size;
	const size_t in = t->model.layer[0].shape.in, out = last_layer(t)->shape.out;

	f->outputs = first ? NULL : calloc(1, model_output_bytes(&t->model));
	f->input = calloc(in, size);
	f->handed_back = model_begins(&t->model) ? NULL : calloc(in, size);
	f->delta = model_ends(&t->model) ? NULL : calloc(out, size);
	return (first || f->outputs) && f->input && (model_begins(&t->model) || f->handed_back) &&
	       (model_ends(&t->model) || f->delta);
}

bool pipeline_create(struct training *t)
{
	const size_t behind = (size_t)(t->grid.stages - 1 - t->grid.stage),
		     micro = grid_is_cut(&t->grid) ? t->grid.parts : 1;
	struct pipeline *p = t->pipeline = calloc(1, sizeof(*p));
	bool created = false;

	if (p) {
		p->ahead = t->options->order == ORDER_GPIPE || behind >= micro ? micro - 1 : behind;
		/* one more than are computed: its input comes meanwhile */
		p->count = p->ahead + 2 < micro ? p->ahead + 2 : micro;
		p->flights = calloc(p->count, sizeof(*p->flights));
		p->y = malloc(t->model.rows_max * sizeof(*p->y));
		created = p->flights && p->y;
	}
	for (size_t i = 0; created && i < p->count; i++)
		created = create_flight(t, &p->flights[i], i == 0);
	return created || why_no_memory("the micro-batches of a stage");
}

void pipeline_drain(struct training *t)
{
	for (size_t i = 0; t->pipeline && i < t->pipeline->count; i++)
		tutti_wait_all(t->pipeline->flights[i].request, MESSAGES);
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
	if (p) {
		free(p->flights);
		free(p->y);
	}
	free(p);
	t->pipeline = NULL;
}

/* ---- messages */

static struct flight *flight_of(const struct training *t, size_t m)
{
	return &t->pipeline->flights[m % t->pipeline->count];
}

static bool wait(struct training *t, struct flight *f, int message)
{
	return team_wait(&t->grid.own_line, &f->request[message]);
}

/* In a line the next stage is `ways` ranks before this one (grid.h). */
static bool start(struct training *t, struct flight *f, int message, void *values, size_t count)
{
	const bool before = message == CAME || message == DELTA_WENT;
	const tutti_dtype_t dtype = t->model.numbers->dtype;
	struct team *line = &t->grid.own_line;
	const int peer = line->rank + (before ? t->grid.ways : -t->grid.ways);

	if (message == WENT || message == DELTA_WENT)
		return team_start_send(line, dtype, values, count, peer, &f->request[message]);
	return team_start_receive(line, dtype, values, count, peer, &f->request[message]);
}

/* The micro-batch that was in its place is done with: the input of `m` may come. */
static bool expect(struct training *t, size_t m)
{
	const struct work *w = &t->pipeline->work;
	struct flight *f = flight_of(t, m);

	if (m >= w->of)
		return true;
	const struct slice micro = slice_of(w->count, (int)m, (int)w->of);

	f->rows = w->rows + micro.first;
	f->count = micro.count;
	return model_begins(&t->model) ||
	       start(t, f, CAME, f->input, f->count * t->model.layer[0].shape.in);
}

/* ---- the two passes of a micro-batch */

/* With what its mates have of the layer. */
static bool forward_layer(struct training *t, const struct flight *f, unsigned l)
{
	const struct layer *layer = &t->model.layer[l];

	if (!sync_weights(t, l))
		return false;
	model_forward_layer(&t->model, l, f->count);
	if (!model_by_rows(&t->model, l))
		return true;
	if (!grid_sum_parts(&t->grid, t->model.numbers, layer->output, f->count * layer->shape.out))
		return false;
	model_open_layer(&t->model, l, f->count);
	return true;
}

static bool forward(struct training *t, size_t m)
{
	const struct slice features = model_features(&t->model);
	const struct samples *from = &t->pipeline->work.from;
	const struct layer *last = last_layer(t);
	struct flight *f = flight_of(t, m);
	const size_t outputs = f->count * last->shape.out;

	if (model_begins(&t->model))
		t->model.numbers->gather(f->input, from->x + features.first, from->stride,
					 features.count, f->rows, f->count);
	if (!wait(t, f, CAME) || !wait(t, f, WENT))
		return false;
	model_use_outputs(&t->model, f->outputs, f->input);
	for (unsigned l = 0; l < t->model.layers; l++)
		if (!forward_layer(t, f, l))
			return false;
	if (model_ends(&t->model))
		return true;
	return start(t, f, WENT, last->output, outputs) &&
	       (!t->pipeline->work.trains || start(t, f, DELTA_CAME, f->delta, outputs));
}

static void add_loss(struct training *t, const struct flight *f)
{
	const struct work *w = &t->pipeline->work;
	uint32_t *y = t->pipeline->y;
	struct sums others = { 0 }; /* all mates have the same logits, and the first counts them */

	for (size_t i = 0; i < f->count; i++)
		y[i] = sample_label(&w->from, f->rows[i]);
	model_loss(&t->model, y, f->count, w->scale, t->grid.way == 0 ? w->sums : &others);
}

/* The derivative by the input, to the stage that it came from, which waits for it. */
static bool hand_back(struct training *t, struct flight *f)
{
	const size_t count = f->count * t->model.layer[0].shape.in;

	if (!wait(t, f, DELTA_WENT))
		return false;
	model_backward_input(&t->model, f->count, f->handed_back);
	return grid_sum_parts(&t->grid, t->model.numbers, f->handed_back, count) &&
	       start(t, f, DELTA_WENT, f->handed_back, count);
}

/* The gradients of all micro-batches but the last are only added up. */
static bool backward_layer(struct training *t, struct flight *f, unsigned l, size_t m)
{
	if (l == 0 && !model_begins(&t->model) && !hand_back(t, f))
		return false;
	model_backward(&t->model, l, f->count, m > 0);
	if (l > 0 && model_by_columns(&t->model, l) &&
	    !grid_sum_parts(&t->grid, t->model.numbers, t->model.layer[l - 1].delta,
			    f->count * t->model.layer[l].shape.in))
		return false;
	return m < t->pipeline->work.of - 1 || !t->sync->gradients || t->sync->gradients(t, l);
}

/* Of a validation only the loss. */
static bool backward(struct training *t, size_t m)
{
	const struct work *w = &t->pipeline->work;
	struct flight *f = flight_of(t, m);
	bool ok = true;

	model_use_outputs(&t->model, f->outputs, f->input);
	if (model_ends(&t->model)) {
		add_loss(t, f);
	} else {
		last_layer(t)->delta = f->delta;
		ok = wait(t, f, DELTA_CAME);
	}
	if (w->trains && m == w->of - 1)
		sync_store_sums(t, w->sums);
	for (unsigned l = w->trains ? t->model.layers : 0; l-- > 0 && ok;)
		ok = backward_layer(t, f, l, m);
	return ok && expect(t, m + t->pipeline->count);
}

/* As many forward passes as are to be ahead, then a forward and a backward pass in turn. */
static bool run(struct training *t, struct work work)
{
	struct pipeline *p = t->pipeline;
	bool ok = true;

	p->work = work;
	for (size_t m = 0; m < p->count && ok; m++)
		ok = expect(t, m);
	for (size_t f = 0, b = 0; b < work.of && ok;)
		ok = f < work.of && f <= b + p->ahead ? forward(t, f++) : backward(t, b++);
	return ok;
}

/* How many parts of at most rows_max. */
static size_t parts_of(const struct training *t, size_t count)
{
	return (count + t->model.rows_max - 1) / t->model.rows_max;
}

/* Of which t->split and t->order have the numbers; with --shard, those that this rank keeps. */
static struct samples all_samples(const struct training *t)
{
	return (struct samples){ t->data.x, t->data.features, t->data.y };
}

bool pipeline_gradients(struct training *t, struct slice samples, double scale, struct sums *sums)
{
	const size_t parts = parts_of(t, samples.count);
	struct work work = { .from = all_samples(t),
			     .rows = t->order + samples.first,
			     .count = samples.count,
			     .of = grid_is_cut(&t->grid) ? t->grid.parts
				   : parts > 1		 ? parts
							 : 1,
			     .trains = true,
			     .scale = scale,
			     .sums = sums };

	if (t->sharded)
		work.rows = sharded_places(t->sharded, samples.first, t->data.features, &work.from);
	return run(t, work);
}

bool pipeline_validate(struct training *t, const uint32_t *rows, size_t count, struct sums *sums)
{
	return run(t, (struct work){ .from = all_samples(t),
				     .rows = rows,
				     .count = count,
				     .of = parts_of(t, count),
				     .sums = sums });
}
