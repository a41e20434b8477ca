/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of tutti-train: gradients, rates, buckets, states. */
#include "tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bf16.h"
#include "bits.h"
#include "buckets.h"
#include "state.h"

enum { ROWS = 7, FEATURES = 5, CLASSES = 4 };
enum { PARAMETERS = (FEATURES + 1) * 6 + 7 * 3 + 4 * CLASSES };

static const size_t width[] = { FEATURES, 6, 3, CLASSES };

struct fixture {
	struct model model;
	double weights[PARAMETERS];
	double gradients[PARAMETERS];
	double x[ROWS * FEATURES];
	uint32_t y[ROWS];
};

static int make_model(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint64_t random = 17;

	assert_non_null(f);
	assert_int_equal(model_parameter_count(width, 3),
			 sizeof(f->gradients) / sizeof(f->gradients[0]));
	assert_true(model_create(&numbers_f64, width, (struct cut){ 0, 3, 3 }, ROWS, &f->model));
	f->model.weights = f->weights;
	f->model.gradients = f->gradients;
	assert_true(model_init_weights(&f->model, 3));
	for (size_t i = 0; i < f->model.parameters; i++) /* biases too */
		f->weights[i] += 0.2 * (random_unit(&random) - 0.5);
	for (size_t i = 0; i < ROWS * FEATURES; i++)
		f->x[i] = bf16_rounded(
			(float)(2 * random_unit(&random) - 1)); /* exact in all types */
	for (size_t i = 0; i < ROWS; i++)
		f->y[i] = random_below(&random, CLASSES);
	*state = f;
	return 0;
}

static int free_model(void **state)
{
	struct fixture *f = *state;

	model_finish(&f->model);
	free(f);
	return 0;
}

static double mean_loss(struct fixture *f)
{
	struct sums sums = { 0 };

	model_forward(&f->model, f->x, ROWS);
	model_loss(&f->model, f->y, ROWS, 1.0 / ROWS, &sums);
	return sums.loss / ROWS;
}

/* There and back with samples of a batch of ROWS. `adds`: to the gradients of those before. */
static void pass(struct model *model, const void *x, const uint32_t *y, size_t rows, bool adds,
		 struct sums *sums)
{
	model_forward(model, x, rows);
	model_loss(model, y, rows, 1.0 / ROWS, sums);
	for (unsigned l = model->layers; l-- > 0;)
		model_backward(model, l, rows, adds);
}

static void backward(struct fixture *f)
{
	pass(&f->model, f->x, f->y, ROWS, false, &(struct sums){ 0 });
}

TEST_WITH(gradients_equal_finite_differences, make_model, free_model)
{
	struct fixture *f = *state;
	const double h = 1e-5;

	backward(f);
	for (size_t i = 0; i < f->model.parameters; i++) {
		double *w = &f->weights[i];
		const double kept = *w;
		double above, below;

		*w = kept + h;
		above = mean_loss(f);
		*w = kept - h;
		below = mean_loss(f);
		*w = kept;
		assert_float_equal((above - below) / (2 * h), f->gradients[i], 1e-8);
	}
}

/* The forward pass against one written out without BLAS. */
static double plain_loss(const struct fixture *f, size_t row)
{
	double in[8], out[8], sum = 0;

	memcpy(in, f->x + row * FEATURES, FEATURES * sizeof(double));
	for (unsigned l = 0; l < 3; l++) {
		const double *w = f->weights + f->model.layer[l].offset;
		const double *b = w + width[l] * width[l + 1];

		for (size_t o = 0; o < width[l + 1]; o++) {
			out[o] = b[o];
			for (size_t i = 0; i < width[l]; i++)
				out[o] += w[o * width[l] + i] * in[i];
		}
		for (size_t o = 0; o < width[l + 1]; o++)
			in[o] = out[o] > 0 ? out[o] : 0;
	}
	for (size_t c = 0; c < CLASSES; c++)
		sum += exp(out[c]);
	return log(sum) - out[f->y[row]];
}

TEST_WITH(loss_is_the_mean_cross_entropy, make_model, free_model)
{
	struct fixture *f = *state;
	double expected = 0;

	for (size_t row = 0; row < ROWS; row++)
		expected += plain_loss(f, row) / ROWS;
	assert_float_equal(mean_loss(f), expected, 1e-12);
}

