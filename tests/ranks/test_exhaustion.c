/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that may open k descriptors more and no other, or have k MiB of address space more, for
 * k = 0, 1, 2, … until all goes well: while it joins, when links are first used, when the
 * communicator is split or shrunk. Whatever fails, its error message names the limit; every rank
 * is told soon; the communicator can be used or is revoked, on all ranks alike; and no descriptor
 * is left. And ranks whose files may have few bytes.
 *
 *   test_exhaustion shm|tcp|mixed */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

#define RANKS	    4
#define VICTIM	    1
#define SOON_S	    bound_s(15.0) /* of those a second or so is tutti's, where there are cores enough */
#define MOST	    64		  /* descriptors that a part may need */
#define BATCH	    8		  /* jobs at once: most of what they do is wait */
#define COUNT	    40000
#define MEMORY_STEP (1u << 20)

/* Shared by the ranks of a job. */
struct stage {
	atomic_int met[4];
	_Atomic int results[RANKS];
	_Atomic bool failed; /* something did: k was too small */
};

struct play {
	int k;
	struct stage *stage;
	tutti_result_t (*part)(const struct play *play, int rank, tutti_comm_t comm,
			       tutti_comm_t *used);
	bool joins;    /* the part is joining itself */
	bool survives; /* ranks may go on without others */
	bool memory;   /* k is of memory */
};

static struct rlimit usual_memory;

/* Leave room for k steps of memory more. */
static void allow_memory(int k)
{
	struct rlimit limit;

	getrlimit(RLIMIT_AS, &usual_memory);
	limit = usual_memory;
	limit.rlim_cur = address_space_in_use() + (size_t)k * MEMORY_STEP;
	setrlimit(RLIMIT_AS, &limit);
}

static void allow_all(void)
{
	allow_descriptors(-1);
	if (usual_memory.rlim_max)
		setrlimit(RLIMIT_AS, &usual_memory);
}

/* ---- the parts */

static tutti_result_t use_links(const struct play *play, int rank, tutti_comm_t comm,
				tutti_comm_t *used)
{
	static float values[RANKS * COUNT];
	float *shared = NULL;
	const int to = (rank + 1) % RANKS, from = (rank + RANKS - 1) % RANKS;
	tutti_request_t request = NULL;
	tutti_result_t result =
		tutti_all_reduce(comm, values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);

	if (!result)
		result = tutti_send(comm, values, COUNT, TUTTI_FLOAT32, to, &request);
	if (!result)
		result = tutti_recv(comm, values + COUNT, COUNT, TUTTI_FLOAT32, from, NULL);
	if (!result)
		result = tutti_wait(&request);
	if (!result)
		result = tutti_all_to_all(comm, values, values, COUNT, TUTTI_FLOAT32, NULL);
	/* no part of the communicator, and possible again when there are descriptors; it needs
	 * more address space than is left where that is short */
	if (!result && !play->memory && tutti_mem_alloc(COUNT * sizeof(*values), (void **)&shared))
		atomic_store(&play->stage->failed, true);
	if (!result)
		result = tutti_all_reduce(comm, shared ? shared : values, shared ? shared : values,
					  COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL);
	tutti_mem_free(shared);
	tutti_wait(&request); /* of a revoked communicator */
	return result;
}

static tutti_result_t split(const struct play *play, int rank, tutti_comm_t comm,
			    tutti_comm_t *used)
{
	const tutti_result_t result = tutti_comm_split(comm, 0, rank, used);

	return result ? result : tutti_barrier(*used, NULL);
}

/* Those that can go on do; who cannot is told. */
static tutti_result_t shrink(const struct play *play, int rank, tutti_comm_t comm,
			     tutti_comm_t *used)
{
	const tutti_result_t result = tutti_comm_shrink(comm, used);

	return result ? result : tutti_barrier(*used, NULL);
}

/* ---- a rank */

/* A failure of the victim's own is one of descriptors, and says so; the others name a rank: who
 * of a host comes when all is over finds only that its first rank has gone. */
static int check(const struct play *play, int rank, tutti_comm_t comm, tutti_result_t result,
		 const char *error)
{
	const bool limit = strstr(error, "Too many open files: this process may have ") &&
			   strstr(error, "ulimit -n");

	if (!result)
		return 0;
	atomic_store(&play->stage->failed, true);
	CLAIM(*error, "room for %d: result %d without a sentence", play->k, result);
	if (play->survives)
		return 0;
	if (play->memory && (rank == VICTIM || result != TUTTI_ERR_PEER_LOST)) {
		CLAIM(result == TUTTI_ERR_NO_MEMORY || strstr(error, "Cannot allocate memory"),
		      "room for %d: result %d (%s)", play->k, result, error);
		return 0;
	}
	if (result == TUTTI_ERR_SYSTEM || rank == VICTIM)
		CLAIM(result == TUTTI_ERR_SYSTEM && limit, "room for %d: result %d (%s)", play->k,
		      result, error);
	else
		CLAIM(result == TUTTI_ERR_PEER_LOST &&
			      (strstr(error, "rank 1 ") || strstr(error, "rank 0 ")),
		      "room for %d: result %d (%s)", play->k, result, error);
	return 0;
}

static int all_alike(const struct play *play, int rank, tutti_comm_t comm)
{
	struct stage *stage = play->stage;

	atomic_store(&stage->results[rank], tutti_barrier(comm, NULL));
	meet_at(&stage->met[2], RANKS);
	for (int other = 0; other < RANKS; other++)
		CLAIM(stage->results[other] == stage->results[rank],
		      "room for %d: later calls give %d here, %d on rank %d", play->k,
		      stage->results[rank], stage->results[other], other);
	return 0;
}

