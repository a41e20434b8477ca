/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults reach every rank and blame the right one; leaving in order is no fault. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"

static const struct tt_transport *const tcp = &tt_transport_tcp;

/* Has every rank learnt of a fault, but for those that are gone? */
static bool all_know(void *arg)
{
	const struct fabric *f = arg;

	for (int i = 0; i < f->size; i++)
		if (f->endpoint[i] && !f->endpoint[i]->fault.result)
			return false;
	return true;
}

static void all_blame(const struct fabric *f, int result, int rank, const char *words)
{
	for (int i = 0; i < f->size; i++) {
		if (!f->endpoint[i])
			continue;
		assert_int_equal(f->endpoint[i]->fault.result, result);
		assert_int_equal(f->endpoint[i]->fault.rank, rank);
		assert_non_null(strstr(f->endpoint[i]->fault.text, words));
	}
}

TEST(a_revoke_reaches_all_of_eight)
{
	const struct tt_fault fault = { TUTTI_ERR_MISMATCH, 6, "rank 6 called barrier" };
	struct fabric f;

	fabric_start(&f, 8, 0);
	tcp->control->revoke(f.endpoint[3], &fault);
	fabric_until(&f, all_know, &f);
	all_blame(&f, TUTTI_ERR_MISMATCH, 6, "rank 6 called barrier");
	fabric_stop(&f);
}

/* Whoever has the key may send any bytes in a fault's text; who prints it does not know where it
 * came from. */
TEST(a_fault_that_came_is_text)
{
	const struct tt_fault fault = { TUTTI_ERR_ABORTED, 0,
					"rank 0 says \033[2J \xff 2 × 3\nand more" };
	struct fabric f;

	fabric_start(&f, 2, 0);
	tcp->control->revoke(f.endpoint[0], &fault);
	fabric_until(&f, all_know, &f);
	assert_string_equal(f.endpoint[1]->fault.text, "rank 0 says ?[2J ? 2 × 3?and more");
	fabric_stop(&f);
}

/* What the others see when the rank's process dies. Its endpoint is still to be destroyed. */
static struct tt_endpoint *die(struct fabric *f, int rank)
{
	struct tt_endpoint *dead = f->endpoint[rank];

	for (struct tcp_control *c = tcp_endpoint_of(dead)->controls; c; c = c->next)
		shutdown(c->source.connection.fd, SHUT_RDWR);
	f->endpoint[rank] = NULL;
	return dead;
}

struct expected {
	const struct fabric *fabric;
	const char *text;
};

static bool all_say(void *arg)
{
	const struct expected *expected = arg;
	const struct fabric *f = expected->fabric;

	for (int i = 0; i < f->size; i++)
		if (strcmp(f->endpoint[i]->fault.text, expected->text) != 0)
			return false;
	return true;
}

/* Whichever is told first, and also where nobody has heard of the other's yet. */
TEST(the_better_of_two_faults_stays)
{
	const struct tt_fault late = { TUTTI_ERR_TIMEOUT, 1, "late" },
			      aborted = { TUTTI_ERR_ABORTED, 2, "aborted" };

	for (int way = 0; way < 3; way++) {
		struct fabric f;
		struct expected expected = { &f, "aborted" };

		fabric_start(&f, 8, 0);
		tcp->control->revoke(f.endpoint[0], way == 1 ? &aborted : &late);
		if (way < 2)
			fabric_until(&f, all_know, &f);
		tcp->control->revoke(f.endpoint[3], way == 1 ? &late : &aborted);
		fabric_until(&f, all_say, &expected);
		all_blame(&f, TUTTI_ERR_ABORTED, 2, "aborted");
		fabric_stop(&f);
	}
}

/* Those that go because of a fault are not to blame. */
TEST(a_death_after_a_fault_is_its_consequence)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 3, "rank 3 was late" };
	struct fabric f;

	fabric_start(&f, 4, 0);
	tcp->control->revoke(f.endpoint[0], &fault);
	fabric_until(&f, all_know, &f);
	struct tt_endpoint *dead = die(&f, 1);

	while (tcp_endpoint_of(f.endpoint[0])->peers[1].control->source.connection.fd >= 0)
		tcp->progress(f.endpoint[0], true);
	all_blame(&f, TUTTI_ERR_TIMEOUT, 3, "rank 3 was late");
	tcp->destroy(dead);
	fabric_stop(&f);
}

