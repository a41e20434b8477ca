/* SPDX-License-Identifier: BSD-3-Clause */
/* What an endpoint tells of itself, and what it makes of what others tell. No device is opened. */
#include "tests.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "rdma.h"
#include "test_shortage.h"
#include "test_warnings.h"

/* ---- an endpoint whose TCP endpoint tells so many bytes */

static size_t tcp_bytes;

static size_t tcp_address(const struct tt_endpoint *endpoint, void *out)
{
	memset(out, 7, tcp_bytes);
	return tcp_bytes;
}

#define TCP_FD 1000

static tutti_result_t tcp_join(struct tt_endpoint *endpoint, const struct tt_peer *peers, int size,
			       uint64_t deadline)
{
	return TUTTI_OK;
}

static int tcp_fd(struct tt_endpoint *endpoint)
{
	return TCP_FD;
}

static void tcp_revoke(struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	endpoint->fault = *fault;
}

static const struct tt_transport_control fake_control = { .revoke = tcp_revoke };
static const struct tt_transport_doorbell fake_doorbell = { .fd = tcp_fd };
static const struct tt_transport fake_tcp = {
	.name = "tcp",
	.address = tcp_address,
	.join = tcp_join,
	.control = &fake_control,
	.doorbell = &fake_doorbell,
};
static struct tt_endpoint tcp = { .ops = &fake_tcp };

static struct rdma_endpoint endpoint_of(int n, const char *const gids[])
{
	struct rdma_endpoint e = {
		.base = { .ops = &tt_transport_rdma }, .tcp = &tcp, .rank = 3, .nports = n
	};

	for (int i = 0; i < n; i++) {
		e.ports[i] =
			(struct rdma_port){ .device = "mlx5_0", .number = 1, .prefix = 96 + 24 };
		assert_int_equal(inet_pton(AF_INET6, gids[i], e.ports[i].gid), 1);
	}
	return e;
}

/* Two at a time. */
static struct tt_peer peer_of(int host, int n, const char *const gids[])
{
	static uint8_t addresses[2][TT_ADDRESS_MAX];
	static int next;
	const struct rdma_endpoint e = endpoint_of(n, gids);
	uint8_t *address = addresses[next++ % 2];
	const struct tt_peer peer = {
		.host = host,
		.address_length = (uint16_t)tt_transport_rdma.address(&e.base, address),
		.address = address,
	};

	assert_true(peer.address_length > tcp_bytes);
	return peer;
}

/* ---- addresses */

TEST(what_was_told_is_read)
{
	struct rdma_port ports[RDMA_PORTS_MAX];
	struct tt_peer there;
	int n = 0;

	tcp_bytes = 40;
	const struct tt_peer peer =
		peer_of(0, 2, (const char *[]){ "::ffff:10.0.0.1", "::ffff:10.0.1.1" });
	assert_true(tt_rdma_address_read(&peer, &there, ports, &n));
	assert_int_equal(n, 2);
	assert_int_equal(ports[1].gid[14], 1);
	assert_int_equal(there.address_length, 40);
	assert_int_equal(there.address[39], 7);
}

TEST(what_is_cut_off_or_lies_about_its_length_is_not_read)
{
	struct rdma_port ports[RDMA_PORTS_MAX];
	int n;

	tcp_bytes = 40;
	const struct tt_peer whole = peer_of(0, 1, (const char *[]){ "::ffff:10.0.0.1" });
	for (uint16_t length = 0; length < whole.address_length; length++) {
		struct tt_peer part = whole;

		part.address_length = length;
		assert_false(tt_rdma_address_read(&part, NULL, ports, &n));
	}
	for (int byte = 0; byte < 2; byte++) {
		uint8_t address[TT_ADDRESS_MAX];
		struct tt_peer lies = whole;

		memcpy(address, whole.address, whole.address_length);
		address[byte] ^= 0x80;
		lies.address = address;
		assert_false(tt_rdma_address_read(&lies, NULL, ports, &n));
	}
}

TEST(one_too_long_is_none_and_is_said)
{
	const struct rdma_endpoint e = endpoint_of(1, (const char *[]){ "::ffff:10.0.0.1" });
	uint8_t out[TT_ADDRESS_MAX + 64];
	const size_t most = TT_ADDRESS_MAX - 2 - RDMA_CARD_MAX;

	listen_for_warnings();
	tcp_bytes = most;
	assert_true(tt_transport_rdma.address(&e.base, out) > 0);
	assert_int_equal(warnings, 0);
	tcp_bytes = most + 1;
	assert_int_equal(tt_transport_rdma.address(&e.base, out), 0);
	assert_says(last_warning, "rank 3 does not use RDMA: its network addresses take 857 bytes");
	assert_says(last_warning, "TUTTI_INTERFACE");
	leave_warnings();
}

