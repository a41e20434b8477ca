/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever asks for a dma-buf where there is none to be had is told what is lacking: with answers
 * of libibverbs that a test makes up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dmabuf.h"
#include "log.h"

#define PAGE 4096u

static int answer, fd_asked, asked;

static struct ibv_mr *answer_so(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t address,
				int fd, int access)
{
	asked++;
	fd_asked = fd;
	errno = answer;
	return NULL;
}

static const struct rdma_verbs verbs = { .reg_dmabuf_mr = answer_so }, old_verbs;
static struct rdma_adapter adapter = { .verbs = &verbs, .name = "made_up0" },
			   old = { .verbs = &old_verbs, .name = "old0" };

static void expect_lack(const struct rdma_adapter *of, int error, const char *says)
{
	const struct rdma_dmabuf range = { .fd = 3,
					   .pointer = (void *)(16 * (uintptr_t)PAGE),
					   .bytes = PAGE };
	struct rdma_adapter copy = *of;
	struct rdma_registration *r;
	char why[RDMA_WHY_MAX];

	answer = error;
	assert_false(tt_rdma_dmabuf_works(of, why));
	assert_non_null(strstr(why, says));
	assert_int_equal(tt_rdma_dmabuf_register(&copy, &range, &r), TUTTI_ERR_UNSUPPORTED);
	assert_non_null(strstr(tt_thread_error(), says));
	assert_non_null(strstr(tt_thread_error(), of->name));
	assert_non_null(strstr(tt_thread_error(), "expected"));
}

static void what_is_lacking_is_said(void **state)
{
	expect_lack(&old, 0, "this libibverbs has no ibv_reg_dmabuf_mr");
	expect_lack(&adapter, EOPNOTSUPP,
		    "the driver or its provider cannot (Operation not supported)");
	expect_lack(&adapter, ENOSYS,
		    "the driver or its provider cannot (Function not implemented)");
	expect_lack(&adapter, EPROTONOSUPPORT, "the kernel cannot (Protocol not supported)");
}

static void it_works_where_a_missing_descriptor_is_what_is_missed(void **state)
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

static void expect_refusal(const struct rdma_dmabuf *range, int error, tutti_result_t result,
			   const char *says)
{
	struct rdma_registration *r = NULL;

	answer = error;
	assert_int_equal(tt_rdma_dmabuf_register(&adapter, range, &r), result);
	assert_non_null(strstr(tt_thread_error(), says));
	assert_null(r);
	assert_int_equal(tt_rdma_registrations(), 0);
}

static void what_is_wrong_with_a_range_is_said(void **state)
{
	struct rdma_dmabuf range = { .fd = 3,
				     .offset = 2 * PAGE,
				     .pointer = (void *)(16 * (uintptr_t)PAGE),
				     .bytes = PAGE };

	expect_refusal(&range, EBADF, TUTTI_ERR_INVALID,
		       "descriptor 3 is not open: expected a dma-buf");
	expect_refusal(&range, EINVAL, TUTTI_ERR_INVALID,
		       "made_up0 does not register 4096 bytes at offset 8192 of descriptor 3");
	expect_refusal(
		&range, EACCES, TUTTI_ERR_SYSTEM,
		"register with made_up0 4096 bytes at offset 8192 of dma-buf 3: Permission denied");
	expect_refusal(&range, ENOMEM, TUTTI_ERR_NO_MEMORY, "of dma-buf 3: ");
	asked = 0;
	range.offset++;
	expect_refusal(&range, 0, TUTTI_ERR_INVALID,
		       "expected both as far from the start of a page");
	range.offset--;
	range.bytes = 0;
	expect_refusal(&range, 0, TUTTI_ERR_INVALID, "has no bytes");
	assert_int_equal(asked, 0); /* libibverbs */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_lacking_is_said),
		cmocka_unit_test(it_works_where_a_missing_descriptor_is_what_is_missed),
		cmocka_unit_test(what_is_wrong_with_a_range_is_said),
	};

	return cmocka_run_group_tests_name("rdma_dmabuf", tests, NULL, NULL);
}
