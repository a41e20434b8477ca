/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns where each rank is started and what it reads. A replacement runs where the failed rank ran;
 * it reads nothing, since what was typed or piped so far is gone with that rank. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "starter.h"

bool starter_init(struct starter *starter, const struct spawn *spawn, struct job *job)
{
	*starter = (struct starter){ .spawn = *spawn, .job = job, .stdin_fd = -1 };
	starter->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (starter->null_fd < 0) {
		fprintf(stderr, "tutti-run: cannot open /dev/null: %s\n", strerror(errno));
		return false;
	}
	if (binder_init(&starter->binder, spawn->options->bind))
		return true;
	close(starter->null_fd);
	return false;
}

static int start_here(struct starter *starter, const struct seat *seat)
{
	struct process process;
	const int status = spawn_rank(&starter->spawn, seat, &process);

	if (status == 0)
		job_add_rank(starter->job, seat, &process);
	return status;
}

int starter_start(struct starter *starter, int rank, bool replaces)
{
	const struct seat seat = {
		.rank = rank,
		.joins = replaces,
		.restarts = starter->job->losses.restarts - replaces,
		.stdin_fd = rank == 0 && !replaces ? starter->stdin_fd : starter->null_fd,
	};
	int status;

	if (!binder_enter(&starter->binder, rank, starter->spawn.options->ranks)) {
		fprintf(stderr, "tutti-run: cannot bind a rank (--bind none does without): %s\n",
			strerror(errno));
		return RUN_FAILED;
	}
	status = start_here(starter, &seat);
	binder_leave(&starter->binder);
	return status;
}

void starter_hand_over(struct starter *starter)
{
	if (starter->stdin_fd > STDIN_FILENO)
		close(starter->stdin_fd);
	starter->stdin_fd = -1;
}

void starter_finish(struct starter *starter)
{
	starter_hand_over(starter);
	binder_finish(&starter->binder);
	close(starter->null_fd);
}
