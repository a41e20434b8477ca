/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks whose files may have few bytes: beyond that limit the kernel ends a process by a signal. What
 * a rank does without descriptors and memory the fault matrix shows, but for what the others do then
 * where all shrink. And ranks that have closed their standard streams.
 *
 *   test_exhaustion shm|tcp|mixed */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS  4
#define SOON_S bound_s(15.0) /* of those a second or so is tutti's, where there are cores enough */
#define COUNT  40000

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &limit);
}

static int use_heap(tutti_comm_t comm, int rank)
{
	float *values;

	SUCCEEDS(tutti_mem_alloc(COUNT * sizeof(*values), (void **)&values));
	for (int i = 0; i < COUNT; i++)
		values[i] = (float)(rank + 1);
	SUCCEEDS(tutti_all_reduce(comm, values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	for (int i = 0; i < COUNT; i++)
		CLAIM(values[i] == RANKS * (RANKS + 1) / 2, "element %d is %g", i,
		      (double)values[i]);
	tutti_mem_free(values);
	return 0;
}

static int have_heaps_of_many_sizes(int rank, void *argument)
{
	static const rlim_t limits[RANKS] = { 48u << 20, RLIM_INFINITY, (rlim_t)16 << 30,
					      (50u << 20) + 1234 };
	tutti_comm_t comm = NULL;
	void *memory;

	limit_files(limits[rank]);
	SUCCEEDS(tutti_init(NULL, &comm));
	const int failed = use_heap(comm, rank);
	if (rank == 0)
		REFUSES(tutti_mem_alloc(64u << 20, &memory), "expected 1 to 50331648, ",
			"ulimit -f");
	tutti_comm_destroy(comm);
	return failed;
}

JOB(heaps_are_as_large_as_files_may_be, .ranks = RANKS, .whole = have_heaps_of_many_sizes)

/* All fail likewise, or the others go on without it. */
static int shrink_without_descriptors(int rank, void *argument)
{
	tutti_comm_t comm = NULL, smaller = NULL;

	SUCCEEDS(tutti_init(NULL, &comm));
	SUCCEEDS(tutti_barrier(comm, NULL));
	if (rank == 0)
		allow_descriptors(0);
	const tutti_result_t result = tutti_comm_shrink(comm, &smaller);
	allow_descriptors(-1); /* sanitizers need some at the end */
	if (result) {
		FAILS(result, TUTTI_ERR_SYSTEM, "ulimit -n");
	} else {
		CLAIM(tutti_comm_size(smaller) >= RANKS - 1, "%d ranks are left",
		      tutti_comm_size(smaller));
		if (sums_right(smaller))
			return 1;
	}
	tutti_comm_destroy(smaller);
	tutti_comm_destroy(comm);
	return 0;
}

JOB(who_has_no_descriptors_leaves_nobody_out, .ranks = RANKS, .whole = shrink_without_descriptors)

static int count_standard_streams(void)
{
	int count = 0;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* As services do that close all they have inherited. */
static int close_standard_streams(int rank, void *argument)
{
	const int said = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	tutti_comm_t comm = NULL;
	int failed = 1;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	const tutti_result_t result = tutti_init(NULL, &comm);
	if (!result)
		failed = use_heap(comm, rank) || sums_right(comm);
	const int found = count_standard_streams();
	dup2(said, STDERR_FILENO);
	CLAIM(!result && !failed, "without standard streams: %s", tutti_last_error(comm));
	CLAIM(found == 0, "%d of tutti's descriptors have numbers of standard streams", found);
	tutti_comm_destroy(comm);
	close(said);
	return 0;
}

JOB(what_goes_to_closed_standard_streams_goes_nowhere, .ranks = RANKS,
    .whole = close_standard_streams)

/* No rank's memory can be shared; TCP needs none. */
static int join_without_files(int rank, void *argument)
{
	const bool shares = strcmp(transport_chosen, "tcp") != 0;
	tutti_comm_t comm = NULL;
	void *memory;

	limit_files(0);
	const tutti_result_t none = tutti_mem_alloc(COUNT, &memory);
	const bool good = none == TUTTI_ERR_SYSTEM && strstr(tutti_last_error(NULL), "ulimit -f");
	const tutti_result_t result = tutti_init(NULL, &comm);
	limit_files(RLIM_INFINITY); /* what claims say may go to a file */
	CLAIM(good, "tutti_mem_alloc: %d, expected an error that names the limit", (int)none);
	CLAIM(shares ? result < 0 && strstr(tutti_last_error(NULL), "ulimit -f")
		     : result == TUTTI_OK,
	      "tutti_init: %d, \"%s\"", (int)result, tutti_last_error(NULL));
	tutti_comm_destroy(comm);
	return 0;
}

JOB(joining_without_files_is_told_soon, .ranks = RANKS, .whole = join_without_files,
    .limit_s = SOON_S)

static int set_value_without_files(int rank, void *argument)
{
	static char value[10000];
	const tutti_comm_t comm = NULL;
	tutti_store_t store;

	limit_files(4096);
	SUCCEEDS(tutti_store_open(getenv("TUTTI_STORE"), 1, 1, &store));
	SUCCEEDS(tutti_store_set(store, "short", value, 4096));
	FAILS(tutti_store_set(store, "long", value, sizeof(value)), TUTTI_ERR_SYSTEM, "ulimit -f");
	tutti_store_close(store);
	return 0;
}

JOB(values_are_no_larger_than_files_may_be, .ranks = 1, .whole = set_value_without_files,
    .with_directory = "TUTTI_STORE=file:")
