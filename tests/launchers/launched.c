/* SPDX-License-Identifier: BSD-3-Clause */
/* What the launchers' tests start: joins whoever the launcher started beside it, adds up what all
 * ranks have, and says who it was; with an argument, so many times. Fails unless the sums are
 * right. With a second argument rank 1 is killed once: if it can make this directory. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tutti/tutti.h"

#define COUNT 100000
#define MOST  16 /* communicators at once */

static int complain(const char *what)
{
	fprintf(stderr, "launched: %s: %s\n", what, tutti_last_error(NULL));
	return 1;
}

/* Element i of rank r is r + i % 7: sums that float32 holds exactly. */
static int sums_right(tutti_comm_t comm, size_t count)
{
	const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
	float *data = malloc(count * sizeof(*data));
	int right = data != NULL;

	for (size_t i = 0; right && i < count; i++)
		data[i] = (float)rank + (float)(i % 7);
	right = right && tutti_all_reduce(comm, data, data, count, TUTTI_FLOAT32, TUTTI_SUM,
					  NULL) == TUTTI_OK;
	for (size_t i = 0; right && i < count; i++)
		right = data[i] == (float)(size * (size - 1) / 2) + (float)size * (float)(i % 7);
	free(data);
	return right;
}

static int add_up(tutti_comm_t comm)
{
	if (!sums_right(comm, 1) || !sums_right(comm, COUNT))
		return complain("the sum is wrong");
	printf("rank %d of %d, local %d of %d, has the sum\n", tutti_comm_rank(comm),
	       tutti_comm_size(comm), tutti_comm_local_rank(comm), tutti_comm_local_size(comm));
	return 0;
}

int main(int argc, char **argv)
{
	const int times = argc > 1 ? atoi(argv[1]) : 1;
	tutti_comm_t comms[MOST] = { NULL };
	int failed = times < 1 || times > MOST;

	for (int i = 0; i < times && !failed; i++)
		if (tutti_init(NULL, &comms[i]) != TUTTI_OK)
			failed = complain("tutti_init");
	if (argc > 2 && !failed && tutti_comm_rank(comms[0]) == 1 && mkdir(argv[2], 0700) == 0)
		raise(SIGKILL);
	for (int i = 0; i < times && !failed; i++)
		failed = add_up(comms[i]);
	for (int i = 0; i < times && i < MOST; i++)
		tutti_comm_destroy(comms[i]);
	return failed;
}
