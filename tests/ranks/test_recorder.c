/* SPDX-License-Identifier: BSD-3-Clause */
/* What the flight recorders of a job's ranks say when one is late or dies, and of calls that come
 * back.
 *
 *   test_recorder shm|tcp|mixed */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests.h"
#include <jansson.h>

#include "harness.h"
#include "report_json.h"

#define RANKS  4
#define LATE_S 0.002 /* how late one is */
#define NOISE_NS                                                                                   \
	500000 /* between the clocks of processes that were interrupted while they read them */

/* Shared by all ranks of a job. */
struct stage {
	char directory[64];
	atomic_int ready, seen;
	_Atomic pid_t pid[RANKS];
};

static struct stage *stage;

/* ---- the directory of a job's reports */

static int make_stage(void **state)
{
	*stage = (struct stage){ .directory = "/dev/shm/tutti-test-XXXXXX" };
	if (!mkdtemp(stage->directory)) {
		strcpy(stage->directory, "/tmp/tutti-test-XXXXXX");
		if (!mkdtemp(stage->directory))
			return 1;
	}
	setenv("TUTTI_TRACE", stage->directory, 1);
	return 0;
}

/* How many files there are whose name ends so; their reports by rank, if `reports` is given.
 * While reports are being replaced one may be seen twice, or not. */
static int count_files(const char *suffix, json_t **reports)
{
	DIR *handle = opendir(stage->directory);
	const struct dirent *entry;
	int n = 0;

	while ((entry = readdir(handle))) {
		const size_t length = strlen(entry->d_name), end = strlen(suffix);
		char path[400];

		if (entry->d_name[0] == '.' || length < end ||
		    strcmp(entry->d_name + length - end, suffix) != 0)
			continue;
		n++;
		if (!reports)
			continue;
		snprintf(path, sizeof(path), "%s/%s", stage->directory, entry->d_name);
		const char *why;
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		json_t *report = report_read(fd, &why);
		close(fd);
		const json_int_t rank = json_integer_value(json_object_get(report, "rank"));
		if (rank < 0 || rank >= RANKS)
			continue;
		json_decref(reports[rank]);
		reports[rank] = report;
	}
	closedir(handle);
	return n;
}

/* One of each rank, and nothing else. */
static void read_reports(json_t **reports)
{
	assert_int_equal(count_files(".flight.report", reports), RANKS);
	assert_int_equal(count_files("", NULL), RANKS);
	for (int rank = 0; rank < RANKS; rank++) {
		assert_non_null(reports[rank]);
		assert_int_equal(json_integer_value(json_object_get(reports[rank], "size")), RANKS);
	}
}

static void free_reports(json_t **reports)
{
	for (int rank = 0; rank < RANKS; rank++)
		json_decref(reports[rank]);
}

