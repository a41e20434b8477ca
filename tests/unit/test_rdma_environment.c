/* SPDX-License-Identifier: BSD-3-Clause */
/* What users write into TUTTI_RDMA_… */
#include "tutti_asserts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "log.h"

static const char *const names[] = { "TUTTI_RDMA_DEVICE", "TUTTI_RDMA_PORT", "TUTTI_RDMA_GID",
				     "TUTTI_RDMA_TC",	  "TUTTI_RDMA_SL",   "TUTTI_RDMA_TIMEOUT",
				     "TUTTI_RDMA_RETRY" };

static int unset_all(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	return 0;
}

static void expect(const struct rdma_settings *expected)
{
	struct rdma_settings s;

	memset(&s, 0x55, sizeof(s));
	assert_ok(tt_rdma_settings_read(&s));
	assert_string_equal(s.device, expected->device);
	assert_int_equal(s.port, expected->port);
	assert_int_equal(s.gid, expected->gid);
	assert_int_equal(s.tc, expected->tc);
	assert_int_equal(s.sl, expected->sl);
	assert_int_equal(s.timeout, expected->timeout);
	assert_int_equal(s.retry, expected->retry);
}

TEST_WITH(what_is_not_set_has_its_default, unset_all, unset_all)
{
	static const struct rdma_settings defaults = { .gid = -1, .timeout = 16, .retry = 6 };

	expect(&defaults);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		setenv(names[i], "", 1);
	expect(&defaults);
}

TEST_WITH(settings_are_taken, unset_all, unset_all)
{
	static const char *const values[] = { "mlx5_bond_0", "2", "0", "106", "3", "20", "0" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		setenv(names[i], values[i], 1);
	expect(&(const struct rdma_settings){
		.device = "mlx5_bond_0", .port = 2, .tc = 106, .sl = 3, .timeout = 20 });
}

TEST_WITH(what_makes_no_sense_is_refused, unset_all, unset_all)
{
	static const struct {
		const char *name, *value;
		bool good;
	} cases[] = {
		{ "TUTTI_RDMA_PORT", "0", false },
		{ "TUTTI_RDMA_PORT", "1", true },
		{ "TUTTI_RDMA_PORT", "255", true },
		{ "TUTTI_RDMA_PORT", "256", false },
		{ "TUTTI_RDMA_GID", "-1", false },
		{ "TUTTI_RDMA_GID", "255", true },
		{ "TUTTI_RDMA_GID", "256", false },
		{ "TUTTI_RDMA_GID", "3 ", false },
		{ "TUTTI_RDMA_GID", "0x3", false },
		{ "TUTTI_RDMA_TC", "255", true },
		{ "TUTTI_RDMA_TC", "256", false },
		{ "TUTTI_RDMA_TC", "4294967297", false },
		{ "TUTTI_RDMA_SL", "15", true },
		{ "TUTTI_RDMA_SL", "16", false },
		{ "TUTTI_RDMA_TIMEOUT", "0", false },
		{ "TUTTI_RDMA_TIMEOUT", "1", true },
		{ "TUTTI_RDMA_TIMEOUT", "31", true },
		{ "TUTTI_RDMA_TIMEOUT", "32", false },
		{ "TUTTI_RDMA_RETRY", "7", true },
		{ "TUTTI_RDMA_RETRY", "8", false },
		{ "TUTTI_RDMA_DEVICE", "../mlx5_0", false },
		{ "TUTTI_RDMA_DEVICE", "mlx5_0/ports", false },
		{ "TUTTI_RDMA_DEVICE", "..", false },
		{ "TUTTI_RDMA_DEVICE", "irdma-enp1s0", true },
		{ "TUTTI_RDMA_DEVICE",
		  "a23456789b23456789c23456789d23456789e23456789f23456789g23456789", true },
		{ "TUTTI_RDMA_DEVICE",
		  "a23456789b23456789c23456789d23456789e23456789f23456789g234567890", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_settings s = { .port = 4711 };
		char begin[160];

		unset_all(NULL);
		setenv(cases[i].name, cases[i].value, 1);
		const tutti_result_t result = tt_rdma_settings_read(&s);
		if ((result == TUTTI_OK) != cases[i].good ||
		    (result && result != TUTTI_ERR_INVALID))
			fail_msg("%s \"%s\": %d", cases[i].name, cases[i].value, result);
		if (cases[i].good)
			continue;
		assert_int_equal(s.port, 4711);
		snprintf(begin, sizeof(begin), "%s is \"%s\": expected ", cases[i].name,
			 cases[i].value);
		assert_memory_equal(tt_thread_error(), begin, strlen(begin));
	}
}
