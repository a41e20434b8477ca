/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns --compress powersgd:R: a layer's gradients travel as two matrices of R columns, whose product is
 * the part of them that a step of the power method finds (Vogels et al. 2019, algorithms 1 and 2).
 *
 * M [out][in] is a layer's gradients and what is owed of them. P = M Q is summed over all ranks, and its
 * columns are made orthonormal; then Q = Mᵀ P is. P Qᵀ is about the sum of all M. Columns are rows here:
 * P [R][out], Q [R][in]. Biases travel behind P as they are, and so do layers that two such matrices do
 * not make shorter. */
#include "compress.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "train.h"

/* What travels of a layer; `p` NULL: its gradients. */
struct factors {
	float *p, *q; /* [R][out] and [out] biases; [R][in] */
	tutti_request_t p_request, q_request;
};

struct powersgd {
	float *numbers; /* owned: of all layers */
	struct factors of[MODEL_LAYERS_MAX];
};

static size_t rank_of(const struct training *t)
{
	return t->options->compress.rank;
}

static bool shortens(const struct training *t, struct shape shape)
{
	return rank_of(t) * (shape.in + shape.out) < shape.in * shape.out;
}

static tutti_result_t create(struct training *t, struct compressor *c, struct why *why)
{
	struct powersgd *own = calloc(1, sizeof(*own));
	size_t count = 0;

	c->own = own;
	if (!own)
		return why_no_memory(why, "gradients' factors");
	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct shape shape = t->model.layer[l].shape;

		count += rank_of(t) * (shape.in + shape.out) + shape.out;
	}
	float *at = own->numbers = calloc(count, sizeof(*own->numbers));
	if (!at)
		return why_no_memory(why, "gradients' factors");
	for (unsigned l = 0; l < t->model.layers; l++) {
		const struct shape shape = t->model.layer[l].shape;

		if (!shortens(t, shape))
			continue;
		own->of[l].p = at;
		own->of[l].q = at + rank_of(t) * shape.out + shape.out;
		at = own->of[l].q + rank_of(t) * shape.in;
	}
	return TUTTI_OK;
}

/* Any start does, if all ranks have the same. (Box, Muller 1958) */
static void draw_row(const struct training *t, unsigned l, size_t r, float *row)
{
	uint64_t state = random_stream(random_stream(t->options->seed, RANDOM_FACTORS + l),
				       hash_word(t->state.step, r));

	for (size_t i = 0; i < t->model.layer[l].shape.in; i++)
		row[i] = (float)(sqrt(-2 * log(random_unit(&state))) *
				 cos(2 * M_PI * random_unit(&state)));
}

static void reset(struct training *t, struct compressor *c)
{
	struct powersgd *own = c->own;

	for (unsigned l = 0; l < t->model.layers; l++)
		for (size_t r = 0; own->of[l].p && r < rank_of(t); r++)
			draw_row(t, l, r, own->of[l].q + r * t->model.layer[l].shape.in);
}

/* A row that has come out as 0, as where there was no gradient, or one of lower rank, would stay so for ever:
 * it begins anew, on all ranks alike, as they have the same sums. */
static void renew_rows(const struct training *t, unsigned l, struct factors *f)
{
	const size_t in = t->model.layer[l].shape.in;

	for (size_t r = 0; r < rank_of(t); r++) {
		float *row = f->q + r * in;
		size_t i = 0;

		while (i < in && row[i] == 0)
			i++;
		if (i == in)
			draw_row(t, l, r, row);
	}
}

/* P of this rank. */
static void project(const struct training *t, struct factors *f, const struct layer *layer,
		    const float *m)
{
	const int r = (int)rank_of(t), out = (int)layer->shape.out, in = (int)layer->shape.in;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, r, out, in, 1, f->q, in, m, in, 0,
		    f->p, out);
	memcpy(f->p + (size_t)r * layer->shape.out, m + layer->shape.in * layer->shape.out,
	       layer->shape.out * sizeof(float));
}

static tutti_result_t gradients(struct training *t, struct compressor *c, unsigned l,
				struct why *why)
{
	struct powersgd *own = c->own;
	struct factors *f = &own->of[l];
	const struct layer *layer = &t->model.layer[l];
	float *m = compress_gradients(t, layer->offset);
	tutti_result_t result = TUTTI_OK;

	if (l == t->model.layers - 1)
		result = buckets_start_tail(&t->buckets, &t->model, t->grid.column, why);
	if (result != TUTTI_OK)
		return result;
	if (!f->p)
		return team_start_sum(t->grid.column, &numbers_f32, m, layer->count, &f->p_request,
				      why);
	compress_add_owed(t, c, layer->offset, layer->count);
	project(t, f, layer, m);
	return team_start_sum(t->grid.column, &numbers_f32, f->p,
			      (rank_of(t) + 1) * layer->shape.out, &f->p_request, why);
}

