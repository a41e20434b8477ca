/* SPDX-License-Identifier: BSD-3-Clause */
/* Communication behind computation: each block of a vector is reduced while the next is computed.
 */
#include <stdio.h>
#include <tutti/tutti.h>

enum { BLOCKS = 8, BLOCK = 1 << 16 };

static void compute(double *block, int number, int rank)
{
	for (int i = 0; i < BLOCK; i++)
		block[i] = (double)(number + i) * (rank + 1);
}

/* The sum over ranks of compute(): number + i times 1 + 2 + ... + size. */
static int count_wrong(const double *vector, int size)
{
	const double times = 0.5 * size * (size + 1);
	int wrong = 0;

	for (int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < BLOCK; i++)
			wrong += vector[b * BLOCK + i] != (b + i) * times;
	return wrong;
}

static tutti_result_t run(tutti_comm_t comm, double *vector)
{
	tutti_request_t requests[BLOCKS] = { NULL };
	tutti_result_t result = TUTTI_OK, waited;

	for (int b = 0; b < BLOCKS && result == TUTTI_OK; b++) {
		double *block = vector + b * BLOCK;

		compute(block, b, tutti_comm_rank(comm)); /* while earlier blocks travel */
		result = tutti_all_reduce(comm, block, block, BLOCK, TUTTI_FLOAT64, TUTTI_SUM,
					  &requests[b]);
	}
	waited = tutti_wait_all(requests, BLOCKS); /* also after an error: the blocks are tutti's */
	return result == TUTTI_OK ? waited : result;
}

int main(void)
{
	tutti_comm_t comm;
	void *vector = NULL;
	int wrong = 0;
	tutti_result_t result = tutti_init(NULL, &comm);

	/* memory that ranks on this host reduce without copying it; any other memory will do as
	 * well */
	if (result == TUTTI_OK)
		result = tutti_mem_alloc(BLOCKS * BLOCK * sizeof(double), &vector);
	if (result == TUTTI_OK)
		result = run(comm, vector);
	if (result == TUTTI_OK) {
		wrong = count_wrong(vector, tutti_comm_size(comm));
		printf("rank %d of %d: %d blocks of %d numbers reduced, %d wrong\n",
		       tutti_comm_rank(comm), tutti_comm_size(comm), BLOCKS, BLOCK, wrong);
	} else {
		fprintf(stderr, "overlap: %s\n", tutti_last_error(comm));
	}
	tutti_comm_destroy(comm);
	tutti_mem_free(vector);
	return result == TUTTI_OK && wrong == 0 && fflush(stdout) == 0 ? 0 : 1;
}
