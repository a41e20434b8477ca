/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs is opened when it is needed, and again where that failed; devices are, in children of
 * fork(), too. What it says of them, here by answers that a test makes up, is understood. No device
 * is needed. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "adapter.h"
#include "dmabuf.h"
#include "log.h"
#include "test_shortage.h"
#include "verbs.h"

TEST(who_had_no_descriptor_to_open_it_may_try_again)
{
	struct shortage shortage;

	shortage_begin(&shortage);
	const struct rdma_verbs *const none = tt_rdma_verbs();
	shortage_end(&shortage);
	assert_null(none);
	assert_says(tt_thread_error(), "Too many open files");
	const struct rdma_verbs *const verbs = tt_rdma_verbs();
	if (!verbs) { /* the headers are here, and the library is not */
		assert_says(tt_thread_error(), "No such file");
		skip();
	}
	assert_ptr_equal(tt_rdma_verbs(), verbs);
}

/* ---- a process that forks while another thread of it opens a device */

#define LIMIT_S 20 /* for what comes at once, on a machine that is busy */

static sem_t inside, go_on;

static struct ibv_device **list_none(int *count)
{
	*count = 0;
	return NULL;
}

static struct ibv_device **list_slowly(int *count)
{
	sem_post(&inside);
	sem_wait(&go_on);
	return list_none(count);
}

static void *open_none(void *result)
{
	struct rdma_adapter *adapter;

	*(tutti_result_t *)result = tt_rdma_adapter_get("none0", &adapter);
	return NULL;
}

TEST(children_do_not_wait_for_threads_of_their_parent)
{
	struct rdma_verbs *const verbs = (struct rdma_verbs *)tt_rdma_verbs();
	tutti_result_t result = TUTTI_OK;
	pthread_t thread;

	if (!verbs)
		skip();
	sem_init(&inside, 0, 0);
	sem_init(&go_on, 0, 0);
	struct ibv_device **(*const list)(int *count) = verbs->get_device_list;
	verbs->get_device_list = list_slowly;
	assert_int_equal(pthread_create(&thread, NULL, open_none, &result), 0);
	sem_wait(&inside);
	const pid_t child = fork();
	if (child == 0) {
		alarm(LIMIT_S);
		verbs->get_device_list = list_none;
		open_none(&result);
		_exit(result == TUTTI_ERR_SYSTEM ? 0 : 1);
	}
	sem_post(&go_on);
	pthread_join(thread, NULL);
	verbs->get_device_list = list;
	assert_int_equal(result, TUTTI_ERR_SYSTEM);
	await_exit(child, 0);
}

/* ---- what a packet of a port carries; tests/rdma/run asks a device */

static int answer, asked;

static int answer_mtu(struct ibv_context *context, uint8_t port,
		      struct _compat_ibv_port_attr *attributes)
{
	asked = port;
	((struct ibv_port_attr *)attributes)->active_mtu = IBV_MTU_2048;
	return answer;
}

static struct ibv_mr *answer_registration(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					  uint64_t address, int fd, int access)
{
	asked = fd;
	errno = answer;
	return NULL;
}

static const struct rdma_verbs made_up = { .query_port = answer_mtu,
					   .reg_dmabuf_mr = answer_registration },
			       old_verbs;
static const struct rdma_adapter adapter = { .verbs = &made_up, .name = "made_up0" },
				 old = { .verbs = &old_verbs };

TEST(mtu_is_the_active_one)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	answer = 0;
	assert_ok(tt_rdma_active_mtu(&adapter, 2, &mtu));
	assert_int_equal(asked, 2);
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

/* ---- dma-bufs: who asks for one where there is none to be had is told what is lacking */

static void expect_lack(const struct rdma_adapter *of, int error, const char *says)
{
	char why[RDMA_WHY_MAX];

	answer = error;
	assert_false(tt_rdma_dmabuf_works(of, why));
	assert_says(why, says);
	assert_says(why, "expected");
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
	assert_int_equal(asked, -1);
	answer = EINVAL;
	assert_false(tt_rdma_dmabuf_works(&adapter, why));
	assert_says(why, "it says \"Invalid argument\": expected \"Bad file descriptor\"");
}
