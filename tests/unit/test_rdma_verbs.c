/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs is opened when it is needed, and again where that failed; devices are, in children
 * of fork(), too. No device is needed. */
#include <semaphore.h>
#include "tests.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter.h"
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
	assert_non_null(strstr(tt_thread_error(), "Too many open files"));
	const struct rdma_verbs *const verbs = tt_rdma_verbs();
	if (!verbs) { /* the headers are here, and the library is not */
		assert_non_null(strstr(tt_thread_error(), "No such file"));
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
	int status = -1;

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
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
