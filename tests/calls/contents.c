/* SPDX-License-Identifier: BSD-3-Clause */
#include "contents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "values.h"

struct call_memory call_memory = { malloc, free };

bool combine_is_defined(int combine, tutti_dtype_t dtype)
{
	return combine >= TUTTI_OP_COUNT || op_is_defined(combine, dtype);
}

bool combine_may_round(int combine, tutti_dtype_t dtype)
{
	const bool adds = combine == TUTTI_SUM || combine == TUTTI_PROD || combine == TUTTI_AVG ||
			  combine == COMBINE_PREMUL;

	return value_is_float(dtype) && adds;
}

/* Averages of 16- and 8-bit floats may be rounded on the way. */
bool combine_must_round(int combine, tutti_dtype_t dtype)
{
	return combine == TUTTI_AVG && value_is_narrow(dtype);
}

const char *combine_name(int combine)
{
	switch (combine) {
	case COMBINE_ADD: return "the user's commutative operation";
	case COMBINE_COMPOSE: return "the user's ordered operation";
	case COMBINE_PREMUL: return "pre-multiplied sum";
	default: return tutti_op_name(combine);
	}
}

static void *allocate(size_t bytes)
{
	void *memory = call_memory.take(bytes ? bytes : 1);

	if (!memory)
		abort();
	return memory;
}

static struct table table_make(const struct contents *c)
{
	return (struct table){ .dtype = c->dtype,
			       .n = c->n,
			       .bytes = allocate(c->n * tutti_dtype_size(c->dtype)) };
}

void table_finish(struct table *table)
{
	call_memory.give(table->bytes);
	call_memory.give(table->near);
	call_memory.give(table->magnitude);
	call_memory.give(table->within);
	*table = (struct table){ .bytes = NULL };
}

/* ---- bits */

static uint64_t get_bits(const void *buffer, size_t i, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, (const unsigned char *)buffer + i * size, size);
	return bits;
}

static void set_bits(void *buffer, size_t i, size_t size, uint64_t bits)
{
	memcpy((unsigned char *)buffer + i * size, &bits, size);
}

/* The halves of an element are a and b of x -> a x + b. */
static uint64_t compose(uint64_t f, uint64_t g, size_t size)
{
	const unsigned half = 4 * (unsigned)size;
	const uint64_t mask = (UINT64_C(1) << half) - 1;
	const uint64_t fa = f >> half, fb = f & mask, ga = g >> half, gb = g & mask;

	return (fa * ga & mask) << half | ((fa * gb + fb) & mask);
}

void combine_add(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	const size_t size = tutti_dtype_size(dtype);

	for (size_t i = 0; i < count; i++)
		set_bits(inout, i, size, get_bits(inout, i, size) + get_bits(in, i, size));
}

void combine_compose(void *inout, const void *in, size_t count, tutti_dtype_t dtype, void *context)
{
	const size_t size = tutti_dtype_size(dtype);

	for (size_t i = 0; i < count; i++)
		set_bits(inout, i, size,
			 compose(get_bits(inout, i, size), get_bits(in, i, size), size));
}

/* ---- what ranks contribute */

/* The largest integer up to which the type has all, or enough. */
static double all_integers_to(tutti_dtype_t dtype)
{
	return value_is_narrow(dtype) ? ldexp(2, value_digits(dtype)) : 1e6;
}

/* How far from 0 an integer may be of which `size` are added. */
static double most_of_sum(const struct contents *c, int rank)
{
	const double all = all_integers_to(c->dtype), most = floor(all / c->size);

	return most >= 1 ? most : rank < all ? 1 : 0;
}

static double factor(const struct contents *c, int rank)
{
	static const double factors[] = { 1, -1, 2, -2 };
	const bool any = most_of_sum(c, c->size - 1) >= 2;

	return factors[(unsigned)(rank + (int)(c->salt % 4)) % (any ? 4 : 2)];
}

/* Floats that may be added, or multiplied, in any order without being rounded. */
static double exact_number(const struct contents *c, int rank, uint64_t bits)
{
	double most;

	if (c->combine == TUTTI_PROD)
		return (bits & 1 ? 1 : -1) * (rank % 4 == 0 && bits & 2	  ? 2
					      : rank % 4 == 1 && bits & 2 ? 0.5
									  : 1);
	most = most_of_sum(c, rank);
	if (c->combine == COMBINE_PREMUL && most >= 2)
		most = floor(most / 2);
	return (double)(bits % (uint64_t)(2 * most + 1)) - most;
}

/* From 0.25 to 2, so that sums have no digits which the smallest numbers of a type lack; factors
 * near 1, so that no product of CALL_RANKS of them does. */
static double rounded_number(const struct contents *c, uint64_t bits)
{
	const double fraction = (double)(bits >> 12) * 0x1p-52;
	const double magnitude = c->combine == TUTTI_PROD
					 ? 0.8 + fraction / 2
					 : ldexp(1 + fraction, (int)(bits % 3) - 2);

	return bits & 8 ? magnitude : -magnitude;
}

/* Any number but NaN, infinity and -0: of equal numbers with two forms the result may have either.
 */
