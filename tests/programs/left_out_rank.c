/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a job that goes on without some: the ranks that are named stop, or leave the communicator
 * and become the shell's command in THEN. The others leave them out.
 *
 *   left_out_rank RANK... */
#include <signal.h>
#include <unistd.h>

#include "meet.h"

static int go_on_without(tutti_comm_t comm)
{
	tutti_comm_t left;
	int status = 1;

	if (tutti_comm_shrink(comm, &left) != TUTTI_OK) {
		fprintf(stderr, "left_out_rank: %s\n", tutti_last_error(comm));
		return status;
	}
	printf("left %d of %d\n", tutti_comm_size(left), tutti_comm_size(comm));
	if (tutti_barrier(left, NULL) == TUTTI_OK)
		status = 0;
	tutti_comm_destroy(left);
	return status;
}

static void stay_behind(tutti_comm_t comm)
{
	const char *then = getenv("THEN");

	if (!then) {
		raise(SIGSTOP);
		return;
	}
	tutti_comm_destroy(comm);
	execl("/bin/sh", "sh", "-c", then, NULL);
}

int main(int argc, char **argv)
{
	const tutti_config_t config = { .size = sizeof(config), .timeout_s = bound_s(3) };
	tutti_comm_t comm;
	int status = 1;

	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (tutti_init(&config, &comm) != TUTTI_OK || meet() != 0) {
		fprintf(stderr, "left_out_rank: %s\n", tutti_last_error(NULL));
		return status;
	}
	for (int i = 1; i < argc; i++)
		if (tutti_comm_rank(comm) == atoi(argv[i]))
			stay_behind(comm);
	status = go_on_without(comm);
	tutti_comm_destroy(comm);
	return status;
}
