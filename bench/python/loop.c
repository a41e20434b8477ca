/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of rank.py in C: blocking all-reduces of one size, timed in batches.
 *   loop BYTES CALLS BATCHES
 * Rank 0 prints the microseconds per call of each batch. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tutti/tutti.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static tutti_result_t batch(tutti_comm_t comm, float *x, float *sum, size_t count, int calls)
{
	tutti_result_t result = tutti_barrier(comm, NULL);
	const double start = now();

	for (int i = 0; i < calls && result == TUTTI_OK; i++)
		result = tutti_all_reduce(comm, x, sum, count, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	if (result == TUTTI_OK && tutti_comm_rank(comm) == 0)
		printf("%.4f\n", 1e6 * (now() - start) / calls);
	return result;
}

int main(int argc, char **argv)
{
	const size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) / sizeof(float) : 2;
	const int calls = argc > 2 ? atoi(argv[2]) : 10000;
	const int batches = argc > 3 ? atoi(argv[3]) : 10;
	float *x = calloc(count + 1, sizeof(float)), *sum = calloc(count + 1, sizeof(float));
	tutti_comm_t comm = NULL;
	tutti_result_t result = x && sum ? tutti_init(NULL, &comm) : TUTTI_ERR_NO_MEMORY;

	for (int i = 0; i < batches && result == TUTTI_OK; i++)
		result = batch(comm, x, sum, count, calls);
	if (result != TUTTI_OK)
		fprintf(stderr, "loop: %s\n", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	free(x);
	free(sum);
	return result == TUTTI_OK && fflush(stdout) == 0 ? 0 : 1;
}
