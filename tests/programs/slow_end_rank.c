/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a job of which rank 1 is killed slowly: its connections and locks end, as they do first
 * when a process ends, and its parent can know of that half a second later.
 *
 *   slow_end_rank */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

static void await_end_of_first_thread(void)
{
	char line[512] = "";

	while (!strstr(line, ") Z ")) {
		FILE *file = fopen("/proc/self/stat", "re");

		if (!file || !fgets(line, sizeof(line), file))
			abort();
		fclose(file);
	}
}

static void *outlive_first_thread(void *unused)
{
	const struct timespec half = { .tv_nsec = 500000000 };

	await_end_of_first_thread();
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	nanosleep(&half, NULL);
	raise(SIGKILL);
	return unused;
}

static void end_slowly(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, outlive_first_thread, NULL) == 0)
		syscall(SYS_exit, 0); /* of this thread alone */
}

int main(void)
{
	tutti_comm_t comm;
	tutti_result_t result = tutti_init(NULL, &comm);

	if (result == TUTTI_OK)
		result = tutti_barrier(comm, NULL);
	if (result == TUTTI_OK && tutti_comm_rank(comm) == 1)
		end_slowly();
	if (result == TUTTI_OK)
		result = tutti_barrier(comm, NULL);
	if (result != TUTTI_OK)
		fprintf(stderr, "slow_end_rank: %s\n", tutti_last_error(comm));
	tutti_comm_destroy(comm);
	return result == TUTTI_OK ? 0 : 1;
}
