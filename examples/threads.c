/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of one process, without a launcher: they meet in a store that one of them hosts.
 * Ranks in several processes would open the same address, which the host passes on by any means. */
#include <pthread.h>
#include <stdio.h>
#include <tutti/tutti.h>

enum { RANKS = 4 };

struct rank {
	int number;
	const char *address;
	int64_t largest;
	tutti_result_t result;
};

static tutti_result_t find_largest(tutti_store_t store, struct rank *rank)
{
	const int64_t mine = (rank->number * 7 + 3) % 10;
	tutti_comm_t comm;
	tutti_result_t result = tutti_comm_create(store, rank->number, RANKS, NULL, &comm);

	if (result == TUTTI_OK)
		result = tutti_all_reduce(comm, &mine, &rank->largest, 1, TUTTI_INT64, TUTTI_MAX,
					  NULL);
	if (result != TUTTI_OK)
		fprintf(stderr, "threads: rank %d: %s\n", rank->number, tutti_last_error(comm));
	tutti_comm_destroy(comm);
	return result;
}

static void *run(void *argument)
{
	struct rank *rank = argument;
	tutti_store_t store;

	rank->result = tutti_store_open(rank->address, 0, 30, &store);
	if (rank->result != TUTTI_OK) {
		fprintf(stderr, "threads: rank %d: %s\n", rank->number, tutti_last_error(NULL));
		return NULL;
	}
	rank->result = find_largest(store, rank);
	tutti_store_close(store);
	return NULL;
}

int main(void)
{
	struct rank ranks[RANKS];
	pthread_t threads[RANKS];
	tutti_store_t host;
	int started = 0, failed = 0;

	if (tutti_store_open("tcp://127.0.0.1:0", 1, 30, &host) != TUTTI_OK) {
		fprintf(stderr, "threads: %s\n", tutti_last_error(NULL));
		return 1;
	}
	for (; started < RANKS; started++) {
		ranks[started] = (struct rank){ started, tutti_store_address(host), -1, TUTTI_OK };
		if (pthread_create(&threads[started], NULL, run, &ranks[started]) != 0)
			break; /* the ranks that are there give up after their timeout */
	}
	for (int r = 0; r < started; r++) {
		pthread_join(threads[r], NULL);
		failed += ranks[r].result != TUTTI_OK || ranks[r].largest != 7;
		printf("rank %d found the largest number: %lld\n", r, (long long)ranks[r].largest);
	}
	tutti_store_close(host);
	return failed || started < RANKS || fflush(stdout) != 0;
}