/* ---- pairs */

TEST(hosts_of_the_same_private_network_are_not_paired)
{
	int pairs[RDMA_PORTS_MAX][2];

	tcp_bytes = 40;
	const struct tt_peer here = peer_of(0, 1, (const char *[]){ "::ffff:172.17.0.1" });
	const struct tt_peer there = peer_of(1, 1, (const char *[]){ "::ffff:172.17.0.1" });
	const struct tt_peer beside = peer_of(0, 1, (const char *[]){ "::ffff:172.17.0.1" });
	assert_int_equal(tt_rdma_pairs(&here, &there, pairs), 0);
	assert_int_equal(tt_rdma_pairs(&there, &here, pairs), 0);
	assert_int_equal(tt_rdma_pairs(&here, &beside, pairs), 1); /* one host: the same port */
}

TEST(a_network_of_their_own_does_not_hide_one_that_they_share)
{
	int pairs[RDMA_PORTS_MAX][2], others[RDMA_PORTS_MAX][2];

	tcp_bytes = 40;
	const struct tt_peer here =
		peer_of(0, 2, (const char *[]){ "::ffff:172.17.0.1", "::ffff:10.0.0.1" });
	const struct tt_peer there =
		peer_of(1, 2, (const char *[]){ "::ffff:172.17.0.1", "::ffff:10.0.0.2" });
	assert_int_equal(tt_rdma_pairs(&here, &there, pairs), 1);
	assert_int_equal(tt_rdma_pairs(&there, &here, others), 1);
	assert_int_equal(pairs[0][0], 1);
	assert_int_equal(pairs[0][1], 1);
	assert_memory_equal(pairs[0], others[0], sizeof(pairs[0]));
}

/* ---- joining */

TEST(who_has_no_descriptor_to_sleep_on_goes_by_tcp)
{
	static const char *const gid[] = { "::ffff:10.0.0.1" };
	struct rdma_endpoint e = { .base = { .ops = &tt_transport_rdma },
				   .tcp = &tcp,
				   .waiter = -1 };
	struct shortage shortage;

	tcp_bytes = 40;
	struct tt_peer peers[2] = { peer_of(0, 1, gid), peer_of(1, 1, gid) };
	peers[1].use = true;
	listen_for_warnings();
	shortage_begin(&shortage);
	const tutti_result_t result = tt_transport_rdma.join(&e.base, peers, 2, 0);
	shortage_end(&shortage);
	leave_warnings();
	assert_int_equal(result, TUTTI_OK);
	assert_says(
		last_warning,
		"rank 0 uses TCP where it could use RDMA: make the epoll that threads sleep on: Too many open files");
	assert_int_equal(tt_transport_rdma.doorbell->fd(&e.base), TCP_FD);
	free(e.peers);
}

/* ---- faults */

static void expect_fault(const struct tt_endpoint *endpoint, const struct tt_fault *fault)
{
	assert_int_equal(endpoint->fault.result, fault->result);
	assert_int_equal(endpoint->fault.rank, fault->rank);
	assert_string_equal(endpoint->fault.text, fault->text);
}

TEST(the_best_fault_that_tcp_knows_is_known)
{
	const struct tt_fault worst = { TUTTI_ERR_TIMEOUT, 2, "rank 2 waited", 7 };
	const struct tt_fault middle = { TUTTI_ERR_PEER_LOST, 2, "rank 2 is gone", 7 };
	const struct tt_fault best = { TUTTI_ERR_PEER_LOST, 1, "rank 1 is gone", 7 };
	struct rdma_endpoint e = { .base = { .ops = &tt_transport_rdma }, .tcp = &tcp };

	tt_transport_rdma.control->revoke(&e.base, &worst);
	expect_fault(&e.base, &worst);
	tt_transport_rdma.control->revoke(&e.base, &middle);
	expect_fault(&e.base, &middle);
	tt_transport_rdma.control->revoke(&e.base, &best); /* of the same result */
	expect_fault(&e.base, &best);
	tcp.fault = (struct tt_fault){ 0 };
}

