/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about operations on streams: graphs, order, long ones, wrong ones, and what ends a
 * communicator while streams wait.
 *
 *   test_stream_claims processes|threads RANKS [NAME=VALUE …]
 *
 * TEST_ONLY=NAME: that claim alone. TEST_PROXY=1: the ranks' GPUs do not all reach each other.
 * TEST_ELEMENTS=N (1000): in most calls; with TEST_PROXY=1, so many that those of a clique work
 * together first. */
#include "claims/claims.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct claim *const subjects[] = {
	graph_claims,	 order_claims,	  chunk_claims,	   scaled_claims,
	refused_claims,	 engine_claims,	  mismatch_claims, window_claims,
	deadline_claims, recorder_claims, fault_claims,
};

static bool applies(const struct claim *claim)
{
	const char *only = getenv("TEST_ONLY");

	if (only && strcmp(only, claim->name) != 0)
		return false;
	return !(claim->kills && (gpu_job_threads || gpu_job_ranks == 1)) &&
	       !(claim->reaches && by_host()) &&
	       !(claim->stands_in && (gpu_job_threads || !getenv("TUTTI_CUDA_LIBRARY")));
}

/* What has been set until now, to be put back; NULL: nothing. */
static char *kept_variable(const char *name)
{
	const char *set = getenv(name);

	return set ? strdup(set) : NULL;
}

static void put_back(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void remove_all_of(const char *directory)
{
	DIR *handle = opendir(directory);
	const struct dirent *entry;

	while (handle && (entry = readdir(handle)))
		unlinkat(dirfd(handle), entry->d_name, 0); /* "." and ".." are none that it takes */
	if (handle)
		closedir(handle);
	rmdir(directory);
}

static int run_recorded(gpu_body *body, void *argument, const struct job *job)
{
	char directory[64], *usual = kept_variable("TUTTI_TRACE");

	make_directory(directory);
	setenv("TUTTI_TRACE", directory, 1);
	const int result = gpu_job_run(body, argument, job);
	put_back("TUTTI_TRACE", usual);
	free(usual);
	remove_all_of(directory);
	return result;
}

static int run(const struct claim *claim, const char *usual_timeout)
{
	struct job job = { .limit_s = 60 };

	if (claim->kills) {
		job.expect_signal = SIGKILL;
		job.victims = 1u << (gpu_job_ranks - 1);
	}
	if (claim->hurries)
		set_number("TUTTI_TIMEOUT", HURRY_S);
	const int failed = (claim->recorded ? run_recorded : gpu_job_run)(
		claim->body, shared_memory(sizeof(atomic_int)), &job);
	put_back("TUTTI_TIMEOUT", usual_timeout);
	printf("%s %s\n", failed ? "FAILED" : "ok", claim->name);
	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	const int chosen = gpu_job_choose(argc, argv);
	char *usual = kept_variable("TUTTI_TIMEOUT");
	int failed = 0;

	if (getenv("TEST_ELEMENTS"))
		few = (size_t)atoi(getenv("TEST_ELEMENTS"));
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]) && !chosen; i++)
		for (const struct claim *claim = subjects[i]; claim->name; claim++)
			if (!applies(claim))
				continue;
			else if ((claim->hurries || claim->quiet) && machine_may_be_busy())
				printf("skipped %s: the machine may be busy\n", claim->name);
			else
				failed |= run(claim, usual);
	free(usual);
	return chosen ? chosen : failed;
}
