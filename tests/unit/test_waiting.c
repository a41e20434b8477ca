/* SPDX-License-Identifier: BSD-3-Clause */
/* When a thread that waits goes to sleep, and what is noted of what it waited for. Two ranks are threads of this process; what rank 0's
 * endpoint is asked for passes through here, so that things happen between two steps of a wait. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "comm.h"
#include "flight.h"
#include "progress_state.h"
#include "recorder.h"

static struct {
	pthread_t thread;
	char store[64];
	sem_t told, done; /* to send the next message; it has */
	bool over;	  /* told to end instead */
} peer;

static tutti_comm_t comm; /* of rank 0 */

static struct {
	pthread_t waiter;
	struct tt_transport ops; /* of shm, as it is … */
	struct tt_transport_doorbell doorbell;
	const struct tt_transport *real; /* … and as it was */
	bool slept;			 /* the waiter has come to sleep between its passes */
	int passes;			 /* of the waiter since it last did */
	int located;			 /* how often it has asked where the others run */
	bool happened;			 /* the first message has come, in the second pass */
	int after;			 /* how often it went to sleep since */
	uint64_t sleep_ns; /* its sleep takes so long and ends with a message; 0: its own way */
} watch;

static bool by_waiter(void)
{
	return pthread_equal(pthread_self(), watch.waiter);
}

static void let_send(void)
{
	sem_post(&peer.told);
	sem_wait(&peer.done);
}

static void watched_progress(struct tt_endpoint *endpoint, bool thorough)
{
	/* the first pass after a sleep tests the first request, the second one the second */
	if (by_waiter() && !thorough && watch.slept && !watch.happened && ++watch.passes == 2) {
		watch.happened = true;
		let_send();
	}
	watch.real->progress(endpoint, thorough);
}

static void watched_locate(struct tt_endpoint *endpoint, int cpu, int *of)
{
	watch.located += by_waiter();
	watch.real->locate(endpoint, cpu, of);
}

static void watched_arm(struct tt_endpoint *endpoint)
{
	if (by_waiter())
		watch.after += watch.happened;
	watch.real->doorbell->arm(endpoint);
}

static void watched_disarm(struct tt_endpoint *endpoint)
{
	watch.real->doorbell->disarm(endpoint);
	if (by_waiter()) {
		watch.slept = true;
		watch.passes = 0;
	}
}

static void watched_sleep(struct tt_endpoint *endpoint, int timeout_ms)
{
	const uint64_t until = tt_now() + watch.sleep_ns;

	if (!by_waiter() || !watch.sleep_ns) {
		watch.real->doorbell->sleep(endpoint, timeout_ms);
		return;
	}
	while (tt_now() < until)
		;
	let_send();
}

static void watch_endpoint(void)
{
	struct tt_endpoint *endpoint = comm->endpoints[0];

	assert_int_equal(comm->nendpoints, 1);
	watch.waiter = pthread_self();
	watch.real = endpoint->ops;
	watch.ops = *endpoint->ops;
	watch.ops.progress = watched_progress;
	watch.ops.locate = watched_locate;
	watch.doorbell = *endpoint->ops->doorbell;
	watch.doorbell.arm = watched_arm;
	watch.doorbell.disarm = watched_disarm;
	watch.doorbell.sleep = watched_sleep;
	watch.ops.doorbell = &watch.doorbell;
	endpoint->ops = &watch.ops;
}

static tutti_result_t meet(int rank, tutti_comm_t *out)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_store_t store;
	tutti_result_t result = tutti_store_open(peer.store, rank == 0, 20, &store);

	config.transports = "shm";
	config.timeout_s = 30;
	if (!result)
		result = tutti_comm_create(store, rank, 2, &config, out);
	tutti_store_close(store);
	return result;
}

static void *send_when_told(void *unused)
{
	tutti_comm_t theirs;

	if (meet(1, &theirs) != TUTTI_OK)
		return "the peer could not join";
	for (uint8_t number = 1;; number++) {
		sem_wait(&peer.told);
		if (peer.over)
			break;
		if (tutti_send(theirs, &number, 1, TUTTI_UINT8, 0, NULL) != TUTTI_OK)
			return "the peer could not send";
		sem_post(&peer.done);
	}
	tutti_comm_destroy(theirs);
	return NULL;
}

static int begin(void **state)
{
	memset(&watch, 0, sizeof(watch));
	memset(&peer, 0, sizeof(peer));
	snprintf(peer.store, sizeof(peer.store), "unix:tutti-test-waiting-%ld", (long)getpid());
	sem_init(&peer.told, 0, 0);
	sem_init(&peer.done, 0, 0);
	assert_int_equal(pthread_create(&peer.thread, NULL, send_when_told, NULL), 0);
	assert_ok(meet(0, &comm));
	watch_endpoint();
	return 0;
}