TEST_WITH(huge_logits_give_a_finite_loss, make_model, free_model)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->model.parameters; i++)
		f->weights[i] *= 1e4;
	assert_true(isfinite(mean_loss(f)));
	backward(f);
	for (size_t i = 0; i < f->model.parameters; i++)
		assert_true(isfinite(f->gradients[i]));
}

/* What `add` is for: slices of a batch, one after the other, of which the first is empty. */
TEST_WITH(gradients_are_added_to_those_of_samples_before, make_model, free_model)
{
	static const size_t cut[] = { 0, 0, 3, 5, ROWS };
	struct fixture *f = *state;
	double whole[PARAMETERS];
	struct sums sums = { 0 };

	backward(f);
	memcpy(whole, f->gradients, sizeof(whole));
	for (size_t s = 0; s < 4; s++)
		pass(&f->model, f->x + cut[s] * FEATURES, f->y + cut[s], cut[s + 1] - cut[s], s > 0,
		     &sums);
	assert_float_equal(sums.samples, ROWS, 0);
	for (size_t i = 0; i < PARAMETERS; i++)
		assert_float_equal(f->gradients[i], whole[i], 1e-14);
}

/* A model of the fixture's weights in that type, with one pass behind it, and its gradients as double: the
 * loss. */
static double gradients_in(struct fixture *f, const struct numbers *numbers, struct model *model,
			   float *weights, void *gradients, double *out)
{
	static float x[ROWS * FEATURES];
	struct sums sums = { 0 };

	assert_true(model_create(numbers, width, (struct cut){ 0, 3, 3 }, ROWS, model));
	numbers->store(weights, f->weights, PARAMETERS);
	numbers->store(x, f->x, ROWS * FEATURES);
	model->weights = weights;
	model->gradients = gradients;
	pass(model, x, f->y, ROWS, false, &sums);
	numbers->gradients->load(out, gradients, PARAMETERS);
	return sums.loss / ROWS;
}

TEST_WITH(float32_has_the_same_gradients_but_for_rounding, make_model, free_model)
{
	struct fixture *f = *state;
	float weights[PARAMETERS], gradients[PARAMETERS];
	double found[PARAMETERS];
	struct model model;

	assert_float_equal(gradients_in(f, &numbers_f32, &model, weights, gradients, found),
			   mean_loss(f), 1e-5);
	backward(f);
	for (size_t i = 0; i < PARAMETERS; i++)
		assert_float_equal(found[i], f->gradients[i], 1e-6);
	model_finish(&model);
}

/* ---- mixed precision */

static float float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Each number, and each finite one with the two sides of the tie above it. What is no number is made quiet,
 * also where its lowest bit alone tells it from an infinity. */
TEST(each_bfloat16_comes_back_and_ends_at_its_ties)
{
	for (uint32_t h = 0; h <= 0xffff; h++) {
		const uint32_t tie = h << 16 | 0x8000, even = h + (h & 1);

		if ((h & 0x7fff) >= 0x7f80)
			assert_int_equal(bf16_of(float_of(h << 16 | 1)), h | 0x40);
		if ((h & 0x7fff) > 0x7f80) {
			assert_int_equal(bf16_of(bf16_value((uint16_t)h)), h | 0x40);
			continue;
		}
		assert_int_equal(bf16_of(bf16_value((uint16_t)h)), h);
		if ((h & 0x7fff) == 0x7f80)
			continue;
		assert_int_equal(bf16_of(float_of(tie - 1)), h);
		assert_int_equal(bf16_of(float_of(tie)), even);
		assert_int_equal(bf16_of(float_of(tie + 1)), h + 1);
	}
}

/* A bfloat16 number is within 2^-9 of what it was: of layers, deltas and weights on the way there are
 * a few. */
TEST_WITH(bfloat16_has_the_same_gradients_within_its_accuracy, make_model, free_model)
{
	float weights[PARAMETERS], whole[PARAMETERS];
	double expected[PARAMETERS], found[PARAMETERS];
	uint16_t halves[PARAMETERS];
	struct model model;
	double most = 0, norm = 0;

	gradients_in(*state, &numbers_f32, &model, weights, whole, expected);
	model_finish(&model);
	gradients_in(*state, &numbers_bf16, &model, weights, halves, found);
	for (size_t i = 0; i < PARAMETERS; i++) {
		assert_int_equal(halves[i], bf16_of(((float *)model.unrounded)[i]));
		most = fmax(most, fabs(found[i] - expected[i]));
		norm = fmax(norm, fabs(expected[i]));
	}
	model_finish(&model);
	if (!(most > 0 && most < norm / 128))
		fail_msg("they differ by up to %g, the largest is %g", most, norm);
}

