/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that vanishes without a word: ranks in two network namespaces that a veth pair joins as
 * a cable joins two hosts, until it is cut. The namespaces and interfaces have no names outside
 * and vanish with the processes. They need root and ip(8); skips without. */
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS	  4
#define GONE	  3 /* the rank that is alone on the host that vanishes */
#define SILENCE_S 2.0
/* The kernel's probes come by the second, and the machine may be busy. */
#define SOON_S (SILENCE_S + bound_s(4))

/* Shared by all ranks. */
struct stage {
	atomic_int made, wired, up, joined, cut, told;
	_Atomic double cut_at;
	_Atomic pid_t pid[2]; /* one for each namespace */
	char directory[64];   /* of the store */
	char said[RANKS][640];
};

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int shell(const char *format, int number)
{
	char command[256];

	snprintf(command, sizeof(command), format, number);
	const int status = system(command);
	return status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

/* What a rank does when the cable is cut. */
static tutti_result_t notice(tutti_comm_t comm)
{
	tutti_result_t result = TUTTI_OK;
	float value = 0;

	switch (tutti_comm_rank(comm)) {
	case 0: return tutti_barrier(comm, NULL);
	case 1: /* in no call */
		while (!result)
			result = tutti_comm_error(comm, NULL);
		return result;
	case 2: return tutti_recv(comm, &value, 1, TUTTI_FLOAT32, 1, NULL);
	default: return tutti_barrier(comm, NULL);
	}
}

static int be_rank(tutti_comm_t comm, struct stage *stage)
{
	const int rank = tutti_comm_rank(comm);

	SUCCEEDS(tutti_barrier(comm, NULL));
	meet_at(&stage->joined, RANKS);
	if (rank == GONE) {
		CLAIM(shell("ip link set cable down", 0) == 0, "the cable cannot be cut");
		atomic_store(&stage->cut_at, seconds_now());
		atomic_store(&stage->cut, 1);
	}
	await_count(&stage->cut, 1);
	const tutti_result_t result = notice(comm);
	const double took = seconds_now() - atomic_load(&stage->cut_at);

	snprintf(stage->said[rank], sizeof(stage->said[rank]), "%s", tutti_last_error(comm));
	/* nobody ends before all have been told: an end would be noticed without the silence */
	atomic_fetch_add(&stage->told, 1);
	await_count(&stage->told, RANKS);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "result %d (%s)", result, stage->said[rank]);
	CLAIM(took < SOON_S, "told after %.3f s (%s)", took, stage->said[rank]);
	CLAIM(strstr(stage->said[rank], "nothing for 2 s"), "\"%s\" speaks of no silence",
	      stage->said[rank]);
	return 0;
}

/* Both ends are up: the kernel says so a moment later. */
static void wait_for_carrier(void)
{
	struct ifreq request = { .ifr_name = "cable" };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	while (!(request.ifr_flags & IFF_RUNNING) && ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		look_again();
	close(fd);
}

/* The rank that makes a host plugs its end in. */
static int make_host(int host, struct stage *stage)
{
	const tutti_comm_t comm = NULL;

	CLAIM(unshare(CLONE_NEWNET) == 0, "no network namespace");
	atomic_store(&stage->pid[host], getpid());
	meet_at(&stage->made, 2);
	if (host == 0) {
		char command[160];

		snprintf(command, sizeof(command),
			 "ip link add cable netns %d type veth peer name cable netns %d",
			 (int)atomic_load(&stage->pid[0]), (int)atomic_load(&stage->pid[1]));
		CLAIM(system(command) == 0, "no cable");
	}
	meet_at(&stage->wired, 2);
	CLAIM(shell("ip link set lo up && ip addr add 10.79.0.%d/24 dev cable && ip link set cable up",
		    host + 1) == 0,
	      "the cable cannot be plugged in");
	wait_for_carrier();
	return 0;
}

static int enter_host(struct stage *stage)
{
	const tutti_comm_t comm = NULL;
	char path[64];

	await_count(&stage->up, 2);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)atomic_load(&stage->pid[0]));
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	CLAIM(fd >= 0 && setns(fd, CLONE_NEWNET) == 0, "the namespace of rank 0 cannot be entered");
	close(fd);
	return 0;
}

static int join_and_notice(int rank, void *argument)
{
	struct stage *stage = argument;
	tutti_comm_t comm = NULL;
	char store[128];

	if (rank == 0 || rank == GONE ? make_host(rank == GONE, stage) : enter_host(stage))
		return 1;
	atomic_fetch_add(&stage->up, 1);
	snprintf(store, sizeof(store), "file:%s", stage->directory);
	setenv("TUTTI_STORE", store, 1);
	SUCCEEDS(tutti_init(NULL, &comm));
	const int failed = be_rank(comm, stage);
	tutti_comm_destroy(comm);
	return failed;
}

/* ---- the parent */

/* Can this process have network namespaces? Says why not. */
static bool namespaces(void)
{
	const char *why = NULL;

	if (geteuid() != 0)
		why = "this is not run by root";
	else if (shell("ip -V >/dev/null 2>&1", 0) != 0)
		why = "there is no ip(8)";
	else if (shell("unshare -n true 2>/dev/null", 0) != 0)
		why = "the kernel gives none";
	if (why)
		print_message("skipped: no network namespaces: %s\n", why);
	return !why;
}

TEST(a_host_that_vanishes_is_told_to_all_ranks)
{
	static const char *const env[] = {
		"TUTTI_TRANSPORT=tcp", "TUTTI_SILENCE=2",
		"TUTTI_KEY=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", NULL
	};
	struct stage *stage = shared_memory(sizeof(*stage));
	const struct job job = {
		.ranks = RANKS, .env = env, .whole = join_and_notice, .argument = stage
	};
	char command[128];

	if (!namespaces())
		skip();
	snprintf(stage->directory, sizeof(stage->directory), "/tmp/tutti-test-silence-XXXXXX");
	assert_non_null(mkdtemp(stage->directory));
	const int failed = run_job(&job);
	snprintf(command, sizeof(command), "rm -r %s", stage->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(failed, 0);
	/* those on one side of the cut settle on one error message */
	assert_string_equal(stage->said[1], stage->said[0]);
	assert_string_equal(stage->said[2], stage->said[0]);
	assert_non_null(strstr(stage->said[0], "rank 3 at 10.79.0.2:"));
	assert_non_null(strstr(stage->said[GONE], " at 10.79.0.1:"));
}
