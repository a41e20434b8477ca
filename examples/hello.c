/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void)
{
	tutti_comm_t comm;
	tutti_result_t result = tutti_init(NULL, &comm);
	float sum = 0;

	if (result == TUTTI_OK) {
		const float mine = (float)tutti_comm_rank(comm) + 1;

		result = tutti_all_reduce(comm, &mine, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	}
	if (result == TUTTI_OK)
		printf("rank %d of %d: 1 + 2 + ... is %g\n", tutti_comm_rank(comm),
		       tutti_comm_size(comm), sum);
	else
		fprintf(stderr, "hello: %s\n", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	return result == TUTTI_OK && fflush(stdout) == 0 ? 0 : 1;
}
