/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever is in another namespace is no candidate for shared memory, though its rank counts as one of the same host. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"
#include "shm.h"

/* What a rank tells of itself, on a thread of its own. */
struct rank {
	bool apart; /* in a network namespace that nobody else is in */
	bool there; /* it could be made */
	struct tt_machine machine;
	struct tt_peer peer;
};

static void *be_rank(void *argument)
{
	struct rank *rank = argument;
	const struct tt_endpoint_config config = { .comm_id = 1, .size = 2, .timeout_s = 20 };
	struct tt_endpoint *endpoint;

	if (rank->apart && unshare(CLONE_NEWNET) < 0)
		return NULL;
	rank->machine = tt_machine_here();
	if (tt_transport_shm.open(&config, &endpoint) != TUTTI_OK)
		return NULL;
	rank->peer.address_length = (uint16_t)tt_transport_shm.address(endpoint, rank->peer.address);
	tt_transport_shm.destroy(endpoint);
	rank->there = true;
	return NULL;
}

static bool start(struct rank *rank)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, be_rank, rank), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return rank->there;
}

static void threads_of_one_process_share_memory(void **state)
{
	struct rank one = { 0 }, other = { 0 };

	assert_true(start(&one) && start(&other));
	assert_int_not_equal(one.machine.boot, 0);
	assert_memory_equal(&one.machine, &other.machine, sizeof(one.machine));
	assert_true(tt_transport_shm.reach(&one.peer, &other.peer));
}

static void a_network_namespace_apart_shares_none(void **state)
{
	struct rank one = { 0 }, other = { .apart = true };

	if (!start(&other)) {
		print_message("skipped: no network namespace can be made\n");
		skip();
	}
	assert_true(start(&one));
	assert_true(one.machine.boot == other.machine.boot && one.machine.processes == other.machine.processes);
	assert_true(one.machine.network != other.machine.network);
	assert_false(tt_transport_shm.reach(&one.peer, &other.peer));
	assert_false(tt_transport_shm.reach(&other.peer, &one.peer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_of_one_process_share_memory),
		cmocka_unit_test(a_network_namespace_apart_shares_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
