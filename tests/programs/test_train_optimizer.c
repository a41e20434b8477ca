/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimisers of tutti-train: their steps are those of the reference (optimizer_steps.py), in one
 * piece and in parts of layers. Argument: optimizer_steps.json. */
#include "tests.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "bf16.h"
#include "optimizer.h"

enum { COUNT = 5, STEPS = 6 };

static const char *reference;
/* What tests have that need no reference. */
static const struct rule usual = { .rate = 0.1,
				   .momentum = 0.5,
				   .momentum2 = 0.9,
				   .epsilon = 1e-8,
				   .decay = 0.01,
				   .part = 1,
				   .step = 2,
				   .trust = 1 };

static double real_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_number(value));
	return json_number_value(value);
}

static void read_reals(const json_t *list, double *out)
{
	assert_int_equal(json_array_size(list), COUNT);
	for (size_t i = 0; i < COUNT; i++)
		out[i] = json_number_value(json_array_get(list, i));
}

static const struct optimizer *find(const char *name)
{
	for (int i = 0; optimizers[i]; i++)
		if (strcmp(optimizers[i]->name, name) == 0)
			return optimizers[i];
	fail_msg("no optimiser %s", name);
	return NULL;
}

/* A layer's numbers, and how many of them are updated at a time. */
struct held {
	const struct optimizer *optimizer;
	struct rule rule;
	double trust, weights[COUNT], velocity[TRAINED_VELOCITIES][COUNT];
	size_t part;
};

static struct trained trained_of(struct held *h, size_t first)
{
	return trained_at(&numbers_f64, h->weights, h->velocity, COUNT, first);
}

static void step(struct held *h, const double *gradients)
{
	struct squares sum = { 0 };

	h->rule.step++;
	h->rule.trust = 1;
	for (size_t i = 0; i < COUNT && h->optimizer->trust; i += h->part)
		optimizer_measure(h->optimizer, &numbers_f64, &h->rule, trained_of(h, i),
				  gradients + i, i + h->part < COUNT ? h->part : COUNT - i, &sum);
	if (h->optimizer->trust)
		h->rule.trust = h->optimizer->trust(&h->rule, &sum, h->trust);
	for (size_t i = 0; i < COUNT; i += h->part)
		optimizer_update(h->optimizer, &numbers_f64, &h->rule, trained_of(h, i),
				 gradients + i, i + h->part < COUNT ? h->part : COUNT - i,
				 trained_of(h, i));
}

static void compare(const json_t *root, const json_t *expected, size_t part)
{
	const json_t *steps = json_object_get(expected, "steps");
	struct held h = { .optimizer =
				  find(json_string_value(json_object_get(expected, "optimizer"))),
			  .rule = { .rate = real_of(expected, "rate"),
				    .momentum = real_of(root, "momentum"),
				    .momentum2 = real_of(root, "beta2"),
				    .epsilon = real_of(root, "epsilon"),
				    .decay = real_of(root, "decay"),
				    .part = 1 },
			  .trust = real_of(root, "trust"),
			  .part = part };

	assert_int_equal(json_array_size(steps), STEPS);
	read_reals(json_object_get(root, "weights"), h.weights);
	for (size_t s = 0; s < STEPS; s++) {
		double gradients[COUNT], weights[COUNT];

		read_reals(json_array_get(json_object_get(root, "gradients"), s), gradients);
		read_reals(json_array_get(steps, s), weights);
		step(&h, gradients);
		for (size_t i = 0; i < COUNT; i++)
			if (!(fabs(h.weights[i] - weights[i]) <= 1e-13))
				fail_msg("%s, step %zu, weight %zu: found %.17g, expected %.17g",
					 h.optimizer->name, s + 1, i, h.weights[i], weights[i]);
	}
}

TEST(steps_are_those_of_the_reference)
{
	json_error_t error;
	json_t *root = json_load_file(reference, 0, &error);
	size_t all = 0;

	if (!root)
		fail_msg("%s: %s", reference, error.text);
	const json_t *list = json_object_get(root, "optimizers");
	while (optimizers[all])
		all++;
	assert_int_equal(json_array_size(list), all);
	for (size_t i = 0; i < all; i++)
		for (size_t part = 1; part <= COUNT; part += 2)
			compare(root, json_array_get(list, i), part);
	json_decref(root);
}

