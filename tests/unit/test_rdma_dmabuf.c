/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever asks for a dma-buf where there is none to be had is told what is lacking: with answers
 * of libibverbs that a test makes up. */
#include <errno.h>
#include <string.h>

#include "tests.h"
#include "dmabuf.h"

static int answer, fd_asked;

static struct ibv_mr *answer_so(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t address,
				int fd, int access)
{
	fd_asked = fd;
	errno = answer;
	return NULL;
}

static const struct rdma_verbs verbs = { .reg_dmabuf_mr = answer_so }, old_verbs;
static struct rdma_adapter adapter = { .verbs = &verbs }, old = { .verbs = &old_verbs };

static void expect_lack(const struct rdma_adapter *of, int error, const char *says)
{
	char why[RDMA_WHY_MAX];

	answer = error;
	assert_false(tt_rdma_dmabuf_works(of, why));
	assert_non_null(strstr(why, says));
	assert_non_null(strstr(why, "expected"));
}

TEST(what_is_lacking_is_said)
{
	expect_lack(&old, 0, "this libibverbs has no ibv_reg_dmabuf_mr");
	expect_lack(&adapter, EOPNOTSUPP,
		    "the driver or its provider cannot (Operation not supported)");
	expect_lack(&adapter, ENOSYS,
		    "the driver or its provider cannot (Function not implemented)");
	expect_lack(&adapter, EPROTONOSUPPORT, "the kernel cannot (Protocol not supported)");
}

TEST(it_works_where_a_missing_descriptor_is_what_is_missed)
{
	char why[RDMA_WHY_MAX] = "";

	answer = EBADF;
	assert_true(tt_rdma_dmabuf_works(&adapter, why));
	assert_int_equal(fd_asked, -1);
	answer = EINVAL;
	assert_false(tt_rdma_dmabuf_works(&adapter, why));
	assert_non_null(
		strstr(why, "it says \"Invalid argument\": expected \"Bad file descriptor\""));
}