static uint64_t comparable_bits(uint64_t bits, tutti_dtype_t dtype)
{
	const size_t size = tutti_dtype_size(dtype);
	unsigned char element[8];

	set_bits(element, 0, sizeof(uint64_t), 0);
	set_bits(element, 0, size, bits);
	const double value = value_get(element, 0, dtype);
	return isfinite(value) && value != 0 ? get_bits(element, 0, size) : 0;
}

static bool is_bits(const struct contents *c)
{
	return c->combine == COMBINE_NONE || c->combine == COMBINE_ADD ||
	       c->combine == COMBINE_COMPOSE;
}

struct table contents_of(const struct contents *c, int rank)
{
	struct random random = random_stream(c->salt, (uint64_t)rank);
	struct table table = table_make(c);
	const size_t size = tutti_dtype_size(c->dtype);

	for (size_t i = 0; i < c->n; i++) {
		const uint64_t bits = random_next(&random);

		if (is_bits(c))
			set_bits(table.bytes, i, size, bits);
		else if (!value_is_float(c->dtype))
			/* a product of even ones is soon 0 */
			set_bits(table.bytes, i, size, c->combine == TUTTI_PROD ? bits | 1 : bits);
		else if (c->combine == TUTTI_MIN || c->combine == TUTTI_MAX)
			set_bits(table.bytes, i, size, comparable_bits(bits, c->dtype));
		else
			value_set(table.bytes, i, c->dtype,
				  c->rounds ? rounded_number(c, bits)
					    : exact_number(c, rank, bits));
	}
	return table;
}

void contents_factor(const struct contents *c, int rank, unsigned char element[8])
{
	if (value_is_float(c->dtype))
		value_set(element, 0, c->dtype, factor(c, rank));
	else
		set_bits(element, 0, tutti_dtype_size(c->dtype),
			 (c->salt >> 8) + 3 * (uint64_t)rank);
}

/* ---- what is made of them */

/* What every rank contributes, ready to be combined. */
static void contribute(const struct contents *c, int ranks, struct table *inputs)
{
	const size_t size = tutti_dtype_size(c->dtype);
	unsigned char element[8];

	for (int rank = 0; rank < ranks; rank++) {
		inputs[rank] = contents_of(c, rank);
		contents_factor(c, rank, element);
		for (size_t i = 0; i < c->n && c->combine == COMBINE_PREMUL; i++) {
			unsigned char *at = inputs[rank].bytes + i * size;

			value_scale(at, at, element, c->dtype);
		}
	}
}

static void combine_element(const struct contents *c, const struct table *inputs, int ranks,
			    size_t i, unsigned char *out)
{
	const size_t size = tutti_dtype_size(c->dtype);
	const void *elements[CALL_RANKS];

	for (int rank = 0; rank < ranks; rank++)
		elements[rank] = inputs[rank].bytes + i * size;
	if (c->combine < TUTTI_OP_COUNT || c->combine == COMBINE_PREMUL) {
		value_fold(out, elements, ranks, c->dtype,
			   c->combine < TUTTI_OP_COUNT ? c->combine : TUTTI_SUM);
		return;
	}
	memcpy(out, elements[0], size);
	for (int rank = 1; rank < ranks; rank++)
		(c->combine == COMBINE_ADD ? combine_add : combine_compose)(out, elements[rank], 1,
									    c->dtype, NULL);
}

/* The result in more digits than any type has, and the magnitude by which rounding is measured. */
static void allow_for_rounding(const struct contents *c, const struct table *inputs, int ranks,
			       struct table *table)
{
	const int divisor = c->combine == TUTTI_AVG ? ranks : 1;

	table->near = allocate(c->n * sizeof(*table->near));
	table->magnitude = allocate(c->n * sizeof(double));
	for (size_t i = 0; i < c->n; i++) {
		long double all = 0, magnitude = 0;

		for (int rank = 0; rank < ranks; rank++) {
			const double one = value_get(inputs[rank].bytes, i, c->dtype);

			all = rank == 0 ? one : c->combine == TUTTI_PROD ? all * one : all + one;
			magnitude += fabs(one);
		}
		table->near[i] = all / divisor;
		table->magnitude[i] =
			(double)(c->combine == TUTTI_PROD ? fabsl(all) : magnitude / divisor);
	}
}

void contents_allow(const struct value_way *way, struct table *table)
{
	if (!table->near)
		return;
	table->within = allocate(table->n * sizeof(double));
	for (size_t i = 0; i < table->n; i++)
		table->within[i] = value_bound(way, table->magnitude[i]);
}

struct table contents_combined(const struct contents *c, int last)
{
	struct table inputs[CALL_RANKS], out = table_make(c);

	contribute(c, last + 1, inputs);
	for (size_t i = 0; i < c->n; i++)
		combine_element(c, inputs, last + 1, i, out.bytes + i * tutti_dtype_size(c->dtype));
	if (c->rounds && !c->in_order)
		allow_for_rounding(c, inputs, last + 1, &out);
	for (int rank = 0; rank <= last; rank++)
		table_finish(&inputs[rank]);
	return out;
}
