/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs is opened when it is needed, and again where that failed. No device is needed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "log.h"
#include "test_shortage.h"
#include "verbs.h"

static void who_had_no_descriptor_to_open_it_may_try_again(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_had_no_descriptor_to_open_it_may_try_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
