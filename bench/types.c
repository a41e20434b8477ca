/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the names, sizes and formats of the element types, and the names of the operations, for
 * programs that are not linked with tutti. */
#include <assert.h>
#include <string.h>

#include "pattern.h"

static const struct {
	const char *name;
	const char *alias;
	size_t size;
	unsigned exponent, mantissa; /* bits; 0 for integers */
} types[] = {
	[TUTTI_INT8] = { "int8", "char", 1, 0, 0 },
	[TUTTI_UINT8] = { "uint8", "byte", 1, 0, 0 },
	[TUTTI_INT16] = { "int16", "short", 2, 0, 0 },
	[TUTTI_UINT16] = { "uint16", "ushort", 2, 0, 0 },
	[TUTTI_INT32] = { "int32", "int", 4, 0, 0 },
	[TUTTI_UINT32] = { "uint32", "uint", 4, 0, 0 },
	[TUTTI_INT64] = { "int64", "long", 8, 0, 0 },
	[TUTTI_UINT64] = { "uint64", "ulong", 8, 0, 0 },
	[TUTTI_FLOAT16] = { "float16", "half", 2, 5, 10 },
	[TUTTI_BFLOAT16] = { "bfloat16", "bf16", 2, 8, 7 },
	[TUTTI_FLOAT32] = { "float32", "float", 4, 8, 23 },
	[TUTTI_FLOAT64] = { "float64", "double", 8, 11, 52 },
	[TUTTI_FLOAT8_E4M3] = { "float8_e4m3", "fp8_e4m3", 1, 4, 3 },
	[TUTTI_FLOAT8_E5M2] = { "float8_e5m2", "fp8_e5m2", 1, 5, 2 },
};
static_assert(sizeof(types) / sizeof(types[0]) == TUTTI_DTYPE_COUNT, "every type has a row");

static const char *const ops[] = {
	[TUTTI_SUM] = "sum", [TUTTI_PROD] = "prod", [TUTTI_MIN] = "min", [TUTTI_MAX] = "max",
	[TUTTI_AVG] = "avg", [TUTTI_BAND] = "band", [TUTTI_BOR] = "bor", [TUTTI_BXOR] = "bxor",
};
static_assert(sizeof(ops) / sizeof(ops[0]) == TUTTI_OP_COUNT, "every operation has a name");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie");

const char *bench_type_name(tutti_dtype_t dtype)
{
	return types[dtype].name;
}

size_t bench_type_size(tutti_dtype_t dtype)
{
	return types[dtype].size;
}

bool bench_type_is_float(tutti_dtype_t dtype)
{
	return types[dtype].exponent > 0;
}

int bench_type_alias(const char *name)
{
	int i = 0;

	while (i < TUTTI_DTYPE_COUNT && strcmp(types[i].alias, name) != 0)
		i++;
	return i;
}

const char *bench_op_name(int op)
{
	return op == BENCH_NO_OP ? "none" : ops[op];
}

struct bench_format bench_type_format(tutti_dtype_t dtype)
{
	return (struct bench_format){ (uint32_t)types[dtype].size, types[dtype].exponent,
				      types[dtype].mantissa, 0 };
}

uint64_t bench_type_exact(tutti_dtype_t dtype)
{
	const uint64_t most = (uint64_t)1 << 20;

	if (types[dtype].size == 1 && types[dtype].exponent == 0)
		return INT8_MAX;
	if (types[dtype].size == 2 && types[dtype].exponent == 0)
		return INT16_MAX;
	if (types[dtype].exponent == 0 || types[dtype].mantissa >= 20)
		return most;
	return (uint64_t)2 << types[dtype].mantissa;
}

void bench_type_encode(tutti_dtype_t dtype, uint64_t value, void *out)
{
	const int mantissa = (int)types[dtype].mantissa;
	uint64_t bits = value;

	if (types[dtype].exponent > 0 && value > 0) {
		const int power = 63 - __builtin_clzll(value);
		const uint64_t bias = ((uint64_t)1 << (types[dtype].exponent - 1)) - 1;
		const uint64_t rest = value ^ ((uint64_t)1 << power);

		bits = ((uint64_t)power + bias) << mantissa;
		bits |= power <= mantissa ? rest << (mantissa - power) : rest >> (power - mantissa);
	}
	memcpy(out, &bits, types[dtype].size); /* little-endian: the low bytes */
}
