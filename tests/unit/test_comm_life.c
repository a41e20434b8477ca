/* SPDX-License-Identifier: BSD-3-Clause */
/* What a communicator leaves behind in its thread, and how its making refuses settings: a rank
 * alone shows it. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/tutti.h"

static void an_open_group_ends_with_its_communicator(void **state)
{
	/* the next communicator usually lies where the last one did */
	for (int i = 0; i < 100; i++) {
		const int32_t send = 7;
		int32_t recv = 0;
		tutti_comm_t comm;

		assert_int_equal(tutti_comm_create(NULL, 0, 1, NULL, &comm), TUTTI_OK);
		assert_int_equal(
			tutti_all_reduce(comm, &send, &recv, 1, TUTTI_INT32, TUTTI_SUM, NULL),
			TUTTI_OK);
		assert_int_equal(recv, 7);
		assert_int_equal(tutti_group_begin(comm), TUTTI_OK);
		assert_int_equal(
			tutti_all_reduce(comm, &send, &recv, 1, TUTTI_INT32, TUTTI_SUM, NULL),
			TUTTI_OK);
		tutti_comm_destroy(comm);
	}
}

/* One operation, and two that travel as one, which nobody waits for. */
static void leave_requests(void)
{
	const int32_t send[2] = { 7, 8 };
	int32_t recv[3] = { 0 };
	tutti_request_t requests[2];
	tutti_comm_t comm;

	assert_int_equal(tutti_comm_create(NULL, 0, 1, NULL, &comm), TUTTI_OK);
	assert_int_equal(tutti_all_reduce(comm, send, recv, 1, TUTTI_INT32, TUTTI_SUM, &requests[0]), TUTTI_OK);
	assert_int_equal(tutti_group_begin(comm), TUTTI_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tutti_all_reduce(comm, &send[i], &recv[1 + i], 1, TUTTI_INT32, TUTTI_SUM, NULL), TUTTI_OK);
	assert_int_equal(tutti_group_end(comm, &requests[1]), TUTTI_OK);
	tutti_comm_destroy(comm);
}

static void requests_end_with_their_communicator(void **state)
{
	leave_requests();
	const size_t before = mallinfo2().uordblks;
	for (int i = 0; i < 100; i++)
		leave_requests();
	assert_true(mallinfo2().uordblks < before + 8000); /* what they take is 30 KB */
}

static void a_timeout_that_makes_no_sense_is_quoted(void **state)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;
	tutti_comm_t comm;

	config.timeout_s = -2.5;
	assert_int_equal(tutti_comm_create(NULL, 0, 1, &config, &comm), TUTTI_ERR_INVALID);
	assert_non_null(strstr(tutti_last_error(NULL), "-2.5"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_group_ends_with_its_communicator),
		cmocka_unit_test(requests_end_with_their_communicator),
		cmocka_unit_test(a_timeout_that_makes_no_sense_is_quoted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