static int end(void **state)
{
	void *failure;

	peer.over = true;
	sem_post(&peer.told);
	pthread_join(peer.thread, &failure);
	assert_null(failure);
	tutti_comm_destroy(comm);
	return 0;
}

/* The first request ends while the second one is tested. It has woken nobody who is asleep, and
 * nothing else will happen: the waiter must poll again before it sleeps. */
TEST_WITH(waiting_for_any_sees_what_ended_since_it_was_tested, begin, end)
{
	uint8_t came[2] = { 0 };
	tutti_request_t requests[2];
	size_t index;

	for (int i = 0; i < 2; i++)
		assert_ok(tutti_recv(comm, &came[i], 1, TUTTI_UINT8, 1, &requests[i]));
	assert_ok(tutti_wait_any(requests, 2, &index));
	assert_int_equal(index, 0);
	assert_int_equal(came[0], 1);
	assert_true(watch.happened);
	assert_int_equal(watch.after, 0);
	assert_true(watch.located > 0); /* for tt_spread() */
	let_send();
	assert_ok(tutti_wait(&requests[1]));
	assert_int_equal(came[1], 2);
}

static void receive(void)
{
	uint8_t came;

	assert_ok(tutti_recv(comm, &came, 1, TUTTI_UINT8, 1, NULL));
}

TEST_WITH(waits_yield_longer_where_sleeps_are_short, begin, end)
{
	if (comm->oversubscribed)
		skip();
	watch.happened = true; /* what the other test waits for */
	watch.sleep_ns = 1;
	for (int i = 0; i < 1000 && comm->progress->yield_more == 0;
	     i++) /* on a busy machine no sleep may be short */
		receive();
	assert_true(comm->progress->yield_more > 0);
	watch.sleep_ns = 20000000;
	receive();
	assert_true(comm->progress->yield_more == 0);
}

/* The last operation, a receive from the peer, which has ended so. */
static void assert_noted(size_t elements, tutti_result_t result)
{
	const struct tt_flight *flight = comm->recorder->flight;
	struct tt_flight_op op;

	assert_true(tt_flight_read_op(flight, comm->recording.next - 1, &op));
	assert_int_equal(op.kind, TT_FLIGHT_RECV);
	assert_int_equal(op.peer, 1);
	assert_int_equal(op.what, elements);
	assert_int_equal(op.result, result);
	assert_in_range(op.posted, 1, op.done);
	if (result)
		assert_int_equal(op.first, 0);
	else
		assert_in_range(op.first, op.posted, op.done);
}

TEST_WITH(short_messages_are_noted_with_their_peer_and_their_end, begin, end)
{
	uint8_t came[2];

	watch.happened = true;
	let_send();
	receive();
	assert_noted(1, TUTTI_OK);
	let_send();
	assert_int_equal(tutti_recv(comm, came, 2, TUTTI_UINT8, 1, NULL), TUTTI_ERR_MISMATCH);
	assert_noted(2, TUTTI_ERR_MISMATCH);
}

struct piped {
	struct tt_endpoint base;
	int ends[2];
};

static int end_to_read(struct tt_endpoint *endpoint)
{
	return ((struct piped *)endpoint)->ends[0];
}

TEST(each_of_several_transports_ends_a_sleep)
{
	const struct tt_transport_doorbell doorbell = { .fd = end_to_read };
	const struct tt_transport ops = { .doorbell = &doorbell };
	struct piped piped[] = { { .base = { .ops = &ops } }, { .base = { .ops = &ops } } };
	struct tutti_comm both = { .nendpoints = 2,
				   .endpoints = { &piped[0].base, &piped[1].base } };
	uint8_t byte = 0;

	pthread_mutex_init(&both.lock, NULL);
	pthread_mutex_lock(&both.lock);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe(piped[i].ends), 0);
	for (int i = 0; i < 2; i++) {
		const uint64_t start = tt_now();

		assert_int_equal(write(piped[i].ends[1], &byte, 1), 1);
		tt_comm_sleep(&both, 60000);
		assert_true(tt_now() - start < 60000000000u);
		assert_int_equal(read(piped[i].ends[0], &byte, 1), 1);
	}
	for (int i = 0; i < 2; i++) {
		close(piped[i].ends[0]);
		close(piped[i].ends[1]);
	}
	pthread_mutex_unlock(&both.lock);
	pthread_mutex_destroy(&both.lock);
}
