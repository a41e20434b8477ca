/* SPDX-License-Identifier: BSD-3-Clause */
/* What a packet of a port carries: with answers of libibverbs that a test makes up. A device's
 * is asked for by tests/rdma/run. */
#include <errno.h>
#include <string.h>

#include "tests.h"
#include "adapter.h"
#include "log.h"

static int answer, port_asked;

static int answer_so(struct ibv_context *context, uint8_t port,
		     struct _compat_ibv_port_attr *attributes)
{
	port_asked = port;
	((struct ibv_port_attr *)attributes)->active_mtu = IBV_MTU_2048;
	return answer;
}

static const struct rdma_verbs verbs = { .query_port = answer_so };
static const struct rdma_adapter adapter = { .verbs = &verbs, .name = "made_up0" };

TEST(mtu_is_the_active_one)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	answer = 0;
	assert_int_equal(tt_rdma_active_mtu(&adapter, 2, &mtu), TUTTI_OK);
	assert_int_equal(port_asked, 2);
	assert_int_equal(mtu, IBV_MTU_2048);
}

TEST(port_that_does_not_tell_is_named)
{
	enum ibv_mtu mtu;

	answer = EINVAL;
	assert_int_equal(tt_rdma_active_mtu(&adapter, 9, &mtu), TUTTI_ERR_SYSTEM);
	assert_string_equal(tt_thread_error(), "ask for port 9 of made_up0: Invalid argument");
}

TEST(bad_arguments_are_refused)
{
	int bytes = 7;

	assert_int_equal(tutti_rdma_mtu(NULL, 1, &bytes), TUTTI_ERR_INVALID);
	assert_string_equal(tt_thread_error(), "tutti_rdma_mtu: device is NULL");
	assert_int_equal(tutti_rdma_mtu("made_up0", 1, NULL), TUTTI_ERR_INVALID);
	assert_string_equal(tt_thread_error(), "tutti_rdma_mtu: bytes is NULL");
	assert_int_equal(tutti_rdma_mtu("made_up0", 0, &bytes), TUTTI_ERR_INVALID);
	assert_int_equal(tutti_rdma_mtu("made_up0", 256, &bytes), TUTTI_ERR_INVALID);
	assert_string_equal(tt_thread_error(), "tutti_rdma_mtu: port 256, expected 1 to 255");
	assert_int_equal(bytes, 7);
}