/* What was there before a step stays, so that the step can be made again. */
TEST(a_step_leaves_what_it_reads)
{
	const double g[COUNT] = { 0.5, -0.25, 3, 0, -1 };

	for (int i = 0; optimizers[i]; i++) {
		struct held from = { .weights = { 1, 2, 3, 4, 5 },
				     .velocity = { { 1, 1, 1, 1, 1 }, { 2, 2, 2, 2, 2 } } },
			    to = { 0 };
		const struct held before = from;

		optimizer_update(optimizers[i], &numbers_f64, &usual, trained_of(&from, 0), g,
				 COUNT, trained_of(&to, 0));
		assert_memory_equal(&from, &before, sizeof(from));
		optimizer_update(optimizers[i], &numbers_f64, &usual, trained_of(&from, 0), g,
				 COUNT, trained_of(&from, 0));
		assert_memory_equal(from.weights, to.weights, sizeof(to.weights));
		assert_memory_equal(from.velocity, to.velocity,
				    optimizers[i]->velocities * sizeof(to.velocity[0]));
	}
}

TEST(bfloat16_gradients_are_reckoned_with_in_float32)
{
	static const double values[3] = { 1, -0.3359375, 257 * 0x1p-140 };
	const struct numbers *numbers = numbers_bf16.gradients;
	struct rule rule = usual;
	float w[3] = { 2, -1, 0.1f }, v[6] = { 0.5f, 1, 0, 0.25f, 2, 1 };
	float whole[3], found[9], expected[9];
	const struct trained from = trained_at(&numbers_f32, w, v, 3, 0);
	uint16_t g[3];

	rule.part = rule.trust = 0.5;
	numbers->store(g, values, 3);
	for (int i = 0; i < 3; i++)
		whole[i] = bf16_value(g[i]);
	for (int i = 0; optimizers[i]; i++) {
		const size_t count = 3 * (1 + optimizers[i]->velocities);
		struct squares one = { 0 }, other = { 0 };

		optimizer_update(optimizers[i], &numbers_f32, &rule, from, whole, 3,
				 trained_at(&numbers_f32, expected, expected + 3, 3, 0));
		optimizer_update(optimizers[i], &numbers_bf16, &rule, from, g, 3,
				 trained_at(&numbers_bf16, found, found + 3, 3, 0));
		for (size_t k = 0; k < count; k++)
			assert_float_equal(found[k], expected[k], 1e-6 * fabs(found[k]));
		if (!optimizers[i]->trust)
			continue;
		optimizer_measure(optimizers[i], &numbers_f32, &rule, from, whole, 3, &one);
		optimizer_measure(optimizers[i], &numbers_bf16, &rule, from, g, 3, &other);
		assert_float_equal(one.weights, other.weights, 1e-6 * one.weights);
		assert_float_equal(one.steps, other.steps, 1e-6 * one.steps);
	}
}

/* From a constant gradient, and weights that do not decay. */
TEST(parts_of_a_batch_move_weights_as_far_as_all_of_it)
{
	const struct optimizer *sgd = find("sgd"), *momentum = find("momentum");
	struct rule rule = { .rate = 0.1, .momentum = 0.9 };
	double whole[2] = { 0 }, parts[2] = { 0 };
	const double all = 0.25, third = 0.25 / 3;
	const struct trained one = { &whole[0], { &whole[1] } },
			     other = { &parts[0], { &parts[1] } };
	double before[2];

	for (int s = 0; s < 400; s++) {
		rule.part = 1;
		before[0] = whole[0];
		optimizer_update(momentum, &numbers_f64, &rule, one, &all, 1, one);
		rule.part = 1.0 / 3;
		before[1] = parts[0];
		for (int i = 0; i < 3; i++)
			optimizer_update(momentum, &numbers_f64, &rule, other, &third, 1, other);
	}
	assert_float_equal(whole[1], 2.5, 1e-12); /* the gradient over 1 - momentum */
	assert_float_equal(parts[1], whole[1], 1e-12);
	assert_float_equal((parts[0] - before[1]), (whole[0] - before[0]), 1e-6);
	rule.part = 1;
	optimizer_update(sgd, &numbers_f64, &rule, one, &all, 1, one);
	rule.part = 1.0 / 3;
	before[0] = whole[0];
	for (int i = 0; i < 3; i++)
		optimizer_update(sgd, &numbers_f64, &rule, one, &third, 1, one);
	assert_float_equal((whole[0] - before[0]), -0.1 * all, 1e-9);
}

/* No gradient yet, or no weights: nothing is divided by 0. */
TEST(nothing_is_no_number)
{
	const double zero[COUNT] = { 0 };

	for (int i = 0; optimizers[i]; i++) {
		struct held h = { optimizers[i], usual, .trust = 0.001, .part = COUNT };

		h.rule.decay = 0;
		h.rule.step = 0;
		step(&h, zero);
		for (size_t k = 0; k < COUNT; k++)
			assert_true(h.weights[k] == 0);
		h.weights[0] = 1;
		step(&h, zero);
		assert_true(h.weights[0] == 1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	reference = argv[1];
	return run_claims(NULL, NULL);
}
