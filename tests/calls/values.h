/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of every type as doubles, written apart from the library's kernels. */
#ifndef TT_VALUES_H
#define TT_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/tutti.h>

bool value_is_float(tutti_dtype_t dtype);
/* Of 16 or 8 bits. */
bool value_is_narrow(tutti_dtype_t dtype);
/* Of a float: bits behind the first one; the smallest number. */
int value_digits(tutti_dtype_t dtype);
double value_least(tutti_dtype_t dtype);
bool op_is_defined(tutti_op_t op, tutti_dtype_t dtype);
/* Element i of a buffer, as a double (64-bit integers used by the tests stay below 2^53). */
double value_get(const void *buffer, size_t i, tutti_dtype_t dtype);
/* Store `value`: floats are rounded to nearest, ties to even; of integers the type must be able
 * to hold it. */
void value_set(void *buffer, size_t i, tutti_dtype_t dtype, double value);
/* One element as the reproducible mode promises it: elements[0] … elements[n - 1], those of
 * ranks 0 … n - 1, combined from the left in float32 (float64 in float64, integers in 64 bits),
 * an average divided by n there, and rounded once to the type. */
void value_fold(void *result, const void *const *elements, int n, tutti_dtype_t dtype,
		tutti_op_t op);
/* With another divisor of averages. */
void value_fold_by(void *result, const void *const *elements, int n, tutti_dtype_t dtype,
		   tutti_op_t op, unsigned divisor);
/* A contribution to a pre-multiplied sum: the product, rounded to the type. The operation is the
 * sum of these. */
void value_scale(void *result, const void *element, const void *scalar, tutti_dtype_t dtype);

/* For a comparison of results that are not in one place: FNV-1a. */
uint64_t bits_hash(const void *bits, size_t bytes);

#endif
