/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about operations on streams: graphs, order, long ones, wrong ones, and what ends a
 * communicator while streams wait.
 *
 *   test_stream_claims processes|threads RANKS [NAME=VALUE …]
 *
 * TEST_ONLY=NAME,…: these claims alone. TEST_PROXY=1: the ranks' GPUs do not all reach each other.
 * TEST_ELEMENTS=N (1000): in most calls; with TEST_PROXY=1, so many that those of a clique work
 * together first. */
#include "claims/claims.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct claim *claims, **end = &claims;
static const struct claim *current;

void add_claim(struct claim *claim)
{
	*end = claim;
	end = &claim->next;
}

static bool is_named(const char *names, const char *name)
{
	const size_t length = strlen(name);

	while (names && (strncmp(names, name, length) != 0 || !strchr(",", names[length]))) {
		names = strchr(names, ',');
		names += names != NULL;
	}
	return names;
}

static bool applies(const struct claim *claim)
{
	const char *only = getenv("TEST_ONLY");

	if (only && !is_named(only, claim->name))
		return false;
	return !(claim->kills && gpu_job_threads) && !(claim->reaches && by_host()) &&
	       !(claim->stands_in && (gpu_job_threads || !getenv("TUTTI_CUDA_LIBRARY")));
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

static int body(struct gpu_rank *r, void *came)
{
	return current->body(r, r->comm, came) || give_all(r->comm);
}

static int run(const struct claim *claim)
{
	char directory[64], trace[80], timeout[32];
	const char *env[3] = { NULL };
	int n = 0;
	const struct job job = { .limit_s = 60,
				 .env = env,
				 .expect_signal = claim->kills ? SIGKILL : 0,
				 .victims = claim->kills ? 1u << (gpu_job_ranks - 1) : 0 };

	if (claim->recorded) {
		make_directory(directory);
		snprintf(trace, sizeof(trace), "TUTTI_TRACE=%s", directory);
		env[n++] = trace;
	}
	if (claim->hurries) {
		snprintf(timeout, sizeof(timeout), "TUTTI_TIMEOUT=%d", HURRY_S);
		env[n++] = timeout;
	}
	current = claim;
	const int failed = gpu_job_run(body, shared_memory(sizeof(atomic_int)), &job);
	if (claim->recorded)
		remove_all_of(directory);
	printf("%s %s\n", failed ? "FAILED" : "ok", claim->name);
	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	const int chosen = gpu_job_choose(argc, argv, 2, GPU_RANKS);
	int failed = 0;

	if (getenv("TEST_ELEMENTS"))
		few = (size_t)atoi(getenv("TEST_ELEMENTS"));
	for (const struct claim *claim = claims; claim && !chosen; claim = claim->next)
		if (!applies(claim))
			continue;
		else if ((claim->hurries || claim->quiet) && machine_may_be_busy())
			printf("skipped %s: the machine may be busy\n", claim->name);
		else
			failed |= run(claim);
	return chosen ? chosen : failed;
}