TEST(the_first_fault_ends_what_devices_do_with_callers_memory)
{
	const struct tt_fault lost = { TUTTI_ERR_PEER_LOST, 2, "rank 2 is gone", 7 };
	struct rdma_endpoint e = { .base = { .ops = &tt_transport_rdma }, .tcp = &tcp };
	struct rdma_link busy = { .base = { .endpoint = &e.base },
				  .state = RDMA_UP,
				  .direct.bytes = 1 };
	struct rdma_link idle = { .base = { .endpoint = &e.base }, .state = RDMA_UP };

	e.links = (struct rdma_link *[]){ &busy, NULL, &idle };
	e.nlinks = 3;
	tt_transport_rdma.control->revoke(&e.base, &lost);
	assert_int_equal(busy.state, RDMA_FAILED);
	assert_int_equal(idle.state, RDMA_UP); /* what was sent over it may still arrive */
	tcp.fault = (struct tt_fault){ 0 };
}

/* ---- a link that is up, over one path of a device that counts what is posted; the other end of its
 * TCP link has said a byte, or nothing */

static int posted, signalled;

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	posted++;
	signalled += (request->send_flags & IBV_SEND_SIGNALED) != 0;
	return 0;
}

static int post_nothing(struct ibv_qp *qp, struct ibv_recv_wr *requests, struct ibv_recv_wr **bad)
{
	return 0;
}

/* The completion queue has word of one send. */
static struct ibv_wc completion;
static int completions;

static int poll_one(struct ibv_cq *cq, int capacity, struct ibv_wc *out)
{
	const int n = completions;

	*out = completion;
	completions = 0;
	return n;
}

static struct ibv_context context = {
	.ops = { .post_send = count_post, .post_recv = post_nothing, .poll_cq = poll_one }
};
static struct ibv_qp qp = { .context = &context };

static int modify(struct ibv_qp *which, struct ibv_qp_attr *attributes, int mask)
{
	return 0;
}

static int destroy(struct ibv_qp *which)
{
	return 0;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	return &qp;
}

static uint8_t told[2 * RDMA_HELLO_BYTES], heard;
static size_t told_bytes, heard_bytes;
static bool starved; /* a thread that sleeps is woken by what comes */

static ssize_t tcp_write(struct tt_link *link, const struct iovec *iov, int n)
{
	memcpy(told + told_bytes, iov->iov_base, iov->iov_len);
	told_bytes += iov->iov_len;
	return (ssize_t)iov->iov_len;
}

static ssize_t tcp_read(struct tt_link *link, const struct iovec *iov, int n)
{
	const size_t bytes = heard_bytes;

	memcpy(iov->iov_base, &heard, bytes);
	heard_bytes = 0;
	starved = bytes < iov->iov_len;
	return (ssize_t)bytes;
}

static const struct tt_transport fake_links = { .write = tcp_write, .read = tcp_read };

static struct rdma_memory memory;

static struct rdma_link *link_up(void)
{
	static const struct rdma_verbs verbs = { .modify_qp = modify,
						 .create_qp = create,
						 .destroy_qp = destroy };
	static struct rdma_adapter adapter = { .verbs = &verbs };
	static struct rdma_port port;
	static struct ibv_cq cq = { .context = &context };
	static struct ibv_mr mr;
	static struct tt_link tcp_link = { .ops = &fake_links };
	static struct rdma_endpoint e;
	static struct rdma_link link;

	free(e.links);
	e = (struct rdma_endpoint){
		.base.ops = &tt_transport_rdma,
		.nports = 1,
		.rails[0] = { .adapter = &adapter, .port = &port, .cq = &cq },
		.silence_s = 60,
	};
	link = (struct rdma_link){ .base.endpoint = &e.base,
				   .state = RDMA_UP,
				   .tcp = &tcp_link,
				   .memory = &memory,
				   .paths = 1,
				   .usable = 1,
				   .path[0] = { .rail = &e.rails[0], .qp = &qp, .mr = &mr } };
	assert_int_equal(tt_rdma_link_number(&link), TUTTI_OK);
	posted = signalled = completions = 0;
	told_bytes = heard_bytes = 0;
	return &link;
}

/* ---- when all that it has sent is known to be there */

/* So few that none tells by itself. */
static void send_some(struct rdma_link *link, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(tt_rdma_post(link, 0, &(struct rdma_post){ 0 }));
}

/* What of it the peer has not taken note of is sent once more. */
TEST(a_peer_cannot_have_more_than_was_sent)
{
	static struct rdma_link link = { .messages = 100, .ring_written = 2 * RDMA_RING_BYTES };
	const struct {
		uint64_t messages, bytes;
		bool possible;
	} rows[] = {
		{ 100, 2 * RDMA_RING_BYTES, true },
		{ 100 - RDMA_MESSAGES, RDMA_RING_BYTES, true },
		{ 101, RDMA_RING_BYTES, false },
		{ 99 - RDMA_MESSAGES, RDMA_RING_BYTES, false },
		{ 100, 2 * RDMA_RING_BYTES + 1, false },
		{ 100, RDMA_RING_BYTES - 1, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		link.peer.messages = rows[i].messages;
		link.peer.bytes = rows[i].bytes;
		assert_int_equal(tt_rdma_ring_is_possible(&link), rows[i].possible);
	}
}

static void expect_drained(struct rdma_link *link, bool drained, int asked_for)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(tt_rdma_ring_is_drained(link), drained);
	assert_int_equal(signalled, asked_for);
}