static int play_rank(int rank, void *argument)
{
	const struct play *play = argument;
	const int descriptors = open_descriptors();
	const bool victim = rank == VICTIM;
	tutti_comm_t comm = NULL, part = NULL;
	double start = seconds_now();
	char error[1024];
	int failed;

	if (victim && play->joins)
		(play->memory ? allow_memory : allow_descriptors)(play->k);
	tutti_result_t result = tutti_init(NULL, &comm);
	if (!play->joins && result)
		return complain(comm, __FILE__, __LINE__, "tutti_init: %s", tutti_last_error(NULL));
	if (!play->joins) {
		/* the descriptors of another part's beginning */
		SUCCEEDS(tutti_barrier(comm, NULL));
		meet_at(&play->stage->met[0], RANKS);
		if (victim)
			(play->memory ? allow_memory : allow_descriptors)(play->k);
		start = seconds_now();
	}
	if (comm)
		result = play->part(play, rank, comm, &part);
	const double took = seconds_now() - start;
	snprintf(error, sizeof(error), "%s", tutti_last_error(part ? part : comm));
	tutti_comm_destroy(part);
	failed = check(play, rank, comm, result, error);
	CLAIM(took < SOON_S, "room for %d: told after %.3f s (%s)", play->k, took, error);
	meet_at(&play->stage->met[1], RANKS);
	if (victim)
		allow_all();
	meet_at(&play->stage->met[3], RANKS);
	if (!play->joins && !play->survives)
		failed |= all_alike(play, rank, comm);
	tutti_comm_destroy(comm);
	void *heap = NULL;
	SUCCEEDS(tutti_mem_alloc(1, &heap)); /* possible again; its descriptor stays with the
					      * process */
	tutti_mem_free(heap);
	CLAIM(open_descriptors() == descriptors + 1,
	      "room for %d: %d descriptors are left, expected %d", play->k, open_descriptors(),
	      descriptors + 1);
	return failed;
}

/* ---- the parent */

/* Did nothing fail, with room for k? 2: a claim failed. */
static int run(struct play play)
{
	const struct job job = { .ranks = RANKS, .whole = play_rank, .argument = &play };

	if (run_job(&job))
		return 2;
	return atomic_load(&play.stage->failed) ? 1 : 0;
}

static void for_each_room(struct play play)
{
	int all_went_well = -1;

	/* a rank that cannot even connect to the store is one that does not come */
	for (int first = play.joins; all_went_well < 0; first += BATCH) {
		pid_t pids[BATCH];

		assert_true(first < MOST);
		for (int i = 0; i < BATCH; i++) {
			play.k = first + i;
			play.stage = shared_memory(sizeof(*play.stage));
			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (pids[i] == 0)
				_exit(run(play));
		}
		int bad = 0;
		for (int i = 0; i < BATCH; i++) {
			int status;

			while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
			}
			bad |= !WIFEXITED(status) || WEXITSTATUS(status) > 1;
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && all_went_well < 0)
				all_went_well = first + i;
		}
		assert_false(bad);
	}
}

TEST(joining_without_descriptors_is_told_soon)
{
	for_each_room((struct play){ .part = use_links, .joins = true });
}

TEST(links_without_descriptors_are_told_soon)
{
	for_each_room((struct play){ .part = use_links });
}

/* Sanitizers have taken all address space before a rank begins. */
static void skip_under_sanitizers(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
}

TEST(joining_without_memory_is_told_soon)
{
	skip_under_sanitizers();
	for_each_room((struct play){ .part = use_links, .joins = true, .memory = true });
}

TEST(links_without_memory_are_told_soon)
{
	skip_under_sanitizers();
	for_each_room((struct play){ .part = use_links, .memory = true });
}

TEST(a_split_without_memory_is_told_soon)
{
	skip_under_sanitizers();
	for_each_room((struct play){ .part = split, .memory = true });
}

TEST(a_split_without_descriptors_is_told_soon)
{
	for_each_room((struct play){ .part = split });
}

TEST(a_shrink_without_descriptors_is_told_soon)
{
	for_each_room((struct play){ .part = shrink, .survives = true });
}

/* ---- files: beyond the limit of their size the kernel ends a process by a signal */

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
		CLAIM(tutti_mem_alloc(64u << 20, &memory) == TUTTI_ERR_INVALID &&
			      strstr(tutti_last_error(NULL), "expected 1 to 50331648, ") &&
			      strstr(tutti_last_error(NULL), "ulimit -f"),
		      "\"%s\"", tutti_last_error(NULL));
	tutti_comm_destroy(comm);
	return failed;
}

JOB(heaps_are_as_large_as_files_may_be, .ranks = RANKS, .whole = have_heaps_of_many_sizes)

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
	SUCCEEDS(tutti_store_open(argument, 1, 1, &store));
	SUCCEEDS(tutti_store_set(store, "short", value, 4096));
	CLAIM(tutti_store_set(store, "long", value, sizeof(value)) == TUTTI_ERR_SYSTEM &&
		      strstr(tutti_last_error(NULL), "ulimit -f"),
	      "\"%s\"", tutti_last_error(NULL));
	tutti_store_close(store);
	return 0;
}

TEST(values_are_no_larger_than_files_may_be)
{
	char directory[64], address[80];

	make_directory(directory);
	snprintf(address, sizeof(address), "file:%s", directory);
	HOLDS(.ranks = 1, .whole = set_value_without_files, .argument = address);
	remove_directory(directory);
}
