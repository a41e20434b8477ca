/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of calls that come again is bounded where they do not. */
#include <malloc.h>
#include <stdlib.h>

#include "tests.h"
#include "tutti/tutti.h"

#define COUNTS	     20000
#define KEPT_AT_MOST (4u << 20)

TEST(counts_that_never_come_again_keep_no_memory)
{
	float *values = calloc(COUNTS, sizeof(*values));
	tutti_plan_info_t info = { .size = sizeof(info) };
	tutti_comm_t comm;

	assert_non_null(values);
	assert_int_equal(tutti_comm_create(NULL, 0, 1, NULL, &comm), TUTTI_OK);
	const size_t before = mallinfo2().uordblks;
	for (size_t n = 1; n <= COUNTS; n++) {
		assert_int_equal(
			tutti_all_reduce(comm, values, values, n, TUTTI_FLOAT32, TUTTI_SUM, NULL),
			TUTTI_OK);
		assert_int_equal(tutti_comm_last_plan(comm, &info), TUTTI_OK);
	}
	assert_true(mallinfo2().uordblks < before + KEPT_AT_MOST);
	tutti_comm_destroy(comm);
	free(values);
}