static void assert_bfloat16(const void *numbers, size_t count)
{
	const float *x = numbers;

	for (size_t i = 0; i < count; i++)
		assert_true(x[i] == bf16_rounded(x[i]));
}

/* What a matrix unit would read; what it would add to, biases and logits, has all of its bits. */
TEST_WITH(operands_of_products_are_bfloat16, make_model, free_model)
{
	static const uint32_t rows[] = { 1, 0 };
	static const float x[4] = { 0.1f, -0.3f, 1e-40f, 7.7f };
	float weights[PARAMETERS], gathered[4];
	uint16_t halves[PARAMETERS];
	double ignored[PARAMETERS];
	struct model model;

	gradients_in(*state, &numbers_bf16, &model, weights, halves, ignored);
	for (unsigned l = 0; l < 3; l++) {
		const struct layer *layer = &model.layer[l];
		const size_t matrix = layer->shape.in * layer->shape.out;
		const float *read = (const float *)model.rounded + layer->offset;

		assert_bfloat16(read, matrix);
		assert_memory_equal(read + matrix, weights + layer->offset + matrix,
				    layer->shape.out * sizeof(float));
		assert_bfloat16(layer->delta, ROWS * layer->shape.out);
		if (l < 2)
			assert_bfloat16(layer->output, ROWS * layer->shape.out);
	}
	model_finish(&model);
	numbers_bf16.gather(gathered, x, 2, 2, rows, 2);
	for (int i = 0; i < 4; i++)
		assert_true(gathered[i] == bf16_rounded(x[(i + 2) % 4]));
}

/* The parts of a slice (--accumulate) are added up in float32. */
TEST_WITH(gradients_of_parts_are_rounded_once, make_model, free_model)
{
	const struct fixture *f = *state;
	float weights[PARAMETERS], parts[PARAMETERS] = { 0 };
	uint16_t halves[PARAMETERS];
	double found[PARAMETERS];
	struct model model;
	const float *sum;

	gradients_in(*state, &numbers_bf16, &model, weights, halves, found);
	sum = model.unrounded;
	for (int together = 0; together < 2; together++)
		for (size_t first = 0; first < ROWS; first++) {
			float x[FEATURES];

			numbers_bf16.store(x, f->x + first * FEATURES, FEATURES);
			pass(&model, x, f->y + first, 1, together && first > 0,
			     &(struct sums){ 0 });
			for (size_t i = 0; i < PARAMETERS && !together; i++)
				parts[i] += sum[i];
		}
	for (size_t i = 0; i < PARAMETERS; i++) {
		assert_float_equal(sum[i], parts[i], 1e-6);
		assert_int_equal(halves[i], bf16_of(sum[i]));
	}
	model_finish(&model);
}

/* Of gradients, and of what reads them: what float32 does with the same numbers, rounded to the
 * gradients' type where the result is one. */
TEST(bfloat16_gradients_are_added_up_in_float32)
{
	static const double values[4] = { 1, -0.3359375, 257 * 0x1p-140, 3e38 };
	const struct numbers *numbers = numbers_bf16.gradients;
	uint16_t g[4], more[4];

	numbers->store(g, values, 4);
	memcpy(more, g, sizeof(g));
	assert_float_equal(numbers->square_sum(g, 2), 1 + 0.3359375 * 0.3359375, 1e-15);
	numbers->scale(g, 4, 0.7);
	assert_int_equal(g[1], bf16_of(-0.3359375f * 0.7f));
	numbers->add(g, more, 4);
	assert_int_equal(g[0], bf16_of(bf16_rounded(0.7f) + 1));
	assert_true(isinf(bf16_value(g[3]))); /* 5.1e38 */
}

/* ---- steps */