TEST(a_revoke_outlives_the_rank_that_sent_it)
{
	struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 4, "" };
	struct fabric f;

	memset(fault.text, 'x', sizeof(fault.text) - 1);
	fabric_start(&f, 8, 0);
	tcp->control->revoke(f.endpoint[0], &fault);
	tcp->destroy(f.endpoint[0]);
	f.endpoint[0] = NULL;
	fabric_until(&f, all_know, &f);
	all_blame(&f, TUTTI_ERR_TIMEOUT, 4, fault.text);
	fabric_stop(&f);
}

/* Rank 0 was stopped while rank 1 died, or went, and rank 2 told why: it finds both at the same
 * time. */
TEST(what_peers_say_is_heard_before_a_death_is_blamed)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 1, "rank 1 was late" };
	struct tt_endpoint *dead = NULL;
	struct fabric f;

	fabric_start(&f, 3, 0);
	const struct tcp_peer *known = tcp_endpoint_of(f.endpoint[0])->peers;
	for (int peer = 1; peer <= 2; peer++) {
		struct pollfd poller = { known[peer].control->source.connection.fd, POLLIN, 0 };

		if (peer == 1)
			dead = die(&f, 1);
		else
			tcp->control->revoke(f.endpoint[2], &fault);
		assert_int_equal(poll(&poller, 1, 20000), 1);
	}
	tcp->progress(f.endpoint[0], true);
	assert_string_equal(f.endpoint[0]->fault.text, "rank 1 was late");
	tcp->destroy(dead);
	fabric_stop(&f);
}

TEST(a_death_is_known_to_all_of_eight)
{
	struct fabric f;

	fabric_start(&f, 8, 0);
	struct tt_endpoint *dead = die(&f, 5);

	fabric_until(&f, all_know, &f);
	all_blame(&f, TUTTI_ERR_PEER_LOST, 5, "rank 5 at ");
	all_blame(&f, TUTTI_ERR_PEER_LOST, 5, "died or lost its connection");
	tcp->destroy(dead);
	fabric_stop(&f);
}

static bool rank_two_left(void *arg)
{
	const struct fabric *f = arg;

	for (int i = 0; i < f->size; i++)
		if (f->endpoint[i] && !tcp_endpoint_of(f->endpoint[i])->peers[2].left)
			return false;
	return true;
}

TEST(a_good_bye_is_no_fault)
{
	struct fabric f;

	fabric_start(&f, 4, 0);
	tcp->destroy(f.endpoint[2]);
	f.endpoint[2] = NULL;
	fabric_until(&f, rank_two_left, &f);
	fabric_until(&f, rank_two_left, &f);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			assert_int_equal(f.endpoint[i]->fault.result, 0);
	fabric_stop(&f);
}

/* All that rank 0 has has ended then, but only one rank is lost to it. */
TEST(who_said_good_bye_is_not_counted_with_the_lost)
{
	struct fabric f;

	fabric_open(&f, 3, 0);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			f.peers[i][k].host = k;
	fabric_join(&f, tt_now() + 20 * SECOND);
	tcp->destroy(f.endpoint[2]);
	f.endpoint[2] = NULL;
	fabric_until(&f, rank_two_left, &f);
	struct tt_endpoint *dead = die(&f, 1);

	fabric_until(&f, all_know, &f);
	all_blame(&f, TUTTI_ERR_PEER_LOST, 1, "rank 1 at ");
	tcp->destroy(dead);
	fabric_stop(&f);
}

struct reading {
	struct tt_link *link;
	ssize_t n;
};

static bool read_fails(void *arg)
{
	struct reading *r = arg;
	uint8_t byte;
	const struct iovec iov = { &byte, 1 };

	r->n = tcp->read(r->link, &iov, 1);
	return r->n != 0;
}

TEST(a_closed_connection_names_its_rank)
{
	struct tt_link *low, *high;
	struct reading r;
	struct fabric f;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &low, &high);
	tcp->close(low);
	r.link = high;
	fabric_until(&f, read_fails, &r);
	assert_int_equal(r.n, TUTTI_ERR_PEER_LOST);
	assert_string_equal(tt_thread_error(), "rank 0 closed its connection with rank 1");
	tcp->close(high);
	fabric_stop(&f);
}

