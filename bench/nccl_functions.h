/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of NCCL's interface that is used, declared here as <nccl.h> does, so that NCCL need not
 * be there to build; tests/cuda/nccl_abi.c compares the two where it is. */
#ifndef BENCH_NCCL_FUNCTIONS_H
#define BENCH_NCCL_FUNCTIONS_H

#include <stddef.h>

struct CUstream_st;
struct ncclComm;
typedef unsigned nccl_result; /* ncclResult_t, an enum; 0: success */
typedef struct ncclComm *nccl_comm;
typedef struct CUstream_st *nccl_stream;

#ifndef NCCL_UNIQUE_ID_BYTES /* <nccl.h> is not included */
typedef struct {
	char internal[128];
} ncclUniqueId;
#endif

/* ncclDataType_t */
enum {
	NCCL_INT8,
	NCCL_UINT8,
	NCCL_INT32,
	NCCL_UINT32,
	NCCL_INT64,
	NCCL_UINT64,
	NCCL_FLOAT16,
	NCCL_FLOAT32,
	NCCL_FLOAT64,
	NCCL_BFLOAT16,
	NCCL_FLOAT8_E4M3,
	NCCL_FLOAT8_E5M2
};
enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG }; /* ncclRedOp_t */

/* F(result, member, symbol, parameters). clang-format would take the pointers for products. */
/* clang-format off */
#define NCCL_FUNCTIONS(F) \
	F(nccl_result, get_version, ncclGetVersion, (int *version)) \
	F(nccl_result, get_unique_id, ncclGetUniqueId, (ncclUniqueId *id)) \
	F(nccl_result, comm_init_rank, ncclCommInitRank, \
	  (nccl_comm *comm, int ranks, ncclUniqueId id, int rank)) \
	F(nccl_result, comm_destroy, ncclCommDestroy, (nccl_comm comm)) \
	F(nccl_result, comm_abort, ncclCommAbort, (nccl_comm comm)) \
	F(const char *, get_error_string, ncclGetErrorString, (nccl_result result)) \
	F(const char *, get_last_error, ncclGetLastError, (nccl_comm comm)) \
	F(nccl_result, group_start, ncclGroupStart, (void)) \
	F(nccl_result, group_end, ncclGroupEnd, (void)) \
	F(nccl_result, all_reduce, ncclAllReduce, \
	  (const void *send, void *recv, size_t count, unsigned type, unsigned op, nccl_comm comm, \
	   nccl_stream stream)) \
	F(nccl_result, broadcast, ncclBroadcast, \
	  (const void *send, void *recv, size_t count, unsigned type, int root, nccl_comm comm, \
	   nccl_stream stream)) \
	F(nccl_result, reduce, ncclReduce, \
	  (const void *send, void *recv, size_t count, unsigned type, unsigned op, int root, \
	   nccl_comm comm, nccl_stream stream)) \
	F(nccl_result, reduce_scatter, ncclReduceScatter, \
	  (const void *send, void *recv, size_t count, unsigned type, unsigned op, nccl_comm comm, \
	   nccl_stream stream)) \
	F(nccl_result, all_gather, ncclAllGather, \
	  (const void *send, void *recv, size_t count, unsigned type, nccl_comm comm, \
	   nccl_stream stream)) \
	F(nccl_result, send, ncclSend, \
	  (const void *send, size_t count, unsigned type, int peer, nccl_comm comm, \
	   nccl_stream stream)) \
	F(nccl_result, recv, ncclRecv, \
	  (void *recv, size_t count, unsigned type, int peer, nccl_comm comm, nccl_stream stream))
/* clang-format on */

#endif
