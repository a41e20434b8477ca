/* SPDX-License-Identifier: BSD-3-Clause */
/* When all that a link has sent is known to be there. No device takes part: the queue pair
 * counts what is posted. */
#include "tests.h"
#include "endpoint.h"

static int posted, signalled;

static int count(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	posted++;
	signalled += (request->send_flags & IBV_SEND_SIGNALED) != 0;
	return 0;
}

static struct ibv_context context = { .ops.post_send = count };
static struct ibv_qp qp = { .context = &context };

/* So few that none tells by itself. */
static void send_some(struct rdma_link *link, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(tt_rdma_post(link, 0, &(struct rdma_post){ 0 }));
}

static void expect(struct rdma_link *link, bool drained, int asked_for)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(tt_rdma_ring_is_drained(link), drained);
	assert_int_equal(signalled, asked_for);
}

/* As where the peer still sends, and is told of credit. */
TEST(word_is_asked_for_again_of_what_follows)
{
	static struct rdma_endpoint e;
	static struct rdma_link link = { .base.endpoint = &e.base,
					 .state = RDMA_UP,
					 .paths = 1,
					 .usable = 1,
					 .path[0].qp = &qp };

	expect(&link, true, 0);
	send_some(&link, 2);
	expect(&link, false, 1);
	send_some(&link, 1); /* before the word comes */
	expect(&link, false, 1);
	link.path[0].sends_done = 3;
	expect(&link, false, 2);
	link.path[0].sends_done = 5;
	expect(&link, true, 2);
	send_some(&link, 1); /* and after */
	expect(&link, false, 3);
	link.path[0].sends_done = 7;
	expect(&link, true, 3);
	assert_int_equal(posted, 7);
}
