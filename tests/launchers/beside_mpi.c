/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that uses tutti beside MPI, which it begins "before" or "after" the first communicator: both
 * ask the launcher by one connection. Each rank says what both add up to. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tutti/tutti.h"

static int fail(void)
{
	fprintf(stderr, "beside_mpi: %s\n", tutti_last_error(NULL));
	return 1;
}

static int add_up(float *sum)
{
	tutti_comm_t comm;

	*sum = 1;
	if (tutti_init(NULL, &comm))
		return fail();
	if (tutti_all_reduce(comm, sum, sum, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL))
		return fail();
	tutti_comm_destroy(comm);
	return 0;
}

int main(int argc, char **argv)
{
	const int before = argc > 1 && strcmp(argv[1], "before") == 0, one = 1;
	float first, second;
	int ranks = 0;

	if (before)
		MPI_Init(&argc, &argv);
	if (add_up(&first))
		return 1;
	if (!before)
		MPI_Init(&argc, &argv);
	MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (add_up(&second))
		return 1;
	MPI_Finalize();
	printf("MPI has %d ranks, tutti %g and %g\n", ranks, (double)first, (double)second);
	return 0;
}