TEST(a_rank_that_left_is_said_to_have_left)
{
	struct tt_link *low, *high;
	struct reading r;
	struct fabric f;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &low, &high);
	tcp->close(high);
	tcp->destroy(f.endpoint[1]);
	f.endpoint[1] = NULL;
	r.link = low;
	fabric_until(&f, read_fails, &r);
	assert_int_equal(r.n, TUTTI_ERR_PEER_LOST);
	assert_non_null(strstr(tt_thread_error(), "rank 1 left the communicator"));
	assert_int_equal(f.endpoint[0]->fault.result, 0);
	tcp->close(low);
	fabric_stop(&f);
}

TEST(a_better_reason_replaces_a_closed_connection)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 0, "rank 0 was late" };
	struct tt_link *low, *high;
	struct reading r;
	struct fabric f;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &low, &high);
	tcp->close(high);
	r.link = low;
	/* the end of the stream is seen before the revoke that explains it */
	while (tcp_endpoint_of(f.endpoint[0])->doubt_until == 0)
		assert_false(read_fails(&r));
	tcp->control->revoke(f.endpoint[1], &fault);
	fabric_until(&f, read_fails, &r);
	assert_int_equal(r.n, TUTTI_ERR_TIMEOUT);
	assert_string_equal(tt_thread_error(), "rank 0 was late");
	tcp->close(low);
	fabric_stop(&f);
}

TEST(garbage_on_a_control_link_is_a_loss)
{
	static const uint8_t messages[][24] = {
		{ 9 },				/* no such kind */
		{ 1, 0, 0, 0, 4 },		/* a revoke too short for its result */
		{ 2, 0, 0, 0, 1 },		/* a good-bye with something in it */
		{ 1, 0, 0, 0, 0, 0, 0, 0x80 },	/* too long for any message */
		{ 1, 0, 0, 0, 16, 0, 0, 0, 5 }, /* a revoke that is no error */
		{ 1, 0, 0, 0, 16, 0, 0, 0, (uint8_t)(TUTTI_ERR_UNSUPPORTED - 1), 0xff, 0xff,
		  0xff }, /* none there is */
		{ 1, 0, 0, 0, 16, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
		  2 }, /* about a rank that there is not */
		{ 1, 0, 0, 0, 16, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff },
	};

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		struct fabric f;

		fabric_start(&f, 2, 0);
		const int fd = tcp_endpoint_of(f.endpoint[1])->controls->source.connection.fd;
		assert_int_equal(send(fd, messages[i], 24, 0), 24);
		fabric_until(&f, all_know, &f);
		assert_int_equal(f.endpoint[0]->fault.rank, 1);
		assert_non_null(strstr(f.endpoint[0]->fault.text, "no message of tutti"));
		fabric_stop(&f);
	}
}

TEST(an_absent_rank_is_named_at_the_deadline)
{
	const uint64_t deadline = tt_now() + SECOND / 20;
	struct fabric f;

	fabric_open(&f, 2, 0);
	assert_int_equal(tcp->join(f.endpoint[0], f.peers[0], 2, deadline), TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), "rank 0 and rank 1 have no control connection"));
	assert_int_equal(tcp->join(f.endpoint[1], f.peers[1], 2, deadline), TUTTI_ERR_TIMEOUT);
	assert_non_null(strstr(tt_thread_error(), "is rank 0 still there"));
	fabric_stop(&f);
}

/* Rank 2 meets rank 0 when that knows of the fault already. */
TEST(a_late_rank_is_told_too)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 1, "rank 1 was late" };
	const uint64_t deadline = tt_now() + SECOND / 20;
	struct fabric f;

	fabric_open(&f, 3, 0);
	assert_int_equal(tcp->join(f.endpoint[0], f.peers[0], 3, deadline), TUTTI_ERR_TIMEOUT);
	tcp->control->revoke(f.endpoint[0], &fault);
	assert_int_equal(tcp->join(f.endpoint[2], f.peers[2], 3, deadline), TUTTI_ERR_TIMEOUT);
	assert_int_equal(tcp->join(f.endpoint[1], f.peers[1], 3, deadline), TUTTI_ERR_TIMEOUT);
	fabric_until(&f, all_know, &f);
	all_blame(&f, TUTTI_ERR_TIMEOUT, 1, "rank 1 was late");
	fabric_stop(&f);
}

static bool has_news(const struct tt_endpoint *endpoint)
{
	struct pollfd poller = { tcp->control->fd(endpoint), POLLIN, 0 };

	return poll(&poller, 1, 0) == 1;
}