TEST(rate_scales_with_the_batch_rises_and_falls)
{
	struct rate_plan plan = { .peak = rate_scaled(0.1, SCALE_LINEAR, 128),
				  .schedule = { RATE_COSINE },
				  .steps = 100,
				  .epoch_steps = 20,
				  .warmup_steps = 10 };

	assert_float_equal(rate_at(&plan, 0), 0.02, 1e-12);
	assert_float_equal(rate_at(&plan, 9), 0.2, 1e-12);
	assert_float_equal(rate_at(&plan, 10), 0.2, 1e-12);
	assert_float_equal(rate_at(&plan, 55), 0.1, 1e-12);
	assert_true(rate_at(&plan, 99) > 0 && rate_at(&plan, 99) < 1e-3);
	plan.schedule = (struct rate_schedule){ RATE_STEP, 2, 0.5 };
	assert_float_equal(rate_at(&plan, 4), 0.1, 1e-12);
	assert_float_equal(rate_at(&plan, 39), 0.2, 1e-12);
	assert_float_equal(rate_at(&plan, 40), 0.1, 1e-12);
	assert_float_equal(rate_at(&plan, 99), 0.05, 1e-12);
	plan.schedule.course = RATE_CONSTANT;
	assert_float_equal(rate_at(&plan, 99), 0.2, 1e-12);
	assert_float_equal(rate_scaled(0.1, SCALE_SQRT, 128), 0.1 * sqrt(2), 1e-12);
	assert_float_equal(rate_scaled(0.1, SCALE_NONE, 128), 0.1, 1e-12);
}

TEST_WITH(buckets_hold_every_layer_once_from_the_last, make_model, free_model)
{
	const struct fixture *f = *state;

	for (size_t bytes = 1; bytes < 1024; bytes += 13) {
		struct buckets b;
		size_t next = 0;

		buckets_init(&b, &f->model, bytes);
		for (unsigned i = 0; i < b.count; i++) {
			const struct layer *last = &f->model.layer[b.bucket[i].last_layer];

			assert_int_equal(b.bucket[i].first, next);
			next += b.bucket[i].count;
			assert_int_equal(next, last->offset + last->count);
			assert_true(i == b.count - 1 ||
				    b.bucket[i].count * sizeof(double) >= bytes);
			assert_true((b.bucket[i].count - last->count) * sizeof(double) < bytes);
		}
		assert_int_equal(next, f->model.parameters);
	}
}

/* ---- state */

TEST(a_step_that_is_not_complete_changes_nothing)
{
	const struct sums step = { 2, 1, 4 };
	struct state s;
	uint64_t before;

	assert_true(state_create(&numbers_f64, 3, 3, &s));
	before = state_hash(&s);
	for (size_t i = 0; i < 3; i++) {
		*(double *)state_next(&s, i).weights = (double)i + 1;
		*(double *)state_next(&s, i).velocity[0] = 10 * ((double)i + 1);
	}
	assert_true(state_hash(&s) == before);
	state_advance(&s, &step, true);
	assert_true(state_hash(&s) != before);
	assert_int_equal(s.step, 1);
	assert_true(*(double *)state_now(&s, 2).weights == 3 &&
		    *(double *)state_now(&s, 2).velocity[0] == 30);
	state_finish(&s);
}

TEST(sums_begin_anew_with_each_epoch)
{
	const struct sums step = { 2, 1, 4 };
	struct state s;

	assert_true(state_create(&numbers_f64, 1, 1, &s));
	state_advance(&s, &step, true);
	state_advance(&s, &step, false);
	assert_true(state_sums(&s)->loss == 4 && state_sums(&s)->correct == 2 &&
		    state_sums(&s)->samples == 8);
	state_advance(&s, &step, true);
	assert_true(state_sums(&s)->loss == 2 && state_sums(&s)->samples == 4);
	assert_int_equal(s.step, 3);
	state_finish(&s);
}

TEST(checksum_sees_every_bit)
{
	double values[3] = { 1, 2, 3 };
	const uint64_t before = hash_bytes(0, values, sizeof(values));

	for (size_t bit = 0; bit < 8 * sizeof(values); bit++) {
		((unsigned char *)values)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_true(hash_bytes(0, values, sizeof(values)) != before);
		((unsigned char *)values)[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	assert_true(hash_bytes(0, values, sizeof(values)) == before);
	assert_true(hash_bytes(0, values, 7) != hash_bytes(0, values, 8));
}
