/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a job on several hosts, started from outside, of which one is lost: rank VICTIM is killed in the middle of sums,
 * or takes its host off the network. Everybody else sums until it is told, in time, and of whom.
 *
 *   lost VICTIM killed|unplugged SECONDS PLACE      PLACE: what the sentence must name, such as "rank 3 at 192.0.2.2:" */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define SUMS  50 /* before it happens */
#define COUNT 1000

struct loss {
	int victim;
	bool killed;
	double seconds;
	const char *place;
};

static tutti_result_t sum(tutti_comm_t comm)
{
	static float send[COUNT], recv[COUNT];

	return tutti_all_reduce(comm, send, recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static int cause(tutti_comm_t comm, const struct loss *loss)
{
	if (loss->killed)
		raise(SIGKILL);
	CLAIM(system("ip link set eth0 down") == 0, "the link cannot be set down");
	return 0;
}

static int be_told(tutti_comm_t comm, void *argument)
{
	const struct loss *loss = argument;
	tutti_result_t result = TUTTI_OK;
	double called = 0;
	int sums;

	for (sums = 0; !result; sums++) {
		if (sums == SUMS && tutti_comm_rank(comm) == loss->victim && cause(comm, loss))
			return 1;
		called = seconds_now();
		result = sum(comm);
	}
	const double took = seconds_now() - called;
	const char *said = tutti_last_error(comm);

	printf("rank %d: %s after %.1f s: %s\n", tutti_comm_rank(comm), tutti_strerror(result), took, said);
	/* the victim's last sum may be the one that others cannot end any more */
	CLAIM(sums >= SUMS, "sum %d has failed already (%s)", sums, said);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "result %d (%s)", result, said);
	CLAIM(took < loss->seconds, "told after %.1f s (%s)", took, said);
	CLAIM(strstr(said, loss->place), "\"%s\" does not name %s", said, loss->place);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 5 || (strcmp(argv[2], "killed") != 0 && strcmp(argv[2], "unplugged") != 0)) {
		fprintf(stderr, "usage: %s VICTIM killed|unplugged SECONDS PLACE\n", argv[0]);
		return 2;
	}
	struct loss loss = { atoi(argv[1]), strcmp(argv[2], "killed") == 0, atof(argv[3]), argv[4] };

	return run_launched(be_told, &loss);
}
