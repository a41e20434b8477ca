/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults reach every rank and blame the right one; leaving in order is no fault. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_tcp_fabric.h"

#include "endpoint.h"
#include "test_raw.h"

/* Has every rank learnt of a fault, or of one of that result, but for those that are gone? */
static bool all_know(void *result)
{
	for (int i = 0; i < fabric.size; i++) {
		const struct tt_endpoint *e = fabric.endpoint[i];

		if (e && (result ? e->fault.result != *(tutti_result_t *)result : !e->fault.result))
			return false;
	}
	return true;
}

static void all_blame(int result, int rank, const char *words)
{
	for (int i = 0; i < fabric.size; i++) {
		if (!fabric.endpoint[i])
			continue;
		assert_int_equal(fabric.endpoint[i]->fault.result, result);
		assert_int_equal(fabric.endpoint[i]->fault.rank, rank);
		assert_says(fabric.endpoint[i]->fault.text, words);
	}
}

/* Whoever has the key may send any bytes in a fault's text; who prints it does not know where it
 * came from. */
TEST_WITH(a_fault_that_came_is_text, two_ranks, no_ranks)
{
	const struct tt_fault fault = { TUTTI_ERR_ABORTED, 0,
					"rank 0 says \033[2J \xff 2 × 3\nand more" };

	tcp->control->revoke(fabric.endpoint[0], &fault);
	fabric_until(&fabric, all_know, NULL);
	assert_string_equal(fabric.endpoint[1]->fault.text, "rank 0 says ?[2J ? 2 × 3?and more");
}

static int three_ranks(void **state)
{
	fabric_start(&fabric, 3, 0);
	return 0;
}

static int eight_ranks(void **state)
{
	fabric_start(&fabric, 8, 0);
	return 0;
}

/* Whichever is told first, and also where nobody has heard of the other's yet. */
TEST(the_better_of_two_faults_stays)
{
	const struct tt_fault late = { TUTTI_ERR_TIMEOUT, 1, "late" },
			      aborted = { TUTTI_ERR_ABORTED, 2, "aborted" };
	tutti_result_t better = TUTTI_ERR_ABORTED;

	for (int way = 0; way < 3; way++) {
		fabric_start(&fabric, 8, 0);
		tcp->control->revoke(fabric.endpoint[0], way == 1 ? &aborted : &late);
		if (way < 2)
			fabric_until(&fabric, all_know, NULL);
		tcp->control->revoke(fabric.endpoint[3], way == 1 ? &late : &aborted);
		fabric_until(&fabric, all_know, &better);
		all_blame(TUTTI_ERR_ABORTED, 2, "aborted");
		fabric_stop(&fabric);
	}
}

/* Those that go because of a fault are not to blame. */
TEST_WITH(a_death_after_a_fault_is_its_consequence, eight_ranks, no_ranks)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 3, "rank 3 was late" };

	tcp->control->revoke(fabric.endpoint[0], &fault);
	fabric_until(&fabric, all_know, NULL);
	fabric_die(&fabric, 1);
	while (tcp_endpoint_of(fabric.endpoint[0])->peers[1].control->source.connection.fd >= 0)
		tcp->progress(fabric.endpoint[0], true);
	all_blame(TUTTI_ERR_TIMEOUT, 3, "rank 3 was late");
}

TEST_WITH(a_revoke_outlives_the_rank_that_sent_it, eight_ranks, no_ranks)
{
	struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 4, "" };

	memset(fault.text, 'x', sizeof(fault.text) - 1);
	tcp->control->revoke(fabric.endpoint[0], &fault);
	fabric_leave(&fabric, 0);
	fabric_until(&fabric, all_know, NULL);
	all_blame(TUTTI_ERR_TIMEOUT, 4, fault.text);
}

/* Rank 0 was stopped while rank 1 died, or went, and rank 2 told why: it finds both at the same
 * time. */
TEST_WITH(what_peers_say_is_heard_before_a_death_is_blamed, three_ranks, no_ranks)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 1, "rank 1 was late" };

	const struct tcp_peer *known = tcp_endpoint_of(fabric.endpoint[0])->peers;
	for (int peer = 1; peer <= 2; peer++) {
		struct pollfd poller = { known[peer].control->source.connection.fd, POLLIN, 0 };

		if (peer == 1)
			fabric_die(&fabric, 1);
		else
			tcp->control->revoke(fabric.endpoint[2], &fault);
		assert_int_equal(poll(&poller, 1, 20000), 1);
	}
	tcp->progress(fabric.endpoint[0], true);
	assert_string_equal(fabric.endpoint[0]->fault.text, "rank 1 was late");
}

TEST_WITH(a_death_is_known_to_all_of_eight, eight_ranks, no_ranks)
{
	fabric_die(&fabric, 5);
	fabric_until(&fabric, all_know, NULL);
	all_blame(TUTTI_ERR_PEER_LOST, 5, "rank 5 at ");
	all_blame(TUTTI_ERR_PEER_LOST, 5, "died or lost its connection");
}

