/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of a job on several hosts, started from outside, of which one is lost: rank VICTIM is
 * killed in the middle of sums, or takes its host off the network, or lets no packet of RoCE in any
 * more. Everybody else sums until it is told, in time, and of whom. Where a rank was killed, the
 * others go on without it, and then with another in its place: the victim is to be started again
 * with TUTTI_JOIN=1, at the same store, which rank 0 serves.
 *
 *   lost VICTIM killed|unplugged|cut SECONDS PATTERN      PATTERN: the shell's, of the error message, such as "*rank 3 at 192.0.2.2:*" */
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define SUMS  50 /* before it happens */
#define COUNT 1000
#define LONG  300000 /* more than any ring holds */

struct loss {
	int victim;
	const char *how;
	double seconds;
	const char *pattern;
};

static bool is(const struct loss *loss, const char *how)
{
	return strcmp(loss->how, how) == 0;
}

static tutti_result_t sum(tutti_comm_t comm)
{
	static float send[COUNT], recv[COUNT];

	return tutti_all_reduce(comm, send, recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
}

static int cause(tutti_comm_t comm, const struct loss *loss)
{
	if (is(loss, "killed"))
		raise(SIGKILL);
	if (is(loss, "unplugged"))
		CLAIM(system("ip link set eth0 down") == 0, "the link cannot be set down");
	if (is(loss, "cut"))
		CLAIM(system("tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress protocol ip "
			     "u32 match ip protocol 17 0xff match ip dport 4791 0xffff action drop") ==
			      0,
		      "packets cannot be dropped");
	return 0;
}

/* Short sums and a long one, which are right. */
static int computes(tutti_comm_t comm, int size)
{
	static int32_t many[LONG];
	int32_t one = 1, ones = 0;

	CLAIM(tutti_comm_size(comm) == size, "%d ranks go on, expected %d", tutti_comm_size(comm),
	      size);
	for (int i = 0; i < SUMS; i++)
		SUCCEEDS(sum(comm));
	SUCCEEDS(tutti_all_reduce(comm, &one, &ones, 1, TUTTI_INT32, TUTTI_SUM, NULL));
	CLAIM(ones == size, "the sum of %d ones is %d", size, ones);
	for (int i = 0; i < LONG; i++)
		many[i] = tutti_comm_rank(comm) + i;
	SUCCEEDS(tutti_all_reduce(comm, many, many, LONG, TUTTI_INT32, TUTTI_SUM, NULL));
	for (int i = 0; i < LONG; i++)
		CLAIM(many[i] == size * (size - 1) / 2 + size * i, "element %d is %d", i, many[i]);
	printf("rank %d of %d: all sums are right\n", tutti_comm_rank(comm), size);
	return 0;
}

/* Without the victim, and with who comes in its place. */
static int go_on(tutti_comm_t comm)
{
	const int size = tutti_comm_size(comm);
	tutti_comm_t rest = NULL, whole = NULL;

	SUCCEEDS(tutti_comm_shrink(comm, &rest));
	if (computes(rest, size - 1))
		return 1;
	SUCCEEDS(tutti_comm_grow(rest, NULL, 1, &whole));
	tutti_comm_destroy(rest);
	const int failed = computes(whole, size);
	tutti_comm_destroy(whole);
	return failed;
}

static int be_in_its_place(tutti_comm_t comm, void *argument)
{
	CLAIM(tutti_comm_rank(comm) == tutti_comm_size(comm) - 1, "a newcomer is rank %d",
	      tutti_comm_rank(comm));
	return computes(comm, atoi(getenv("TUTTI_SIZE")));
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

	printf("rank %d: %s after %.1f s: %s\n", tutti_comm_rank(comm), tutti_strerror(result),
	       took, said);
	/* the victim's last sum may be the one that others cannot end any more */
	CLAIM(sums >= SUMS, "sum %d has failed already (%s)", sums, said);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "result %d (%s)", result, said);
	CLAIM(took < loss->seconds, "told after %.1f s (%s)", took, said);
	CLAIM(fnmatch(loss->pattern, said, 0) == 0, "\"%s\", expected %s", said, loss->pattern);
	return is(loss, "killed") ? go_on(comm) : 0;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: %s VICTIM killed|unplugged|cut SECONDS PATTERN\n", argv[0]);
		return 2;
	}
	struct loss loss = { atoi(argv[1]), argv[2], atof(argv[3]), argv[4] };
	tutti_store_t store = NULL;

	if (getenv("TUTTI_JOIN"))
		return run_launched(be_in_its_place, NULL);
	if (is(&loss, "killed")) { /* as long as rank 0 lives, and not until all have met */
		setenv("TUTTI_STORE_SERVED", "once", 1);
		if (strcmp(getenv("TUTTI_RANK"), "0") == 0 &&
		    tutti_store_open(getenv("TUTTI_STORE"), 1, 60, &store)) {
			fprintf(stderr, "%s\n", tutti_last_error(NULL));
			return 1;
		}
	}
	const int failed = run_launched(be_told, &loss);
	tutti_store_close(store);
	return failed;
}
