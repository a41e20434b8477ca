/* SPDX-License-Identifier: BSD-3-Clause */
#include "thread_ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct all {
	tutti_store_t store;
	int ranks, hosts;
	rank_body *body;
	void *argument;
};

struct one {
	const struct all *all;
	int rank, failed;
	pthread_t thread;
};

static void *be_rank(void *argument)
{
	struct one *one = argument;
	const struct all *all = one->all;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm = NULL;
	char host[32];

	snprintf(host, sizeof(host), "host-%d", one->rank % all->hosts);
	if (all->hosts > 1)
		config.host_id = host;
	if (tutti_comm_create(all->store, one->rank, all->ranks, &config, &comm)) {
		fprintf(stderr, "rank %d: %s\n", one->rank, tutti_last_error(NULL));
		return NULL;
	}
	one->failed = all->body(comm, all->argument);
	if (one->failed)
		tutti_comm_abort(comm, "a claim of the test failed");
	tutti_comm_destroy(comm);
	return NULL;
}

int run_thread_ranks(int ranks, int hosts, rank_body *body, void *argument)
{
	struct all all = { .ranks = ranks, .hosts = hosts, .body = body, .argument = argument };
	struct one *one = calloc((size_t)ranks, sizeof(*one));
	char address[64];
	int failed = 0;

	snprintf(address, sizeof(address), "unix:tutti-threads-%ld", (long)getpid());
	if (!one || tutti_store_open(address, 1, 30, &all.store)) {
		fprintf(stderr, "a store for threads: %s\n", tutti_last_error(NULL));
		free(one);
		return 1;
	}
	for (int i = 0; i < ranks; i++) {
		one[i] = (struct one){ .all = &all, .rank = i, .failed = 1 };
		if (pthread_create(&one[i].thread, NULL, be_rank, &one[i]))
			abort();
	}
	for (int i = 0; i < ranks; i++) {
		pthread_join(one[i].thread, NULL);
		failed |= one[i].failed;
	}
	tutti_store_close(all.store);
	free(one);
	return failed;
}
