/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a job that goes on without those that hang: the ranks that are named close their
 * connections and stop, and the others leave them out. Over TCP they notice at once.
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

static void hang(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	raise(SIGSTOP);
}

int main(int argc, char **argv)
{
	tutti_comm_t comm;
	int status = 1;

	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (tutti_init(NULL, &comm) != TUTTI_OK || meet() != 0) {
		fprintf(stderr, "left_out_rank: %s\n", tutti_last_error(NULL));
		return status;
	}
	for (int i = 1; i < argc; i++)
		if (tutti_comm_rank(comm) == atoi(argv[i]))
			hang();
	if (tutti_barrier(comm, NULL) != TUTTI_OK)
		status = go_on_without(comm);
	tutti_comm_destroy(comm);
	return status;
}
