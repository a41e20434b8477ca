/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank whose job comes to an end, or a halt, in a way that tutti-trace can tell.
 *
 *   trace_rank killed|failed|differs
 *   trace_rank early          rank 1 is killed before it joins
 *   trace_rank stuck FILE    rank 1 computes until FILE is there
 *   trace_rank stream FILE   the same, while the others' streams wait for its */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/cuda.h>
#include <tutti/tutti.h>

#include "gpu/gpu.h"

#define CALLS 20

static tutti_result_t differ(tutti_comm_t comm, int rank, const float *in, float *out)
{
	tutti_request_t request = NULL;
	tutti_result_t result = TUTTI_OK;
	char word = 0;

	if (rank != 1) {
		result = tutti_all_reduce(comm, in, out, 100, TUTTI_FLOAT32, TUTTI_SUM, &request);
		if (!result)
			result = tutti_send(comm, &word, 1, TUTTI_INT8, 1, NULL);
		return result ? result : tutti_wait(&request);
	}
	/* once it has called, the others call no more */
	for (int other = 0; other < tutti_comm_size(comm) && !result; other++)
		result =
			other == 1 ? TUTTI_OK : tutti_recv(comm, &word, 1, TUTTI_INT8, other, NULL);
	if (!result)
		result = tutti_broadcast(comm, in, out, 100, TUTTI_FLOAT32, 1, NULL);
	return result ? result : tutti_barrier(comm, NULL); /* its part needed nobody */
}

static void await_file(const char *file)
{
	while (access(file, F_OK) != 0) {
	}
}

static tutti_result_t sum_on_stream(tutti_comm_t comm, void *gpu)
{
	return tutti_cuda_all_reduce(comm, gpu, gpu, 100, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static tutti_result_t wait_on_streams(tutti_comm_t comm, int rank, const char *file)
{
	void *gpu;
	tutti_result_t result = gpu_enter(0) ? tutti_cuda_bind(comm, 0) : TUTTI_ERR_SYSTEM;

	if (!result)
		result = tutti_cuda_mem_alloc(100 * sizeof(float), &gpu);
	if (!result)
		result = tutti_barrier(comm, NULL);
	if (!result)
		result = sum_on_stream(comm, gpu);
	if (!result && rank == 1)
		await_file(file);
	return result ? result : sum_on_stream(comm, gpu);
}

static tutti_result_t play(tutti_comm_t comm, const char *part, const char *file)
{
	const int rank = tutti_comm_rank(comm);
	float in[100] = { 1 }, out[100];
	tutti_result_t result = TUTTI_OK;

	for (int i = 0; i < CALLS && !result; i++) {
		tutti_call_t call = TUTTI_CALL_INIT;

		call.caller = "train.py:42 in step";
		if (i == CALLS - 1 && strcmp(part, "stuck") == 0)
			result = tutti_next_call(comm, &call);
		if (!result)
			result = tutti_all_reduce(comm, in, out, 100, TUTTI_FLOAT32, TUTTI_SUM,
						  NULL);
	}
	if (result)
		return result;
	if (strcmp(part, "differs") == 0)
		return differ(comm, rank, in, out) == TUTTI_ERR_MISMATCH ? TUTTI_OK
									 : TUTTI_ERR_UNSUPPORTED;
	if (strcmp(part, "killed") == 0 && rank == 1)
		raise(SIGKILL);
	if (strcmp(part, "killed") == 0 && rank == 2) /* it hears of nothing, and tutti-run ends
						       * it */
		await_file("/nowhere/at all");
	if (strcmp(part, "failed") == 0 && rank == 1)
		_exit(7);
	puts("there");
	fflush(stdout);
	if (strcmp(part, "stuck") == 0 && rank == 1)
		await_file(file);
	if (strcmp(part, "stream") == 0)
		result = wait_on_streams(comm, rank, file);
	if (result)
		return result;
	if (strcmp(part, "stuck") == 0)
		result = tutti_next_call(
			comm, &(tutti_call_t){ sizeof(tutti_call_t), 0, "train.py:57 in end" });
	return result ? result : tutti_barrier(comm, NULL);
}

int main(int argc, char **argv)
{
	const char *rank = getenv("TUTTI_RANK");

	if (argc > 1 && strcmp(argv[1], "early") == 0 && rank && strcmp(rank, "1") == 0)
		raise(SIGSEGV);
	tutti_comm_t comm;
	tutti_result_t result = tutti_init(NULL, &comm);

	if (result == TUTTI_OK)
		result = play(comm, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
	if (result != TUTTI_OK)
		fprintf(stderr, "trace_rank: %s\n", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	return result == TUTTI_OK ? 0 : 1;
}