static bool rank_two_left(void *arg)
{
	return tcp_endpoint_of(fabric.endpoint[0])->peers[2].left &&
	       tcp_endpoint_of(fabric.endpoint[1])->peers[2].left;
}

/* All that rank 0 has has ended then, but only one rank is lost to it. */
TEST_WITH(who_said_good_bye_is_not_counted_with_the_lost, NULL, no_ranks)
{
	fabric_open(&fabric, 3, 0);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++)
			fabric.peers[i][k].host = k;
	fabric_join(&fabric, tt_now() + 20 * SECOND);
	fabric_leave(&fabric, 2);
	fabric_until(&fabric, rank_two_left, NULL);
	assert_int_equal(fabric.endpoint[0]->fault.result, 0);
	fabric_die(&fabric, 1);
	fabric_until(&fabric, all_know, NULL);
	all_blame(TUTTI_ERR_PEER_LOST, 1, "rank 1 at ");
}

/* Rank 1 loses the others, which are alive, as the others lose rank 1. */
TEST(who_is_cut_off_is_to_blame_itself)
{
	for (int apart = 0; apart < 2; apart++) {
		fabric_open(&fabric, 3, 0);
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < 3; k++) {
				fabric.peers[i][k].host = apart ? k : 0;
				fabric.peers[i][k].pid = apart ? 0 : getpid();
			}
		fabric_join(&fabric, tt_now() + 20 * SECOND);
		for (const struct tcp_control *c = tcp_endpoint_of(fabric.endpoint[1])->controls; c;
		     c = c->next)
			shutdown(c->source.connection.fd, SHUT_RDWR);
		fabric_until(&fabric, all_know, NULL);
		all_blame(TUTTI_ERR_PEER_LOST, 1, "rank 1 ");
		fabric_stop(&fabric);
	}
}

static bool read_fails(void *result)
{
	char byte;

	return (*(ssize_t *)result = fabric_get(&fabric, 0, &byte, 1)) != 0;
}

/* Rank 0 reads. */
static void expect_failure(tutti_result_t result, const char *words)
{
	ssize_t found;

	fabric_until(&fabric, read_fails, &found);
	assert_int_equal(found, result);
	assert_says(tt_thread_error(), words);
}

TEST_WITH(a_rank_that_left_is_said_to_have_left, two_ends, no_ranks)
{
	fabric_close(&fabric, 1);
	fabric_leave(&fabric, 1);
	expect_failure(TUTTI_ERR_PEER_LOST, "rank 1 left the communicator");
	assert_int_equal(fabric.endpoint[0]->fault.result, 0);
}

TEST_WITH(a_better_reason_replaces_a_closed_connection, two_ends, no_ranks)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 0, "rank 0 was late" };
	ssize_t found;

	fabric_close(&fabric, 1);
	/* the end of the stream is seen before the revoke that explains it */
	while (tcp_endpoint_of(fabric.endpoint[0])->doubt_until == 0)
		assert_false(read_fails(&found));
	tcp->control->revoke(fabric.endpoint[1], &fault);
	expect_failure(TUTTI_ERR_TIMEOUT, "rank 0 was late");
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
		fabric_start(&fabric, 2, 0);
		const int fd = tcp_endpoint_of(fabric.endpoint[1])->controls->source.connection.fd;
		assert_int_equal(send(fd, messages[i], 24, 0), 24);
		fabric_until(&fabric, all_know, NULL);
		assert_int_equal(fabric.endpoint[0]->fault.rank, 1);
		assert_says(fabric.endpoint[0]->fault.text, "no message of tutti");
		fabric_stop(&fabric);
	}
}

static bool three_has_zero_and_asks_no_more(void *link)
{
	struct tcp_endpoint *const e = tcp_endpoint_of(fabric.endpoint[3]);

	for (struct tcp_dial *dial = e->dials; dial; dial = dial->next)
		dial->next_at = 0; /* without pauses */
	return tcp->ready(link) && e->dial_count == 0;
}

/* Ranks 0 and 3 of eight have no control connection. */
TEST_WITH(who_calls_is_there_although_it_cannot_be_called, eight_ranks, no_ranks)
{
	struct tcp_peer *const zero = &tcp_endpoint_of(fabric.endpoint[3])->peers[0];
	struct tt_link *links[2];
	int port = 0;

	close(raw_listen(&port, 1));
	fabric_lead(&fabric, 3, 0, port);
	assert_ok(tcp->connect(fabric.endpoint[3], 0, TT_CHANNEL_CONTROL, &links[0]));
	assert_ok(tcp->connect(fabric.endpoint[0], 3, TT_CHANNEL_CONTROL, &links[1]));
	fabric_until(&fabric, three_has_zero_and_asks_no_more, links[0]);
	assert_true(zero->gone);
	zero->lost_at = 1; /* no doubt any more */
	assert_false(tcp->control->lost(fabric.endpoint[3], 0));
	tcp->close(links[1]);
	tcp->close(links[0]);
}

