/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the names and sizes of what the public header numbers. */
#include <assert.h>
#include <string.h>

#include "names.h"

static const struct {
	const char *name;
	size_t size;
} dtypes[] = {
	[TUTTI_INT8] = { "int8", 1 },
	[TUTTI_UINT8] = { "uint8", 1 },
	[TUTTI_INT16] = { "int16", 2 },
	[TUTTI_UINT16] = { "uint16", 2 },
	[TUTTI_INT32] = { "int32", 4 },
	[TUTTI_UINT32] = { "uint32", 4 },
	[TUTTI_INT64] = { "int64", 8 },
	[TUTTI_UINT64] = { "uint64", 8 },
	[TUTTI_FLOAT16] = { "float16", 2 },
	[TUTTI_BFLOAT16] = { "bfloat16", 2 },
	[TUTTI_FLOAT32] = { "float32", 4 },
	[TUTTI_FLOAT64] = { "float64", 8 },
	[TUTTI_FLOAT8_E4M3] = { "float8_e4m3", 1 },
	[TUTTI_FLOAT8_E5M2] = { "float8_e5m2", 1 },
};
static_assert(sizeof(dtypes) / sizeof(dtypes[0]) == TUTTI_DTYPE_COUNT, "every type has a name");

static const char *const ops[] = {
	[TUTTI_SUM] = "sum", [TUTTI_PROD] = "prod", [TUTTI_MIN] = "min", [TUTTI_MAX] = "max",
	[TUTTI_AVG] = "avg", [TUTTI_BAND] = "band", [TUTTI_BOR] = "bor", [TUTTI_BXOR] = "bxor",
};
static_assert(sizeof(ops) / sizeof(ops[0]) == TUTTI_OP_COUNT, "every operation has a name");

enum { REDUCES = 1, ROOTED = 2, OF_VECTOR = 4, OWN_COUNTS = 8, TABLE = 16 };

static const struct {
	const char *name;
	unsigned is;
} collectives[] = {
	[TT_BROADCAST] = { "broadcast", ROOTED | OF_VECTOR },
	[TT_REDUCE] = { "reduce", REDUCES | ROOTED | OF_VECTOR },
	[TT_ALL_REDUCE] = { "all_reduce", REDUCES | OF_VECTOR },
	[TT_REDUCE_SCATTER] = { "reduce_scatter", REDUCES },
	[TT_ALL_GATHER] = { "all_gather", 0 },
	[TT_GATHER] = { "gather", ROOTED },
	[TT_SCATTER] = { "scatter", ROOTED },
	[TT_ALL_TO_ALL] = { "all_to_all", 0 },
	[TT_REDUCE_SCATTER_V] = { "reduce_scatter_v", REDUCES | TABLE },
	[TT_ALL_GATHER_V] = { "all_gather_v", TABLE },
	[TT_GATHER_V] = { "gather_v", ROOTED | OWN_COUNTS },
	[TT_SCATTER_V] = { "scatter_v", ROOTED | OWN_COUNTS },
	[TT_ALL_TO_ALL_V] = { "all_to_all_v", OWN_COUNTS },
	[TT_SCAN] = { "scan", REDUCES | OF_VECTOR },
	[TT_EXSCAN] = { "exscan", REDUCES | OF_VECTOR },
	[TT_BARRIER] = { "barrier", OF_VECTOR },
	[TT_SEND_RECV] = { "send/recv", 0 },
};
static_assert(sizeof(collectives) / sizeof(collectives[0]) == TT_COLLECTIVE_COUNT,
	      "every collective has a name");

const char *tt_collective_name(enum tt_collective collective)
{
	return (unsigned)collective < TT_COLLECTIVE_COUNT ? collectives[collective].name
							  : "unknown";
}

/* Also of a number that a peer sent, which may be none. */
static bool is(enum tt_collective collective, unsigned what)
{
	return (unsigned)collective < TT_COLLECTIVE_COUNT && collectives[collective].is & what;
}

bool tt_collective_reduces(enum tt_collective collective)
{
	return is(collective, REDUCES);
}

bool tt_collective_rooted(enum tt_collective collective)
{
	return is(collective, ROOTED);
}

bool tt_collective_of_vector(enum tt_collective collective)
{
	return is(collective, OF_VECTOR);
}

bool tt_collective_knows_own_counts(enum tt_collective collective)
{
	return is(collective, OWN_COUNTS);
}

bool tt_collective_has_table(enum tt_collective collective)
{
	return is(collective, TABLE);
}

TUTTI_API const char *tutti_dtype_name(tutti_dtype_t dtype)
{
	return (unsigned)dtype < TUTTI_DTYPE_COUNT ? dtypes[dtype].name : NULL;
}

TUTTI_API size_t tutti_dtype_size(tutti_dtype_t dtype)
{
	return (unsigned)dtype < TUTTI_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

TUTTI_API const char *tutti_op_name(tutti_op_t op)
{
	if (op < 0 || op >= TUTTI_OP_COUNT + TT_USER_OPS_MAX)
		return NULL;
	return op < TUTTI_OP_COUNT ? ops[op] : "user";
}

TUTTI_API const char *tutti_version(void)
{
	return TUTTI_VERSION;
}

TUTTI_API const char *tutti_strerror(tutti_result_t result)
{
	switch (result) {
	case TUTTI_OK: return "done";
	case TUTTI_IN_PROGRESS: return "not finished yet";
	case TUTTI_ERR_INVALID: return "an argument is wrong; nothing was sent";
	case TUTTI_ERR_MISMATCH: return "ranks called different operations";
	case TUTTI_ERR_TIMEOUT: return "the deadline of the operation passed";
	case TUTTI_ERR_PEER_LOST: return "a rank died or closed its connection";
	case TUTTI_ERR_ABORTED: return "a rank aborted the communicator";
	case TUTTI_ERR_SYSTEM: return "the operating system refused something";
	case TUTTI_ERR_NO_MEMORY: return "memory could not be had";
	case TUTTI_ERR_UNSUPPORTED: return "this build or machine cannot do it";
	}
	return "not a result of tutti";
}
