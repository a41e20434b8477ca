/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that were put on one processor, while something else keeps the others busy, do not stay
 * there. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define CALLS 4000
#define RANKS 2

struct scene {
	cpu_set_t two; /* processors */
	int first, second;
	_Atomic int on[RANKS]; /* where each rank ended its last call */
};

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

/* Calls after which both were on one processor. */
static int call_often(tutti_comm_t comm, struct scene *scene, int *together)
{
	const int rank = tutti_comm_rank(comm);

	*together = 0;
	for (int i = 0; i < CALLS; i++) {
		float x = (float)(i + rank);

		SUCCEEDS(tutti_all_reduce(comm, &x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
		CLAIM(x == (float)(2 * i + 1), "call %d gave %g", i, (double)x);
		atomic_store(&scene->on[rank], sched_getcpu());
		*together += atomic_load(&scene->on[1 - rank]) == sched_getcpu();
	}
	return 0;
}

static int wait_together(tutti_comm_t comm, void *argument)
{
	struct scene *scene = argument;
	const cpu_set_t first = only(scene->first);
	cpu_set_t after;
	int together;

	/* put there, but free to go */
	CLAIM(sched_setaffinity(0, sizeof(first), &first) == 0, "cannot be put on processor %d",
	      scene->first);
	CLAIM(sched_setaffinity(0, sizeof(scene->two), &scene->two) == 0, "cannot be free again");
	if (call_often(comm, scene, &together))
		return 1;
	CLAIM(together < CALLS / 2, "both ranks were on one processor after %d of %d calls",
	      together, CALLS);
	CLAIM(sched_getaffinity(0, sizeof(after), &after) == 0 && CPU_EQUAL(&after, &scene->two),
	      "the affinity of the thread is not what it was");
	return 0;
}

static bool choose_two(struct scene *scene)
{
	cpu_set_t allowed;
	int found = 0, cpus[2];

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	if (found < 2)
		return false;
	CPU_ZERO(&scene->two);
	CPU_SET(cpus[0], &scene->two);
	CPU_SET(cpus[1], &scene->two);
	scene->first = cpus[0];
	scene->second = cpus[1];
	return true;
}

static pid_t keep_busy(int cpu)
{
	const cpu_set_t set = only(cpu);
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setaffinity(0, sizeof(set), &set);
		for (volatile unsigned long i = 0;; i++)
			;
	}
	return pid;
}

TEST(ranks_part)
{
	struct scene *scene = shared_memory(sizeof(*scene));

	if (!choose_two(scene)) {
		print_message("skipped: this process may use one processor only\n");
		skip();
	}
	const pid_t neighbour = keep_busy(scene->second);
	const struct job job = { .ranks = RANKS, .body = wait_together, .argument = scene };
	const int failed = run_job(&job);

	kill(neighbour, SIGKILL);
	waitpid(neighbour, NULL, 0);
	assert_int_equal(failed, 0);
}
