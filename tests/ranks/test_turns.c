/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread asks the kernel for short turns, and for itself only. Needs Linux 6.12;
 * skips before. */
#include <dirent.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define TURN_NS 100000

/* struct sched_attr, as glibc has none before 2.41 */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t turn_ns, deadline, period;
};

/* 0: the kernel does not tell, or the thread is gone. */
static uint64_t turn_of(int thread)
{
	struct attributes attributes = { 0 };

	if (syscall(SYS_sched_getattr, thread, &attributes, sizeof(attributes), 0) < 0 ||
	    attributes.policy != SCHED_OTHER)
		return 0;
	return attributes.turn_ns;
}

static int threads_with_short_turns(void)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	int found = 0;

	while (directory && (entry = readdir(directory)))
		found += turn_of(atoi(entry->d_name)) == TURN_NS;
	if (directory)
		closedir(directory);
	return found;
}

/* Rank 1 sends when rank 0, whose request is pending meanwhile, has seen what it is to see. */
static int watch(tutti_comm_t comm, void *argument)
{
	atomic_int *const seen = argument;
	const uint64_t before = turn_of(0);
	tutti_request_t request = NULL;
	int32_t value = 7;

	if (tutti_comm_rank(comm) == 0) {
		CLAIM(threads_with_short_turns() == 0, "some thread has short turns already");
		SUCCEEDS(tutti_recv(comm, &value, 1, TUTTI_INT32, 1, &request));
		while (threads_with_short_turns() == 0)
			look_again();
		atomic_store(seen, 1);
		SUCCEEDS(tutti_wait(&request));
		CLAIM(turn_of(0) == before, "the caller's turns were %llu ns and are %llu",
		      (unsigned long long)before, (unsigned long long)turn_of(0));
		return 0;
	}
	await_count(seen, 1);
	SUCCEEDS(tutti_send(comm, &value, 1, TUTTI_INT32, 0, NULL));
	return 0;
}

TEST(the_progress_thread_has_short_turns)
{
	if (turn_of(0) == 0 || turn_of(0) == TURN_NS) {
		print_message(
			"skipped: the kernel knows no turns of a thread's own, or all are short\n");
		skip();
	}
	HOLDS(.ranks = 2, .body = watch, .argument = shared_memory(sizeof(atomic_int)));
}