/* What the monitor sleeps on. */
TEST(the_control_descriptor_is_for_news_not_for_data)
{
	uint8_t byte = 7, note[TT_NOTE_BYTES] = { 1 };
	const struct iovec iov = { &byte, 1 };
	struct tt_link *low, *high;
	struct fabric f;

	fabric_start(&f, 2, 0);
	fabric_connect(&f, 0, 1, &low, &high);
	for (int i = 0; i < 2; i++)
		while (has_news(f.endpoint[i])) /* of the connection */
			tcp->progress(f.endpoint[i], true);
	assert_int_equal(tcp->write(low, &iov, 1), 1);
	while (tcp->read(high, &iov, 1) == 0)
		assert_false(has_news(f.endpoint[1]));
	assert_int_equal(tcp->write(low, &iov, 1), 1);
	assert_false(has_news(f.endpoint[1]));
	tcp->control->send(f.endpoint[0], note);
	struct pollfd poller = { tcp->control->fd(f.endpoint[1]), POLLIN, 0 };
	assert_int_equal(poll(&poller, 1, 20000), 1);
	tcp->close(low);
	tcp->close(high);
	fabric_stop(&f);
}

/* Two ranks that join as processes: rank 0, which calls, and rank 1. */
struct call {
	int ready[2], go[2]; /* pipes: rank 0 has said its hello; rank 1 has answered */
	pid_t caller;
	int status;
	struct tt_peer peers[2];
	uint8_t addresses[2][TT_ADDRESS_MAX];
};

static tutti_result_t caller_waits(void *context)
{
	const struct call *call = context;
	char byte = 0;

	return write(call->ready[1], &byte, 1) == 1 && read(call->go[0], &byte, 1) == 0
		       ? TUTTI_OK
		       : TUTTI_ERR_SYSTEM;
}

static tutti_result_t caller_ends(void *context)
{
	struct call *call = context;
	siginfo_t info;

	if (call->go[1] < 0)
		return TUTTI_OK;
	close(call->go[1]);
	call->go[1] = -1;
	return waitid(P_PID, (id_t)call->caller, &info, WEXITED | WNOWAIT) == 0 ? TUTTI_OK
										: TUTTI_ERR_SYSTEM;
}

static struct tt_endpoint *open_for(struct call *call, int rank,
				    tutti_result_t (*should_abort)(void *context))
{
	const struct tt_endpoint_config config = { .comm_id = 5,
						   .rank = rank,
						   .size = 2,
						   .timeout_s = 20,
						   .silence_s = 5,
						   .key = &fabric_key,
						   .should_abort = should_abort,
						   .context = call };
	struct tt_endpoint *endpoint = NULL;

	if (tcp->open(&config, &endpoint) < 0)
		return NULL;
	call->peers[rank].address = call->addresses[rank];
	call->peers[rank].address_length = (uint16_t)tcp->address(endpoint, call->addresses[rank]);
	call->peers[1 - rank].use = true;
	return endpoint;
}

/* It joins and leaves, but hears rank 1's answer only after that has waited for it. */
static int call_and_leave(struct call *call)
{
	close(call->go[1]);
	struct tt_endpoint *caller = open_for(call, 0, caller_waits);

	if (!caller || tcp->join(caller, call->peers, 2, tt_now() + 20 * SECOND) < 0)
		return 1;
	tcp->destroy(caller);
	return 0;
}

/* What it said before is there to be read. */
TEST(a_caller_that_has_ended_had_joined)
{
	struct call call = { .peers = { { .rank = 0, .process = 1 },
					{ .rank = 1, .process = 2 } } };
	char byte;

	assert_int_equal(pipe(call.ready) | pipe(call.go), 0);
	struct tt_endpoint *called = open_for(&call, 1, caller_ends);
	assert_non_null(called);
	call.caller = fork();
	assert_true(call.caller >= 0);
	if (call.caller == 0)
		_exit(call_and_leave(&call));
	call.peers[0].pid = (int32_t)call.caller;
	assert_int_equal(read(call.ready[0], &byte, 1), 1);
	assert_int_equal(tcp->join(called, call.peers, 2, tt_now() + 20 * SECOND), TUTTI_OK);
	assert_int_equal(waitpid(call.caller, &call.status, 0), call.caller);
	assert_int_equal(call.status, 0);
	tcp->destroy(called);
	close(call.ready[0]);
	close(call.ready[1]);
	close(call.go[0]);
}