/* As where the peer still sends, and is told of credit. */
TEST(word_is_asked_for_again_of_what_follows)
{
	struct rdma_link *link = link_up();

	expect_drained(link, true, 0);
	send_some(link, 2);
	expect_drained(link, false, 1);
	send_some(link, 1); /* before the word comes */
	expect_drained(link, false, 1);
	link->path[0].sends_done = 3;
	expect_drained(link, false, 2);
	link->path[0].sends_done = 5;
	expect_drained(link, true, 2);
	send_some(link, 1); /* and after */
	expect_drained(link, false, 3);
	link->path[0].sends_done = 7;
	expect_drained(link, true, 3);
	assert_int_equal(posted, 7);
}

/* ---- what arrives for memory that is offered: through the ring, or there already */

#define PART	 4096
#define MESSAGES 41

/* The device has put it in its place. */
static void arrive(struct rdma_link *link, uint32_t number, uint8_t *place)
{
	const bool direct = place != NULL;

	memset(direct ? place : link->memory->in + number / 2 * PART, (int)number, PART);
	tt_rdma_ring_arrived(link, 0, (uint32_t)direct << 30 | number << 24 | PART);
}

/* A peer may write for longer than anybody reads. */
TEST(ring_and_offered_memory_may_take_turns_for_long)
{
	static uint8_t place[MESSAGES * PART];
	struct rdma_link *link = link_up();
	const struct iovec iov = { place, sizeof(place) };

	link->ours.open = true;
	link->ours.offer.address = (uintptr_t)place;
	link->ours.offer.bytes = sizeof(place) - PART / 2; /* the last message has more */
	for (uint32_t i = 0; i < MESSAGES; i++)
		arrive(link, i, i % 2 ? place + i * PART : NULL);
	assert_string_equal(link->why, "");
	assert_int_equal(tt_rdma_ring_read(link, &iov, 1), sizeof(place));
	for (size_t i = 0; i < sizeof(place); i++)
		assert_int_equal(place[i], i / PART);
	assert_false(link->ours.open);
}

/* Nothing else may follow that would bring it: a peer without credit waits. */
TEST(credit_that_had_no_room_goes_when_sends_are_done)
{
	struct rdma_link *link = link_up();
	struct rdma_endpoint *e = rdma_endpoint_of_link(link);

	send_some(link, RDMA_SENDS);
	posted = 0;
	for (uint32_t i = 0; i < RDMA_MESSAGES / 2; i++)
		arrive(link, i, NULL);
	assert_int_equal(posted, 0);
	completion = (struct ibv_wc){ .wr_id = RDMA_SENT | (uint64_t)RDMA_SIGNAL << 32 | link->id };
	completions = 1;
	tt_rdma_poll(e);
	assert_int_equal(posted, 1);
	assert_int_equal(memory.ours.messages, RDMA_MESSAGES / 2);
	completions = 1;
	tt_rdma_poll(e);
	assert_int_equal(posted, 1);
}

/* ---- what is to be introduced again is so at once: nothing else may wake who reads, and sleeps next,
 * nor the peer */

static void expect_hello_after(uint8_t verdict, struct rdma_link *link)
{
	const struct iovec iov = { &(uint8_t){ 0 }, 1 };
	struct rdma_hello hello;

	link->reconnecting = true;
	rdma_endpoint_of_link(link)->handshake = 1;
	heard = verdict;
	heard_bytes = 1;
	assert_int_equal(tt_rdma_link_read(&link->base, &iov, 1), 0);
	assert_int_equal(link->state, RDMA_HANDSHAKE);
	assert_int_equal(told_bytes, 1 + RDMA_HELLO_BYTES); /* behind our verdict */
	assert_true(tt_rdma_hello_read(told + 1, &hello));
	assert_true(starved);
}

TEST(a_link_that_comes_up_broken_is_introduced_again_at_once)
{
	struct rdma_link *link = link_up();

	link->state = RDMA_PROVING;
	link->verdict = 1;
	link->decided = link->broken = true;
	expect_hello_after(1, link);
}

TEST(a_link_without_a_good_path_is_introduced_again_at_once)
{
	struct rdma_link *link = link_up();

	link->state = RDMA_AGREEING;
	expect_hello_after(0, link);
}