TEST_WITH(an_absent_rank_is_named_at_the_deadline, NULL, no_ranks)
{
	const uint64_t deadline = tt_now() + SECOND / 20;

	fabric_open(&fabric, 2, 0);
	assert_fails(tcp->join(fabric.endpoint[0], fabric.peers[0], 2, deadline), TUTTI_ERR_TIMEOUT,
		     "rank 0 and rank 1 have no control connection");
	assert_fails(tcp->join(fabric.endpoint[1], fabric.peers[1], 2, deadline), TUTTI_ERR_TIMEOUT,
		     "is rank 0 still there");
}

/* Rank 2 meets rank 0 when that knows of the fault already. */
TEST_WITH(a_late_rank_is_told_too, NULL, no_ranks)
{
	const struct tt_fault fault = { TUTTI_ERR_TIMEOUT, 1, "rank 1 was late" };
	const uint64_t deadline = tt_now() + SECOND / 20;

	fabric_open(&fabric, 3, 0);
	assert_int_equal(tcp->join(fabric.endpoint[0], fabric.peers[0], 3, deadline),
			 TUTTI_ERR_TIMEOUT);
	tcp->control->revoke(fabric.endpoint[0], &fault);
	assert_int_equal(tcp->join(fabric.endpoint[2], fabric.peers[2], 3, deadline),
			 TUTTI_ERR_TIMEOUT);
	assert_int_equal(tcp->join(fabric.endpoint[1], fabric.peers[1], 3, deadline),
			 TUTTI_ERR_TIMEOUT);
	fabric_until(&fabric, all_know, NULL);
	all_blame(TUTTI_ERR_TIMEOUT, 1, "rank 1 was late");
}

static bool has_news(const struct tt_endpoint *endpoint)
{
	struct pollfd poller = { tcp->control->fd(endpoint), POLLIN, 0 };

	return poll(&poller, 1, 0) == 1;
}

/* What the monitor sleeps on. */
TEST_WITH(the_control_descriptor_is_for_news_not_for_data, two_ends, no_ranks)
{
	const uint8_t note[TT_NOTE_BYTES] = { 1 };
	char byte;

	for (int i = 0; i < 2; i++)
		while (has_news(fabric.endpoint[i])) /* of the connection */
			tcp->progress(fabric.endpoint[i], true);
	assert_int_equal(fabric_put(&fabric, 0, "x", 1), 1);
	while (fabric_get(&fabric, 1, &byte, 1) == 0)
		assert_false(has_news(fabric.endpoint[1]));
	assert_int_equal(fabric_put(&fabric, 0, "y", 1), 1);
	assert_false(has_news(fabric.endpoint[1]));
	tcp->control->send(fabric.endpoint[0], note);
	struct pollfd poller = { tcp->control->fd(fabric.endpoint[1]), POLLIN, 0 };
	assert_int_equal(poll(&poller, 1, 20000), 1);
}

/* Ranks 0 and 1 of the fabric join as processes; rank 0 calls. */
static int ready[2], go[2]; /* pipes: rank 0 has said its hello; rank 1 has answered */
static pid_t caller;

static tutti_result_t caller_waits(void *context)
{
	char byte = 0;

	return write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 0 ? TUTTI_OK
									    : TUTTI_ERR_SYSTEM;
}

static tutti_result_t caller_ends(void *context)
{
	siginfo_t info;

	if (go[1] < 0)
		return TUTTI_OK;
	close(go[1]);
	go[1] = -1;
	return waitid(P_PID, (id_t)caller, &info, WEXITED | WNOWAIT) == 0 ? TUTTI_OK
									  : TUTTI_ERR_SYSTEM;
}

static tutti_result_t join_from(int rank, tutti_result_t (*should_abort)(void *context))
{
	tcp_endpoint_of(fabric.endpoint[rank])->should_abort = should_abort;
	return tcp->join(fabric.endpoint[rank], fabric.peers[rank], 2, tt_now() + 20 * SECOND);
}

/* It joins and leaves, but hears rank 1's answer only after that has waited for it. */
static int call_and_leave(void)
{
	close(go[1]);
	fabric_open_rank(&fabric, 0, &fabric_key); /* a child has none of its parent's */
	const tutti_result_t result = join_from(0, caller_waits);

	fabric_leave(&fabric, 0);
	return result < 0;
}

/* What it said before is there to be read. */
TEST(a_caller_that_has_ended_had_joined)
{
	char byte;

	fabric_open(&fabric, 2, 0);
	for (int i = 0; i < 4; i++)
		fabric.peers[i / 2][i % 2].process = (uint64_t)(i % 2 + 1);
	assert_int_equal(pipe(ready) | pipe(go), 0);
	caller = fork();
	assert_true(caller >= 0);
	if (caller == 0)
		_exit(call_and_leave());
	fabric.peers[1][0].pid = (int32_t)caller;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_ok(join_from(1, caller_ends));
	await_exit(caller, 0);
	fabric_stop(&fabric);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
}
