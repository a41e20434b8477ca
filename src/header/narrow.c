/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the names and sizes of what float32 travels as. */
#include "narrow.h"

#include <string.h>

#include "kernels.h"
#include "log.h"
#include "nearest.h"

#define AUTO	"auto:" /* before a name: TUTTI_WIRE_IF_FASTER */
#define ROUNDED 1024	/* numbers at a time: whole blocks */

static const struct {
	const char *name, *of_float32;
	size_t values, bytes; /* of an element */
} wires[TUTTI_WIRE_COUNT] = {
	[TUTTI_WIRE_FLOAT32] = { "none", "float32", 1, sizeof(float) },
	[TUTTI_WIRE_BFLOAT16] = { "bf16", "float32 as bf16", 1, 2 },
	[TUTTI_WIRE_FLOAT16] = { "fp16", "float32 as fp16", 1, 2 },
	[TUTTI_WIRE_FLOAT8] = { "fp8", "float32 as fp8", TT_NARROW_BLOCK,
				sizeof(float) + TT_NARROW_BLOCK },
	[TUTTI_WIRE_INT8] = { "int8", "float32 as int8", TT_NARROW_BLOCK,
			      sizeof(float) + TT_NARROW_BLOCK },
};

size_t tt_narrow_values(tutti_wire_t wire)
{
	return wires[tt_narrow_format(wire)].values;
}

size_t tt_narrow_element(tutti_wire_t wire)
{
	return wires[tt_narrow_format(wire)].bytes;
}

size_t tt_narrow_elements(tutti_wire_t wire, size_t n)
{
	const size_t values = tt_narrow_values(wire);

	return n / values + (n % values > 0);
}

static bool known(tutti_wire_t wire)
{
	const tutti_wire_t format = tt_narrow_format(wire);

	return format >= TUTTI_WIRE_DEFAULT && format < TUTTI_WIRE_COUNT &&
	       (wire == format || tt_narrow_is(wire));
}

tutti_result_t tt_narrow_check(const char *from, tutti_wire_t wire)
{
	return known(wire)
		       ? TUTTI_OK
		       : tt_fail(TUTTI_ERR_INVALID, COMM,
				 "%s is %d: expected TUTTI_WIRE_DEFAULT (%d) to TUTTI_WIRE_INT8 (%d), narrow "
				 "ones with TUTTI_WIRE_IF_FASTER (%d) or without",
				 from, wire, TUTTI_WIRE_DEFAULT, TUTTI_WIRE_INT8,
				 TUTTI_WIRE_IF_FASTER);
}

uint8_t tt_narrow_dtype(tutti_dtype_t dtype, tutti_wire_t wire)
{
	return (uint8_t)(tt_narrow_is(wire) ? TUTTI_DTYPE_COUNT + tt_narrow_format(wire)
					    : (int)dtype);
}

const char *tt_narrow_dtype_name(uint8_t dtype)
{
	const int wire = dtype - TUTTI_DTYPE_COUNT;

	if (wire > TUTTI_WIRE_FLOAT32 && wire < TUTTI_WIRE_COUNT)
		return wires[wire].of_float32;
	return tutti_dtype_name((tutti_dtype_t)dtype);
}

TUTTI_API const char *tutti_wire_name(tutti_wire_t wire)
{
	return known(wire) ? wires[tt_narrow_format(wire)].name : NULL;
}

TUTTI_API size_t tutti_wire_bytes(tutti_wire_t wire, size_t count)
{
	size_t bytes;

	if (!known(wire) || !wires[tt_narrow_format(wire)].name)
		return 0;
	return __builtin_mul_overflow(tt_narrow_elements(wire, count), tt_narrow_element(wire),
				      &bytes)
		       ? SIZE_MAX
		       : bytes;
}

tutti_result_t tt_narrow_parse(const char *from, const char *text, tutti_wire_t *wire)
{
	const bool if_faster = strncmp(text, AUTO, strlen(AUTO)) == 0;
	const char *name = text + (if_faster ? strlen(AUTO) : 0);
	struct tt_nearest nearest = tt_nearest_to(name, strlen(name));
	char hint[TT_NEAREST_HINT];

	for (tutti_wire_t i = TUTTI_WIRE_FLOAT32; i < TUTTI_WIRE_COUNT; i++) {
		const tutti_wire_t found = if_faster ? i | TUTTI_WIRE_IF_FASTER : i;

		if (known(found) && strcmp(wires[i].name, name) == 0) {
			*wire = found;
			return TUTTI_OK;
		}
		tt_nearest_offer(&nearest, wires[i].name);
	}
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"%s is \"%s\"%s: expected none, bf16, fp16, fp8 or int8, or one of the last four "
		"behind \"auto:\", such as auto:int8",
		from, text, tt_nearest_hint(&nearest, hint));
}

TUTTI_API tutti_result_t tutti_wire_parse(const char *text, tutti_wire_t *wire)
{
	if (!text || !wire)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_wire_parse: %s is NULL",
			       text ? "wire" : "text");
	return tt_narrow_parse("tutti_wire_parse: the name", text, wire);
}

TUTTI_API tutti_result_t tutti_wire_round(tutti_wire_t wire, const float *in, float *out,
					  size_t count)
{
	uint8_t narrow[ROUNDED * sizeof(float)];

	if (count > 0 && (!in || !out))
		return tt_fail(TUTTI_ERR_INVALID, COMM, "tutti_wire_round: %s is NULL",
			       in ? "out" : "in");
	if (wire == TUTTI_WIRE_DEFAULT || !known(wire))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "tutti_wire_round: wire is %d: expected TUTTI_WIRE_FLOAT32 (%d) to "
			       "TUTTI_WIRE_INT8 (%d)",
			       wire, TUTTI_WIRE_FLOAT32, TUTTI_WIRE_INT8);
	if (!tt_narrow_is(wire)) {
		if (count > 0 && in != out)
			memcpy(out, in, count * sizeof(float));
		return TUTTI_OK;
	}
	const struct tt_narrow_kernels *kernels = &tt_kernels()->narrow[tt_narrow_format(wire)];
	for (size_t done = 0; done < count; done += ROUNDED) {
		const size_t n = count - done < ROUNDED ? count - done : ROUNDED;

		kernels->pack(narrow, in + done, n);
		kernels->unpack(out + done, narrow, n);
	}
	return TUTTI_OK;
}
