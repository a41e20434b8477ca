/* SPDX-License-Identifier: BSD-3-Clause */
/* The claims of every transport, tried on shared memory; and what is claimed of it alone. */
#include <pthread.h>

#include "log.h"
#include "shm.h"
#include "transport_suite_rank.h"

#define NAP_MS 50
#define NAPS   4

static void *allocate(size_t bytes)
{
	void *memory;

	return tutti_mem_alloc(bytes, &memory) == TUTTI_OK ? memory : NULL;
}

struct sleeper {
	struct suite_rank *rank;
	uint64_t slept; /* nanoseconds */
};

static void *take_naps(void *argument)
{
	struct sleeper *sleeper = argument;
	const struct tt_transport *ops = sleeper->rank->ops;
	const uint64_t began = tt_now();

	for (int i = 0; i < NAPS; i++) {
		ops->arm(sleeper->rank->endpoint);
		ops->sleep(sleeper->rank->endpoint, NAP_MS);
		ops->disarm(sleeper->rank->endpoint);
	}
	sleeper->slept = tt_now() - began;
	return NULL;
}

/* A thread has armed, was woken, and has not come so far as to disarm: others sleep meanwhile. */
static void a_wake_up_keeps_awake_only_who_was_armed(struct suite_rank *rank)
{
	struct sleeper sleeper = { .rank = rank };
	pthread_t thread;

	if (rank->rank == 0) {
		rank->ops->arm(rank->endpoint);
		rank->ops->interrupt(rank->endpoint);
		suite_require(rank, pthread_create(&thread, NULL, take_naps, &sleeper) == 0,
			      "start a thread");
		pthread_join(thread, NULL);
		rank->ops->disarm(rank->endpoint);
		suite_require(rank, sleeper.slept > NAP_MS * 1000000ull,
			      "%d naps of %d ms lasted %llu µs", NAPS, NAP_MS,
			      (unsigned long long)sleeper.slept / 1000);
	}
	suite_barrier(rank);
}

static const struct suite_claim own_claims[] = {
	{ "a_wake_up_keeps_awake_only_who_was_armed", 2, SUITE_NOTHING,
	  a_wake_up_keeps_awake_only_who_was_armed },
	{ 0 },
};

int main(void)
{
	static const struct suite_claim *const own[] = { own_claims, NULL };
	const struct suite_options options = {
		.threads = true,
		.processes = true,
		.shares = true,
		.allocate = allocate,
		.release = tutti_mem_free,
	};

	const int failed = transport_suite_run(&tt_transport_shm, &options);

	return failed + suite_run_claims(own, &tt_transport_shm, &options);
}