/* Gram and Schmidt, in double: each row after those before it. One that has nothing of its own is 0. The
 * loops are the same on all ranks, whatever a library of theirs would do. */
static void make_orthonormal(float *rows, size_t count, size_t length)
{
	for (size_t r = 0; r < count; r++) {
		float *row = rows + r * length;
		double before = 0, after = 0;

		for (size_t i = 0; i < length; i++)
			before += (double)row[i] * (double)row[i];
		for (size_t k = 0; k < r; k++) {
			const float *other = rows + k * length;
			double dot = 0;

			for (size_t i = 0; i < length; i++)
				dot += (double)row[i] * (double)other[i];
			for (size_t i = 0; i < length; i++)
				row[i] -= (float)(dot * (double)other[i]);
		}
		for (size_t i = 0; i < length; i++)
			after += (double)row[i] * (double)row[i];
		const double factor = after > 1e-10 * before ? 1 / sqrt(after) : 0;
		for (size_t i = 0; i < length; i++)
			row[i] = (float)(factor * (double)row[i]);
	}
}

/* x [out][in] = a − pᵀ q, or, without `a`, pᵀ q. */
static void expand(const struct training *t, const struct factors *f, struct shape shape,
		   const float *a, float *x)
{
	const float sign = a ? -1 : 1;

	for (size_t o = 0; o < shape.out; o++, x += shape.in) {
		for (size_t i = 0; i < shape.in; i++)
			x[i] = a ? a[o * shape.in + i] : 0;
		for (size_t r = 0; r < rank_of(t); r++) {
			const float p = sign * f->p[r * shape.out + o];
			const float *q = f->q + r * shape.in;

			for (size_t i = 0; i < shape.in; i++)
				x[i] += p * q[i];
		}
	}
}

/* The sum of all P is there. What this rank's M has beside its own share of the product is owed. */
static tutti_result_t start_second(struct training *t, struct compressor *c, unsigned l,
				   struct why *why)
{
	struct factors *f = &((struct powersgd *)c->own)->of[l];
	const struct layer *layer = &t->model.layer[l];
	const int r = (int)rank_of(t), out = (int)layer->shape.out, in = (int)layer->shape.in;
	const size_t weights = layer->shape.in * layer->shape.out;
	const float *m = compress_gradients(t, layer->offset);
	float *owed = compress_owed(c, layer->offset);

	make_orthonormal(f->p, rank_of(t), layer->shape.out);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, in, out, 1, f->p, out, m, in, 0,
		    f->q, in);
	expand(t, f, layer->shape, m, owed);
	memset(owed + weights, 0, layer->shape.out * sizeof(*owed));
	return team_start_sum(t->grid.column, &numbers_f32, f->q, rank_of(t) * layer->shape.in,
			      &f->q_request, why);
}

static tutti_result_t take_sum(struct training *t, struct compressor *c, unsigned l,
			       struct why *why)
{
	struct factors *f = &((struct powersgd *)c->own)->of[l];
	const struct layer *layer = &t->model.layer[l];
	float *m = compress_gradients(t, layer->offset);
	const tutti_result_t result = team_wait(t->grid.column, &f->q_request, why);

	if (result != TUTTI_OK || !f->p)
		return result;
	expand(t, f, layer->shape, NULL, m);
	renew_rows(t, l, f);
	memcpy(m + layer->shape.in * layer->shape.out, f->p + rank_of(t) * layer->shape.out,
	       layer->shape.out * sizeof(*m));
	return TUTTI_OK;
}

static tutti_result_t finish(struct training *t, struct compressor *c, struct why *why)
{
	struct powersgd *own = c->own;
	tutti_result_t result = TUTTI_OK;

	for (unsigned l = t->model.layers; l-- > 0 && result == TUTTI_OK;) {
		result = team_wait(t->grid.column, &own->of[l].p_request, why);
		if (result == TUTTI_OK && own->of[l].p)
			result = start_second(t, c, l, why);
	}
	for (unsigned l = t->model.layers; l-- > 0 && result == TUTTI_OK;)
		result = take_sum(t, c, l, why);
	return result == TUTTI_OK ? buckets_wait_tail(&t->buckets, t->grid.column, why) : result;
}

static void drain(struct training *t, struct compressor *c)
{
	struct powersgd *own = c->own;

	for (unsigned l = 0; own && l < t->model.layers; l++) {
		tutti_wait(&own->of[l].p_request);
		tutti_wait(&own->of[l].q_request);
	}
	buckets_drain(&t->buckets);
}

static void free_own(struct training *t, struct compressor *c)
{
	struct powersgd *own = c->own;

	if (own)
		free(own->numbers);
	free(own);
}

const struct compression compress_powersgd = {
	.name = "powersgd",
	.create = create,
	.reset = reset,
	.gradients = gradients,
	.finish = finish,
	.drain = drain,
	.free = free_own,
};
