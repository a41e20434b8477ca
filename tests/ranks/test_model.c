/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures of rank 0's machine are those by which every rank chooses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"
#include "harness.h"

enum { RANKS = 4, COUNT = 16 * 1024, NAME = 32 };

/* Two machines on which nobody would choose alike. */
static const char waits_are_dear[] =
	"tutti model 1, femtoseconds\nline 5000000000000\nhandover 5000000000000\n"
	"copy 1000\nreduce 1000\nmessage 5000000000000\nstream 1000\n";
static const char bytes_are_dear[] =
	"tutti model 1, femtoseconds\nline 1000\nhandover 1000\ncopy 1000000000\n"
	"reduce 1000000000\nmessage 1000\nstream 1000000000\n";

/* What a job is told, and what its rank 0 saw. */
struct rendezvous {
	const char *of_rank_0, *of_others; /* files */
	char (*chosen)[NAME];		   /* shared with the parent */
};

static int choose(tutti_comm_t comm, char name[NAME])
{
	static float in[COUNT], out[COUNT];
	tutti_plan_info_t plan = { .size = sizeof(plan) };

	for (int i = 0; i < COUNT; i++)
		in[i] = (float)(i % 100 + tutti_comm_rank(comm));
	SUCCEEDS(tutti_all_reduce(comm, in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	for (int i = 0; i < COUNT; i++)
		CLAIM(out[i] == (float)(RANKS * (i % 100) + RANKS * (RANKS - 1) / 2),
		      "element %d is %g", i, (double)out[i]);
	SUCCEEDS(tutti_comm_last_plan(comm, &plan));
	snprintf(name, NAME, "%s", plan.algorithm);
	return 0;
}

static int meet_with_figures(int rank, void *argument)
{
	const struct rendezvous *rendezvous = argument;
	char name[NAME] = "", names[RANKS][NAME];
	tutti_comm_t comm = NULL;

	setenv("TUTTI_MODEL", rank ? rendezvous->of_others : rendezvous->of_rank_0, 1);
	SUCCEEDS(tutti_init(NULL, &comm));
	if (choose(comm, name))
		return 1;
	SUCCEEDS(tutti_all_gather(comm, name, names, NAME, TUTTI_UINT8, NULL));
	for (int r = 0; r < RANKS; r++)
		CLAIM(strcmp(names[r], name) == 0, "rank %d chose %s, rank %d %s", rank, name, r,
		      names[r]);
	if (rank == 0)
		memcpy(*rendezvous->chosen, name, NAME);
	tutti_comm_destroy(comm);
	return 0;
}

static void write_file(char *path, const char *text)
{
	const int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

TEST(all_choose_by_the_figures_of_rank_0)
{
	char dear_waits[] = "/tmp/tutti-model-XXXXXX", dear_bytes[] = "/tmp/tutti-model-XXXXXX";
	char(*chosen)[NAME] = shared_memory(2 * sizeof(*chosen));
	int failed[2];

	write_file(dear_waits, waits_are_dear);
	write_file(dear_bytes, bytes_are_dear);
	for (int i = 0; i < 2; i++) {
		struct rendezvous rendezvous = { i ? dear_bytes : dear_waits,
						 i ? dear_waits : dear_bytes, &chosen[i] };
		const struct job job = { .ranks = RANKS,
					 .whole = meet_with_figures,
					 .argument = &rendezvous };

		failed[i] = run_job(&job);
	}
	unlink(dear_waits);
	unlink(dear_bytes);
	assert_int_equal(failed[0], 0);
	assert_int_equal(failed[1], 0);
	assert_string_not_equal(chosen[0], chosen[1]);
}

/* ---- hosts */

static int expect_choice(tutti_comm_t comm, const char *wanted, float *vector, size_t count)
{
	tutti_plan_info_t plan = { .size = sizeof(plan) };

	SUCCEEDS(tutti_all_reduce(comm, vector, vector, count, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	SUCCEEDS(tutti_comm_last_plan(comm, &plan));
	CLAIM(strcmp(plan.algorithm, wanted) == 0, "%zu elements by %s, expected %s", count,
	      plan.algorithm, wanted);
	return 0;
}

static int reduce_short_and_long(tutti_comm_t comm, void *argument)
{
	float *const vector = calloc(1 << 18, sizeof(*vector));

	CLAIM(vector, "no memory");
	const int failed = expect_choice(comm, "hierarchical", vector, 16) ||
			   expect_choice(comm, "hierarchical_split", vector, 1 << 18);
	free(vector);
	return failed;
}

/* Whether ranks have a core each or share it: what goes between hosts has one network there,
 * slower than anything within. */
TEST(little_goes_between_hosts)
{
	if (strcmp(transport_chosen, "mixed") != 0)
		skip();
	HOLDS(.ranks = 4, .body = reduce_short_and_long, .env = ENV("TUTTI_MODEL=builtin"));
}
