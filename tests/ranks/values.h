/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of every type as doubles, written apart from the library's kernels: inputs, expected results, tolerances. */
#ifndef TT_VALUES_H
#define TT_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include <tutti/tutti.h>

bool value_is_float(tutti_dtype_t dtype);
bool op_is_defined(tutti_op_t op, tutti_dtype_t dtype);
/* Element i of a buffer, as a double (64-bit integers used by the tests stay below 2^53). */
double value_get(const void *buffer, size_t i, tutti_dtype_t dtype);
/* Store `value`, which the type must be able to hold, rounded to nearest. */
void value_set(void *buffer, size_t i, tutti_dtype_t dtype, double value);
/* What rank `rank` contributes at place i to a reduction by `op`: small enough that nothing overflows. */
double value_input(int rank, size_t i, tutti_dtype_t dtype, tutti_op_t op);
/* One step of the reduction, in double precision (or exact integers). */
double value_combine(double a, double b, tutti_op_t op);
/* May `found` stand for `expected`, after `steps` roundings of a type? */
bool value_close(double found, double expected, tutti_dtype_t dtype, int steps);

#endif
