/* SPDX-License-Identifier: BSD-3-Clause */
#include "bounds.h"

#include <math.h>
#include <string.h>

#include "values.h"

static int log2_up(int n)
{
	int k = 0;

	while (1 << k < n)
		k++;
	return k;
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

bool value_is_one_fold(const char *algorithm)
{
	static const char *const names[] = { "flat",  "star",	"two_shot", "pairwise",
					     "board", "direct", NULL };

	return algorithm && is_one_of(algorithm, names);
}

int value_height(const struct value_way *way)
{
	static const char *const logarithmic[] = { "tree", "doubling", "halving_doubling", NULL };
	const char *name = way->algorithm ? way->algorithm : "";
	const int ranks = way->ranks, hosts = way->hosts, most = way->most;
	const bool scatters = way->what == REDUCE_SCATTER || way->what == REDUCE_SCATTER_V;

	if (ranks <= 1)
		return 0;
	if (is_one_of(name, logarithmic))
		return log2_up(ranks);
	if (strcmp(name, "double_tree") == 0)
		return way->what == REDUCE ? 2 * log2_up(ranks) - 1 : 2 * log2_up(ranks + 1) - 2;
	if (strcmp(name, "hierarchical") == 0)
		return log2_up(most) + (scatters ? hosts - 1 : log2_up(hosts));
	if (strcmp(name, "hierarchical_split") == 0 || strcmp(name, "hierarchical_shots") == 0)
		return most - 1 + hosts - 1;
	return ranks - 1; /* each combination on the way adds a rank at least */
}

/* Roundings on the way of one contribution, at most. */
struct roundings {
	int stored; /* of 16- and 8-bit floats: to the element type */
	int inside; /* to the type in which a step computes */
};

static struct roundings roundings_of(const struct value_way *way)
{
	const int others = way->ranks - 1, height = value_height(way);
	const bool one_fold = value_is_one_fold(way->algorithm),
		   narrow = value_is_narrow(way->dtype);
	struct roundings r = { one_fold ? 1 : height, height };

	if (way->op ==
	    TUTTI_PROD) /* all factors' roundings are in the product, whatever their place in the
			 * tree */
		return (struct roundings){ one_fold ? 1 : others, others };
	if (way->op == TUTTI_AVG) /* partial averages: two products and a sum */
		r.inside = one_fold || !narrow ? height + 1 : 3 * height;
	if (way->op >= TUTTI_OP_COUNT) { /* the product with the scalar is stored */
		r.stored++;
		r.inside++;
	}
	return r;
}

static double unit_roundoff(tutti_dtype_t dtype)
{
	return ldexp(1, -1 - value_digits(dtype));
}

double value_bound(const struct value_way *way, double magnitude)
{
	const struct roundings r = roundings_of(way);
	const bool narrow = value_is_narrow(way->dtype);
	const int divisions = way->op == TUTTI_AVG ? r.stored : 0;
	const int scalings = way->op >= TUTTI_OP_COUNT ? way->ranks : 0;
	double exponent = r.inside * log1p(unit_roundoff(narrow ? TUTTI_FLOAT32 : way->dtype));

	if (!value_is_float(way->dtype) || way->op == TUTTI_MIN || way->op == TUTTI_MAX)
		return 0;
	if (narrow)
		exponent += r.stored * log1p(unit_roundoff(way->dtype));
	/* a thousandth for the reference's own roundings */
	return 1.001 * expm1(exponent) * magnitude +
	       (divisions + scalings) * value_least(way->dtype);
}

double value_narrowed(tutti_wire_t wire, double magnitude, double largest)
{
	switch (wire) {
	case TUTTI_WIRE_BFLOAT16: return magnitude * 0x1p-8;
	case TUTTI_WIRE_FLOAT16: return fmax(magnitude * 0x1p-11, 0x1p-25);
	case TUTTI_WIRE_FLOAT8: return fmax(magnitude * 0x1p-4, largest * 0x1p-10 / 448);
	default: return largest / 254;
	}
}