static int remove_stage(void **state)
{
	DIR *handle = opendir(stage->directory);
	const struct dirent *entry;

	while ((entry = readdir(handle)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(handle), entry->d_name, 0);
	closedir(handle);
	return rmdir(stage->directory);
}

/* ---- reading */

static const json_t *last_op(const json_t *report)
{
	const json_t *ops = json_object_get(report, "operations");

	assert_true(json_array_size(ops) > 0);
	return json_array_get(ops, json_array_size(ops) - 1);
}

static json_int_t number_in(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static const char *text_in(const json_t *object, const char *key)
{
	assert_true(json_is_string(json_object_get(object, key)));
	return json_string_value(json_object_get(object, key));
}

static bool in_flight(const json_t *op)
{
	return json_is_null(json_object_get(op, "done"));
}

static const json_t *header_of(const json_t *report, const json_t *op)
{
	const json_t *header;
	size_t i;

	json_array_foreach(json_object_get(report, "headers"), i,
			   header) if (number_in(header, "header") ==
				       number_in(op, "header")) return header;
	fail_msg("operation %lld of rank %lld has no card", number_in(op, "number"),
		 number_in(report, "rank"));
	return NULL;
}

/* ---- one is late */

static int call_with_one_late(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	const float in[100] = { 1 };
	float out[100];
	tutti_request_t request;

	SUCCEEDS(tutti_barrier(comm, NULL));
	if (rank == RANKS - 1)
		await_count(&stage->ready, RANKS - 1);
	for (const double since = seconds_now();
	     rank == RANKS - 1 && seconds_now() - since < LATE_S;)
		sched_yield();
	SUCCEEDS(tutti_all_reduce(comm, in, out, 100, TUTTI_FLOAT32, TUTTI_SUM, &request));
	atomic_fetch_add(&stage->ready, 1);
	SUCCEEDS(tutti_wait(&request));
	raise(SIGUSR1);
	meet_at(&stage->seen, RANKS);
	return 0;
}

TEST_WITH(who_was_late_posted_last, make_stage, remove_stage)
{
	json_t *reports[RANKS] = { 0 };

	HOLDS(.ranks = RANKS, .body = call_with_one_late);
	read_reports(reports);
	const json_int_t late = number_in(last_op(reports[RANKS - 1]), "posted");
	for (int rank = 0; rank < RANKS; rank++) {
		const json_t *op = last_op(reports[rank]), *peer;
		json_int_t moved = 0;
		size_t i;

		assert_string_equal(text_in(reports[rank], "why"), "signal");
		assert_int_equal(number_in(op, "sequence"), 2);
		assert_string_equal(text_in(header_of(reports[rank], op), "collective"),
				    "all_reduce");
		assert_int_equal(number_in(header_of(reports[rank], op), "count"), 100);
		json_array_foreach(json_object_get(header_of(reports[rank], op), "peers"), i, peer)
			moved += number_in(peer, "sent") + number_in(peer, "received");
		assert_in_range(moved, 400, 400 * 2 * RANKS);
		if (rank < RANKS - 1)
			assert_true(number_in(op, "posted") < late - NOISE_NS);
		/* nobody had its result before */
		assert_true(number_in(op, "done") > late - NOISE_NS);
		assert_true(number_in(op, "posted") <= number_in(op, "first"));
		assert_true(number_in(op, "first") <= number_in(op, "done"));
	}
	free_reports(reports);
}

/* ---- a call comes back when what was noted of it has been written over */

static int call_again_after_many(tutti_comm_t comm, void *argument)
{
	static float in[6000], out[6000];

	for (size_t count = 0; count <= 900; count++)
		SUCCEEDS(tutti_all_reduce(comm, in, out, count ? count : 5999, TUTTI_FLOAT32,
					  TUTTI_SUM, NULL));
	SUCCEEDS(tutti_all_reduce(comm, in, out, 5999, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	raise(SIGUSR1);
	meet_at(&stage->seen, RANKS);
	return 0;
}

TEST_WITH(a_call_that_comes_back_has_its_header, make_stage, remove_stage)
{
	json_t *reports[RANKS] = { 0 };

	HOLDS(.ranks = RANKS, .body = call_again_after_many);
	read_reports(reports);
	/* the more peers, the longer what is noted; over TCP some ranks have but one */
	assert_true(json_array_size(json_object_get(reports[0], "headers")) < 900);
	for (int rank = 0; rank < RANKS; rank++) {
		assert_int_equal(
			number_in(header_of(reports[rank], last_op(reports[rank])), "count"), 5999);
	}
	free_reports(reports);
}

/* ---- one is killed */

static void await_end_of(pid_t pid)
{
	struct pollfd poller = { (int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0 };

	poll(&poller, 1, 30000);
	close(poller.fd);
}

/* Over TCP the end of a connection may tell of a death before the dead one's lock is free: its
 * report is then made when the communicator is destroyed. */
static int look_for_reports(tutti_comm_t comm)
{
	meet_at(&stage->seen, RANKS - 1);
	CLAIM(strcmp(transport_chosen, "shm") != 0 || count_files(".flight.report", NULL) == RANKS,
	      "reports: %d", count_files(".flight.report", NULL));
	return 0;
}

static int call_with_one_killed(tutti_comm_t comm, void *argument)
{
	const int rank = tutti_comm_rank(comm);
	static float in[300000], out[300000];
	tutti_request_t request;

	atomic_store(&stage->pid[rank], getpid());
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (rank == RANKS - 1) { /* which does not come: nobody can end */
		await_count(&stage->ready, RANKS - 1);
		kill(atomic_load(&stage->pid[2]), SIGKILL);
		await_end_of(atomic_load(&stage->pid[2]));
		CLAIM(tutti_all_reduce(comm, in, out, 300000, TUTTI_FLOAT32, TUTTI_SUM, NULL) ==
			      TUTTI_ERR_PEER_LOST,
		      "%s", tutti_last_error(comm));
		return look_for_reports(comm);
	}
	SUCCEEDS(tutti_all_reduce(comm, in, out, 300000, TUTTI_FLOAT32, TUTTI_SUM, &request));
	atomic_fetch_add(&stage->ready, 1);
	const tutti_result_t result = tutti_wait(&request);
	CLAIM(result == TUTTI_ERR_PEER_LOST, "%d: %s", result, tutti_last_error(comm));
	await_end_of(atomic_load(&stage->pid[2]));
	return look_for_reports(comm);
}

TEST_WITH(who_was_killed_is_reported_by_the_others, make_stage, remove_stage)
{
	json_t *reports[RANKS] = { 0 };

	HOLDS(.ranks = RANKS, .body = call_with_one_killed, .expect_signal = SIGKILL,
	      .victims = 1u << 2);
	read_reports(reports);
	for (int rank = 0; rank < RANKS; rank++) {
		const json_t *op = last_op(reports[rank]);

		assert_string_equal(text_in(reports[rank], "why"), rank == 2 ? "died" : "revoked");
		if (rank != 2)
			assert_int_equal(number_in(json_object_get(reports[rank], "fault"), "rank"),
					 2);
		if (rank == RANKS - 1)
			continue;
		assert_int_equal(number_in(op, "sequence"), 2);
		assert_true(in_flight(op));
	}
	free_reports(reports);
}

int main(int argc, char **argv)
{
	if (choose_transport(argc, argv))
		return 2;
	stage = shared_memory(sizeof(*stage));
	return run_claims(NULL, NULL);
}
