/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the formats in which float32 may travel, apart from the library's own list of them. */
#include "wire.h"

#include <math.h>
#include <string.h>

#define BLOCK 128 /* numbers that share a scale */
#define AUTO  "auto:"

static const struct {
	const char *name;
	size_t numbers, bytes; /* of what travels as a whole */
} wires[] = {
	[TUTTI_WIRE_FLOAT32] = { "none", 1, sizeof(float) },
	[TUTTI_WIRE_BFLOAT16] = { "bf16", 1, 2 },
	[TUTTI_WIRE_FLOAT16] = { "fp16", 1, 2 },
	[TUTTI_WIRE_FLOAT8] = { "fp8", BLOCK, sizeof(float) + BLOCK },
	[TUTTI_WIRE_INT8] = { "int8", BLOCK, sizeof(float) + BLOCK },
};

static tutti_wire_t format_of(tutti_wire_t wire)
{
	return wire & ~TUTTI_WIRE_IF_FASTER;
}

const char *bench_wire_name(tutti_wire_t wire)
{
	return wires[format_of(wire)].name;
}

bool bench_wire_find(const char *name, tutti_wire_t *wire)
{
	const bool if_faster = strncmp(name, AUTO, strlen(AUTO)) == 0;
	const char *format = name + (if_faster ? strlen(AUTO) : 0);

	for (tutti_wire_t i = TUTTI_WIRE_FLOAT32; i < TUTTI_WIRE_COUNT; i++) {
		if (strcmp(wires[i].name, format) != 0 || (if_faster && i == TUTTI_WIRE_FLOAT32))
			continue;
		*wire = if_faster ? i | TUTTI_WIRE_IF_FASTER : i;
		return true;
	}
	return false;
}

bool bench_wire_narrows(tutti_wire_t wire)
{
	return format_of(wire) > TUTTI_WIRE_FLOAT32;
}

size_t bench_wire_bytes(tutti_wire_t wire, size_t count)
{
	const tutti_wire_t format = format_of(wire);

	return (count + wires[format].numbers - 1) / wires[format].numbers * wires[format].bytes;
}

/* One rounding, where the largest magnitude of the block is `most`. */
static double rounding(tutti_wire_t format, double magnitude, double most)
{
	switch (format) {
	case TUTTI_WIRE_BFLOAT16: return magnitude * 0x1p-8;
	case TUTTI_WIRE_FLOAT16: return fmax(magnitude * 0x1p-11, 0x1p-25);
	case TUTTI_WIRE_FLOAT8: return fmax(magnitude * 0x1p-4, most * 0x1p-10 / 448);
	default: return most / 254;
	}
}

/* One more in a thousand is for what is computed in float32. */
double bench_wire_bound(tutti_wire_t wire, double exact, double most)
{
	const tutti_wire_t format = format_of(wire);
	const double inputs =
		rounding(format, exact, most) +
		(format == TUTTI_WIRE_FLOAT8 ? rounding(format, 0, most) : 0); /* some ranks' */
	const double host = rounding(format, exact + inputs, most + inputs);
	const double result = rounding(format, exact + inputs + host, most + inputs + host);

	return 1.001 * (inputs + host + result);
}
