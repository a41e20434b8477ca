/* SPDX-License-Identifier: BSD-3-Clause */
/* What numbers.h has of weights and of gradients alike, of vectors of ELEMENT, as functions that
 * VECTOR names: READ is an element's value, and WRITE the element of a value. */

static double VECTOR(square_sum)(const void *x, size_t count)
{
	const ELEMENT *v = x;
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += (double)READ(v[i]) * READ(v[i]);
	return sum;
}

static void VECTOR(scale)(void *x, size_t count, double factor)
{
	ELEMENT *v = x;

	for (size_t i = 0; i < count; i++)
		v[i] = WRITE(READ(v[i]) * factor);
}

static void VECTOR(add)(void *to, const void *x, size_t count)
{
	const ELEMENT *v = x;
	ELEMENT *sum = to;

	for (size_t i = 0; i < count; i++)
		sum[i] = WRITE(READ(sum[i]) + READ(v[i]));
}

static void VECTOR(store)(void *to, const double *from, size_t count)
{
	ELEMENT *v = to;

	for (size_t i = 0; i < count; i++)
		v[i] = WRITE(from[i]);
}

static void VECTOR(load)(double *to, const void *from, size_t count)
{
	const ELEMENT *v = from;

	for (size_t i = 0; i < count; i++)
		to[i] = READ(v[i]);
}

#undef ELEMENT
#undef VECTOR
#undef READ
#undef WRITE
