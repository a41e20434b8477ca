/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a job on several hosts, started from outside. In the middle of sums and messages,
 * long and short, something befalls the host of the last rank: a card is off its network for a
 * moment, say. Nobody is to notice.
 *
 *   flap COMMAND      the shell's, by which it happens */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

#define ROUNDS 12 /* before it happens, and again after it */
#define SHORT  1000
#define LONG   ((size_t)300000)

static float from[LONG], to[LONG];

static float value(int rank, int round, size_t i)
{
	return (float)(rank + round % 5) + (float)(i % 7);
}

static void fill(int rank, int round, size_t count)
{
	for (size_t i = 0; i < count; i++)
		from[i] = value(rank, round, i);
}

static int sum(tutti_comm_t comm, int round, size_t count)
{
	const int size = tutti_comm_size(comm);

	fill(tutti_comm_rank(comm), round, count);
	const tutti_result_t result =
		tutti_all_reduce(comm, from, to, count, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	CLAIM(result == TUTTI_OK, "round %d: a sum of %zu failed: %s", round, count,
	      tutti_last_error(comm));
	for (size_t i = 0; i < count; i++) {
		const float expected =
			(float)size * value(0, round, i) + (float)(size * (size - 1) / 2);

		CLAIM(to[i] == expected, "round %d: element %zu of %zu is %g, expected %g", round,
		      i, count, (double)to[i], (double)expected);
	}
	return 0;
}

/* From each to the next. */
static int pass_on(tutti_comm_t comm, int round, size_t count)
{
	const int size = tutti_comm_size(comm), rank = tutti_comm_rank(comm),
		  before = (rank + size - 1) % size;
	tutti_request_t requests[2];

	fill(rank, round, count);
	CLAIM(tutti_send(comm, from, count, TUTTI_FLOAT32, (rank + 1) % size, &requests[0]) ==
		      TUTTI_OK,
	      "%s", tutti_last_error(comm));
	CLAIM(tutti_recv(comm, to, count, TUTTI_FLOAT32, before, &requests[1]) == TUTTI_OK, "%s",
	      tutti_last_error(comm));
	CLAIM(tutti_wait_all(requests, 2) == TUTTI_OK, "round %d: a message of %zu failed: %s",
	      round, count, tutti_last_error(comm));
	for (size_t i = 0; i < count; i++)
		CLAIM(to[i] == value(before, round, i),
		      "round %d: element %zu of a message of %zu is %g, expected %g", round, i,
		      count, (double)to[i], (double)value(before, round, i));
	return 0;
}

static int go_on(tutti_comm_t comm, void *argument)
{
	double began = 0;

	for (int round = 0; round < 2 * ROUNDS; round++) {
		if (round == ROUNDS && tutti_comm_rank(comm) == tutti_comm_size(comm) - 1)
			CLAIM(system(argument) == 0, "it cannot be made to happen");
		if (round == ROUNDS)
			began = seconds_now();
		if (sum(comm, round, SHORT) || sum(comm, round, LONG) ||
		    pass_on(comm, round, LONG) || pass_on(comm, round, SHORT))
			return 1;
	}
	printf("rank %d: all went on, in %.1f s\n", tutti_comm_rank(comm), seconds_now() - began);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s COMMAND\n", argv[0]);
		return 2;
	}
	return run_launched(go_on, argv[1]);
}
